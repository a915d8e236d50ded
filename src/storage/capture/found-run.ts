/** Names of runs that no client has named; they contain the id of the first exchange. Any thread. */

export function foundRunId(firstId: number): string {
  return `conv_${firstId}`;
}

/** Reads the id of the first exchange from a name that `foundRunId` has made; null for any other name. */
export function readFoundRun(runId: string): number | null {
  const digits = /^conv_(\d{1,15})$/.exec(runId)?.[1];
  return digits === undefined ? null : Number(digits);
}

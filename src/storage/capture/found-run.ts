/** The names of runs that no client has named: after the first exchange. Any thread. */

export function foundRunId(firstId: number): string {
  return `conv_${firstId}`;
}

/** @returns the exchange that a name names; null for any other name */
export function readFoundRun(runId: string): number | null {
  const digits = /^conv_(\d{1,15})$/.exec(runId)?.[1];
  return digits === undefined ? null : Number(digits);
}

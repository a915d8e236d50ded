/**
 * A monitor's finding at a step. Types and the empty finding; any thread.
 */

/** One monitor's result for one step. */
export interface Finding {
  /** In [0, 1]. */
  score: number;
  /** The rule of the monitor that gave the score; '': no rule did. It selects the text of an intervention. */
  kind: string;
  /** `step_index` of the earlier steps that are the evidence, oldest first, at most EVIDENCE_STEPS. */
  steps: readonly number[];
  /** The count, if the rule counts; otherwise 0. */
  count: number;
}

/** Maximum number of earlier steps that a finding names. */
const EVIDENCE_STEPS = 6;

export const NO_FINDING: Finding = { score: 0, kind: '', steps: [], count: 0 };

/** Chooses the finding with the higher score; the first of two with equal scores. */
export function chooseFinding(a: Finding, b: Finding): Finding {
  return b.score > a.score ? b : a;
}

/** Finds the score of a rule that counts: `table[count]`, or the last entry for higher counts. */
export function scoreCount(table: readonly number[], count: number): number {
  return table[Math.min(count, table.length - 1)] ?? 0;
}

/** Converts evidence, newest first, to the order of arrival, and limits it to the number of named steps. */
export function orderEvidence(newestFirst: readonly number[]): number[] {
  return newestFirst.slice(0, EVIDENCE_STEPS).reverse();
}

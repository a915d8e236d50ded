/**
 * Reads a run's stored steps, the answers to them, and the rows of reports. Server threads.
 */
import { GATHERED_STEPS, gatherSteps } from '../../src/domain/gathered-steps.ts';
import { readAnswer } from '../../src/domain/run.ts';
import type { RunStepKeyRow } from '../../src/domain/run-rows.ts';
import type { RunReads } from '../../src/storage/ports/run-reads.ts';

export interface AnswerRequest {
  org_id: string;
  run_id: string;
  step_index: number;
  /** Whether the run is finished. The steps of a finished run may share rows. */
  is_finished: boolean;
}

export interface GatherRequest {
  org_id: string;
  run_id: string;
  /** Only steps with a greater index. */
  after: number;
}

/** Steps that will share a row, as the row's value, and the indices of the first and the last of them. */
export interface GatheredSteps {
  first: number;
  last: number;
  value: Uint8Array;
  /** true: the run has no steps after these. false: the run may have more. */
  is_end: boolean;
}

export interface KnownKeysRequest {
  org_id: string;
  run_id: string;
  keys: readonly string[];
}

/** A row of reports: a report's key with the step's index, or counts of reports. */
export type KnownKey = readonly [key: string, value: RunStepKeyRow];

export class StepAnswersAdapter {
  readonly #reads: RunReads;

  constructor(reads: RunReads) {
    this.#reads = reads;
  }

  /** Looks up rows of reports. @returns the rows that the run has; a key without a row is left out */
  findKnown(request: KnownKeysRequest): Promise<KnownKey[]> {
    return this.#reads.findReports(request, request.keys);
  }

  /** Reads the answer that the step got when it first arrived; null if the run has no such step. */
  async read(request: AnswerRequest): Promise<string | null> {
    const found = await this.#reads.findStep(request, request.step_index, request.is_finished);
    return found === undefined ? null : readAnswer(found.step.answer);
  }

  /** Reads the next steps of a finished run, to be moved into one row; null if the run has no steps after `after`. */
  async gather(request: GatherRequest): Promise<GatheredSteps | null> {
    const steps = await this.#reads.listSteps(request, { after: request.after, limit: GATHERED_STEPS });
    const [first, last] = [steps[0], steps.at(-1)];
    if (first === undefined || last === undefined) return null;
    const is_end = steps.length < GATHERED_STEPS;
    return { first: first.step_index, last: last.step_index, value: gatherSteps(steps), is_end };
  }
}

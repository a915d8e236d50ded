/**
 * Reads a run's earlier answers and steps from storage. Server threads.
 */
import { GATHERED_STEPS, gatherSteps, readSteps } from '../../src/domain/gathered-steps.ts';
import { readAnswer } from '../../src/domain/run.ts';
import { RUN_STEP_KEYS, RUN_STEPS, type RunStepRow, runStepKey } from '../../src/domain/run-rows.ts';
import type { Tables } from '../../src/storage/tables.ts';

export interface AnswerRequest {
  org_id: string;
  run_id: string;
  step_index: number;
  /** Whether the run is finished, so that its steps may be in rows with others. */
  is_finished: boolean;
}

export interface GatherRequest {
  org_id: string;
  run_id: string;
  /** Only steps with a greater index. */
  after: number;
}

/** Steps for one row, and the indices of the first and the last of them. */
export interface GatheredSteps {
  first: number;
  last: number;
  value: Uint8Array;
  /** Whether the run has no steps after these. */
  is_end: boolean;
}

export interface KnownKeysRequest {
  org_id: string;
  run_id: string;
  keys: readonly string[];
}

/** A row of reports: a report's key with the step's index, or counts of reports. */
export type KnownKey = readonly [key: string, value: number | readonly number[]];

export class StepAnswersAdapter {
  readonly #runs: Tables;

  /** @param runs tables of `runs.mdb` */
  constructor(runs: Tables) {
    this.#runs = runs;
  }

  /**
   * @returns the given keys that the run has, with their values
   */
  async findKnown({ org_id, run_id, keys }: KnownKeysRequest): Promise<KnownKey[]> {
    return keys.flatMap((key): KnownKey[] => {
      const value = this.#runs.get<KnownKey[1]>(RUN_STEP_KEYS, [org_id, run_id, key]);
      return value === undefined ? [] : [[key, value]];
    });
  }

  /**
   * @returns the first answer to the step, or null if the run has no such step
   */
  async read(request: AnswerRequest): Promise<string | null> {
    const { step_index, is_finished } = request;
    if (is_finished) {
      const [found] = readSteps(this.#runs, request, { after: step_index - 1, limit: 1 });
      return found?.step_index === step_index ? readAnswer(found.step.answer) : null;
    }
    const row = this.#runs.get<RunStepRow>(RUN_STEPS, runStepKey(request, request.step_index));
    return row === undefined ? null : readAnswer(row.answer);
  }
  /**
   * @returns the next steps of a finished run for one row; null if it has no more
   */
  async gather(request: GatherRequest): Promise<GatheredSteps | null> {
    const steps = readSteps(this.#runs, request, { after: request.after, limit: GATHERED_STEPS });
    const [first, last] = [steps[0], steps.at(-1)];
    if (first === undefined || last === undefined) return null;
    const is_end = steps.length < GATHERED_STEPS;
    return { first: first.step_index, last: last.step_index, value: gatherSteps(steps), is_end };
  }
}

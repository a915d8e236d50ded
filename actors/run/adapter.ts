/** The adapter through which a run reads what it answered to a step before. Server threads. */
import { RUN_STEP_KEYS, RUN_STEPS, type RunStepRow, runStepKey } from '../../src/domain/run-rows.ts';
import type { TableReader } from '../../src/storage/tables.ts';

export interface AnswerRequest {
  org_id: string;
  run_id: string;
  step_index: number;
}

export interface KnownKeysRequest {
  org_id: string;
  run_id: string;
  keys: readonly string[];
}

export class StepAnswersAdapter {
  readonly #runs: TableReader;

  /** @param runs tables of `runs.mdb` */
  constructor(runs: TableReader) {
    this.#runs = runs;
  }

  /** @returns those of the keys that the run has a step of */
  async findKnown({ org_id, run_id, keys }: KnownKeysRequest): Promise<string[]> {
    return keys.filter((key) => this.#runs.get(RUN_STEP_KEYS, [org_id, run_id, key]) !== undefined);
  }

  /** @returns the first answer to the step, or null when there is no such step */
  async read(request: AnswerRequest): Promise<string | null> {
    return this.#runs.get<RunStepRow>(RUN_STEPS, runStepKey(request, request.step_index))?.answer ?? null;
  }
}

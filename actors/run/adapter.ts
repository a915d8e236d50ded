/** The adapter through which a run reads what it answered to a step before. Server threads. */
import { RUN_STEP_KEYS, RUN_STEPS, type RunStepRow, runStepKey } from '../../src/domain/run-rows.ts';
import type { TableReader } from '../../src/storage/tables.ts';

export interface AnswerRequest {
  org_id: string;
  run_id: string;
  step_index: number;
}

export interface KeyedAnswerRequest {
  org_id: string;
  run_id: string;
  key: string;
}

export class StepAnswersAdapter {
  readonly #runs: TableReader;

  /** @param runs tables of `runs.mdb` */
  constructor(runs: TableReader) {
    this.#runs = runs;
  }

  /** @returns the first answer to the step with that key, or null when there is none */
  async readKeyed({ org_id, run_id, key }: KeyedAnswerRequest): Promise<string | null> {
    const step_index = this.#runs.get<number>(RUN_STEP_KEYS, [org_id, run_id, key]);
    return step_index === undefined ? null : this.read({ org_id, run_id, step_index });
  }

  /** @returns the first answer to the step, or null when there is no such step */
  async read(request: AnswerRequest): Promise<string | null> {
    return this.#runs.get<RunStepRow>(RUN_STEPS, runStepKey(request, request.step_index))?.answer ?? null;
  }
}

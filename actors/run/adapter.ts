/**
 * Reads a run's earlier answers from storage. Server threads.
 */
import { readAnswer } from '../../src/domain/run.ts';
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

/** A row of reports: a report's key with the step's index, or counts of reports. */
export type KnownKey = readonly [key: string, value: number | readonly number[]];

export class StepAnswersAdapter {
  readonly #runs: TableReader;

  /** @param runs tables of `runs.mdb` */
  constructor(runs: TableReader) {
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
    const row = this.#runs.get<RunStepRow>(RUN_STEPS, runStepKey(request, request.step_index));
    return row === undefined ? null : readAnswer(row.answer);
  }
}

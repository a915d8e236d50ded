/**
 * Implements the reads of runs and of usage (ports/run-reads.ts) with tables of this machine: `runs.mdb`. Server
 * threads.
 */
import { readSteps, type StoredStep } from '../domain/gathered-steps.ts';
import {
  RUN_STEP_KEYS,
  RUN_STEPS,
  type RunStepKeyRow,
  type RunStepRow,
  runStepKey,
} from '../domain/run-rows.ts';
import {
  type CountedDay,
  readCountedDays,
  readInterventionSum,
  readProjectDays,
  type UsageCounts,
} from '../domain/usage.ts';
import type { RunName, RunReads, StepPage } from './ports/run-reads.ts';
import type { Tables } from './tables.ts';

type RunTables = Pick<Tables, 'get' | 'range' | 'snapshot'>;

export class TableRunReads implements RunReads {
  /** null: these tables have no totals, because it takes less time to ask the runs' actors for them. */
  readonly listTotals = null;
  readonly #tables: RunTables;

  /** @param tables closed by the caller, not by this object */
  constructor(tables: RunTables) {
    this.#tables = tables;
  }

  async listSteps(run: RunName, page: StepPage): Promise<StoredStep[]> {
    return readSteps(this.#tables, run, page);
  }

  async findStep(run: RunName, step_index: number, is_finished: boolean): Promise<StoredStep | undefined> {
    if (is_finished) {
      const [found] = readSteps(this.#tables, run, { after: step_index - 1, limit: 1 });
      return found?.step_index === step_index ? found : undefined;
    }
    const step = this.#tables.get<RunStepRow>(RUN_STEPS, runStepKey(run, step_index));
    return step === undefined ? undefined : { step_index, step };
  }

  async findLastStep({ org_id, run_id }: RunName): Promise<StoredStep | undefined> {
    const range = { prefix: [org_id, run_id], reverse: true, limit: 1 };
    for (const { row, value } of this.#tables.range<RunStepRow>(RUN_STEPS, range))
      return { step_index: row[2] as number, step: value };
    return undefined;
  }

  async findReports(
    { org_id, run_id }: RunName,
    keys: readonly string[],
  ): Promise<[string, RunStepKeyRow][]> {
    return keys.flatMap((key): [string, RunStepKeyRow][] => {
      const value = this.#tables.get<RunStepKeyRow>(RUN_STEP_KEYS, [org_id, run_id, key]);
      return value === undefined ? [] : [[key, value]];
    });
  }

  async listCounts(org_id: string, first_day: string): Promise<CountedDay[]> {
    return readCountedDays(this.#tables, org_id, first_day);
  }

  async listProjectCounts(
    org_id: string,
    project_id: string,
    days: readonly string[],
  ): Promise<CountedDay[]> {
    return readProjectDays(this.#tables, org_id, project_id, days);
  }

  async sumInterventions(org_id: string, project_id: string | null): Promise<Partial<UsageCounts>> {
    return readInterventionSum(this.#tables, org_id, project_id);
  }

  async close(): Promise<void> {}
}

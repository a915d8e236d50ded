/**
 * Implements the reads of runs and of usage (../ports/run-reads.ts) with queries of the shared database, on a box that
 * shares its runs. Any thread.
 */
import { GATHERED_STEPS, readSteps, type StoredStep } from '../../domain/gathered-steps.ts';
import type { RunTotals } from '../../domain/run.ts';
import {
  RUN_GATHERED_STEPS,
  RUN_STEP_KEYS,
  RUN_STEPS,
  RUN_TOTALS,
  type RunStepKeyRow,
  type RunStepRow,
  runStepKey,
} from '../../domain/run-rows.ts';
import { type CountedDay, INTERVENTION_TOTALS, USAGE, type UsageCounts } from '../../domain/usage.ts';
import type { RowKey } from '../../runtime/protocol.ts';
import { databaseOf, decodeValue } from '../lmdb/tables.ts';
import type { RunName, RunReads, StepPage } from '../ports/run-reads.ts';
import { decodeRowKey, encodePrefixEnd, encodeRowKey } from '../row-key.ts';
import type { Row } from '../tables.ts';
import type { RunsSession } from './runs-truth.ts';
import { TruthUnavailableError } from './truth.ts';

/** The methods that are used here to query the shared database. */
interface RunQueries extends Pick<RunsSession, 'readRows' | 'readRange' | 'sumCounts'> {
  close(): Promise<void>;
}

export class SharedRunReads implements RunReads {
  readonly #queries: RunQueries;
  readonly #isAway: () => boolean;

  /** @param isAway whether the database has not answered for a while */
  constructor(queries: RunQueries, isAway: () => boolean = () => false) {
    this.#queries = queries;
    this.#isAway = isAway;
  }

  /**
   * Single steps are read before gathered ones. So steps that are moved into a gathered row between the two queries are
   * found by both, and not missed.
   */
  async listSteps({ org_id, run_id }: RunName, { after, limit }: StepPage): Promise<StoredStep[]> {
    const prefix = [org_id, run_id];
    const place = after === null ? prefix : [...prefix, after];
    const [single, gathered] = await Promise.all([
      this.#range<RunStepRow>(RUN_STEPS, prefix, { after: place, limit }),
      this.#range<Uint8Array>(RUN_GATHERED_STEPS, prefix, { after: place, limit: rowsOf(limit) }),
    ]);
    const found = { [RUN_STEPS]: single, [RUN_GATHERED_STEPS]: gathered };
    const rows = { range: (table: string) => found[table as keyof typeof found] as Row<never>[] };
    const steps = readSteps(
      { snapshot: (_tables, work) => work(rows) },
      { org_id, run_id },
      { after, limit: Number.POSITIVE_INFINITY },
    );
    const byIndex = new Map(steps.map((step) => [step.step_index, step]));
    return [...byIndex.values()].sort((a, b) => a.step_index - b.step_index).slice(0, limit);
  }

  async findStep(run: RunName, step_index: number, is_finished: boolean): Promise<StoredStep | undefined> {
    if (is_finished) {
      const [found] = await this.listSteps(run, { after: step_index - 1, limit: 1 });
      return found?.step_index === step_index ? found : undefined;
    }
    const [step] = await this.#rows<RunStepRow>(RUN_STEPS, [runStepKey(run, step_index)]);
    return step === undefined ? undefined : { step_index, step };
  }

  async findLastStep({ org_id, run_id }: RunName): Promise<StoredStep | undefined> {
    const prefix = [org_id, run_id];
    const [last] = await this.#range<RunStepRow>(RUN_STEPS, prefix, {
      after: prefix,
      limit: 1,
      is_reverse: true,
    });
    return last === undefined ? undefined : { step_index: last.row[2] as number, step: last.value };
  }

  async findReports(
    { org_id, run_id }: RunName,
    keys: readonly string[],
  ): Promise<[string, RunStepKeyRow][]> {
    const rows = keys.map((key) => [org_id, run_id, key]);
    const values = await this.#rows<RunStepKeyRow>(RUN_STEP_KEYS, rows);
    return keys.flatMap((key, at): [string, RunStepKeyRow][] => {
      const value = values[at];
      return value === undefined ? [] : [[key, value]];
    });
  }

  /** Fails at once if the database is unreachable, because lists can be shown without totals. */
  async listTotals(runs: readonly RunName[]): Promise<(RunTotals | null)[]> {
    if (this.#isAway()) throw new TruthUnavailableError('the database is away');
    const rows = runs.map(({ org_id, run_id }) => [org_id, run_id]);
    return (await this.#rows<RunTotals>(RUN_TOTALS, rows)).map((totals) => totals ?? null);
  }

  async listCounts(org_id: string, first_day: string): Promise<CountedDay[]> {
    const summed = await this.#counts(USAGE, encodeRowKey([org_id, first_day]), encodePrefixEnd([org_id]));
    return summed.map(({ row, counts }) => ({ day: String(row[1]), project_id: String(row[2]), counts }));
  }

  async listProjectCounts(
    org_id: string,
    project_id: string,
    days: readonly string[],
  ): Promise<CountedDay[]> {
    const [first, last] = [days[0], days.at(-1)];
    if (first === undefined || last === undefined) return [];
    const summed = await this.#counts(USAGE, encodeRowKey([org_id, first]), encodePrefixEnd([org_id, last]));
    const asked = new Set(days);
    return summed.flatMap(({ row, counts }) => {
      const day = String(row[1]);
      return row[2] === project_id && asked.has(day) ? [{ day, project_id, counts }] : [];
    });
  }

  async sumInterventions(org_id: string, project_id: string | null): Promise<Partial<UsageCounts>> {
    const key = encodeRowKey(project_id === null ? [org_id] : [org_id, project_id]);
    const [summed] = await this.#counts(INTERVENTION_TOTALS, key, keyAfter(key));
    return summed?.counts ?? {};
  }

  close(): Promise<void> {
    return this.#queries.close();
  }

  async #rows<Value>(table: string, rows: readonly RowKey[]): Promise<(Value | undefined)[]> {
    if (rows.length === 0) return [];
    const values = await this.#queries.readRows(databaseOf(table), rows.map(encodeRowKey));
    return values.map((value) => decodeValue<Value>(value ?? undefined));
  }

  /** @param after the key before the first row; the prefix itself sorts before all of its rows */
  async #range<Value>(
    table: string,
    prefix: RowKey,
    { after, limit, is_reverse = false }: { after: RowKey; limit: number; is_reverse?: boolean },
  ): Promise<Row<Value>[]> {
    const range = {
      table: databaseOf(table),
      first: keyAfter(encodeRowKey(after)),
      end: encodePrefixEnd(prefix),
    };
    const rows = await this.#queries.readRange(range, limit, is_reverse);
    return rows.map(({ key, value }) => ({
      row: decodeRowKey(key),
      value: decodeValue<Value>(value!) as Value,
    }));
  }

  async #counts(table: string, first: Buffer, end: Buffer) {
    const summed = await this.#queries.sumCounts({ table: databaseOf(table), first, end });
    return summed.map(({ key, counts }) => ({
      row: decodeRowKey(key),
      counts: counts as Partial<UsageCounts>,
    }));
  }
}

/** Returns how many gathered rows to read for this many steps. The first row may begin with earlier steps. */
function rowsOf(steps: number): number {
  return Math.ceil(steps / GATHERED_STEPS) + 1;
}

/** Returns the smallest key that is greater than `key`. */
function keyAfter(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

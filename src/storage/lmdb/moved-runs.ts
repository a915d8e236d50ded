/**
 * Reads the rows of `runs.mdb` to move them into the shared database of several boxes: the rows of the file, and the
 * totals of running runs. Boxes store these totals with each step; without a shared database, only the actors have
 * them, in memory. Command line.
 */
import { readSteps } from '../../domain/gathered-steps.ts';
import { sumSteps } from '../../domain/run.ts';
import { RUN_TOTALS, RUNS, type RunRow, type RunStepRow } from '../../domain/run-rows.ts';
import type { StoredRow } from '../shared/truth.ts';
import type { Tables } from '../tables.ts';
import { RowFile } from './row-file.ts';
import { encodeRow, LmdbTables } from './tables.ts';

/** Maximum number of steps that are read at once. */
const STEPS = 1_000;
/** Maximum number of rows in a portion. */
const ROWS = 1_000;

export class MovedRuns {
  readonly #file: RowFile;
  readonly #tables: LmdbTables;

  /**
   * @param key encrypts the values; null: no encryption
   * @throws Error if the file cannot be opened
   */
  constructor(path: string, key: Uint8Array | null) {
    this.#file = new RowFile(path, key);
    this.#tables = new LmdbTables(path, 'process', key);
  }

  /** Yields the rows in portions: first those of the file, then the totals of running runs. */
  *read(): Iterable<StoredRow[]> {
    yield* this.#file.read();
    yield* listTotals(this.#tables);
  }

  async close(): Promise<void> {
    await this.#tables.close();
    await this.#file.close();
  }
}

/** Yields the totals of all running runs with steps, in portions. */
function* listTotals(tables: Pick<Tables, 'get' | 'range' | 'snapshot'>): Iterable<StoredRow[]> {
  let portion: StoredRow[] = [];
  for (const { value: run } of tables.range<RunRow>(RUNS, { prefix: [] })) {
    if (run.status !== 'running') continue;
    const value = sumSteps(run.run_id, listSteps(tables, run));
    if (value.steps === 0) continue;
    const row = encodeRow({ op: 'put', table: RUN_TOTALS, row: [run.org_id, run.run_id], value });
    if (row.op === 'put') portion.push({ table: row.database, key: row.key, value: row.value });
    if (portion.length < ROWS) continue;
    yield portion;
    portion = [];
  }
  if (portion.length > 0) yield portion;
}

function* listSteps(tables: Pick<Tables, 'snapshot'>, run: RunRow): Iterable<RunStepRow> {
  for (let after: number | null = null; ; ) {
    const page = readSteps(tables, run, { after, limit: STEPS });
    for (const { step } of page) yield step;
    if (page.length < STEPS) return;
    after = page.at(-1)!.step_index;
  }
}

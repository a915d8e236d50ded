/**
 * The shared runs in PostgreSQL (../shared/runs-truth.ts; schema.ts has the tables). The commits of a tick are one
 * statement, and its take-overs are another. The two statements are sent together. Any thread.
 */
import type { QueryConfig } from 'pg';
import type { RowSealing } from '../shared/row-sealing.ts';
import type {
  ActorCommit,
  RunsOutcome,
  RunsSession,
  RunsTruth,
  SummedRow,
  TakenActor,
} from '../shared/runs-truth.ts';
import { type ReadRange, type StoredRow, TruthRefusedError } from '../shared/truth.ts';
import type { DatabaseConnection } from './connection.ts';

const TAKE = 'SELECT n, term, place, tbl, key, value FROM understudy.take_runs($1, $2, $3)';
const COMMIT = `SELECT lost, place FROM understudy.commit_runs(${Array.from({ length: 26 }, (_, at) => `$${at + 1}`)})`;
/** A look-up for each key, in the order of the keys. */
const READ_ROWS = `
SELECT (SELECT r.value FROM understudy.run_rows r WHERE r.tbl = $1 AND r.key = k.key) AS value
FROM unnest($2::bytea[]) WITH ORDINALITY AS k (key, n) ORDER BY k.n`;
const READ_RANGE = `
SELECT key, value FROM understudy.run_rows WHERE tbl = $1 AND key >= $2 AND key < $3 ORDER BY key`;
const SUM_COUNTS = `
SELECT key, name, sum(n) AS sum FROM understudy.counters WHERE tbl = $1 AND key >= $2 AND key < $3
GROUP BY key, name ORDER BY key, name`;

interface TakenRow {
  n: number;
  term: string;
  place: string | null;
  tbl: string | null;
  key: Buffer;
  value: Buffer;
}

export class PostgresRuns implements RunsTruth {
  readonly #connect: () => DatabaseConnection;
  readonly #sealing: RowSealing;

  constructor(connect: () => DatabaseConnection, sealing: RowSealing) {
    this.#connect = connect;
    this.#sealing = sealing;
  }

  async open(box: string): Promise<RunsSession> {
    const session = new PostgresRunsSession(this.#connect(), this.#sealing);
    try {
      await session.enter(box);
      return session;
    } catch (thrown) {
      await session.close();
      throw thrown;
    }
  }
}

class PostgresRunsSession implements RunsSession {
  last_batch: RunsSession['last_batch'] = null;
  readonly #connection: DatabaseConnection;
  readonly #sealing: RowSealing;
  #box = '';
  #term = '0';

  constructor(connection: DatabaseConnection, sealing: RowSealing) {
    this.#connection = connection;
    this.#sealing = sealing;
  }

  async enter(box: string): Promise<void> {
    await this.#connection.guard(async () => {
      await this.#connection.open();
      const { rows } = await this.#connection.client.query(
        'SELECT term, batch, lost, place FROM understudy.enter_runs($1)',
        [box],
      );
      const { term, batch, lost, place } = rows[0];
      this.#box = box;
      this.#term = term;
      if (batch !== '0') this.last_batch = { number: Number(batch), ...readOutcome(lost, place) };
    });
  }

  async take(actors: readonly Buffer[]): Promise<(TakenActor | null)[]> {
    const values = [this.#box, this.#term, actors];
    const rows = await this.#query<TakenRow>({ name: 'take_runs', text: TAKE, values });
    const taken: (TakenActor | null)[] = actors.map(() => null);
    for (const { n, term, place, tbl: table, key, value } of rows) {
      taken[n - 1] ??= { term: Number(term), position: readPosition(place), rows: [], damage: null };
      if (table !== null) taken[n - 1]!.rows.push({ table, key, value });
    }
    return taken.map((actor) => actor && this.#open(actor));
  }

  async commit(batch: number, commits: readonly ActorCommit[]): Promise<RunsOutcome> {
    const values = [this.#box, this.#term, batch, ...this.#encode(commits)];
    const query = { name: 'commit_runs', text: COMMIT, values };
    const [row] = await this.#query<{ lost: number[]; place: string | null }>(query);
    const outcome = readOutcome(row!.lost, row!.place);
    this.last_batch = { number: batch, ...outcome };
    return outcome;
  }

  async readRows(table: string, keys: readonly Buffer[]): Promise<(Buffer | null)[]> {
    const query = { name: 'read_run_rows', text: READ_ROWS, values: [table, keys] };
    const rows = await this.#query<{ value: Buffer | null }>(query);
    return rows.map(({ value }, at) => this.#sealing.open({ table, key: keys[at]!, value }).value);
  }

  async readRange(range: ReadRange, limit: number, reverse: boolean): Promise<StoredRow[]> {
    const { table, first, end } = range;
    const rows = await this.#query<{ key: Buffer; value: Buffer }>({
      name: `read_runs_${reverse ? 'backwards' : 'forwards'}`,
      text: `${READ_RANGE} ${reverse ? 'DESC' : 'ASC'} LIMIT $4`,
      values: [table, first, end, limit],
    });
    return rows.map(({ key, value }) => this.#sealing.open({ table, key, value }));
  }

  async sumCounts({ table, first, end }: ReadRange): Promise<SummedRow[]> {
    const query = { name: 'sum_run_counts', text: SUM_COUNTS, values: [table, first, end] };
    const sums: SummedRow[] = [];
    for (const { key, name, sum } of await this.#query<{ key: Buffer; name: string; sum: number }>(query)) {
      if (sums.at(-1)?.key.equals(key) !== true) sums.push({ key, counts: {} });
      sums.at(-1)!.counts[name] = sum;
    }
    return sums;
  }

  async tidy(): Promise<void> {
    await this.#query({ text: 'SELECT understudy.tidy_runs($1)', values: [this.#box] });
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Decrypts an actor's rows. Damage is returned, not thrown, so that the take-overs of other actors succeed. */
  #open(actor: TakenActor): TakenActor {
    try {
      return { ...actor, rows: actor.rows.map((row) => this.#sealing.open(row)).sort(compareRows) };
    } catch (thrown) {
      if (thrown instanceof TruthRefusedError) return { ...actor, rows: [], damage: thrown };
      throw thrown;
    }
  }

  #query<Row extends object>(query: QueryConfig): Promise<Row[]> {
    return this.#connection.guard(async () => (await this.#connection.client.query<Row>(query)).rows);
  }

  /** Arrays in the order of the function's parameters. A single row to remove is a range of one key. */
  #encode(commits: readonly ActorCommit[]): unknown[] {
    const removals = columns(6);
    const rows = columns(5);
    const common = columns(4);
    const counts = columns(5);
    let phases = 0;
    for (const [at, commit] of commits.entries()) {
      const of = at + 1;
      phases = Math.max(phases, commit.phases.length);
      for (const [index, phase] of commit.phases.entries()) {
        const number = index + 1;
        for (const { table, first, end, limit } of phase.removals)
          append(removals, of, number, table, first, end, limit);
        for (const row of phase.rows) {
          const { table, key } = row;
          if (row.value === null) append(removals, of, number, table, key, keyAfter(key), null);
          else append(rows, of, number, table, key, this.#sealing.seal(row));
        }
      }
      for (const row of commit.common) append(common, of, row.table, row.key, this.#sealing.seal(row));
      for (const { table, key, name, by } of commit.counts) append(counts, of, table, key, name, by);
    }
    const actors = commits.map(({ actor }) => actor);
    const terms = commits.map(({ term }) => term);
    return [actors, terms, phases, ...removals, ...rows, ...common, ...counts];
  }
}

function columns(count: number): unknown[][] {
  return Array.from({ length: count }, () => []);
}

function append(table: unknown[][], ...values: unknown[]): void {
  for (const [at, value] of values.entries()) table[at]!.push(value);
}

/** Sorts the snapshot before the events. */
function compareRows(a: StoredRow, b: StoredRow): number {
  if (a.table !== b.table) return a.table < b.table ? 1 : -1;
  return a.key.compare(b.key);
}

/** Returns the smallest key that is greater than `key`. */
function keyAfter(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

function readOutcome(lost: readonly number[], position: string | null): RunsOutcome {
  return { lost: lost.map((number) => number - 1), position: readPosition(position) };
}

function readPosition(text: string | null): number | null {
  return text === null ? null : Number(text);
}

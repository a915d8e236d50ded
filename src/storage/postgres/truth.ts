/**
 * The shared rows in PostgreSQL (../shared/truth.ts; schema.ts has the tables). A commit and the read of changes are
 * two statements that are sent together, in one round trip. Any thread.
 */
import type { Client } from 'pg';
import { type Clock, systemClock } from '../../std/clock.ts';
import type { DataKey } from '../../std/data-key.ts';
import type { LiveSession, LiveTruth } from '../shared/live.ts';
import { RowSealing } from '../shared/row-sealing.ts';
import type { RunsTruth } from '../shared/runs-truth.ts';
import {
  type Delta,
  type Mark,
  type Proposal,
  type StoredRow,
  type Truth,
  TruthRefusedError,
  type TruthSession,
  type Verdict,
} from '../shared/truth.ts';
import { type DatabaseAddress, explainDatabase, readDatabaseAddress } from './address.ts';
import { ANSWER_MS, DatabaseConnection, makeClient } from './connection.ts';
import { PostgresLive } from './live.ts';
import { checkSchema, migrate } from './migration.ts';
import { PostgresRuns } from './runs.ts';

/**
 * Maximum difference between clocks. Boxes write times into shared rows, so with a larger difference keys and sessions
 * would expire at wrong times.
 */
const CLOCKS_APART_MS = 60_000;
/** Maximum number and total size of the changed rows in one answer. If there are more, the view loads all rows. */
const DELTA_ROWS = 10_000;
const DELTA_BYTES = 64 << 20;
/** Maximum number of rows in a portion while all rows are loaded. */
const LOAD_ROWS = 2_000;

const FOLLOW = `
WITH delta AS MATERIALIZED (
  SELECT tbl, key, value FROM understudy.rows WHERE position > $1 LIMIT ${DELTA_ROWS + 1}
), size AS (SELECT count(*) AS n, coalesce(sum(octet_length(value)), 0) AS bytes FROM delta),
here AS (
  SELECT s.position, s.token, $1 < s.floor OR size.n > ${DELTA_ROWS} OR size.bytes > ${DELTA_BYTES} AS is_far
  FROM understudy.state s, size
)
SELECT here.position, here.token, here.is_far, delta.tbl, delta.key, delta.value
FROM here LEFT JOIN delta ON NOT here.is_far`;
const COMMIT = 'SELECT understudy.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS verdicts';

interface DeltaRow {
  position: string;
  token: string;
  is_far: boolean;
  tbl: string | null;
  key: Buffer;
  value: Buffer | null;
}

/**
 * Upgrades the database's schema to this version.
 * @returns the versions before and after
 * @throws TruthUnavailableError, TruthRefusedError
 */
export async function migrateDatabase(text: string): Promise<{ from: number; to: number }> {
  const address = readDatabaseAddress(text);
  const client = makeClient(address);
  try {
    await client.connect();
    return await migrate(client);
  } catch (thrown) {
    throw explainDatabase(thrown, address);
  } finally {
    await client.end().catch(() => {});
  }
}

/**
 * Checks that the database has this version's schema.
 * @throws TruthUnavailableError, TruthRefusedError
 */
export async function checkDatabase(text: string): Promise<void> {
  const address = readDatabaseAddress(text);
  const client = makeClient(address);
  try {
    await client.connect();
    await checkSchema(client);
  } catch (thrown) {
    throw explainDatabase(thrown, address);
  } finally {
    await client.end().catch(() => {});
  }
}

export class PostgresTruth implements Truth, LiveTruth {
  readonly identity: string;
  readonly #address: DatabaseAddress;
  readonly #sealing: RowSealing;
  readonly #answerMs: number;

  /**
   * Checks the database's schema, clock and key over a connection that is then closed. Sets the key of a database
   * without rows.
   * @param key encrypts the values; null: no encryption
   * @param answer_ms maximum time for an answer; after that, the connection is closed
   * @throws TruthUnavailableError, TruthRefusedError; the database is then unchanged
   */
  static async connect(
    text: string,
    key: DataKey | null = null,
    answer_ms = ANSWER_MS,
    clock: Clock = systemClock,
  ): Promise<PostgresTruth> {
    const address = readDatabaseAddress(text);
    const client = makeClient(address, answer_ms, { query_timeout: answer_ms });
    try {
      await client.connect();
      await checkSchema(client);
      await checkClock(client, address, clock);
      const { rows } = await client.query(
        'SELECT identity, understudy.choose_key($1) AS key_id FROM understudy.state',
        [key?.id ?? null],
      );
      const { identity, key_id } = rows[0] as { identity: string; key_id: string | null };
      if (key_id !== (key?.id ?? null)) throw new TruthRefusedError(`${address.name} ${describeKey(key_id)}`);
      return new PostgresTruth(address, identity, key, answer_ms);
    } catch (thrown) {
      throw explainDatabase(thrown, address);
    } finally {
      await client.end().catch(() => {});
    }
  }

  private constructor(address: DatabaseAddress, identity: string, key: DataKey | null, answerMs: number) {
    this.#address = address;
    this.#answerMs = answerMs;
    this.identity = identity;
    this.#sealing = new RowSealing(key, identity);
  }

  async open(box: string, onHint: () => void): Promise<TruthSession> {
    const session = new PostgresSession(this.#connect(), this.#sealing);
    try {
      await session.enter(box, onHint);
      return session;
    } catch (thrown) {
      await session.close();
      throw thrown;
    }
  }

  /** The runs in the same database. */
  get runs(): RunsTruth {
    return new PostgresRuns(() => this.#connect(), this.#sealing);
  }

  openLive(box: string): Promise<LiveSession> {
    return PostgresLive.open(this.#connect(), this.#sealing, box);
  }

  #connect(): DatabaseConnection {
    return new DatabaseConnection(this.#address, this.identity, this.#answerMs);
  }
}

class PostgresSession implements TruthSession {
  last_batch: TruthSession['last_batch'] = null;
  readonly #connection: DatabaseConnection;
  readonly #sealing: RowSealing;
  #box = '';
  #term = '0';

  constructor(connection: DatabaseConnection, sealing: RowSealing) {
    this.#connection = connection;
    this.#sealing = sealing;
  }

  async enter(box: string, onHint: () => void): Promise<void> {
    const connection = this.#connection;
    await connection.guard(async () => {
      await connection.open();
      const { client } = connection;
      client.on('notification', ({ processId }) => {
        // No hint is needed for this connection's own commits, because their answers contain the changes.
        if (processId !== (client as unknown as { processID: number }).processID) onHint();
      });
      await client.query('LISTEN understudy');
      const { rows } = await client.query('SELECT term, batch, verdicts FROM understudy.enter($1)', [box]);
      const { term, batch, verdicts } = rows[0] as { term: string; batch: string; verdicts: string[] };
      this.#box = box;
      this.#term = term;
      if (batch !== '0') this.last_batch = { number: Number(batch), verdicts: verdicts.map(readVerdict) };
    });
  }

  commit(
    batch: number,
    proposals: readonly Proposal[],
    since: number,
  ): Promise<{ verdicts: Verdict[]; delta: Delta }> {
    const values = [this.#box, this.#term, batch, ...this.#encode(proposals)];
    return this.#connection.guard(async () => {
      const [decided, changed] = await Promise.all([
        this.#connection.client.query<{ verdicts: string[] }>({ name: 'commit', text: COMMIT, values }),
        this.#connection.client.query<DeltaRow>({ name: 'follow', text: FOLLOW, values: [since] }),
      ]);
      const verdicts = decided.rows[0]!.verdicts.map(readVerdict);
      this.last_batch = { number: batch, verdicts };
      return { verdicts, delta: this.#readDelta(changed.rows) };
    });
  }

  follow(since: number): Promise<Delta> {
    return this.#connection.guard(async () => {
      const { rows } = await this.#connection.client.query<DeltaRow>({
        name: 'follow',
        text: FOLLOW,
        values: [since],
      });
      return this.#readDelta(rows);
    });
  }

  async load(onRows: (rows: StoredRow[]) => void): Promise<Mark> {
    await this.#connection.guard(() =>
      this.#connection.client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'),
    );
    await this.#connection.guard(() => this.#connection.client.query('SET LOCAL enable_seqscan = on'));
    const mark = await this.#connection.guard(async () => {
      const { rows } = await this.#connection.client.query('SELECT position, token FROM understudy.state');
      await this.#connection.client.query(
        'DECLARE everything NO SCROLL CURSOR FOR SELECT tbl, key, value FROM understudy.rows WHERE value IS NOT NULL ORDER BY tbl, key',
      );
      return { position: Number(rows[0].position), token: rows[0].token as string };
    });
    for (;;) {
      const { rows } = await this.#connection.guard(() =>
        this.#connection.client.query<{ tbl: string; key: Buffer; value: Buffer }>(
          `FETCH ${LOAD_ROWS} FROM everything`,
        ),
      );
      if (rows.length === 0) break;
      onRows(rows.map(({ tbl: table, key, value }) => this.#sealing.open({ table, key, value })));
    }
    await this.#connection.guard(() => this.#connection.client.query('COMMIT'));
    return mark;
  }

  knows({ position, token }: Mark): Promise<boolean> {
    return this.#connection.guard(async () => {
      const { rows } = await this.#connection.client.query<{ knows: boolean }>({
        text: `SELECT s.position = $1 AND s.token = $2 OR EXISTS (
            SELECT FROM understudy.commits c WHERE c.position = $1 AND c.token = $2
          ) AS knows FROM understudy.state s`,
        values: [position, token],
      });
      return rows[0]!.knows;
    });
  }

  tidy(): Promise<void> {
    return this.#connection.guard(async () => {
      await this.#connection.client.query('SELECT understudy.prune()');
      await this.#connection.client.query('SELECT understudy.sweep()');
    });
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Arrays of bases, reads and writes, in the order of the function's parameters. */
  #encode(proposals: readonly Proposal[]): unknown[] {
    const bases: number[] = [];
    const [rOf, rTable, rFirst, rEnd] = [[] as number[], [] as string[], [] as Buffer[], [] as Buffer[]];
    const [wOf, wTable, wKey, wValue] = [
      [] as number[],
      [] as string[],
      [] as Buffer[],
      [] as (Buffer | null)[],
    ];
    for (const { base, reads, writes } of proposals) {
      const number = bases.push(base);
      for (const { table, first, end } of reads) {
        rOf.push(number);
        rTable.push(table);
        rFirst.push(first);
        rEnd.push(end);
      }
      for (const row of writes) {
        wOf.push(number);
        wTable.push(row.table);
        wKey.push(row.key);
        wValue.push(this.#sealing.seal(row));
      }
    }
    return [bases, rOf, rTable, rFirst, rEnd, wOf, wTable, wKey, wValue];
  }

  #readDelta(rows: readonly DeltaRow[]): Delta {
    const { position, token, is_far } = rows[0]!;
    const changed: StoredRow[] = [];
    for (const { tbl, key, value } of rows)
      if (tbl !== null) changed.push(this.#sealing.open({ table: tbl, key, value }));
    return { position: Number(position), token, rows: is_far ? null : changed };
  }
}

/**
 * Compares the clocks. @throws TruthRefusedError if this machine's clock and the database's are too far apart; a driver
 * error
 */
async function checkClock(client: Client, { name }: DatabaseAddress, clock: Clock): Promise<void> {
  const earliest = clock.wallMs();
  const { rows } = await client.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now_ms');
  const now = Number(rows[0].now_ms);
  const [ahead, behind] = [earliest - now, now - clock.wallMs()];
  if (Math.max(ahead, behind) <= CLOCKS_APART_MS) return;
  const apart =
    ahead > 0 ? `${Math.round(ahead / 1000)} s ahead of` : `${Math.round(behind / 1000)} s behind`;
  throw new TruthRefusedError(`the clock of this machine is ${apart} that of ${name}: set both by NTP`);
}

function readVerdict(text: string): Verdict {
  return text === '-1' ? null : Number(text);
}

function describeKey(id: string | null): string {
  return id === null
    ? 'is not encrypted, and DATA_KEY_FILE is set'
    : `is encrypted: DATA_KEY_FILE must name the file of its key (${id})`;
}

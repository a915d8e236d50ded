/**
 * Stores in PostgreSQL which boxes are alive, how they divide rates, and the events of the live stream
 * (../shared/live.ts and rates.ts; live-schema.ts and rates-schema.ts have the tables). Uses a separate connection, so
 * that it does not delay commits. Any thread.
 */
import type {
  LiveBatch,
  LiveDelta,
  LiveEntry,
  LiveForget,
  LiveHead,
  LiveSession,
  StoredLive,
} from '../shared/live.ts';
import type { RatesDelta, RateWrite } from '../shared/rates.ts';
import type { RowSealing } from '../shared/row-sealing.ts';
import type { DatabaseConnection } from './connection.ts';

/** Table name for encryption. A value can be decrypted only for its organization and its event name. */
const SEALED = 'live_events';
/** Maximum time for ending a session. */
const END_MS = 1_000;
/** Name of an entry that makes readers forget events. */
const FORGET = '';

interface LiveRow {
  org: string;
  last_id: string;
  lost_id: string;
  /** null: no event is stored after the requested id, and the other columns are null, too. */
  id: string | null;
  name: string;
  project: string | null;
  run: string | null;
  at_ms: string;
  data: Buffer;
}

interface RateRow {
  epoch: string;
  last: string;
  /** null: no rate has changed, and `version` and `data` have no meaning. */
  key: string | null;
  version: string;
  data: string | null;
}

export class PostgresLive implements LiveSession {
  readonly #connection: DatabaseConnection;
  readonly #sealing: RowSealing;
  readonly #box: string;

  /** Opens a session on a connection, which is closed if that fails. @throws TruthUnavailableError, TruthRefusedError */
  static async open(connection: DatabaseConnection, sealing: RowSealing, box: string): Promise<PostgresLive> {
    try {
      await connection.guard(() => connection.open());
      return new PostgresLive(connection, sealing, box);
    } catch (thrown) {
      await connection.close();
      throw thrown;
    }
  }

  private constructor(connection: DatabaseConnection, sealing: RowSealing, box: string) {
    this.#connection = connection;
    this.#sealing = sealing;
    this.#box = box;
  }

  async beat(): Promise<string[]> {
    const text = 'SELECT understudy.beat_boxes($1)::text[] AS boxes';
    const [row] = await this.#call<{ boxes: string[] }>('beat', text, [this.#box]);
    return row!.boxes;
  }

  async readRates(after: number): Promise<RatesDelta> {
    const text = 'SELECT epoch, last, key, version, data FROM understudy.rates_read($1)';
    const rows = await this.#call<RateRow>('read rates', text, [after]);
    const { epoch, last } = rows[0]!;
    const changed = rows.flatMap(({ key, version, data }) =>
      key === null ? [] : [{ key: Number(key), version: Number(version), data }],
    );
    return { epoch, version: Number(last), changed };
  }

  async writeRates(epoch: string, writes: readonly RateWrite[]): Promise<(number | null)[]> {
    const text = 'SELECT understudy.rates_write($1, $2, $3, $4)::text[] AS written';
    const [row] = await this.#call<{ written: (string | null)[] }>('write rates', text, [
      epoch,
      writes.map(({ key }) => key),
      writes.map(({ base }) => base),
      writes.map(({ data }) => data),
    ]);
    return row!.written.map((version) => (version === null ? null : Number(version)));
  }

  async want(orgs: readonly string[]): Promise<LiveHead[]> {
    const text = 'SELECT org, last_id, lost_id FROM understudy.live_want($1)';
    return (await this.#call<LiveRow>('want', text, [orgs])).map(readHead);
  }

  async findWanted(orgs: readonly string[]): Promise<string[]> {
    const [row] = await this.#call<{ wanted: string[] }>(
      'wanted',
      'SELECT understudy.live_wanted($1) AS wanted',
      [orgs],
    );
    return row!.wanted;
  }

  async write(batches: readonly LiveBatch[]): Promise<void> {
    const text = 'SELECT understudy.live_write($1, $2, $3, $4, $5, $6, $7)';
    await this.#call('write', text, this.#encode(batches));
  }

  async read(after: ReadonlyMap<string, number>, limit: number): Promise<LiveDelta[]> {
    const text = 'SELECT * FROM understudy.live_read($1, $2, $3)';
    const rows = await this.#call<LiveRow>('read', text, [[...after.keys()], [...after.values()], limit]);
    const deltas: LiveDelta[] = [];
    for (const row of rows) {
      if (deltas.at(-1)?.org_id !== row.org) deltas.push({ ...readHead(row), stored: [] });
      if (row.id !== null) deltas.at(-1)!.stored.push(this.#decode(row));
    }
    return deltas;
  }

  async tidy(): Promise<void> {
    await this.#call('tidy', 'SELECT understudy.live_tidy(), understudy.rates_tidy()', []);
  }

  async expire(before_ms: number): Promise<void> {
    await this.#call('expire', 'SELECT understudy.live_expire($1)', [before_ms]);
  }

  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, END_MS);
    });
    const ended = this.#call('end', 'SELECT understudy.end_beat($1)', [this.#box]).catch(() => {});
    await Promise.race([ended, late]);
    clearTimeout(timer);
    await this.#connection.close();
  }

  #call<Row extends object>(name: string, text: string, values: unknown[]): Promise<Row[]> {
    return this.#connection.guard(async () => {
      const { rows } = await this.#connection.client.query<Row>({ name: `live ${name}`, text, values });
      return rows;
    });
  }

  /** Encodes the batches as arrays, in the order of the function's parameters. */
  #encode(batches: readonly LiveBatch[]): unknown[] {
    const orgs: string[] = [];
    const names: string[] = [];
    const projects: (string | null)[] = [];
    const runs: (string | null)[] = [];
    const times: number[] = [];
    const texts: Buffer[] = [];
    const add = (org: string, name: string, { project_id, run_id }: LiveEntry | LiveForget, atMs: number) => {
      orgs.push(org);
      names.push(name);
      projects.push(project_id);
      runs.push(run_id);
      times.push(atMs);
    };
    for (const { org_id, forgets, events } of batches) {
      for (const forget of forgets) {
        add(org_id, FORGET, forget, forget.before_ms);
        texts.push(Buffer.alloc(0));
      }
      for (const event of events) {
        add(org_id, event.name, event, event.at_ms);
        texts.push(this.#sealing.seal({ ...placeOf(org_id, event.name), value: Buffer.from(event.data) })!);
      }
    }
    const lost = batches.filter(({ has_lost }) => has_lost).map(({ org_id }) => org_id);
    return [orgs, names, projects, runs, times, texts, lost];
  }

  #decode({ org, id, name, project: project_id, run: run_id, at_ms, data }: LiveRow): StoredLive {
    const time = Number(at_ms);
    if (name === FORGET) return { id: Number(id), forget: { project_id, run_id, before_ms: time } };
    const { value } = this.#sealing.open({ ...placeOf(org, name), value: data });
    return { id: Number(id), event: { name, project_id, run_id, at_ms: time, data: value!.toString() } };
  }
}

function readHead({ org, last_id, lost_id }: LiveRow): LiveHead {
  return { org_id: org, last_id: Number(last_id), lost_id: Number(lost_id) };
}

function placeOf(org: string, name: string): { table: string; key: Buffer } {
  return { table: SEALED, key: Buffer.from(`${org}\0${name}`) };
}

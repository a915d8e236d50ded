/**
 * The newest stored exchanges, for lists that show them before they are indexed. While the index lacks exchanges, the
 * writer keeps one row about the newest ones in the live file's table `facts`. So a list reads one row, however many
 * exchanges wait. The row has what the writer knows without reading bodies. `NewestExchanges` runs in the capture
 * process; any thread reads the row.
 * Bounds: the row has at most CAPTURE_NEWEST.exchanges exchanges; at most twice as many are in memory. Each has at most
 * about ROUTE_CHARACTERS of its request's line and NAME_CHARACTERS of its run's name. The row is written at most every
 * WRITE_MS, and when no further write may follow soon.
 */
import type { ExchangeKind, ServedBy } from '../../domain/exchange.ts';
import { CAPTURE_NEWEST } from '../../limits.ts';
import type { CaptureEnv } from './layout.ts';
import type { PreparedExchange } from './prepared-exchange.ts';

/** Maximum characters of the JSON about the request's line. With more, the query is left out and the path is cut. */
const ROUTE_CHARACTERS = 1_024;
/** A longer name of a run counts as none. Clients' names are at most 200 characters long. */
const NAME_CHARACTERS = 1_024;
/** Minimum interval between two writes of the row, in milliseconds. A write takes as long as noting 1,000 exchanges. */
const WRITE_MS = 1_000;
/** The key of the row. No exchange has this id. */
const NEWEST_KEY = 0xff_ff_ff_ff;

const TURN = 1;
const ABORTED = 2;

/** A stored exchange as the row describes it. */
export interface NewestExchange {
  id: number;
  /** The name in the request; null: the request names none, or the index has to find it. */
  run_id: string | null;
  provider: string;
  kind: ExchangeKind;
  method: string;
  path: string;
  served_by: ServedBy;
  status: number;
  aborted: boolean;
  started_at_ms: number;
  duration_ms: number;
  request_bytes: number;
  response_bytes: number;
}

/** What the writer keeps of an exchange that it is about to store. The row is made of it only when it is written. */
export interface NotedExchange {
  readonly id: number;
  /** JSON of the run's name, and of the fields from the gateway's note to the one that answered (head-meta.ts). */
  readonly run_id: string;
  readonly route: string;
  readonly flags: number;
  readonly status: number;
  readonly started_at_ms: number;
  readonly duration_ms: number;
  readonly request_bytes: number;
  readonly response_bytes: number;
}

/** Takes the parts of a prepared exchange, which are masked. */
export function noteExchange(id: number, { head, exchange }: PreparedExchange): NotedExchange {
  const { kind, aborted, status, started_at_ms, duration_ms, request_bytes, response_bytes } = exchange;
  return {
    id,
    run_id: head.run_id.length > NAME_CHARACTERS ? 'null' : head.run_id,
    route: head.route.length > ROUTE_CHARACTERS ? cutRoute(head.route) : head.route,
    flags: (kind === 'turn' ? TURN : 0) | (aborted ? ABORTED : 0),
    status,
    started_at_ms,
    // JSON has no other numbers.
    duration_ms: Number.isFinite(duration_ms) ? duration_ms : 0,
    request_bytes,
    response_bytes,
  };
}

/** What a transaction changes: call `run` in it, and `settle` after it. */
interface RowWrite {
  run(env: CaptureEnv): void;
  settle(): void;
}

export class NewestExchanges {
  /** Ascending by id. The last CAPTURE_NEWEST.exchanges count. */
  #kept: NotedExchange[] = [];
  #isWritten = false;
  #writtenAt = Number.NEGATIVE_INFINITY;
  /** The last exchange in the row. */
  #writtenTo = 0;

  /** Whether the file has the row. */
  get is_written(): boolean {
    return this.#isWritten;
  }

  /** Takes over the row that an earlier process left. A row that cannot be read counts as empty. */
  load(env: CaptureEnv, lastId: number): void {
    this.#kept = readRows(env).map(noteRow);
    this.beginFile(env, lastId);
    this.#writtenTo = this.#kept.at(-1)?.id ?? 0;
  }

  /**
   * Continues after the file was opened again, or with a new file.
   * @param lastId last exchange in the file or in earlier files; later exchanges are forgotten
   */
  beginFile(env: CaptureEnv, lastId: number): void {
    this.#kept = this.#kept.filter(({ id }) => id <= lastId);
    this.#isWritten = hasNewest(env);
    this.#writtenAt = Number.NEGATIVE_INFINITY;
    this.#writtenTo = 0;
  }

  /**
   * Prepares what a transaction does with the row: write it, remove it, or leave it unchanged.
   * @param added exchanges that the transaction stores
   * @param listedTo the last exchange that lists show without the row; null: they show all
   * @param isNow whether to write a changed row even if the last write was less than WRITE_MS ago
   * @returns null if the transaction stores no exchanges and leaves the row
   */
  prepareWrite(added: readonly NotedExchange[], listedTo: number | null, isNow = false): RowWrite | null {
    const lastId = added.at(-1)?.id ?? this.#kept.at(-1)?.id ?? 0;
    if (listedTo === null || lastId <= listedTo) {
      if (this.#isWritten) return { run: removeNewest, settle: () => this.#settle(added, null) };
    } else if (!this.#isWritten || (lastId > this.#writtenTo && (isNow || this.#isDue()))) {
      const run = (env: CaptureEnv): void => {
        const rows = [...this.#kept, ...added]
          .slice(-CAPTURE_NEWEST.exchanges)
          .filter(({ id }) => id > listedTo);
        env.facts.putSync(NEWEST_KEY, encodeRow(rows));
      };
      return { run, settle: () => this.#settle(added, lastId) };
    }
    return added.length === 0 ? null : { run: () => {}, settle: () => this.#keep(added) };
  }

  #isDue(): boolean {
    return performance.now() - this.#writtenAt >= WRITE_MS;
  }

  /** @param writtenTo the last exchange of the row; null: there is no row */
  #settle(added: readonly NotedExchange[], writtenTo: number | null): void {
    this.#keep(added);
    this.#isWritten = writtenTo !== null;
    this.#writtenTo = writtenTo ?? 0;
    if (writtenTo !== null) this.#writtenAt = performance.now();
  }

  #keep(added: readonly NotedExchange[]): void {
    for (const noted of added) this.#kept.push(noted);
    if (this.#kept.length > 2 * CAPTURE_NEWEST.exchanges)
      this.#kept = this.#kept.slice(-CAPTURE_NEWEST.exchanges);
  }

  /** Forgets all exchanges, because their file is gone. */
  clear(): void {
    this.#kept = [];
  }

  /** Forgets erased exchanges. The caller removes the row, and the next write makes it without them. */
  forget(ids: ReadonlySet<number>): void {
    this.#kept = this.#kept.filter(({ id }) => !ids.has(id));
    this.#isWritten = false;
  }
}

/** Reads the exchanges of the row, ascending by id; empty without a row, or if it cannot be read. */
export function readNewest(env: CaptureEnv): NewestExchange[] {
  return readRows(env).map(([id, run_id, flags, status, started, duration, asked, answered, ...route]) => {
    const [_note, provider, _shape, method, path, _query, served_by] = route;
    return {
      id,
      run_id,
      provider,
      kind: (flags & TURN) !== 0 ? 'turn' : 'other',
      method,
      path: path.slice(0, CAPTURE_NEWEST.path_characters),
      served_by,
      status,
      aborted: (flags & ABORTED) !== 0,
      started_at_ms: started,
      duration_ms: duration,
      request_bytes: asked,
      response_bytes: answered,
    };
  });
}

/** Removes the row, if there is one, within a transaction. */
export function removeNewest(env: CaptureEnv): void {
  env.facts.removeSync(NEWEST_KEY);
}

/** Whether the file has the row, readable or not. */
export function hasNewest(env: CaptureEnv): boolean {
  try {
    return env.facts.get(NEWEST_KEY) !== undefined;
  } catch {
    return true;
  }
}

type Route = [
  note: string,
  provider: string,
  shape: string | null,
  method: string,
  path: string,
  query: string,
  served_by: ServedBy,
];

/** An exchange in the row, as JSON. */
type Row = [
  id: number,
  run_id: string | null,
  flags: number,
  status: number,
  started_at_ms: number,
  duration_ms: number,
  request_bytes: number,
  response_bytes: number,
  ...route: Route,
];

/** Encodes the row by joining JSON that exists already. */
function encodeRow(rows: readonly NotedExchange[]): Buffer {
  let text = '';
  for (const row of rows) {
    text +=
      `${text === '' ? '[' : ','}[${row.id},${row.run_id},${row.flags},${row.status},${row.started_at_ms},` +
      `${row.duration_ms},${row.request_bytes},${row.response_bytes},${row.route}]`;
  }
  return Buffer.from(`${text}]`, 'utf8');
}

function cutRoute(json: string): string {
  const [note, provider, shape, method, path, _query, servedBy] = JSON.parse(`[${json}]`) as Route;
  const cut = (text: string, characters: number) => text.slice(0, characters);
  const route = [
    cut(note, 64),
    cut(provider, 64),
    shape,
    method,
    cut(path, CAPTURE_NEWEST.path_characters),
    '',
    servedBy,
  ];
  return JSON.stringify(route).slice(1, -1);
}

function readRows(env: CaptureEnv): Row[] {
  try {
    const value = env.facts.get(NEWEST_KEY);
    return value === undefined ? [] : (JSON.parse(value.toString('utf8')) as Row[]);
  } catch {
    // The row is damaged. Until its exchanges are indexed, lists lack them.
    return [];
  }
}

function noteRow([
  id,
  run_id,
  flags,
  status,
  started,
  duration,
  asked,
  answered,
  ...route
]: Row): NotedExchange {
  return {
    id,
    run_id: JSON.stringify(run_id),
    route: JSON.stringify(route).slice(1, -1),
    flags,
    status,
    started_at_ms: started,
    duration_ms: duration,
    request_bytes: asked,
    response_bytes: answered,
  };
}

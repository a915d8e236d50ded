/**
 * Sends a box's commits and take-overs of runs to the database. The commits of all threads are sent in one statement,
 * and the take-overs in another. The two statements are sent together. Any thread; only one thread of a box has an
 * instance, beside the follower (follower.ts), whose view shows the rows that every box follows.
 *
 * At most one batch of commits is sent at a time. Commits that arrive in the meantime are in the next batch. If the
 * connection breaks, the batch is kept. The next session says whether the batch was stored; if not, it is sent again.
 */
import { randomUUID } from 'node:crypto';
import type { Follower } from './follower.ts';
import type { HeldActor, RunsStore } from './runs-store.ts';
import type { ActorCommit, RunsOutcome, RunsSession, RunsTruth, SummedRow } from './runs-truth.ts';
import { type ReadRange, type StoredRow, TruthRefusedError, TruthUnavailableError } from './truth.ts';

export interface RunsTimes {
  /** Maximum time that a call waits for the database. After that, its caller gets an error. */
  patience_ms: number;
  /** Pause between attempts to connect. */
  retry_ms: number;
  /** Pause before another attempt to take an actor that another box has just taken. */
  held_ms: number;
  /** Interval at which an idle connection is tested. */
  try_ms: number;
}

const RUNS_TIMES: RunsTimes = { patience_ms: 5_000, retry_ms: 200, held_ms: 10, try_ms: 2_000 };

/** Interval at which each box removes data from the database that no box needs any more. */
const TIDY_MS = 3_600_000;
/** Maximum number of actors' commits in one statement. */
const BATCH_COMMITS = 512;
/** Maximum size of one statement; a single commit may be larger. */
const BATCH_BYTES = 4 << 20;
/** Maximum size of one commit. */
const COMMIT_BYTES = 16 << 20;
/** Maximum number of actors that one statement takes. */
const BATCH_TAKINGS = 64;
/**
 * Maximum number of waiting calls of each kind: commits, take-overs and reads. Beyond it, a call is refused at once.
 */
const WAITING = 16_384;

/** Callbacks for metrics of runs. */
export interface RunsWatcher {
  /** Called with the number of actors that this box took from others. */
  onTakeOvers(count: number): void;
  /** Called with the number of commits that stored nothing, because another box has the actor. */
  onLost(count: number): void;
  /** Called with the number of take-overs that had to wait, because another box had just taken the actor. */
  onHeld(count: number): void;
  /** Called after each round trip to the database, with the number of its commits. */
  onTick(commits: number): void;
}

interface Entry<Asked, Answer> {
  asked: Asked;
  bytes: number;
  name: string;
  /** null: the caller already got an error. */
  settle: ((answer: Answer | Error) => void) | null;
}

type WaitingCommit = Entry<ActorCommit, boolean>;
type WaitingTaking = Entry<Buffer, HeldActor>;

export class RunsSender implements RunsStore {
  readonly #runs: RunsTruth;
  readonly #follower: Pick<Follower, 'reach'>;
  readonly #watcher: RunsWatcher | null;
  readonly #times: RunsTimes;
  /**
   * Id of this box. It changes if the database has lost data of this box, so that none of its terms is valid any more.
   */
  #box = randomUUID();
  #commits: WaitingCommit[] = [];
  #takings: WaitingTaking[] = [];
  /** Take-overs of actors that another box has just taken. */
  readonly #held = new Set<WaitingTaking>();
  #reads = 0;
  #sent: { number: number; entries: WaitingCommit[] } | null = null;
  #batches = 0;
  #session: RunsSession | null = null;
  #closed = false;
  #failure: Error | null = null;
  #wake: (() => void) | null = null;
  #tidiedAtMs = performance.now();
  readonly #onSession = new Set<() => void>();
  #running: Promise<void> = Promise.resolve();

  /**
   * Connects to the database, and starts to send.
   * @throws TruthUnavailableError, TruthRefusedError
   */
  static async start(
    runs: RunsTruth,
    follower: Pick<Follower, 'reach'>,
    times: Partial<RunsTimes> = {},
    watcher: RunsWatcher | null = null,
  ): Promise<RunsSender> {
    const sender = new RunsSender(runs, follower, { ...RUNS_TIMES, ...times }, watcher);
    await sender.#connect();
    sender.#running = sender.#run();
    return sender;
  }

  private constructor(
    runs: RunsTruth,
    follower: Pick<Follower, 'reach'>,
    times: RunsTimes,
    watcher: RunsWatcher | null,
  ) {
    this.#runs = runs;
    this.#follower = follower;
    this.#times = times;
    this.#watcher = watcher;
  }

  async take(actor: Buffer): Promise<HeldActor> {
    return this.#enqueue(this.#takings, actor, actor.length, actor.toString('latin1'), this.#held.size);
  }

  async commit(commits: readonly ActorCommit[]): Promise<number[]> {
    const sizes = commits.map(measure);
    const largest = Math.max(...sizes);
    if (largest > COMMIT_BYTES)
      throw new RangeError(`a commit of ${largest} bytes; at most ${COMMIT_BYTES} fit`);
    const isStored = await Promise.all(
      commits.map((commit, at) =>
        this.#enqueue(this.#commits, commit, sizes[at]!, commit.actor.toString('latin1')),
      ),
    );
    return isStored.flatMap((stored, at) => (stored ? [] : [at]));
  }

  readRows(table: string, keys: readonly Buffer[]): Promise<(Buffer | null)[]> {
    return this.#read((session) => session.readRows(table, keys));
  }

  readRange(range: ReadRange, limit: number, reverse: boolean): Promise<StoredRow[]> {
    return this.#read((session) => session.readRange(range, limit, reverse));
  }

  sumCounts(range: ReadRange): Promise<SummedRow[]> {
    return this.#read((session) => session.sumCounts(range));
  }

  /** Closes the connection. Calls that are not answered yet reject. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake?.();
    for (const look of [...this.#onSession]) look();
    await this.#session?.close();
    await this.#running;
  }

  /** @param elsewhere number of calls of this kind that wait outside the queue */
  #enqueue<Asked, Answer>(
    queue: Entry<Asked, Answer>[],
    asked: Asked,
    bytes: number,
    name: string,
    elsewhere = 0,
  ): Promise<Answer> {
    if (this.#closed) return Promise.reject(new TruthUnavailableError('the store is closed'));
    if (queue.length + elsewhere >= WAITING)
      return Promise.reject(new TruthUnavailableError('too many calls wait for the database'));
    return new Promise((resolve, reject) => {
      const entry: Entry<Asked, Answer> = { asked, bytes, name, settle: null };
      const timer = setTimeout(() => entry.settle?.(this.#explain()), this.#times.patience_ms);
      entry.settle = (answer) => {
        entry.settle = null;
        clearTimeout(timer);
        if (answer instanceof Error) reject(answer);
        else resolve(answer);
      };
      queue.push(entry);
      if (this.#session !== null) this.#wake?.();
    });
  }

  #explain(): TruthUnavailableError {
    return new TruthUnavailableError(this.#failure?.message ?? 'the database does not answer');
  }

  /**
   * Reads without waiting for the next tick. If the connection breaks, repeats the read until `patience_ms` have
   * passed.
   * @throws TruthUnavailableError
   */
  async #read<Value>(work: (session: RunsSession) => Promise<Value>): Promise<Value> {
    if (this.#reads >= WAITING) throw new TruthUnavailableError('too many reads wait for the database');
    this.#reads++;
    const untilMs = performance.now() + this.#times.patience_ms;
    try {
      for (;;) {
        const session = await this.#awaitSession(untilMs);
        try {
          return await work(session);
        } catch (thrown) {
          const isOver = this.#closed || performance.now() >= untilMs;
          if (!(thrown instanceof TruthUnavailableError) || isOver) throw thrown;
          await this.#leave(session, thrown);
        }
      }
    } finally {
      this.#reads--;
    }
  }

  #awaitSession(untilMs: number): Promise<RunsSession> {
    if (this.#closed) return Promise.reject(new TruthUnavailableError('the store is closed'));
    if (this.#session !== null) return Promise.resolve(this.#session);
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        this.#onSession.delete(end);
        if (this.#session === null) reject(this.#explain());
        else resolve(this.#session);
      };
      const timer = setTimeout(end, Math.max(0, untilMs - performance.now()));
      this.#onSession.add(end);
    });
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        if (this.#session === null) await this.#connect();
        if (await this.#tick()) continue;
        if (this.#closed || this.#session === null) continue;
        const isIdle = await this.#pause(this.#times.try_ms);
        if (isIdle) await this.#session?.readRows('', []);
      } catch (thrown) {
        if (this.#session !== null) await this.#leave(this.#session, thrown);
        else this.#failure = toError(thrown);
        this.#giveUpRefused(thrown);
        // Retried after any error, because a wrong password or a full disk may be corrected while the box runs.
        if (!this.#closed) await this.#pause(this.#times.retry_ms);
      }
    }
    const error = new TruthUnavailableError('the store was closed');
    for (const { settle } of [...(this.#sent?.entries ?? []), ...this.#commits]) settle?.(error);
    for (const { settle } of [...this.#takings, ...this.#held]) settle?.(error);
    this.#held.clear();
    this.#commits = [];
    this.#takings = [];
    await this.#session?.close();
  }

  /**
   * Drops a batch that the database refuses, once no caller waits for it, so that it does not block later batches. The
   * box then connects with another id, which owns no actors.
   */
  #giveUpRefused(thrown: unknown): void {
    const isAwaited = this.#sent?.entries.some(({ settle }) => settle !== null) ?? false;
    if (thrown instanceof TruthRefusedError && !isAwaited) this.#sent = null;
  }

  /** Waits for the time, or until `#wake` is called. @returns whether the time has passed */
  #pause(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (isOver: boolean) => {
        clearTimeout(timer);
        this.#wake = null;
        resolve(isOver);
      };
      const timer = setTimeout(() => end(true), ms);
      this.#wake = () => end(false);
    });
  }

  /** Gives up a session that failed. */
  async #leave(session: RunsSession, thrown: unknown): Promise<void> {
    if (this.#session === session) {
      this.#session = null;
      this.#failure = toError(thrown);
      this.#wake?.();
    }
    await session.close();
  }

  async #connect(): Promise<void> {
    const session = await this.#runs.open(this.#box);
    if (this.#closed) {
      await session.close();
      throw new TruthUnavailableError('the store is closed');
    }
    this.#session = session;
    this.#learn(session.last_batch);
    // `#learn` has dropped the session, because this is another box from now on. A new session is opened at once.
    if (this.#session === null) return;
    this.#failure = null;
    for (const look of [...this.#onSession]) look();
  }

  /**
   * Settles the batch without an outcome that an earlier session sent, or keeps it to be sent again. If the database
   * has another last batch than this box, gives the box a new id and drops the session.
   * @param last what the database has stored last for this box
   */
  #learn(last: RunsSession['last_batch']): void {
    const sent = this.#sent;
    const number = last?.number ?? 0;
    if (sent !== null && last !== null && number === sent.number) {
      this.#settle(sent.entries, last);
      this.#sent = null;
    } else if (number !== this.#batches - (sent === null ? 0 : 1)) {
      // The database was restored from a backup, or this box was disconnected for days. So it is unknown what the
      // database has of this box. Under another id, the box owns no actors.
      for (const { settle } of sent?.entries ?? [])
        settle?.(new TruthUnavailableError('it is unknown whether the database has this commit'));
      this.#sent = null;
      this.#batches = 0;
      this.#box = randomUUID();
      void this.#session?.close();
      this.#session = null;
    }
  }

  /** Sends waiting commits and take-overs. @returns whether there were any; false without a session */
  async #tick(): Promise<boolean> {
    const session = this.#session;
    if (session === null) return false;
    const nowMs = performance.now();
    if (nowMs - this.#tidiedAtMs > TIDY_MS) {
      this.#tidiedAtMs = nowMs;
      await session.tidy();
    }
    this.#sent ??= this.#takeBatch();
    const batch = this.#sent;
    const takings = pick(this.#takings, BATCH_TAKINGS, Number.POSITIVE_INFINITY);
    this.#takings = this.#takings.filter((entry) => entry.settle !== null);
    if (batch === null && takings.length === 0) return false;
    const [outcome, taken] = await Promise.all([
      batch === null
        ? null
        : session.commit(
            batch.number,
            batch.entries.map(({ asked }) => asked),
          ),
      takings.length === 0 ? [] : session.take(takings.map(({ asked }) => asked)),
    ]);
    this.#watcher?.onTick(batch?.entries.length ?? 0);
    if (batch !== null) {
      this.#sent = null;
      this.#settle(batch.entries, outcome!);
    }
    const done = new Set(takings);
    this.#takings = this.#takings.filter((entry) => !done.has(entry));
    for (const [at, entry] of takings.entries()) this.#settleTaking(entry, taken[at]!);
    return true;
  }

  #takeBatch(): { number: number; entries: WaitingCommit[] } | null {
    const entries = pick(this.#commits, BATCH_COMMITS, BATCH_BYTES);
    const taken = new Set(entries);
    // Commits whose callers already got an error were never sent, so they are dropped.
    this.#commits = this.#commits.filter((entry) => entry.settle !== null && !taken.has(entry));
    return entries.length === 0 ? null : { number: ++this.#batches, entries };
  }

  #settle(entries: readonly WaitingCommit[], { lost, position }: RunsOutcome): void {
    const isLost = new Set(lost);
    if (lost.length > 0) this.#watcher?.onLost(lost.length);
    const shown = position === null ? null : this.#show(position);
    for (const [at, entry] of entries.entries()) {
      if (isLost.has(at)) entry.settle?.(false);
      else if (shown === null || entry.asked.common.length === 0) entry.settle?.(true);
      else void shown.then((failure) => entry.settle?.(failure ?? true));
    }
  }

  #settleTaking(entry: WaitingTaking, taken: Awaited<ReturnType<RunsSession['take']>>[number]): void {
    if (taken === null) {
      this.#watcher?.onHeld(1);
      this.#held.add(entry);
      setTimeout(() => {
        if (!this.#held.delete(entry) || entry.settle === null) return;
        this.#takings.push(entry);
        this.#wake?.();
      }, this.#times.held_ms);
      return;
    }
    const { term, position, rows, damage } = taken;
    if (damage !== null) return entry.settle?.(damage);
    if (position === null) return entry.settle?.({ term, rows });
    this.#watcher?.onTakeOvers(1);
    void this.#show(position).then((failure) => entry.settle?.(failure ?? { term, rows }));
  }

  /** Waits until the view shows a position. @returns an error if the view does not show it in time; otherwise null */
  async #show(position: number): Promise<TruthUnavailableError | null> {
    const isShown = await this.#follower.reach(position, this.#times.patience_ms);
    return isShown ? null : new TruthUnavailableError('the view does not follow the database');
  }
}

/** Returns the first entries of a queue whose callers still wait, at most one for each actor. */
function pick<Asked, Answer>(
  queue: readonly Entry<Asked, Answer>[],
  most: number,
  bytes: number,
): Entry<Asked, Answer>[] {
  const picked = new Map<string, Entry<Asked, Answer>>();
  let sum = 0;
  for (const entry of queue) {
    if (entry.settle === null || picked.has(entry.name)) continue;
    if (picked.size === most || (picked.size > 0 && sum + entry.bytes > bytes)) break;
    picked.set(entry.name, entry);
    sum += entry.bytes;
  }
  return [...picked.values()];
}

function measure({ phases, common, counts }: ActorCommit): number {
  let bytes = counts.length * 32;
  for (const { rows, removals } of phases) bytes += measureRows(rows) + removals.length * 64;
  return bytes + measureRows(common);
}

function measureRows(rows: readonly StoredRow[]): number {
  return rows.reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

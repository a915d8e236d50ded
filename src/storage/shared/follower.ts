/**
 * Connects a view to the database (truth.ts): sends the box's commits, several in one statement, and applies what all
 * boxes commit. Any thread; only one thread of a box has an instance.
 *
 * At most one statement runs at a time. Commits that arrive in the meantime wait, and are then sent together. If the
 * connection breaks, the batch is kept. The next session says whether the database has decided the batch; if not, the
 * batch is sent again. So each proposal is decided at most once, even if it is sent several times.
 */
import { randomUUID } from 'node:crypto';
import {
  type Delta,
  type Proposal,
  type Truth,
  type TruthSession,
  TruthUnavailableError,
  type Verdict,
} from './truth.ts';
import type { View } from './view.ts';

export interface FollowerTimes {
  /** Interval of the searches for commits of other boxes, while no hint arrives. */
  poll_ms: number;
  /** Maximum time that a commit waits for the database. After that, its caller gets an error. */
  patience_ms: number;
  /** Pause between attempts to connect. */
  retry_ms: number;
}

const FOLLOWER_TIMES: FollowerTimes = { poll_ms: 250, patience_ms: 5_000, retry_ms: 200 };

/** Interval at which each box removes rows from the database that no box needs any more. */
const TIDY_MS = 3_600_000;

/** Maximum number of proposals in one statement. */
const BATCH_PROPOSALS = 256;
/** Maximum total size of the values in one statement; a single proposal may have more. */
const BATCH_BYTES = 4 << 20;
/** Maximum total size of the values in a proposal. */
const PROPOSAL_BYTES = 16 << 20;
/** Maximum number of proposals that wait. Beyond it, a commit is refused at once. */
const WAITING = 4_096;

/** Makes commits and says when they can be read. */
export interface Committer {
  /**
   * Sends a proposal to the database.
   * @returns the verdict, once the view shows the commit or the commits with which the proposal conflicts
   * @throws TruthUnavailableError: the proposal may or may not be decided later; RangeError if it is too large
   */
  commit(proposal: Proposal): Promise<Verdict>;
}

interface Waiting {
  proposal: Proposal;
  bytes: number;
  /** null: the caller already got an error. */
  settle: ((verdict: Verdict | Error) => void) | null;
}

interface Batch {
  number: number;
  entries: Waiting[];
}

export class Follower implements Committer {
  readonly #truth: Truth;
  readonly #view: View;
  readonly #times: FollowerTimes;
  readonly #box = randomUUID();
  #waiting: Waiting[] = [];
  #sent: Batch | null = null;
  #batches = 0;
  #session: TruthSession | null = null;
  #hasHint = false;
  #closed = false;
  #failure: Error | null = null;
  #wake: (() => void) | null = null;
  #currentAtMs = Number.NEGATIVE_INFINITY;
  #tidiedAtMs = performance.now();
  #readers = new Set<() => void>();
  /**
   * Resolves when the follower has ended. The first connection is made before the follower begins, so that a hint
   * cannot begin a second connection.
   */
  #running: Promise<void> = Promise.resolve();

  /**
   * Connects and brings the view up to date.
   * @throws TruthUnavailableError, TruthRefusedError; an error of reading or writing the view
   */
  static async start(truth: Truth, view: View, times: Partial<FollowerTimes> = {}): Promise<Follower> {
    const follower = new Follower(truth, view, { ...FOLLOWER_TIMES, ...times });
    try {
      await follower.#connect();
    } catch (thrown) {
      await follower.close();
      throw thrown;
    }
    follower.#running = follower.#run();
    return follower;
  }

  private constructor(truth: Truth, view: View, times: FollowerTimes) {
    this.#truth = truth;
    this.#view = view;
    this.#times = times;
  }

  /** Position that the view shows. */
  get position(): number {
    return this.#view.mark?.position ?? 0;
  }

  /** How old the view may be, in milliseconds: the view has everything that was committed at least that long ago. */
  get stale_ms(): number {
    return performance.now() - this.#currentAtMs;
  }

  /** Why the last use of the database failed; null after a use that succeeded, and before the first. */
  get failure(): Error | null {
    return this.#failure;
  }

  commit(proposal: Proposal): Promise<Verdict> {
    let bytes = 0;
    for (const { value } of proposal.writes) bytes += value?.length ?? 0;
    if (bytes > PROPOSAL_BYTES)
      return Promise.reject(new RangeError(`a commit of ${bytes} bytes; at most ${PROPOSAL_BYTES} fit`));
    if (this.#closed) return Promise.reject(new TruthUnavailableError('the store is closed'));
    if (this.#session === null && this.stale_ms > this.#times.patience_ms)
      return Promise.reject(new TruthUnavailableError(this.#failure?.message ?? 'the database is away'));
    if (this.#waiting.length >= WAITING)
      return Promise.reject(new TruthUnavailableError('too many commits wait for the database'));
    return new Promise((resolve, reject) => {
      const entry: Waiting = { proposal, bytes, settle: null };
      const timer = setTimeout(() => {
        entry.settle?.(new TruthUnavailableError(this.#failure?.message ?? 'the database does not answer'));
      }, this.#times.patience_ms);
      entry.settle = (verdict) => {
        entry.settle = null;
        clearTimeout(timer);
        if (verdict instanceof Error) reject(verdict);
        else resolve(verdict);
      };
      this.#waiting.push(entry);
      this.#signal();
    });
  }

  /**
   * Waits until the view shows a position that the caller has seen elsewhere.
   * @returns whether the view shows it; false after `within_ms` milliseconds
   */
  async reach(position: number, within_ms: number): Promise<boolean> {
    if (this.position >= position) return true;
    this.#hasHint = true;
    this.#signal();
    return new Promise((resolve) => {
      const end = (isReached: boolean) => {
        clearTimeout(timer);
        this.#readers.delete(look);
        resolve(isReached);
      };
      const look = () => {
        if (this.position >= position) end(true);
      };
      const timer = setTimeout(() => end(false), within_ms);
      this.#readers.add(look);
    });
  }

  /** Stops following. Commits whose verdicts have not arrived reject. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake?.();
    await this.#session?.close();
    await this.#running;
  }

  /** Ends the pause before the next poll. */
  #signal(): void {
    if (this.#session !== null) this.#wake?.();
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      try {
        if (this.#session === null) await this.#connect();
        await this.#exchange();
        if (this.#sent !== null || this.#waiting.length > 0 || this.#hasHint || this.#closed) continue;
        await this.#pause(this.#times.poll_ms);
      } catch (thrown) {
        await this.#drop(thrown);
      }
    }
    const error = new TruthUnavailableError('the store was closed');
    for (const { settle } of [...(this.#sent?.entries ?? []), ...this.#waiting]) settle?.(error);
    this.#waiting = [];
    await this.#session?.close();
  }

  /** Waits for the time, or until `#wake` is called. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), ms);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }

  async #drop(thrown: unknown): Promise<void> {
    const session = this.#session;
    this.#session = null;
    await session?.close();
    this.#failure = thrown instanceof Error ? thrown : new Error(String(thrown));
    // Retried after any error, because a wrong password or a full disk may be corrected while the box runs.
    if (!this.#closed) await this.#pause(this.#times.retry_ms);
  }

  /** Opens a session, and brings the view up to date. */
  async #connect(): Promise<void> {
    const session = await this.#truth.open(this.#box, () => {
      this.#hasHint = true;
      this.#signal();
    });
    this.#session = session;
    // `close` may have been called while the session was being opened.
    if (this.#closed) throw new TruthUnavailableError('the store is closed');
    const { mark } = this.#view;
    const askedAtMs = performance.now();
    if (mark === null || !(await session.knows(mark))) await this.#load(session, true);
    else await this.#apply(await session.follow(mark.position), session, askedAtMs);
    this.#learn(session.last_batch);
  }

  /**
   * Settles the batch without a verdict that an earlier session sent, or keeps it to be sent again.
   * @param last what the database has decided last for this box
   */
  #learn(last: TruthSession['last_batch']): void {
    const sent = this.#sent;
    this.#batches = last?.number ?? 0;
    if (sent === null) return;
    if (last?.number === sent.number) this.#settle(sent, last.verdicts);
    else if (sent.number === this.#batches + 1) {
      if (sent.entries.every((entry) => !this.#isOutdated(entry))) this.#batches = sent.number;
      else this.#settle(sent, Array(sent.entries.length).fill(null));
    } else {
      // The database was restored from a backup, or has forgotten the box, which was away for days.
      this.#sent = null;
      for (const { settle } of sent.entries)
        settle?.(new TruthUnavailableError('it is unknown whether the database has this commit'));
    }
  }

  async #exchange(): Promise<void> {
    const session = this.#session!;
    const askedAtMs = performance.now();
    this.#hasHint = false;
    if (askedAtMs - this.#tidiedAtMs > TIDY_MS) {
      this.#tidiedAtMs = askedAtMs;
      await session.tidy();
    }
    this.#sent ??= this.#takeBatch();
    if (this.#sent === null) {
      await this.#apply(await session.follow(this.position), session, askedAtMs);
      return;
    }
    const batch = this.#sent;
    const proposals = batch.entries.map(({ proposal }) => proposal);
    const { verdicts, delta } = await session.commit(batch.number, proposals, this.position);
    await this.#apply(delta, session, askedAtMs);
    this.#settle(batch, verdicts);
  }

  #takeBatch(): Batch | null {
    const entries: Waiting[] = [];
    let bytes = 0;
    let taken = 0;
    for (const entry of this.#waiting) {
      if (entries.length === BATCH_PROPOSALS || (entries.length > 0 && bytes + entry.bytes > BATCH_BYTES))
        break;
      taken++;
      // The caller has already got an error, and the proposal was never sent, so it is dropped.
      if (entry.settle === null) continue;
      if (this.#isOutdated(entry)) {
        entry.settle(null);
        continue;
      }
      entries.push(entry);
      bytes += entry.bytes;
    }
    this.#waiting = this.#waiting.slice(taken);
    return entries.length === 0 ? null : { number: ++this.#batches, entries };
  }

  /** Whether the proposal is based on a history that the database does not have any more, which is a conflict. */
  #isOutdated({ proposal }: Waiting): boolean {
    return proposal.history !== this.#view.history;
  }

  #settle(batch: Batch, verdicts: readonly Verdict[]): void {
    this.#sent = null;
    for (const [at, { settle }] of batch.entries.entries()) settle?.(verdicts[at]!);
  }

  /**
   * Applies changes to the view, or loads all rows if too much has changed.
   * @param askedAtMs when the query was sent; later commits may be missing in the answer
   */
  async #apply({ rows, position, token }: Delta, session: TruthSession, askedAtMs: number): Promise<void> {
    if (rows === null) return this.#load(session, false);
    if (rows.length > 0 || position !== this.position) this.#view.apply(rows, { position, token });
    this.#noteCurrent(askedAtMs);
  }

  async #load(session: TruthSession, isOtherHistory: boolean): Promise<void> {
    const askedAtMs = performance.now();
    this.#view.beginLoad();
    const mark = await session.load((rows) => this.#view.fill(rows));
    this.#view.endLoad(mark, isOtherHistory);
    this.#noteCurrent(askedAtMs);
  }

  #noteCurrent(askedAtMs: number): void {
    this.#currentAtMs = askedAtMs;
    this.#failure = null;
    for (const look of [...this.#readers]) look();
  }
}

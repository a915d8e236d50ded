/**
 * The student's thread from the outside: starts it, gives every server a port to it, starts it again when it ends or
 * hangs, and starts another beside it when the directory holds another student, which takes over once it is read in.
 * Without a manifest there is no student: it withdraws the servers' ports and waits for the next one. Traffic waits for
 * nothing of that. Part of the composition root; main thread.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { Piscina } from 'piscina';
import type { RelegationState } from '../gateway/capture/capture-control.ts';
import {
  STUDENT_HEAP_MB,
  STUDENT_LOAD_MS,
  STUDENT_LOOK_MS,
  STUDENT_PING_MS,
  STUDENT_RESTART_MS,
  STUDENT_START_MS,
  STUDENT_TIMEOUT_MS,
  STUDENT_WATCH_MS,
} from '../limits.ts';
import { createDeferred } from '../std/deferred.ts';
import { endPool } from '../std/loading-threads.ts';
import {
  checkForWaiting,
  MANIFEST_NAME,
  readStudentDirectory,
  StudentDirectoryError,
} from '../student/directory.ts';
import { Student } from '../student/model/student.ts';
import { ORDERS_NAME, readOrders } from '../student/orders.ts';
import type { StudentFacts, WatchReport } from '../student/serving/protocol.ts';
import type { StudentControl, StudentTask } from './student-thread-entry.ts';

/**
 * Reads a directory as the student's thread will, and keeps nothing of it.
 * @returns whether there is a student; false: the directory is empty, and one may come
 * @throws StudentDirectoryError of one line when no student can be loaded
 */
export async function checkStudent(directory: string): Promise<boolean> {
  await checkForWaiting(directory);
  let found: Awaited<ReturnType<typeof readStudentDirectory>>;
  try {
    found = await readStudentDirectory(directory);
  } catch (error) {
    if (error instanceof StudentDirectoryError && error.code === 'missing') return false;
    throw error;
  }
  const { manifest, model } = found;
  try {
    new Student(model, () => ({ add: () => {}, search: () => [] }));
  } catch (thrown) {
    const path = join(directory, manifest.files.steps.name);
    throw new StudentDirectoryError('damaged', path, 'not the steps of a student; distil again', {
      cause: thrown,
    });
  }
  try {
    await readOrders(directory);
  } catch (thrown) {
    const why = `its orders cannot be read (${(thrown as Error).message})`;
    throw new StudentDirectoryError('damaged', directory, why, { cause: thrown });
  }
  return true;
}

/** A server as far as the student's thread knows it. */
export interface StudentSeeker {
  /** Gives it a port, which is the server's from then on. */
  attach(port: MessagePort, facts: StudentFacts): void;
  /** There is no student any more: nothing new goes to the port that it has. */
  withdraw(): void;
}

export interface StudentThreadOptions extends Omit<StudentTask, 'control' | 'prices'> {
  /** null: what is saved is not told in money. */
  prices: StudentTask['prices'] | null;
  /** Module whose default export runs a {@link StudentTask}. */
  entry: URL;
  /** How long a step waits for the student; null: what its kind gets. */
  timeout_ms: number | null;
  log: { info(fields: object, words: string): void; error(fields: object, words: string): void };
  /** For tests: how often the directory is looked at. */
  look_ms?: number;
  ping_ms?: number;
}

/** One student on one thread. */
interface Seat {
  control: Comlink.Remote<StudentControl>;
  /** Settles when the thread is done with it, whatever the reason; never rejects. */
  ended: Promise<string>;
  /** Ends the thread the hard way; one that is still loading ends when it has. */
  abort: () => void;
  facts: StudentFacts | null;
  /** Questions whether it is alive that it has left unanswered, one after the other. */
  missed_pings: number;
}

export class StudentThread implements RelegationState {
  readonly #options: StudentThreadOptions;
  readonly #pool: Piscina;
  readonly #seekers: StudentSeeker[] = [];
  #current: Seat | null = null;
  /** Being read in. */
  #next: Seat | null = null;
  #isOpening = false;
  /** Of the manifest that was last read in, or tried; '' when there was none. */
  #stamp = '';
  /** Of the orders that the thread was last told to obey. */
  #ordersStamp = '';
  #told = '';
  #restartMs: number = STUDENT_RESTART_MS.first;
  #restart: NodeJS.Timeout | null = null;
  readonly #timers: NodeJS.Timeout[] = [];
  #isClosed = false;
  readonly #arrived = createDeferred<void>();

  /** Starts it; it reads in its student meanwhile. */
  constructor(options: StudentThreadOptions) {
    this.#options = options;
    this.#pool = new Piscina({
      filename: options.entry.href,
      minThreads: 0,
      // One that serves, one that is being read in, one that finishes.
      maxThreads: 3,
      concurrentTasksPerWorker: 1,
      idleTimeout: 0,
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: STUDENT_HEAP_MB },
    });
    // A thread's end is told to its seat; without a listener piscina's event would end the process.
    this.#pool.on('error', () => {});
    this.#timers.push(
      setInterval(() => void this.#look(), options.look_ms ?? STUDENT_LOOK_MS).unref(),
      setInterval(() => void this.#ping(), options.ping_ms ?? STUDENT_PING_MS).unref(),
    );
    void this.#open();
  }

  get mode(): 'on' | 'shadow' {
    return this.#options.mode;
  }

  get has_prices(): boolean {
    return this.#options.prices !== null;
  }

  /** The student that serves; null while there is none. */
  get facts(): StudentFacts | null {
    return this.#current?.facts ?? null;
  }

  /** How right it has been; null while there is none, or while it is busy. */
  async describeWatch(): Promise<WatchReport | null> {
    const seat = this.#current;
    if (seat === null) return null;
    const asked = Promise.race([seat.control.describeWatch(), failWhen(seat.ended)]);
    return withDeadline(asked, STUDENT_WATCH_MS).catch(() => null);
  }

  /** Settles when the first student is there, or when that takes too long: then it comes while traffic is served. */
  async waitForStart(): Promise<void> {
    await withDeadline(this.#arrived.promise, STUDENT_START_MS).catch(() => {});
  }

  /** Gives a server a port now, if there is a student, and whenever there is another. */
  connect(seeker: StudentSeeker): void {
    this.#seekers.push(seeker);
    if (this.#current !== null) this.#attach(this.#current, seeker);
  }

  /** Ends the threads, those that are loading after 15 s at most. Server threads see their message ports close. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers) clearInterval(timer);
    if (this.#restart !== null) clearTimeout(this.#restart);
    const seats = [this.#current, this.#next].filter((seat) => seat !== null);
    this.#current = null;
    this.#next = null;
    await endPool(this.#pool, () => {
      for (const seat of seats) seat.abort();
    });
    await Promise.all(seats.map((seat) => seat.ended));
  }

  /** Reads in the student that is in the directory now; it takes over from the one that serves. */
  async #open(): Promise<void> {
    if (this.#isOpening || this.#isClosed) return;
    this.#isOpening = true;
    this.#stamp = await this.#readStamp(MANIFEST_NAME);
    this.#ordersStamp = await this.#readStamp(ORDERS_NAME);
    if (this.#stamp === '' || this.#isClosed) {
      this.#isOpening = false;
      this.#withdraw();
      return;
    }
    const seat = this.#takeSeat();
    this.#next = seat;
    try {
      seat.facts = await withDeadline(
        Promise.race([seat.control.open(), failWhen(seat.ended)]),
        STUDENT_LOAD_MS,
      );
      if (this.#current !== null) {
        await this.#handRunsOver(this.#current, seat);
        await this.#handWatchOver(this.#current, seat);
      }
    } catch (thrown) {
      if (this.#next === seat) this.#next = null;
      this.#isOpening = false;
      seat.abort();
      this.#tell((thrown as Error).message);
      // What serves goes on; else it is tried again, in case that the directory is whole again by then.
      if (this.#current === null) this.#openLater();
      return;
    }
    this.#next = null;
    this.#isOpening = false;
    if (this.#isClosed) return seat.abort();
    this.#take(seat, seat.facts);
  }

  #take(seat: Seat, facts: StudentFacts): void {
    const before = this.#current;
    this.#current = seat;
    this.#told = '';
    this.#restartMs = STUDENT_RESTART_MS.first;
    for (const seeker of this.#seekers) this.#attach(seat, seeker);
    // What the upstream has taken over since the runs were handed over.
    if (before !== null) void this.#handRunsOver(before, seat, 'upstream').catch(() => {});
    this.#arrived.resolve();
    this.#options.log.info(facts, 'the student is there');
    void seat.ended.then((reason) => {
      if (this.#current !== seat) return;
      this.#current = null;
      this.#options.log.error({ reason }, 'the student’s thread ended; it is started again');
      this.#openLater();
    });
    if (before !== null) this.#retire(before);
  }

  /** Nothing new is asked of it; what it has been asked it may answer. */
  #retire(seat: Seat): void {
    void seat.control.retire().catch(() => {});
    const longest = this.#options.timeout_ms ?? Math.max(...Object.values(STUDENT_TIMEOUT_MS));
    const timer = setTimeout(() => {
      void seat.control.stop().catch(() => {});
      // Should it not stop of itself.
      setTimeout(() => seat.abort(), STUDENT_PING_MS).unref();
    }, longest).unref();
    this.#timers.push(timer);
    void seat.ended.then(() => {
      clearTimeout(timer);
      this.#timers.splice(this.#timers.indexOf(timer), 1);
    });
  }

  #takeSeat(): Seat {
    const { port1, port2 } = new MessageChannel();
    const { directory, mode, key, prices, audit_share, sticky, watch_path, ledger_path, log_level } =
      this.#options;
    const task: StudentTask = {
      directory,
      mode,
      key,
      prices: prices ?? {},
      audit_share,
      sticky,
      watch_path,
      ledger_path,
      log_level,
      control: port2,
    };
    const hard = new AbortController();
    const ended = (
      this.#pool.run(task, { transferList: [port2], signal: hard.signal }) as Promise<void>
    ).then(
      () => 'stopped',
      (thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown)),
    );
    void ended.then(() => port1.close());
    port1.unref();
    const control = Comlink.wrap<StudentControl>(nodeEndpoint(port1));
    return { control, ended, abort: () => hard.abort(), facts: null, missed_pings: 0 };
  }

  #attach(seat: Seat, seeker: StudentSeeker): void {
    const { port1, port2 } = new MessageChannel();
    void Promise.resolve(seat.control.connect(Comlink.transfer(port2, [port2]))).catch(() => {});
    seeker.attach(port1, seat.facts!);
  }

  /**
   * Runs go on where they were; answers that the old one gives after this are unknown, so their runs the upstream's.
   * @param of only the runs of that server, and no answers
   */
  async #handRunsOver(from: Seat, to: Seat, of: 'upstream' | null = null): Promise<void> {
    const copied = await withDeadline(
      Promise.race([from.control.copyRuns(), failWhen(from.ended)]),
      STUDENT_PING_MS,
    ).catch(() => null);
    if (copied === null) return;
    const runs = of === null ? copied.runs : copied.runs.filter(([, server]) => server === of);
    await to.control.restoreRuns({ runs, answers: of === null ? copied.answers : [] });
  }

  /** What the last comparisons said counts for the student that comes. */
  async #handWatchOver(from: Seat, to: Seat): Promise<void> {
    const copied = await withDeadline(
      Promise.race([from.control.copyWatch(), failWhen(from.ended)]),
      STUDENT_PING_MS,
    ).catch(() => null);
    if (copied !== null) await to.control.takeWatchOver(copied);
    const ledger = await withDeadline(
      Promise.race([from.control.copyLedger(), failWhen(from.ended)]),
      STUDENT_PING_MS,
    ).catch(() => null);
    if (ledger !== null) await to.control.takeLedgerOver(ledger);
  }

  #openLater(): void {
    if (this.#isClosed || this.#restart !== null) return;
    this.#restart = setTimeout(() => {
      this.#restart = null;
      void this.#open();
    }, this.#restartMs).unref();
    this.#restartMs = Math.min(this.#restartMs * 2, STUDENT_RESTART_MS.last);
  }

  /** Another manifest: another student; none: no student. Other orders are obeyed by the one that there is. */
  async #look(): Promise<void> {
    const stamp = await this.#readStamp(MANIFEST_NAME);
    const orders = await this.#readStamp(ORDERS_NAME);
    // While one is being read in, or is tried again in a while, the next look sees what is to be seen.
    if (this.#isClosed || this.#isOpening || this.#restart !== null) return;
    if (stamp !== this.#stamp) await this.#open();
    else if (orders !== this.#ordersStamp && this.#current !== null) await this.#obey(this.#current, orders);
  }

  async #obey(seat: Seat, stamp: string): Promise<void> {
    this.#ordersStamp = stamp;
    try {
      await withDeadline(Promise.race([seat.control.obey(), failWhen(seat.ended)]), STUDENT_PING_MS);
      this.#options.log.info({}, 'orders about the student are obeyed');
    } catch (thrown) {
      const reason = (thrown as Error).message;
      this.#options.log.error({ reason }, 'orders about the student cannot be read; those before hold on');
    }
  }

  /** There is no manifest: what serves ends, and the next student is waited for. */
  #withdraw(): void {
    const before = this.#current;
    this.#current = null;
    this.#arrived.resolve();
    if (this.#isClosed) return;
    for (const seeker of this.#seekers) seeker.withdraw();
    if (before !== null) this.#retire(before);
    const words =
      before === null
        ? 'there is no student yet: the upstream serves everything until one is published'
        : 'the student was taken away: the upstream serves everything until one is published';
    this.#options.log.info({ directory: this.#options.directory }, words);
  }

  /** @returns '' when there is no such file */
  async #readStamp(name: string): Promise<string> {
    try {
      const { mtimeMs, size, ino } = await stat(join(this.#options.directory, name));
      return `${mtimeMs} ${size} ${ino}`;
    } catch {
      return '';
    }
  }

  /** A thread that twice does not answer is ended, and so replaced: once, it may have been this one that was busy. */
  async #ping(): Promise<void> {
    const seat = this.#current;
    if (seat === null) return;
    try {
      const answered = Promise.race([seat.control.ping(), seat.ended]);
      await withDeadline(answered, this.#options.ping_ms ?? STUDENT_PING_MS);
      seat.missed_pings = 0;
    } catch {
      seat.missed_pings++;
      if (seat.missed_pings > 1) seat.abort();
    }
  }

  /** The same trouble is told once. */
  #tell(words: string): void {
    if (this.#isClosed || words === this.#told) return;
    this.#told = words;
    const now = this.#current === null ? 'there is no student' : 'the student before it goes on';
    this.#options.log.error({ reason: words }, `the student cannot be read in; ${now}`);
  }
}

async function failWhen(ended: Promise<string>): Promise<never> {
  throw new Error(await ended);
}

async function withDeadline<T>(promise: Promise<T>, deadlineMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${deadlineMs} ms`)), deadlineMs);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Controls the student's thread. It starts the thread, gives every server a port to it, and
 * restarts it if it ends or hangs. When the directory has another student, it starts a second
 * thread, which takes over once the student is loaded. If the manifest is removed, it withdraws the
 * servers' ports and waits for the next student. Traffic never waits for any of this. Part of the
 * composition root; main thread.
 */

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import type { Config } from '../config.ts';
import { SHIPPED_PRICES } from '../domain/price-table.ts';
import type { LedgerReport } from '../domain/student-ledger.ts';
import type { RelegationState } from '../gateway/capture/capture-control.ts';
import type { Log } from '../log.ts';
import { createDeferred } from '../std/deferred.ts';
import { makeFolder } from '../std/folder.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { OwnThread } from '../std/own-thread.ts';
import { readLedgerFile, reportLedger } from '../student/day-ledger.ts';
import {
  checkForWaiting,
  MANIFEST_NAME,
  readStudentDirectory,
  StudentDirectoryError,
} from '../student/directory.ts';
import { Student } from '../student/model/student.ts';
import { ORDERS_NAME, readOrders } from '../student/orders.ts';
import { STUDENT_TIMEOUT_MS } from '../student/serving/limits.ts';
import type { StudentFacts, WatchReport } from '../student/serving/protocol.ts';
import type { StudentControl, StudentTask } from './student-thread-protocol.ts';

/** Interval of the checks of the student's directory for a new version. */
const STUDENT_LOOK_MS = 3_000;
/** Longest time that the thread may take to load its directory. */
const STUDENT_LOAD_MS = 120_000;
/**
 * Interval of the pings. Also the longest time that the thread may take to answer a ping, to copy its state,
 * or to read its orders.
 */
const STUDENT_PING_MS = 5_000;
/**
 * How long a start of the service waits for the student before the servers listen. Until the student is
 * loaded, the upstream answers.
 */
const STUDENT_START_MS = 5_000;
/** How long the statistics wait for the student's report. */
const STUDENT_WATCH_MS = 500;
/** Maximum V8 heap of the thread. If it needs more, the thread ends, and the process continues. */
const STUDENT_HEAP_MB = 2_048;
/** Maximum number of threads at once. A further student waits until a thread has ended. */
const SEATS_MAX = 3;
/** Delay before the thread restarts. It doubles from the first value to the last. */
const STUDENT_RESTART_MS = { first: 200, last: 30_000 } as const;

/**
 * Loads the student of a directory as the student's thread does, and discards it.
 * @returns whether there is a student; false: none was published yet, and one may be added later
 * @throws StudentDirectoryError with a one-line message if the student cannot be loaded
 */
async function checkStudent(directory: string): Promise<boolean> {
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
    throw new StudentDirectoryError(
      'damaged',
      path,
      'not the steps of a student; run understudy distill again',
      {
        cause: thrown,
      },
    );
  }
  try {
    await readOrders(directory);
  } catch (thrown) {
    const why = `the student's orders cannot be read (${(thrown as Error).message})`;
    throw new StudentDirectoryError('damaged', directory, why, { cause: thrown });
  }
  return true;
}

/** The methods of a server that the student's controller calls. */
export interface StudentSeeker {
  /** Gives the server a port, which the server then owns. */
  attach(port: MessagePort, facts: StudentFacts): void;
  /**
   * Ends the use of the port, because there is no student: the server sends no further steps to it.
   * @param isExpected whether another student is being loaded
   */
  withdraw(isExpected: boolean): void;
}

interface StudentThreadOptions extends Omit<StudentTask, 'control' | 'prices'> {
  /** null: savings are not reported in money. */
  prices: StudentTask['prices'] | null;
  /** Module that runs a {@link StudentTask} in its own thread. */
  entry: URL;
  /** How long a step waits for the student; null: the default of its kind. */
  timeout_ms: number | null;
  log: { info(fields: object, words: string): void; error(fields: object, words: string): void };
  /** Interval of the checks of the student's directory. For tests. */
  look_ms?: number;
  ping_ms?: number;
}

/** One student on one thread. */
interface Seat {
  control: Comlink.Remote<StudentControl>;
  /** Why the thread exited; never rejects. */
  ended: Promise<string>;
  /**
   * Ends the thread, even if it hangs. A thread that is loading its modules gets up to 15 s to finish that
   * first.
   */
  abort: () => Promise<void>;
  facts: StudentFacts | null;
  /** Number of consecutive pings without an answer. */
  missed_pings: number;
}

export class StudentThread implements RelegationState {
  readonly #options: StudentThreadOptions;
  /**
   * All seats with a thread, at most SEATS_MAX: one may serve, one may load, and the others finish
   * their last steps.
   */
  readonly #seats = new Set<Seat>();
  readonly #seekers: StudentSeeker[] = [];
  #current: Seat | null = null;
  /** The seat whose student is being loaded. */
  #next: Seat | null = null;
  #isOpening = false;
  /** Whether no student can be loaded. Servers then need not wait for one. */
  #isAbsent = false;
  /** Stamp of the last manifest that was loaded or tried; '' without a manifest. */
  #stamp = '';
  /** Stamp of the last orders that were sent to the thread. */
  #ordersStamp = '';
  #told = '';
  #restartMs: number = STUDENT_RESTART_MS.first;
  #restart: NodeJS.Timeout | null = null;
  readonly #timers: NodeJS.Timeout[] = [];
  #isClosed = false;
  readonly #arrived = createDeferred<void>();

  /** Starts the thread, which then reads its student. */
  constructor(options: StudentThreadOptions) {
    this.#options = options;
    this.#timers.push(
      setInterval(() => void this.#look(), options.look_ms ?? STUDENT_LOOK_MS).unref(),
      setInterval(() => void this.#ping(), options.ping_ms ?? STUDENT_PING_MS).unref(),
    );
    void this.#open();
  }

  get mode(): 'on' | 'shadow' {
    return this.#options.mode;
  }

  /** The student that serves; null without one. */
  get facts(): StudentFacts | null {
    return this.#current?.facts ?? null;
  }

  /**
   * Asks the student's thread for the watch's report.
   * @returns null without a student, or if it gives no report in time
   */
  async describeWatch(): Promise<WatchReport | null> {
    const seat = this.#current;
    if (seat === null) return null;
    const asked = Promise.race([seat.control.describeWatch(), failWhen(seat.ended)]);
    return withDeadline(asked, STUDENT_WATCH_MS).catch(() => null);
  }

  /**
   * Reads the ledger's file, for the time without a student. Without a file, the report is empty; null if
   * there is no path, or the file cannot be read.
   */
  async readKeptLedger(): Promise<LedgerReport | null> {
    const { ledger_path } = this.#options;
    if (ledger_path === null) return null;
    return readLedgerFile(ledger_path).then(
      (copy) => reportLedger(copy ?? []),
      () => null,
    );
  }

  /**
   * Waits until the first student serves, until it is known that the directory has no student, or until a deadline. A
   * later student takes over while traffic is served.
   */
  async waitForStart(): Promise<void> {
    await withDeadline(this.#arrived.promise, STUDENT_START_MS).catch(() => {});
  }

  /** Gives a server a port, now if there is a student, and to each later student. */
  connect(seeker: StudentSeeker): void {
    this.#seekers.push(seeker);
    if (this.#current !== null) this.#attach(this.#current, seeker);
    else if (this.#isAbsent) seeker.withdraw(false);
  }

  /** Ends the threads. Threads that are loading get up to 15 s. Server threads see their message ports close. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers) clearInterval(timer);
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#current = null;
    this.#next = null;
    await Promise.all([...this.#seats].map((seat) => seat.abort()));
  }

  /**
   * Loads the current student of the directory. This student then takes over from the serving student. Without a
   * manifest, withdraws the serving student. While too many threads run, tries again later.
   */
  async #open(): Promise<void> {
    if (this.#isOpening || this.#isClosed) return;
    if (this.#seats.size >= SEATS_MAX) return this.#openLater();
    this.#isOpening = true;
    this.#stamp = await this.#readStamp(MANIFEST_NAME);
    this.#ordersStamp = await this.#readStamp(ORDERS_NAME);
    if (this.#stamp === '' || this.#isClosed) {
      this.#isOpening = false;
      this.#withdraw();
      return;
    }
    if (this.#isAbsent) this.#tellSeekers(true);
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
      void seat.abort();
      this.#tell((thrown as Error).message);
      // A serving student continues. If none serves, loading is tried again later: the directory may be complete by
      // then.
      if (this.#current === null) {
        this.#tellSeekers(false);
        this.#openLater();
      }
      return;
    }
    this.#next = null;
    this.#isOpening = false;
    if (this.#isClosed) return void seat.abort();
    this.#take(seat, seat.facts);
  }

  #take(seat: Seat, facts: StudentFacts): void {
    const before = this.#current;
    this.#current = seat;
    this.#isAbsent = false;
    this.#told = '';
    this.#restartMs = STUDENT_RESTART_MS.first;
    for (const seeker of this.#seekers) this.#attach(seat, seeker);
    // Pass on the runs that the upstream has taken over since the runs were copied.
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

  /** Sends the seat no further steps, and lets it answer the pending ones. */
  #retire(seat: Seat): void {
    void seat.control.retire().catch(() => {});
    const longest = this.#options.timeout_ms ?? Math.max(...Object.values(STUDENT_TIMEOUT_MS));
    const timer = setTimeout(() => {
      void seat.control.stop().catch(() => {});
      // Ends the thread if it does not stop by itself.
      setTimeout(() => void seat.abort(), STUDENT_PING_MS).unref();
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
      prices: prices ?? SHIPPED_PRICES,
      audit_share,
      sticky,
      watch_path,
      ledger_path,
      log_level,
      control: port2,
    };
    const thread = new OwnThread(this.#options.entry, task, { transfer: [port2], heap_mb: STUDENT_HEAP_MB });
    const ended = thread.ended.then(
      () => 'stopped',
      (thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown)),
    );
    port1.unref();
    const control = Comlink.wrap<StudentControl>(nodeEndpoint(port1));
    const seat: Seat = { control, ended, abort: () => thread.end(), facts: null, missed_pings: 0 };
    this.#seats.add(seat);
    void ended.then(() => {
      this.#seats.delete(seat);
      port1.close();
    });
    return seat;
  }

  #attach(seat: Seat, seeker: StudentSeeker): void {
    const { port1, port2 } = new MessageChannel();
    void Promise.resolve(seat.control.connect(Comlink.transfer(port2, [port2]))).catch(() => {});
    seeker.attach(port1, seat.facts!);
  }

  /**
   * Passes the runs to the next student. The next student does not learn of answers that the old student gives later,
   * so the upstream serves the rest of those runs.
   * @param of null: everything is passed; `upstream`: only the runs that the upstream serves, and
   * no answers
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

  /** Passes the results of comparisons to the next student. */
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

  /**
   * Checks for two changes. A changed manifest means that there is another student or none. The
   * current student must read changed orders.
   */
  async #look(): Promise<void> {
    const stamp = await this.#readStamp(MANIFEST_NAME);
    const orders = await this.#readStamp(ORDERS_NAME);
    // While a student is being loaded or waits for another attempt, the next check sees the change.
    if (this.#isClosed || this.#isOpening || this.#restart !== null) return;
    if (stamp !== this.#stamp) await this.#open();
    else if (orders !== this.#ordersStamp && this.#current !== null) await this.#obey(this.#current, orders);
  }

  async #obey(seat: Seat, stamp: string): Promise<void> {
    this.#ordersStamp = stamp;
    try {
      await withDeadline(Promise.race([seat.control.obey(), failWhen(seat.ended)]), STUDENT_PING_MS);
      this.#options.log.info({}, 'changed orders about the student are in force');
    } catch (thrown) {
      const reason = (thrown as Error).message;
      this.#options.log.error(
        { reason },
        'orders about the student cannot be read; the earlier orders stay in force',
      );
    }
  }

  /** Retires the student, because there is no manifest, and waits for the next one. */
  #withdraw(): void {
    const before = this.#current;
    this.#current = null;
    this.#arrived.resolve();
    if (this.#isClosed) return;
    this.#tellSeekers(false);
    if (before !== null) this.#retire(before);
    const words =
      before === null
        ? 'there is no student yet: the upstream serves everything until one is published'
        : 'the student was removed: the upstream serves everything until one is published';
    this.#options.log.info({ directory: this.#options.directory }, words);
  }

  /**
   * Informs the servers that there is no student now.
   * @param isExpected whether a student is being loaded
   */
  #tellSeekers(isExpected: boolean): void {
    this.#isAbsent = !isExpected;
    for (const seeker of this.#seekers) seeker.withdraw(isExpected);
  }

  /** Makes a text that changes when the file is replaced or changed. @returns '' without the file */
  async #readStamp(name: string): Promise<string> {
    try {
      const { mtimeMs, size, ino } = await stat(join(this.#options.directory, name));
      return `${mtimeMs} ${size} ${ino}`;
    } catch {
      return '';
    }
  }

  /**
   * Pings the serving thread, and ends it after two missed pings in a row; it is then started again. A single missed ping
   * may mean that the main thread was busy.
   */
  async #ping(): Promise<void> {
    const seat = this.#current;
    if (seat === null) return;
    try {
      const answered = Promise.race([seat.control.ping(), seat.ended]);
      await withDeadline(answered, this.#options.ping_ms ?? STUDENT_PING_MS);
      seat.missed_pings = 0;
    } catch {
      seat.missed_pings++;
      if (seat.missed_pings > 1) void seat.abort();
    }
  }

  /** Logs a failure to load a student, once for each reason. */
  #tell(words: string): void {
    if (this.#isClosed || words === this.#told) return;
    this.#told = words;
    const now = this.#current === null ? 'there is no student' : 'the previous student continues to serve';
    this.#options.log.error({ reason: words }, `the student cannot be loaded; ${now}`);
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

/**
 * Starts the thread, which then loads its student or waits for one.
 * @returns null if relegation is off
 * @throws StudentDirectoryError if the student that the operator named cannot be loaded
 */
export async function openStudent(
  { relegation, log_level }: Config,
  log: Log,
): Promise<StudentThread | null> {
  if (relegation === null) return null;
  const { directory, mode, key, audit_share, sticky, watch_path, ledger_path, timeout_ms, prices } =
    relegation;
  // The student may be added later, from another machine or by a training round.
  if (relegation.shared !== null) makeFolder(directory, 0o700);
  await checkStudent(directory);
  const entry = resolveModuleUrl('./student-thread-entry.ts', import.meta.url);
  return new StudentThread({
    entry,
    directory,
    mode,
    key,
    audit_share,
    sticky,
    watch_path,
    ledger_path,
    timeout_ms,
    prices,
    log_level,
    log,
  });
}

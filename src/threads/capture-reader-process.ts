/**
 * Controls the capture reader, a process: starts it with a question, and ends it after a time without questions. After
 * an unexpected end, questions are refused for a growing delay, and the next question after the delay starts the
 * process again. Main thread; other server threads ask through the main thread.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { readCaptureOwner } from '../auth/owner.ts';
import type { Config } from '../config.ts';
import type { CaptureAnswer, CaptureAsker, CaptureQuestion } from '../domain/captured-run.ts';
import { CatalogueError } from '../errors.ts';
import type { Log } from '../log.ts';
import { createDeferred, type Deferred } from '../std/deferred.ts';
import { passOutputOn } from '../std/line-writer.ts';
import { resolveModuleUrl } from '../std/module-url.ts';
import { databasePaths, viewPath } from '../storage/lmdb/stores.ts';
import { gatheredListDb, gatheringFolder } from '../storage/offload/gathering-place.ts';
import type { CaptureReaderOptions, FromCaptureReader, ToCaptureReader } from './capture-reader-protocol.ts';

/** Maximum V8 heap of the process. The process crashes if it needs more. */
const CAPTURE_READER_HEAP_MB = 768;
/** Maximum number of questions that may wait. A further one is refused. */
const CAPTURE_READS_MAX = 32;
/** Longest time for an answer. After that, the process is killed, because it may hang. */
const CAPTURE_READ_MS = 60_000;
/** How long the process runs without a question. */
const CAPTURE_READER_IDLE_MS = 5 * 60_000;
/** How long questions are refused after an unexpected end. The delay doubles from the first value to the last. */
const CAPTURE_READER_RESTART_MS = { first: 500, last: 30_000 } as const;
/** How long a process may take to save its results when it is asked to end. */
const CAPTURE_READER_STOP_MS = 2_000;

export interface CaptureReaderParts {
  entry: URL;
  options: CaptureReaderOptions;
  /** Called after each unexpected end. */
  tell: (ended: { pid: number | null; reason: string; restart_in_ms: number }) => void;
  /** Defaults: `CAPTURE_READ_MS` and `CAPTURE_READER_IDLE_MS`. */
  deadline_ms?: number;
  idle_ms?: number;
}

interface Waiting {
  answer: Deferred<CaptureAnswer>;
  deadline: NodeJS.Timeout;
}

/** One life of the process. */
interface Life {
  child: ChildProcess;
  waiting: Map<number, Waiting>;
  /** Whether an answer was not received in time. */
  is_overdue: boolean;
}

/** After this many unexpected ends, the process ignores what earlier processes saved. */
const SUSPECT_ENDS = 2;

export class CaptureReaderProcess implements CaptureAsker {
  readonly #parts: CaptureReaderParts;
  #life: Life | null = null;
  #nextId = 0;
  #idle: NodeJS.Timeout | null = null;
  /** Unexpected ends since the last answer. */
  #failures = 0;
  /** Unexpected ends since the last regular end. */
  #ends = 0;
  #notBefore = Number.NEGATIVE_INFINITY;
  #lastReason = '';
  #isClosed = false;
  #differingRuns = 0;

  constructor(parts: CaptureReaderParts) {
    this.#parts = parts;
  }

  /** Number of runs in which a request repeats the previous answer differently from what was captured. */
  get differing_runs(): number {
    return this.#differingRuns;
  }

  /** null while there is no process. */
  get pid(): number | null {
    return this.#life?.child.pid ?? null;
  }

  /**
   * Asks the process, and starts it if it does not run.
   * @throws CatalogueError (rejects) `unavailable`: the service is stopping, too many questions wait, the process ended
   *   before it answered, or it is not started yet after an unexpected end; `deadline_exceeded`: the process did not
   *   answer in time
   */
  async ask(question: CaptureQuestion): Promise<CaptureAnswer> {
    if (this.#isClosed) throw new CatalogueError('unavailable', 'The service is stopping');
    const life = this.#life ?? this.#start();
    if (life.waiting.size >= CAPTURE_READS_MAX)
      throw new CatalogueError('unavailable', 'Too many questions about captures at once');
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    const id = this.#nextId++;
    const answer = createDeferred<CaptureAnswer>();
    const deadline = setTimeout(() => this.#giveUp(life), this.#parts.deadline_ms ?? CAPTURE_READ_MS).unref();
    life.waiting.set(id, { answer, deadline });
    this.#send(life, { type: 'ask', id, question });
    return answer.promise;
  }

  /** Lets the process save its results and end. After CAPTURE_READER_STOP_MS, the process is killed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#idle !== null) clearTimeout(this.#idle);
    const life = this.#life;
    if (life === null) return;
    const ended = createDeferred<void>();
    life.child.once('exit', () => ended.resolve());
    // The process reads messages between two parts of its work, so it notices the closed channel.
    if (life.child.connected) life.child.disconnect();
    const late = setTimeout(() => life.child.kill('SIGKILL'), CAPTURE_READER_STOP_MS);
    await ended.promise;
    clearTimeout(late);
  }

  /** Starts the process. @throws CatalogueError during the delay after an unexpected end */
  #start(): Life {
    const left_ms = this.#notBefore - performance.now();
    if (left_ms > 0) throw new CatalogueError('unavailable', this.#describeEnd(this.#lastReason));
    const { entry, options } = this.#parts;
    const flags = process.execArgv.filter(
      (flag) => !/^--(?:inspect|max-old-space-size|input-type|eval|e\b)/.test(flag),
    );
    const child = spawn(
      process.execPath,
      [...flags, `--max-old-space-size=${CAPTURE_READER_HEAP_MB}`, '--v8-pool-size=1', fileURLToPath(entry)],
      { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], serialization: 'advanced' },
    );
    const life: Life = { child, waiting: new Map(), is_overdue: false };
    this.#life = life;
    passOutputOn([child.stdout, child.stderr]);
    child.on('message', (message) => this.#take(life, message as FromCaptureReader));
    child.once('exit', (code, signal) => this.#noteEnd(life, signal ?? `exit ${code}`));
    child.on('error', (error) => {
      // The process never started, or a message could not be sent. A process that never started does not exit, so its
      // end is noted here.
      if (child.pid === undefined) this.#noteEnd(life, error.message);
    });
    this.#send(life, {
      type: 'open',
      options: { ...options, is_suspect: this.#ends >= SUSPECT_ENDS, reads_ahead: this.#ends === 0 },
    });
    return life;
  }

  /** Sends a message. If it cannot be sent, the process is about to end. */
  #send({ child }: Life, message: ToCaptureReader): void {
    if (child.connected) child.send(message, undefined, undefined, () => {});
  }

  #take(life: Life, message: FromCaptureReader): void {
    if (message.type === 'differing') {
      this.#differingRuns += message.runs;
      return;
    }
    const { id, answer } = message;
    const waiting = life.waiting.get(id);
    if (waiting === undefined) return;
    life.waiting.delete(id);
    clearTimeout(waiting.deadline);
    this.#failures = 0;
    waiting.answer.resolve(answer);
    if (life.waiting.size > 0 || this.#life !== life || this.#isClosed) return;
    this.#idle = setTimeout(() => this.#letGo(life), this.#parts.idle_ms ?? CAPTURE_READER_IDLE_MS).unref();
  }

  /** Ends the process after a time without questions. The next question starts another. */
  #letGo(life: Life): void {
    if (this.#life === life) this.#life = null;
    this.#ends = 0;
    if (life.child.connected) life.child.disconnect();
  }

  /**
   * Gives up a process that does not answer in time. It answers in order, so later questions would
   * not be answered either.
   */
  #giveUp(life: Life): void {
    life.is_overdue = true;
    life.child.kill('SIGKILL');
  }

  #noteEnd(life: Life, reason: string): void {
    const isExpected = this.#life !== life && life.waiting.size === 0;
    if (this.#life === life) this.#life = null;
    if (isExpected || this.#isClosed) {
      this.#refuseAll(life, () => new CatalogueError('unavailable', 'The service is stopping'));
      return;
    }
    const { first, last } = CAPTURE_READER_RESTART_MS;
    const pause_ms = Math.min(last, first * 2 ** this.#failures);
    this.#failures += 1;
    this.#ends += 1;
    this.#notBefore = performance.now() + pause_ms;
    this.#lastReason = reason;
    this.#parts.tell({ pid: life.child.pid ?? null, reason, restart_in_ms: pause_ms });
    this.#refuseAll(life, () =>
      life.is_overdue
        ? new CatalogueError('deadline_exceeded', 'The captures could not be read in time')
        : new CatalogueError('unavailable', this.#describeEnd(reason)),
    );
  }

  #refuseAll({ waiting }: Life, explain: () => CatalogueError): void {
    for (const { answer, deadline } of waiting.values()) {
      clearTimeout(deadline);
      answer.reject(explain());
    }
    waiting.clear();
  }

  #describeEnd(reason: string): string {
    return (
      `The process that reads captures ended (${reason}) and is started again soon; traffic and capture go on. ` +
      'If the process ends again and again, the capture database may be damaged'
    );
  }
}

/** Makes the capture reader of a service. Its process starts with the first question. */
export function openCaptureReader(config: Config, log: Log): CaptureReaderProcess {
  const { capture, data_dir, data_key, relegation, relegation_wires, version } = config;
  const place = capture.read_from;
  const read_from = place === null ? null : { place, folder: gatheringFolder(data_dir, place) };
  return new CaptureReaderProcess({
    entry: resolveModuleUrl('./capture-reader-entry.ts', import.meta.url),
    options: {
      db: read_from === null ? capture.db : gatheredListDb(read_from.folder),
      read_from,
      data_key,
      prices: capture.prices,
      databases: {
        ...databasePaths(data_dir, data_key),
        ...(config.shared_database === null ? {} : { main: viewPath(data_dir), runs: viewPath(data_dir) }),
      },
      owner: readCaptureOwner(config),
      student: relegation?.directory ?? null,
      wires: relegation_wires,
      version,
    },
    tell: (ended) => log.error(ended, 'the process that reads captures for the API ended'),
  });
}

/**
 * The capture reader from the outside: started when somebody asks, ended when nobody does for a while, started again with a
 * growing pause when it ended by itself. The main thread has the one of the service; other server threads ask through it.
 * Server threads.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { CaptureAnswer, CaptureAsker, CaptureQuestion } from '../domain/captured-run.ts';
import { CatalogueError } from '../errors.ts';
import {
  CAPTURE_READ_MS,
  CAPTURE_READER_HEAP_MB,
  CAPTURE_READER_IDLE_MS,
  CAPTURE_READER_RESTART_MS,
  CAPTURE_READER_STOP_MS,
  CAPTURE_READS_MAX,
} from '../limits.ts';
import { createDeferred, type Deferred } from '../std/deferred.ts';
import type { CaptureReaderOptions, FromCaptureReader, ToCaptureReader } from './capture-reader-protocol.ts';

export interface CaptureReaderParts {
  entry: URL;
  options: CaptureReaderOptions;
  /** Told of each end that nobody asked for. */
  tell: (ended: { pid: number | null; reason: string; restart_in_ms: number }) => void;
  /** `CAPTURE_READ_MS` and `CAPTURE_READER_IDLE_MS` when left out. */
  deadline_ms?: number;
  idle_ms?: number;
}

interface Waiting {
  answer: Deferred<CaptureAnswer>;
  deadline: NodeJS.Timeout;
}

/** One life of it. */
interface Life {
  child: ChildProcess;
  waiting: Map<number, Waiting>;
  /** Its answer did not come in time. */
  is_overdue: boolean;
}

/** After so many ends that nobody asked for, what it kept is not trusted any more. */
const SUSPECT_ENDS = 2;

export class CaptureReaderProcess implements CaptureAsker {
  readonly #parts: CaptureReaderParts;
  #life: Life | null = null;
  #nextId = 0;
  #idle: NodeJS.Timeout | null = null;
  /** Ends of itself since the last answer. */
  #failures = 0;
  /** The same since one ended as it should. */
  #ends = 0;
  #notBefore = Number.NEGATIVE_INFINITY;
  #lastReason = '';
  #isClosed = false;

  constructor(parts: CaptureReaderParts) {
    this.#parts = parts;
  }

  /** null while there is none. */
  get pid(): number | null {
    return this.#life?.child.pid ?? null;
  }

  /**
   * @throws CatalogueError (rejects) `unavailable`: too many questions wait, or the process ended before it answered;
   * `deadline_exceeded`
   */
  async ask(question: CaptureQuestion): Promise<CaptureAnswer> {
    if (this.#isClosed) throw new CatalogueError('unavailable', 'The service is about to end');
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

  /** Ends it, within CAPTURE_READER_STOP_MS: it keeps what it has found out. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#idle !== null) clearTimeout(this.#idle);
    const life = this.#life;
    if (life === null) return;
    const ended = createDeferred<void>();
    life.child.once('exit', () => ended.resolve());
    // It looks up between two pieces of work.
    if (life.child.connected) life.child.disconnect();
    const late = setTimeout(() => life.child.kill('SIGKILL'), CAPTURE_READER_STOP_MS);
    await ended.promise;
    clearTimeout(late);
  }

  /** @throws CatalogueError during the pause behind an end */
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
      { stdio: ['ignore', 2, 2, 'ipc'], serialization: 'advanced' },
    );
    const life: Life = { child, waiting: new Map(), is_overdue: false };
    this.#life = life;
    child.on('message', (message) => this.#take(life, message as FromCaptureReader));
    child.once('exit', (code, signal) => this.#noteEnd(life, signal ?? `exit ${code}`));
    child.on('error', (error) => {
      // Never started, or a message that could not be sent: then it still ends.
      if (child.pid === undefined) this.#noteEnd(life, error.message);
    });
    this.#send(life, {
      type: 'open',
      options: { ...options, is_suspect: this.#ends >= SUSPECT_ENDS, reads_ahead: this.#ends === 0 },
    });
    return life;
  }

  /** What cannot be sent goes to a process that is about to end. */
  #send({ child }: Life, message: ToCaptureReader): void {
    if (child.connected) child.send(message, undefined, undefined, () => {});
  }

  #take(life: Life, { id, answer }: FromCaptureReader): void {
    const waiting = life.waiting.get(id);
    if (waiting === undefined) return;
    life.waiting.delete(id);
    clearTimeout(waiting.deadline);
    this.#failures = 0;
    waiting.answer.resolve(answer);
    if (life.waiting.size > 0 || this.#life !== life || this.#isClosed) return;
    this.#idle = setTimeout(() => this.#letGo(life), this.#parts.idle_ms ?? CAPTURE_READER_IDLE_MS).unref();
  }

  /** Nobody asks: it ends of itself, and the next question starts another. */
  #letGo(life: Life): void {
    if (this.#life === life) this.#life = null;
    this.#ends = 0;
    if (life.child.connected) life.child.disconnect();
  }

  /** It answers one question after the other, so those behind wait in vain too. */
  #giveUp(life: Life): void {
    life.is_overdue = true;
    life.child.kill('SIGKILL');
  }

  #noteEnd(life: Life, reason: string): void {
    const isExpected = this.#life !== life && life.waiting.size === 0;
    if (this.#life === life) this.#life = null;
    if (isExpected || this.#isClosed) {
      this.#refuseAll(life, () => new CatalogueError('unavailable', 'The service is about to end'));
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
      `The process that reads captures ended (${reason}) and is started again soon; traffic and capture go on without it. ` +
      'If that happens again and again, the capture database may be damaged'
    );
  }
}

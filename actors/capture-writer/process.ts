/**
 * Controls the capture process for the writer: starts the process, sends it work, and restarts it when it ends. If it
 * ends during an append, the next process is asked whether the batch was stored. Only a batch that was not stored is
 * sent again. Actor thread.
 *
 * If a process ends repeatedly because of its files, `FaultHistory` decides which files the next process renames before
 * it opens a database.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type FailureCause, zeroCounts } from '../../src/domain/capture-cause.ts';
import { WITHHELD_CAUSES } from '../../src/domain/exchange.ts';
import { NOTHING_POSTPONED, type WriterState } from '../../src/domain/writer-state.ts';
import { createDeferred, type Deferred } from '../../src/std/deferred.ts';
import { passOutputOn } from '../../src/std/line-writer.ts';
import type { CaptureLogAdapter } from './adapter.ts';
import type { BatchMemory, BatchPlaces } from './batch.ts';
import type {
  AppendInput,
  CaptureFailure,
  CaptureProcessOptions,
  CaptureRequest,
  FileState,
  FromCapture,
  OpenReply,
  ToCapture,
} from './child-protocol.ts';
import { FaultHistory } from './fault-history.ts';
import type { Appended } from './protocol.ts';

/** V8 heap of the capture process. Bodies and bases are outside the heap. */
const CAPTURE_PROCESS_HEAP_MB = 1_024;

/** An event of the capture process, for this process's log. */
export interface CaptureProcessTold {
  /** `ended`: the process ended unexpectedly. `back`: another process has opened the database. */
  event: 'ended' | 'back';
  pid: number | null;
  /** How the process ended; empty for `back`. */
  reason: string;
  /** Pause before the next start. */
  restart_in_ms: number;
}

interface CaptureProcessParts {
  entry: URL;
  options: CaptureProcessOptions;
  /** The descriptor of the mapped memory in this process. */
  descriptor: number | null;
  tell: (told: CaptureProcessTold) => void;
}

/** Maximum number of attempts for a batch when the process ends before it has answered. */
const TRIES = 3;
/** Maximum number of attempts to start the process and open the database after the process has ended during an append. */
const OPEN_TRIES = 8;
/** If the process ends this many times in a row before it has opened the database, waiting callers get the error. */
const STARTS = 6;
/**
 * Interval of the checks, and the number of consecutive failed checks after which the process counts as hung and is
 * killed.
 */
const WATCH_MS = 5_000;
const WATCHES = 6;
/** Maximum time that the stats wait for a busy process. */
const STATE_MS = 300;
/** The state reports the process as silent after this time with an unanswered request and without a message. */
const SILENCE_MS = 1_000;
/** Maximum time that the process may take to close its database, and then to exit. */
const CLOSE_MS = 60_000;
const EXIT_MS = 5_000;

/** The state of a process before its first report. */
const NOTHING_TOLD: FileState = {
  bytes: 0,
  sealed: 0,
  packing: NOTHING_POSTPONED,
  text: null,
  bucket: null,
  withheld: zeroCounts(WITHHELD_CAUSES),
  damaged: 0,
  memory_bytes: 0,
  oldest_read_s: 0,
  expired: null,
};

/** A batch in the form in which the actor gets it. */
type AppendedBatch = (BatchMemory | BatchPlaces) & Pick<AppendInput, 'from' | 'exchanges' | 'queue_fill'>;

/** Thrown when the process ended before it answered. */
class ProcessEnded extends Error {
  readonly code: FailureCause = 'writer_down';
}

/** The error that the process returned for a call. */
class CallFailed extends Error {
  readonly code?: string;
  readonly kind: CaptureFailure['kind'];

  constructor({ message, code, kind }: CaptureFailure) {
    super(message);
    if (code !== undefined) this.code = code;
    this.kind = kind;
  }
}

/**
 * V8 flags of the process. The young generation starts at its final size, because batches become garbage from the first
 * second on. There is a single V8 helper thread, because more would take time from the server threads.
 */
const CAPTURE_PROCESS_FLAGS = [
  `--max-old-space-size=${CAPTURE_PROCESS_HEAP_MB}`,
  '--min-semi-space-size=16',
  '--v8-pool-size=1',
];

/** One run of the capture process, from its start to its end. */
class CaptureChild {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Deferred<unknown>>();
  #nextId = 0;
  #heardAt = performance.now();
  /** Since when requests have been unanswered without interruption; null: no request is unanswered. */
  #askedAt: number | null = null;
  isOpen = false;
  /** Resolves when the process has ended: how it ended, and whether a file may be the cause. */
  readonly ended: Promise<{ reason: string; is_fault: boolean }>;

  constructor({ entry, descriptor }: CaptureProcessParts) {
    const flags = process.execArgv.filter(
      (flag) => !/^--(?:inspect|max-old-space-size|input-type|eval|e\b)/.test(flag),
    );
    // The memory's index in this list is MEMORY_DESCRIPTOR. Listening sockets are not inherited.
    this.#child = spawn(process.execPath, [...flags, ...CAPTURE_PROCESS_FLAGS, fileURLToPath(entry)], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc', ...(descriptor === null ? [] : [descriptor])],
      serialization: 'advanced',
    });
    passOutputOn([this.#child.stdout, this.#child.stderr]);
    this.#child.on('message', (message) => this.#take(message as FromCapture));
    this.ended = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        // The start failed, or a message could not be sent. After a failed start, the process counts as ended.
        if (this.#child.pid === undefined) resolve({ reason: error.message, is_fault: false });
      });
      this.#child.once('exit', (code, signal) => {
        const isFault = signal === null ? code !== 0 : !OUTSIDE_SIGNALS.has(signal);
        resolve({ reason: signal ?? `exit ${code}`, is_fault: isFault });
      });
    });
    void this.ended.then(({ reason }) => {
      const gone = new ProcessEnded(`the capture process ended (${reason})`);
      for (const waiting of this.#waiting.values()) waiting.reject(gone);
      this.#waiting.clear();
    });
  }

  get pid(): number | null {
    return this.#child.pid ?? null;
  }

  /** Sends a request and waits for the reply. @throws ProcessEnded, CallFailed */
  ask<T>(name: CaptureRequest, input: unknown): Promise<T> {
    const id = this.#nextId++;
    const answer = createDeferred<unknown>();
    this.#waiting.set(id, answer);
    this.#askedAt ??= performance.now();
    this.send({ type: 'request', id, name, input });
    return answer.promise as Promise<T>;
  }

  /** Sends a message. If it cannot be sent, the process is about to end. */
  send(message: ToCapture): void {
    if (this.#child.connected) this.#child.send(message, undefined, undefined, () => {});
  }

  /** Milliseconds without any message from the process while a request is unanswered; 0: no request is unanswered. */
  get silent_ms(): number {
    return this.#askedAt === null ? 0 : performance.now() - Math.max(this.#askedAt, this.#heardAt);
  }

  /** Whether a request is unanswered. */
  get owes(): boolean {
    return this.#waiting.size > 0;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Closes the channel. The process then finishes its work and exits. */
  letGo(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  #take(message: FromCapture): void {
    this.#heardAt = performance.now();
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) this.#askedAt = null;
    if (message.type === 'reply') waiting?.resolve(message.value);
    else waiting?.reject(new CallFailed(message.failure));
  }
}

/** Signals that users or other processes send. Damaged files do not cause them. */
const OUTSIDE_SIGNALS = new Set<NodeJS.Signals>(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']);

/** The methods of `CaptureLogAdapter` for this process. They call the adapter in the capture process. */
export class CaptureProcess {
  readonly #parts: CaptureProcessParts;
  readonly #faults = new FaultHistory();
  #child: CaptureChild | null = null;
  /** The start that is in progress. */
  #opening: Promise<CaptureChild> | null = null;
  #isClosing = false;
  #lastId = 0;
  #restarts = 0;
  #state: FileState | null = null;
  /** The request for the process's state that is in progress. */
  #asking: Promise<void> | null = null;
  /** Resolves after the last queued append. Each append is sent after the previous one is answered. */
  #tail: Promise<unknown> = Promise.resolve();
  #watch: NodeJS.Timeout | null = null;
  #unanswered = 0;
  /** Ends the pause before a start. */
  readonly #closed = new AbortController();

  constructor(parts: CaptureProcessParts) {
    this.#parts = parts;
  }

  async open(): Promise<null> {
    await this.#ready();
    return null;
  }

  /**
   * Stores a batch after all earlier ones. If the process ends meanwhile, finds out whether the batch was stored, and
   * sends it again if not.
   * @param input a batch, whose memory is not read after the answer
   * @throws the log's error if nothing of the batch is stored; `lost_with_writer` if it is unknown what is stored, or if
   *   the batch made the process end several times
   */
  append(input: AppendedBatch): Promise<Appended> {
    const appended = this.#tail.then(() => this.#append(input));
    this.#tail = appended.catch(() => undefined);
    return appended;
  }

  async #append(input: AppendedBatch): Promise<Appended> {
    for (let tries = 1; ; tries++) {
      const child = tries === 1 ? await this.#ready() : await this.#readyAgain();
      const before = this.#lastId;
      try {
        const appended = await this.#handOver(child, input);
        this.#lastId = appended.last_id;
        if (appended.left?.cause === 'damaged') this.#noteDamage(child);
        else this.#faults.noteStored();
        return appended;
      } catch (thrown) {
        if (!(thrown instanceof ProcessEnded)) {
          if (thrown instanceof CallFailed && thrown.kind === 'damage') this.#noteDamage(child);
          throw thrown;
        }
      }
      // No other batch is in progress, so the last id shows how many exchanges of this batch are stored. If some are
      // missing, the log was storing them one by one, or has set some apart.
      await this.#readyAgain();
      const stored = this.#lastId - before;
      if (stored >= input.exchanges) return { first_id: before + 1, last_id: this.#lastId };
      if (stored > 0)
        throw lost(`the capture process stored ${stored} of ${input.exchanges} exchanges and ended`);
      if (tries >= TRIES) throw lost('the batch made the capture process end several times');
    }
  }

  #handOver(child: CaptureChild, input: AppendedBatch): Promise<Appended> {
    if ('places' in input) return child.ask<Appended>('append', input satisfies AppendInput);
    for (const body of [...input.slabs, ...input.cells]) {
      // Memory that threads share cannot be sent directly.
      child.send({ type: 'body', body: Buffer.from(body) });
    }
    return child.ask<Appended>('append', {
      slabs: input.slabs.length,
      places: null,
      from: input.from,
      exchanges: input.exchanges,
      queue_fill: input.queue_fill,
    } satisfies AppendInput);
  }

  /**
   * Records that the process found a damaged page. If files must be set aside, kills the process. The next process
   * renames the files before it opens a database.
   */
  #noteDamage(child: CaptureChild): void {
    if (this.#faults.noteDamage(performance.now())) child.kill();
  }

  flush(): ReturnType<CaptureLogAdapter['flush']> {
    return this.#call('flush');
  }

  rotate(): ReturnType<CaptureLogAdapter['rotate']> {
    return this.#call('rotate');
  }

  tidy(): ReturnType<CaptureLogAdapter['tidy']> {
    return this.#call('tidy');
  }

  /**
   * Returns the state of the process and its files. If the process does not answer soon, returns the last known state
   * of the files; before the first answer, zeros and nulls.
   */
  async state(): Promise<WriterState> {
    const child = this.#child;
    if (child?.isOpen) {
      this.#asking ??= child
        .ask<FileState>('state', null)
        .then(
          (state) => {
            this.#state = state;
          },
          () => {},
        )
        .finally(() => {
          this.#asking = null;
        });
      await Promise.race([this.#asking, delay(STATE_MS, undefined, { ref: false })]);
    }
    const { memory_bytes, ...files } = this.#state ?? NOTHING_TOLD;
    const silent = this.#child?.silent_ms ?? 0;
    return {
      ...files,
      process: {
        pid: this.#child?.pid ?? null,
        restarts: this.#restarts,
        silent_ms: silent < SILENCE_MS ? 0 : Math.round(silent),
        memory_bytes,
      },
    };
  }

  /** Closes the database and ends the process, after all earlier appends. Kills the process if it exits too late. */
  async close(): Promise<null> {
    if (this.#isClosing) return null;
    await this.#tail;
    this.#isClosing = true;
    this.#closed.abort();
    if (this.#watch !== null) clearInterval(this.#watch);
    const child = this.#child;
    if (child === null) return null;
    await Promise.race([
      child.ask('close', null).catch(() => {}),
      delay(CLOSE_MS, undefined, { ref: false }),
    ]);
    child.letGo();
    const timer = setTimeout(() => child.kill(), EXIT_MS);
    await child.ended;
    clearTimeout(timer);
    return null;
  }

  async #call<T>(name: CaptureRequest): Promise<T> {
    return (await this.#ready()).ask<T>(name, null);
  }

  /**
   * Returns a process that has opened the database; starts one if necessary.
   * @throws Error if the database cannot be opened or the process cannot be started
   */
  #ready(): Promise<CaptureChild> {
    if (this.#isClosing) return Promise.reject(new Error('the capture log is closed'));
    if (this.#child?.isOpen) return Promise.resolve(this.#child);
    this.#opening ??= this.#open().finally(() => {
      this.#opening = null;
    });
    return this.#opening;
  }

  /**
   * Like `#ready`, but tries several times, because an earlier process may have stored the batch.
   * @throws `lost_with_writer`
   */
  async #readyAgain(): Promise<CaptureChild> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#ready();
      } catch (thrown) {
        if (this.#isClosing || tries >= OPEN_TRIES) throw lost((thrown as Error).message);
        await this.#pause(Math.max(this.#faults.pause_ms, WATCH_MS / OPEN_TRIES));
      }
    }
  }

  async #open(): Promise<CaptureChild> {
    const { options } = this.#parts;
    for (let starts = 1; ; starts++) {
      if (this.#child === null) {
        await this.#pause(this.#faults.pause_ms);
        if (this.#isClosing) throw new Error('the capture log is closed');
      }
      const child = this.#child ?? this.#start();
      try {
        const opened = await child.ask<OpenReply>('open', {
          options,
          set_aside: this.#faults.due,
          last_id: this.#lastId,
        });
        this.#lastId = opened.last_id;
        this.#faults.noteOpened();
        child.isOpen = true;
        if (this.#restarts > 0) this.#tell('back', child, '');
        return child;
      } catch (thrown) {
        if (!(thrown instanceof ProcessEnded)) throw thrown;
        if (starts >= STARTS) throw thrown;
      }
    }
  }

  #start(): CaptureChild {
    const child = new CaptureChild(this.#parts);
    this.#child = child;
    this.#unanswered = 0;
    this.#watch ??= setInterval(() => this.#look(), WATCH_MS).unref();
    void child.ended.then(({ reason, is_fault }) => {
      if (this.#child === child) this.#child = null;
      if (this.#isClosing) return;
      this.#restarts++;
      this.#faults.noteEnd(is_fault, performance.now());
      this.#tell('ended', child, reason);
      // Starts again even if there is no request, so that waiting blocks are packed.
      this.#ready().catch(() => {});
    });
    return child;
  }

  /**
   * Checks the process, and kills it after WATCHES failed checks in a row. Counts checks instead of time, because no
   * checks are made while a machine sleeps.
   */
  #look(): void {
    const child = this.#child;
    if (child === null || !child.owes || child.silent_ms < WATCH_MS / 2) {
      this.#unanswered = 0;
      return;
    }
    this.#unanswered++;
    if (this.#unanswered === 1) child.ask('ping', null).catch(() => {});
    if (this.#unanswered >= WATCHES) child.kill();
  }

  #tell(event: CaptureProcessTold['event'], { pid }: CaptureChild, reason: string): void {
    this.#parts.tell({ event, pid, reason, restart_in_ms: this.#faults.pause_ms });
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#closed.signal }).catch(() => {});
  }
}

function lost(reason: string): Error {
  return Object.assign(new Error(reason), { code: 'lost_with_writer' satisfies FailureCause });
}

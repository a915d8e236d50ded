/**
 * Starts the bucket's thread at the first call, and sends it work (bucket-work.ts). A caller may block its own thread
 * until the answer, as synchronous readers do. Capture process, capture reader, command line.
 */
import { Worker } from 'node:worker_threads';
import { createDeferred, type Deferred } from '../../std/deferred.ts';
import { resolveModuleUrl } from '../../std/module-url.ts';
import { StoreError } from '../bucket/object-store.ts';
import { StaleDraftError, StoppedError } from './bucket-failures.ts';
import type {
  BucketAnswers,
  BucketCall,
  BucketReply,
  BucketRequest,
  BucketStart,
} from './bucket-protocol.ts';
import { SYNC } from './bucket-protocol.ts';

/** How long a blocked caller waits for the thread to start, for example on a busy machine. */
const START_MS = 30_000;
/** Maximum length of the reason of a failure in a synchronous answer. */
const REASON_BYTES = 4_096;

export class BucketThread {
  readonly #place: string;
  #worker: Worker | null = null;
  readonly #waiting = new Map<number, Deferred<unknown>>();
  #nextId = 0;
  /** If it is not zero, the work in progress stops at its next step. */
  readonly #stopping = new Int32Array(new SharedArrayBuffer(4));

  /** @param place a bucket or a folder (bucket/open-store.ts) */
  constructor(place: string) {
    this.#place = place;
  }

  /**
   * Sends a call to the thread, which is started if necessary.
   * @throws (rejects) StoreError; StaleDraftError; StoppedError; a file system error; Error if the thread ends
   */
  call<Name extends BucketCall['name']>(
    call: Extract<BucketCall, { name: Name }>,
  ): Promise<BucketAnswers[Name]> {
    const id = this.#nextId++;
    const answer = createDeferred<unknown>();
    this.#waiting.set(id, answer);
    this.#post({ id, call, sync: null });
    return answer.promise as Promise<BucketAnswers[Name]>;
  }

  /**
   * Sends a call to the thread, and blocks the caller's thread until the work is done. Waits at most 30 s for the work
   * to begin, and then at most `timeoutMs`.
   * @returns null if the work succeeded; otherwise one line with the reason, which may be the end of a wait
   */
  callNow(call: BucketCall, timeoutMs: number): string | null {
    const sync = new SharedArrayBuffer(8 + REASON_BYTES);
    const state = new Int32Array(sync, 0, 2);
    this.#post({ id: this.#nextId++, call, sync });
    if (Atomics.wait(state, 0, SYNC.sent, START_MS) === 'timed-out') return 'its thread has not started';
    if (Atomics.wait(state, 0, SYNC.begun, timeoutMs) === 'timed-out')
      return `no answer in ${Math.round(timeoutMs / 1_000)} seconds`;
    const length = state[1]!;
    return length === 0 ? null : Buffer.from(new Uint8Array(sync, 8, length)).toString();
  }

  /**
   * Asks the work in progress to stop. Until `go`, calls that plan, send, compare or restore files, or gather captures,
   * reject with StoppedError at their next step.
   */
  stop(): void {
    Atomics.store(this.#stopping, 0, 1);
  }

  go(): void {
    Atomics.store(this.#stopping, 0, 0);
  }

  async close(): Promise<void> {
    this.stop();
    await this.#worker?.terminate();
    this.#worker = null;
  }

  #post(request: BucketRequest): void {
    this.#worker ??= this.#start();
    this.#worker.postMessage(request);
  }

  #start(): Worker {
    const start: BucketStart = { place: this.#place, stopping: this.#stopping };
    const worker = new Worker(resolveModuleUrl('./bucket-thread-entry.ts', import.meta.url), {
      workerData: start,
    });
    worker.unref();
    worker.on('message', (reply: BucketReply) => {
      const waiting = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if (reply.failure === null) waiting?.resolve(reply.value);
      else waiting?.reject(makeError(reply.failure));
    });
    worker.on('error', (thrown) => this.#end(worker, thrown as Error));
    worker.on('exit', () => this.#end(worker, new Error('the thread of the bucket has ended')));
    return worker;
  }

  /** Rejects all calls without an answer. The next call starts another thread. */
  #end(worker: Worker, why: Error): void {
    if (this.#worker === worker) this.#worker = null;
    for (const waiting of this.#waiting.values()) waiting.reject(why);
    this.#waiting.clear();
  }
}

function makeError({ kind, message, code }: NonNullable<BucketReply['failure']>): Error {
  if (kind === 'store') return new StoreError(message);
  if (kind === 'stale') return new StaleDraftError(message);
  if (kind === 'stopped') return new StoppedError(message);
  return Object.assign(new Error(message), code === undefined ? {} : { code });
}

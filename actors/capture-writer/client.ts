/** Sends messages to the capture writer. No other file does so. Server threads. */
import {
  CaptureFailure,
  type FailureCause,
  isFailureCause,
  type SetApart,
} from '../../src/domain/capture-cause.ts';
import type { WriterState } from '../../src/domain/writer-state.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { ActorClient, AskOptions } from '../../src/runtime/actor-client.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import { ExchangeBatch, findPlaces, SlabPool } from './batch.ts';
import { BodyMemory } from './body-memory.ts';
import type { MemoryPart } from './mapped-memory.ts';
import { type Appended, CAPTURE_WRITER_KIND, type CaptureWriterProtocol } from './protocol.ts';

const WRITER = { kind: CAPTURE_WRITER_KIND, key: 'main' };
/** Deadline of an append. A commit takes milliseconds, or seconds on an overloaded disk. */
const APPEND_DEADLINE_MS = 60_000;
const FLUSH_DEADLINE_MS = 60_000;
/** Deadline of a rotation, which reads and writes the whole file: some GB, perhaps on a slow disk. */
const ROTATE_DEADLINE_MS = 30 * 60_000;
const OPEN_DEADLINE_MS = 30_000;
/** Deadline of a request for the state. It is short, because the health check must not wait for a busy writer. */
const STATE_DEADLINE_MS = 500;
/**
 * Error codes of refusals after which nothing is stored, so that the batch may be sent again, and the cause under which
 * each is counted.
 */
const NOT_HANDLED: ReadonlyMap<string, FailureCause> = new Map([
  ['mailbox_full', 'writer_busy'],
  ['link_full', 'writer_busy'],
  ['too_many_asks', 'writer_busy'],
  ['draining', 'writer_down'],
  ['actor_stopped', 'writer_down'],
  ['capture_failed', 'disk_error'],
  ['capture_stopped', 'writer_killed'],
]);

export class CaptureWriterClient {
  readonly memory: BodyMemory;
  readonly #actors: ActorClient;
  readonly #part: MemoryPart | null;
  readonly #slabs: SlabPool;
  #killed = false;
  #sent = 0;
  /**
   * Batches whose append failed without an answer, so that the writer may still be reading them, with their sequence
   * numbers.
   */
  #unsure: { number: number; batch: ExchangeBatch }[] = [];

  /** @param part this thread's part of the memory that the capture process maps; null if there is no such memory */
  constructor(actors: ActorClient, part: MemoryPart | null = null) {
    this.#actors = actors;
    this.#part = part;
    this.memory = new BodyMemory(part);
    this.#slabs = new SlabPool(part);
  }

  /** Whether the writer accepts batches. */
  get alive(): boolean {
    return !this.#killed && this.#actors.isUp(this.#actors.place(WRITER));
  }

  /** Calls the listener whenever the writer's thread has restarted. @returns a function that removes the listener */
  onReturn(listener: () => void): () => void {
    const host = this.#actors.place(WRITER);
    return this.#actors.onHostUp((index) => {
      if (index === host) listener();
    });
  }

  /**
   * Opens the database now, not only when the first batch arrives.
   * @throws CatalogueError `capture_failed` with the storage's message
   */
  async open(): Promise<void> {
    await this.#ask('open', null, { deadline_ms: OPEN_DEADLINE_MS });
  }

  /** Makes an empty batch, to which exchanges can be added. */
  openBatch(): ExchangeBatch {
    return new ExchangeBatch(this.#slabs, this.memory);
  }

  /**
   * Stores a batch, which must not be changed any more.
   * @param queue_fill share of the sender's queue that is in use, 0 to 1
   * @returns exchanges that cannot be stored because of their content
   * @throws CaptureFailure with code `capture_failed` if the batch or the rest of it is not stored, and may be sent
   * again; with another code if it is unknown what is stored
   */
  async append(batch: ExchangeBatch, queue_fill = 0): Promise<readonly SetApart[]> {
    // Checked before the batch is sent, because afterwards it would be unknown whether the batch was written.
    if (!this.alive) throw new CaptureFailure('writer_down');
    const appended = await this.#send(batch, queue_fill);
    batch.set_apart.push(...(appended.set_apart ?? []));
    const { left } = appended;
    if (left !== undefined) {
      batch.from = left.from;
      throw new CaptureFailure(left.cause, left.message);
    }
    batch.release();
    return batch.set_apart;
  }

  async #send(batch: ExchangeBatch, queue_fill: number): Promise<Appended> {
    const memory = batch.take();
    const { from, count } = batch;
    const number = this.#sent++;
    const found = this.#part === null ? null : findPlaces(memory, this.#part);
    const bodies = found === null ? [...memory.slabs, ...memory.cells] : [];
    const rest = { from, exchanges: count - from, queue_fill };
    const payload = found === null ? { slabs: memory.slabs.length, ...rest } : { ...found, ...rest };
    try {
      const appended = await this.#ask('append', payload, { deadline_ms: APPEND_DEADLINE_MS, bodies });
      this.#releaseBefore(number);
      return appended;
    } catch (thrown) {
      // The writer may still be reading the batch, so its mapped memory must not be reused yet. Other memory is left to
      // the garbage collector.
      if (found !== null && !isUntouched(thrown)) this.#unsure.push({ number, batch });
      throw thrown;
    }
  }

  /**
   * Releases the unsure batches that were sent before an answered batch. The writer reads batches in order, so it does
   * not read these batches any more.
   */
  #releaseBefore(number: number): void {
    if (this.#unsure.length === 0) return;
    for (const sent of this.#unsure) if (sent.number < number) sent.batch.release();
    this.#unsure = this.#unsure.filter((sent) => sent.number > number);
  }

  /** Makes everything appended so far survive a power failure. */
  async flush(deadlineMs: number = FLUSH_DEADLINE_MS): Promise<void> {
    await this.#ask('flush', null, { deadline_ms: deadlineMs });
  }

  /** Seals the live file and opens a new one. */
  rotate(): Promise<{ sealed: string | null; opened: string }> {
    return this.#ask('rotate', null, { deadline_ms: ROTATE_DEADLINE_MS });
  }

  /** Stops the writer until the process starts again. */
  async kill(): Promise<void> {
    this.#killed = true;
    await this.#ask('kill', null, { deadline_ms: FLUSH_DEADLINE_MS });
  }

  /** Returns the state of the writer and its files. @throws CatalogueError if the writer does not answer soon */
  state(): Promise<WriterState> {
    return this.#ask('state', null, { deadline_ms: STATE_DEADLINE_MS });
  }

  async #ask<N extends keyof CaptureWriterProtocol>(
    name: N,
    payload: CaptureWriterProtocol[N]['request'],
    options: AskOptions,
  ): Promise<CaptureWriterProtocol[N]['reply']> {
    try {
      return (await this.#actors.ask(WRITER, name, payload, options)) as CaptureWriterProtocol[N]['reply'];
    } catch (thrown) {
      throw toFailure(thrown);
    }
  }
}

/** Whether the batch may be sent again. */
function isUntouched(thrown: unknown): boolean {
  return thrown instanceof CatalogueError && thrown.code === 'capture_failed';
}

function toFailure(thrown: unknown): CatalogueError {
  if (!(thrown instanceof RuntimeError)) return new CatalogueError('internal', undefined, { cause: thrown });
  const { code, message } = thrown;
  const why = isFailureCause(code) ? code : (NOT_HANDLED.get(code) ?? 'lost_with_writer');
  // Other messages of the runtime are about threads, and are not passed on.
  const detail = isFailureCause(code) || code === 'capture_failed' ? message : undefined;
  return new CaptureFailure(why, detail, { cause: thrown });
}

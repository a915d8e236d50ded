/**
 * Asks the capture writer. The only place that makes its messages. Front threads.
 */
import { CatalogueError } from '../../src/errors.ts';
import { RuntimeError } from '../../src/runtime/error.ts';
import type { AskOptions, Front } from '../../src/runtime/front.ts';
import { ExchangeBatch, SlabPool } from './batch.ts';
import { BodyMemory } from './body-memory.ts';
import { CAPTURE_WRITER_KIND, type CaptureWriterProtocol, type WriterState } from './protocol.ts';

const WRITER = { kind: CAPTURE_WRITER_KIND, key: 'main' };
/** A commit takes milliseconds, on a struggling disk seconds. */
const APPEND_DEADLINE_MS = 60_000;
const FLUSH_DEADLINE_MS = 60_000;
/** Compaction reads and writes the whole file: some GB on a slow disk. */
const ROTATE_DEADLINE_MS = 30 * 60_000;
const OPEN_DEADLINE_MS = 30_000;
/** The health check must not hang on a busy writer. */
const STATE_DEADLINE_MS = 500;
/** Runtime codes with which a message surely was not handled, so that it may be sent again. */
const NOT_HANDLED = new Set(['mailbox_full', 'link_full', 'too_many_asks', 'draining', 'actor_stopped']);

export class CaptureWriterClient {
  readonly memory = new BodyMemory();
  readonly #front: Front;
  readonly #slabs = new SlabPool();
  #killed = false;

  constructor(front: Front) {
    this.#front = front;
  }

  /** The writer takes batches. */
  get alive(): boolean {
    return !this.#killed && this.#front.isUp(this.#front.place(WRITER));
  }

  /** Calls `listener` whenever the writer's thread has come back. */
  onReturn(listener: () => void): void {
    const host = this.#front.place(WRITER);
    this.#front.onHostUp = (index) => {
      if (index === host) listener();
    };
  }

  /**
   * Opens the database now instead of with the first batch.
   * @throws CatalogueError `capture_failed` with the storage's own words
   */
  async open(): Promise<void> {
    await this.#ask('open', null, { deadline_ms: OPEN_DEADLINE_MS });
  }

  /** A batch to add exchanges to. */
  openBatch(): ExchangeBatch {
    return new ExchangeBatch(this.#slabs, this.memory);
  }

  /**
   * Stores a batch, to which nothing may be added any more.
   * @throws CatalogueError `capture_failed`: nothing of it is stored, it may be sent again; any other code: unknown
   */
  async append(batch: ExchangeBatch): Promise<void> {
    // Said before anything is sent; a batch lost with its thread is another matter: it may have been written.
    if (!this.alive) throw new CatalogueError('capture_failed');
    // A failure that leaves open what became of the batch leaves its memory to the collector: the writer may be reading.
    const { slabs, cells } = batch.take();
    const bodies = [...slabs, ...cells];
    await this.#ask('append', { slabs: slabs.length }, { deadline_ms: APPEND_DEADLINE_MS, bodies });
    batch.release();
  }

  /** All that was appended before is safe from a power cut. */
  async flush(): Promise<void> {
    await this.#ask('flush', null, { deadline_ms: FLUSH_DEADLINE_MS });
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

  state(): Promise<WriterState> {
    return this.#ask('state', null, { deadline_ms: STATE_DEADLINE_MS });
  }

  async #ask<N extends keyof CaptureWriterProtocol>(
    name: N,
    payload: CaptureWriterProtocol[N]['request'],
    options: AskOptions,
  ): Promise<CaptureWriterProtocol[N]['reply']> {
    try {
      return (await this.#front.ask(WRITER, name, payload, options)) as CaptureWriterProtocol[N]['reply'];
    } catch (thrown) {
      throw toCatalogue(thrown);
    }
  }
}

function toCatalogue(thrown: unknown): CatalogueError {
  if (!(thrown instanceof RuntimeError)) return new CatalogueError('internal', undefined, { cause: thrown });
  const options = { cause: thrown };
  if (thrown.code === 'capture_failed' || NOT_HANDLED.has(thrown.code)) {
    return new CatalogueError('capture_failed', thrown.message, options);
  }
  if (thrown.code === 'capture_stopped') return new CatalogueError('capture_stopped', undefined, options);
  return new CatalogueError('unavailable', undefined, options);
}

/**
 * The capture log as the writer's port: opens it at first use, turns messages into exchanges, reads the index's
 * decoder in. Actor thread.
 */

import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { describeRefusal } from '../../src/std/file-place.ts';
import { type BatchMemory, BatchReader } from './batch.ts';
import type { WriterState } from './protocol.ts';

/** One pass over what was put off. */
export interface TidyPass {
  /** How much was done; 0 when nothing is left. */
  done: number;
  took_ms: number;
  /** Part of one core that passes may take while exchanges come. */
  share: number;
}

/** What the port needs of the log; `CaptureLog` of src/storage is one. */
export interface ExchangeLog {
  append(batch: readonly CapturedExchange[]): Promise<{ first_id: number; last_id: number }>;
  flush(): Promise<void>;
  rotate(): Promise<{ sealed: string | null; opened: string }>;
  /** One pass over work put off while exchanges came: compression, the index. */
  tidy(budget_ms: number): Promise<TidyPass>;
  stats(): WriterState;
  close(): Promise<void>;
}

/** Longest stretch of one tidying pass; a batch that comes meanwhile waits that long at most. */
const TIDY_BUDGET_MS = 20;

export class CaptureLogPort {
  readonly #open: () => Promise<ExchangeLog>;
  readonly #report: (reason: string | null) => void;
  #isFailing = false;
  #log: Promise<ExchangeLog> | null = null;
  readonly #reader = new BatchReader();
  /** The end of the queue of appends: a batch is read when the one before is stored. */
  #tail: Promise<unknown> = Promise.resolve();

  /**
   * @param open opens the log; tried again at the next call when it fails
   * @param report told why appends fail when they begin to, and null when one is stored again
   */
  constructor(open: () => Promise<ExchangeLog>, report: (reason: string | null) => void = () => {}) {
    this.#open = open;
    this.#report = report;
  }

  async open(): Promise<null> {
    await this.#opened();
    return null;
  }

  /**
   * @param input a batch's memory; nobody looks at them any more once this is answered
   * @throws what the log throws; nothing of a failed append is stored
   */
  append(input: BatchMemory): Promise<{ first_id: number; last_id: number }> {
    const appended = this.#tail.then(async () => {
      const log = await this.#opened();
      return log.append(this.#reader.read(input));
    });
    this.#tail = appended.then(
      () => this.#note(null),
      (thrown: unknown) => this.#note(describeRefusal(thrown) ?? (thrown as Error).message),
    );
    return appended;
  }

  async flush(): Promise<null> {
    await (await this.#opened()).flush();
    return null;
  }

  async rotate(): Promise<{ sealed: string | null; opened: string }> {
    return (await this.#opened()).rotate();
  }

  /** One pass over what was put off. */
  async tidy(): Promise<TidyPass> {
    return (await this.#opened()).tidy(TIDY_BUDGET_MS);
  }

  async state(): Promise<WriterState> {
    const { bytes, sealed, packing } = (await this.#opened()).stats();
    return { bytes, sealed, packing };
  }

  async close(): Promise<null> {
    if (this.#log === null) return null;
    await (await this.#log).close();
    return null;
  }

  /** Batches are tried again and again: what changes is told. */
  #note(failure: string | null): void {
    if (this.#isFailing === (failure !== null)) return;
    this.#isFailing = failure !== null;
    this.#report(failure);
  }

  #opened(): Promise<ExchangeLog> {
    if (this.#log === null) {
      this.#log = this.#open();
      this.#log.catch(() => {
        this.#log = null;
      });
    }
    return this.#log;
  }
}

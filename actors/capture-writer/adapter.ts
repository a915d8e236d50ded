/**
 * Connects the capture writer to the capture log: opens the log at the first use, decodes batches into exchanges, and
 * reports when appends begin to fail or succeed again. Runs in the capture process, and on actor threads in tests.
 */

import { findPlaceCause, type PlaceCause, type SetApart } from '../../src/domain/capture-cause.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import type { LogState } from '../../src/domain/writer-state.ts';
import { describeRefusal } from '../../src/std/file-place.ts';
import { type BatchMemory, BatchReader } from './batch.ts';
import type { AppendInput } from './child-protocol.ts';
import type { Appended } from './protocol.ts';

/** The result of one pass over postponed work. */
export interface TidyPass {
  /** Amount of work done; 0 if no work is left. */
  done: number;
  took_ms: number;
  /** Share of one core that passes over postponed work may use while exchanges arrive. */
  share: number;
}

/** The methods of the log that the adapter needs. `CaptureLog` of src/storage has them. */
export interface ExchangeLog {
  append(
    batch: readonly CapturedExchange[],
    queue_fill: number,
  ): Promise<{
    first_id: number;
    last_id: number;
    set_apart?: SetApart[];
    left?: { exchanges: number; failure: Error };
  }>;
  flush(): Promise<void>;
  rotate(): Promise<{ sealed: string | null; opened: string }>;
  /** Runs one pass over postponed work: compressing blocks, indexing exchanges. */
  tidy(budget_ms: number): Promise<TidyPass>;
  stats(): LogState;
  close(): Promise<void>;
}

/** The fields of an append other than the memory of its batch. */
type BatchRest = Pick<AppendInput, 'from' | 'queue_fill'>;

/** Maximum time of one pass. A batch that arrives during a pass waits until the pass ends. */
const TIDY_BUDGET_MS = 20;

/** Events that are logged for the operator. */
export type WriterEvent =
  /** Exchanges cannot be stored now, or the cause has changed. */
  | { type: 'failing'; cause: PlaceCause; reason: string }
  | { type: 'stored_again' }
  | { type: 'set_apart'; exchanges: readonly [SetApart, ...SetApart[]] };

export class CaptureLogAdapter {
  readonly #open: () => Promise<ExchangeLog>;
  readonly #report: (event: WriterEvent) => void;
  /** Why the last append failed; null: it succeeded. */
  #failing: PlaceCause | null = null;
  #log: Promise<ExchangeLog> | null = null;
  readonly #reader = new BatchReader();
  /** Resolves after the last queued append. Each batch is read after the previous one is stored. */
  #tail: Promise<unknown> = Promise.resolve();

  /**
   * @param open opens the log; after a failure, the next call tries again
   * @param report called when appends start to fail or fail for another cause, when an append succeeds again, and once
   * for all exchanges of a batch that are set apart
   */
  constructor(open: () => Promise<ExchangeLog>, report: (event: WriterEvent) => void = () => {}) {
    this.#open = open;
    this.#report = report;
  }

  async open(): Promise<null> {
    await this.#opened();
    return null;
  }

  /**
   * Stores a batch after all earlier ones. If the log fails in the middle, the result says what is left.
   * @param input a batch's memory, which is not read after the answer
   * @throws the log's error, with its cause as code, if nothing is stored
   */
  append(input: BatchMemory & BatchRest): Promise<Appended> {
    const appended = this.#tail.then(() => this.#append(input));
    this.#tail = appended.catch(() => undefined);
    return appended;
  }

  async #append({ from, queue_fill, ...memory }: BatchMemory & BatchRest): Promise<Appended> {
    try {
      const log = await this.#opened();
      const batch = this.#reader.read(memory).slice(from);
      const { left, ...appended } = await log.append(batch, queue_fill);
      const [first, ...others] = appended.set_apart ?? [];
      if (first !== undefined) this.#report({ type: 'set_apart', exchanges: [first, ...others] });
      if (left === undefined) {
        this.#noteStored();
        return appended;
      }
      const { cause, reason } = this.#noteFailure(left.failure);
      return {
        ...appended,
        left: { from: from + batch.length - left.exchanges, cause, message: reason },
      };
    } catch (thrown) {
      this.#noteFailure(thrown);
      throw explainFailure(thrown);
    }
  }

  async flush(): Promise<null> {
    await this.#explain(async () => (await this.#opened()).flush());
    return null;
  }

  rotate(): Promise<{ sealed: string | null; opened: string }> {
    return this.#explain(async () => (await this.#opened()).rotate());
  }

  /** Runs one pass over postponed work. */
  async tidy(): Promise<TidyPass> {
    return (await this.#opened()).tidy(TIDY_BUDGET_MS);
  }

  async state(): Promise<LogState> {
    const { bytes, sealed, packing, withheld, text, bucket } = (await this.#opened()).stats();
    return { bytes, sealed, packing, withheld, text, bucket };
  }

  async close(): Promise<null> {
    if (this.#log === null) return null;
    await (await this.#log).close();
    return null;
  }

  /**
   * Runs the work.
   * @throws the storage's error with an explanation, and its cause as code
   */
  async #explain<Value>(work: () => Promise<Value>): Promise<Value> {
    try {
      return await work();
    } catch (thrown) {
      throw explainFailure(thrown);
    }
  }

  /** Reports a failure, but only if its cause is new, because batches are retried constantly. */
  #noteFailure(thrown: unknown): { cause: PlaceCause; reason: string } {
    const { code: cause, message: reason } = explainFailure(thrown);
    if (this.#failing !== cause) this.#report({ type: 'failing', cause, reason });
    this.#failing = cause;
    return { cause, reason };
  }

  #noteStored(): void {
    if (this.#failing === null) return;
    this.#failing = null;
    this.#report({ type: 'stored_again' });
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

/** Makes an error that explains a failed write, with the cause as code. */
function explainFailure(thrown: unknown): Error & { code: PlaceCause } {
  const words = describeRefusal(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown));
  const code = findPlaceCause(thrown) ?? 'disk_error';
  return Object.assign(new Error(words, { cause: thrown }), { code, retryable: true });
}

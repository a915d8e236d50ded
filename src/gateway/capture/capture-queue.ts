/**
 * A bounded queue of finished exchanges between traffic and the capture writer. The queue sends exchanges in batches.
 * If a batch could not be written, for example because the disk is full, the queue sends this batch again. When there
 * is no room, the queue drops exchanges and counts them. Traffic never waits for the writer. Server threads, one each.
 *
 * `attempted = captured + dropped + in_flight` holds at every moment, because in_flight is computed from the
 * other three in one synchronous read. An exchange leaves in_flight once: it becomes captured or dropped, or
 * `cancel` takes it out of attempted.
 */

import {
  CaptureFailure,
  DROP_CAUSES,
  type DropCause,
  FAILURE_CAUSES,
  type FailureCause,
  type SetApart,
  zeroCounts,
} from '../../domain/capture-cause.ts';
import { type CaptureFacts, findPlaceWords } from '../../domain/capture-health.ts';
import type { FinishedExchange } from '../../domain/exchange.ts';
import { CatalogueError, toCatalogueError } from '../../errors.ts';
import { ArrivalCounter } from './arrival-counter.ts';
import { QueuePlaces } from './queue-places.ts';
import { type BodyMemory, type ByteBudget, Tee } from './tee.ts';

/**
 * With this number of unacknowledged batches, a pending batch of fewer than CAPTURE_BATCH_BYTES is not sent, but grows.
 */
const CAPTURE_BATCHES_UNDER_WAY = 3;
/**
 * With this number of unacknowledged batches, a pending batch of CAPTURE_BATCH_BYTES or more is not sent either. The
 * number is higher than the one above: if large batches waited, the writer would be idle for a whole tick of a busy
 * server thread.
 */
const CAPTURE_LARGE_BATCHES_UNDER_WAY = 16;
/** A batch is due when it reaches either of these two bounds. */
const CAPTURE_BATCH_EXCHANGES = 256;
const CAPTURE_BATCH_BYTES = 16 << 20;

/** A batch of exchanges for the writer. */
export interface ExchangeBatch {
  /** Takes the exchange and its cells. The cells are returned when nothing reads them any more. */
  add(exchange: FinishedExchange): void;
}

/**
 * The methods of the writer that the queue calls. The client of the writer's actor implements them, and so do tests.
 */
export interface CaptureWriter<B extends ExchangeBatch = ExchangeBatch> {
  /** Holds the bodies of exchanges in progress. */
  readonly memory: BodyMemory;
  openBatch(): B;
  /**
   * Resolves when the batch is committed. `queue_fill` is the share of the queue that is in use, by which the writer
   * decides whether to store faster. The result lists the exchanges that were not stored because of their content.
   * Rejects with a CaptureFailure: code `capture_failed` when the batch may be sent again; any other code when the
   * batch must not be sent again, because it may be stored already or would fail again.
   */
  append(batch: B, queue_fill: number): Promise<readonly SetApart[]>;
}

export interface CaptureQueueOptions {
  /** Maximum number of finished exchanges that wait for the writer or for its acknowledgement. */
  max_queue: number;
  /** Maximum bytes of bodies that open and waiting exchanges hold together. */
  max_queue_bytes: number;
  /** Maximum bytes that are kept of one body. */
  max_capture_bytes: number;
  /** Stamps arrivals; default: a counter that no other thread shares. */
  arrivals?: ArrivalCounter;
  /** Capacity shared by the queues of all server threads; default: this queue alone has `max_queue`. */
  places?: QueuePlaces;
  /** Receives drops, by cause. */
  onDrop?: (cause: DropCause, exchanges: number) => void;
}

/** Exchanges and turns captured for one provider label. */
interface ProviderCount {
  captured: number;
  turns: number;
}

/** One server thread's share of `GET /__gw/stats`. */
export interface CaptureCounters extends Omit<CaptureFacts, 'alive'> {
  queue_depth: number;
  queue_bytes: number;
  errors: number;
  errors_by_cause: Record<FailureCause, number>;
  attempted: number;
  captured: number;
  dropped: number;
  dropped_by_cause: Record<DropCause, number>;
  in_flight: number;
  turns: number;
  aborted: number;
  by_provider: Record<string, ProviderCount>;
}

/** How long a drop counts as recent. */
const DROP_RECENT_MS = 60_000;

/**
 * A batch is also due when its first exchange has waited this long. Waking the writer for a few exchanges costs both
 * threads as much as storing them. No caller waits that long, because `settle` makes the batch due at once. A forced
 * end of the process loses the exchanges of the pending batch.
 */
const BATCH_WAIT_MS = 100;
/** Share of the byte budget above which an open exchange can be given up to make room for others. */
const LARGE_SHARE = 1 / 16;
/**
 * A call of `settle` is rejected after this number of tries that failed because of the storage. If a single batch
 * waits, these tries take about 0.3 seconds: the pauses between them are 100 and 200 milliseconds.
 */
const SETTLE_TRIES = 3;
const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 5_000;

/** The exchanges that were not stored before the process ended. */
export interface LeftAtStop {
  exchanges: number;
  /** Number of these exchanges that the writer has received but not acknowledged. */
  may_be_stored: number;
  /** The message of the error with which `settle` failed; '' if it did not fail. */
  reason: string;
}

/** A caller that waits until all exchanges up to the target have left the queue. */
interface Waiter {
  target: number;
  /** Number of storage failures that the caller still tolerates. */
  tries: number;
  resolve: () => void;
  reject: (error: CatalogueError) => void;
}

interface Batch {
  /** The content for the writer; null while empty. */
  content: ExchangeBatch | null;
  exchanges: number;
  aborted: number;
  /** By provider. */
  counts: Map<string, ProviderCount>;
  /** Bytes of bodies. */
  bytes: number;
  /** Number of its first exchange, counted since start. */
  first: number;
  /** When the batch was sent to the writer, by performance.now(); 0 before that. */
  sent_at_ms: number;
}

function makeBatch(): Batch {
  return { content: null, exchanges: 0, aborted: 0, counts: new Map(), bytes: 0, first: 0, sent_at_ms: 0 };
}

/** Returns the provider's count, which is created if it is missing. */
function openCount(counts: Map<string, ProviderCount>, provider: string): ProviderCount {
  let count = counts.get(provider);
  if (count === undefined) {
    count = { captured: 0, turns: 0 };
    counts.set(provider, count);
  }
  return count;
}

export class CaptureQueue implements ByteBudget {
  readonly #writer: CaptureWriter;
  readonly #options: CaptureQueueOptions;
  readonly #arrivals: ArrivalCounter;
  readonly #places: QueuePlaces;
  #attempted = 0;
  #captured = 0;
  #dropped = 0;
  readonly #droppedBy = zeroCounts(DROP_CAUSES);
  /** Time of the last drop, by cause. */
  readonly #droppedAt = new Map<DropCause, number>();
  #turns = 0;
  #aborted = 0;
  #errors = 0;
  readonly #errorsBy = zeroCounts(FAILURE_CAUSES);
  #failing: { cause: FailureCause; since_ms: number } | null = null;
  readonly #byProvider = new Map<string, ProviderCount>();
  #heldBytes = 0;
  /** Open exchanges that hold a large share of the budget. */
  readonly #large = new Set<Tee>();
  readonly large_bytes: number;
  /** Number of exchanges that are submitted but neither captured nor dropped. */
  #depth = 0;
  #pending = makeBatch();
  /** Batches that were sent and are neither captured nor dropped, including those that will be retried. */
  readonly #sent = new Set<Batch>();
  /** Sent batches that wait for their next try. */
  readonly #retries = new Map<Batch, NodeJS.Timeout>();
  #timer: NodeJS.Timeout | null = null;
  /** The pending batch is due, but waits because too many batches are unacknowledged. */
  #isDue = false;
  #underWay = 0;
  #retryAfterMs = 0;
  #isKilled = false;
  /** Exchanges that entered the queue since start. */
  #entered = 0;
  #waiters: Waiter[] = [];

  constructor(writer: CaptureWriter, options: CaptureQueueOptions) {
    this.#writer = writer;
    this.#options = options;
    this.#arrivals = options.arrivals ?? new ArrivalCounter();
    this.#places = options.places ?? new QueuePlaces(options.max_queue);
    this.large_bytes = options.max_queue_bytes * LARGE_SHARE;
  }

  /** Returns the stamp for a request that arrives now and whose exchange begins later. */
  stampArrival(): number {
    return this.#arrivals.next();
  }

  /**
   * Begins an exchange. Call it when the head of the request arrives.
   * @param arrival from {@link stampArrival}, if the request arrived earlier
   * @returns the tee to feed, to be passed to `submit` or `cancel` later; null when the exchange is already dropped,
   * because the queue is full or capture is stopped
   */
  begin(arrival = this.#arrivals.next()): Tee | null {
    this.#attempted++;
    if (this.#isKilled || this.#places.areTaken) {
      this.#drop(this.#causeAtDoor('queue_full'), 1);
      return null;
    }
    return new Tee(this, this.#writer.memory, this.#options.max_capture_bytes, arrival);
  }

  /**
   * Takes back a call of `begin`, because the gateway refused the request itself: then there is no exchange, and none
   * is counted.
   */
  cancel(tee: Tee | null): void {
    this.#attempted--;
    if (tee === null) {
      this.#dropped--;
      const cause = this.#causeAtDoor('queue_full');
      // The drop may have been counted under another cause: then decrement a cause that was
      // counted.
      const counted =
        this.#droppedBy[cause] > 0 ? cause : DROP_CAUSES.find((candidate) => this.#droppedBy[candidate] > 0);
      this.#droppedBy[counted!]--;
      return;
    }
    tee.close();
    tee.release();
  }

  /**
   * Ends the exchange, and queues it for the writer. Drops it instead if the tee is lost, the queue is full, or capture
   * is stopped. The bodies are in the tee's cells; the other fields come with `exchange`.
   */
  submit(tee: Tee, exchange: FinishedExchange): void {
    tee.close();
    if (tee.lost || this.#isKilled || !this.#places.take()) {
      tee.release();
      this.#drop(this.#causeAtDoor(tee.lost ? 'bytes_full' : 'queue_full'), 1);
      return;
    }
    this.#depth++;
    this.#entered++;
    const pending = this.#pending;
    if (pending.exchanges === 0) pending.first = this.#entered;
    pending.content ??= this.#writer.openBatch();
    pending.content.add(exchange);
    pending.exchanges++;
    if (exchange.aborted) pending.aborted++;
    const count = openCount(pending.counts, exchange.provider);
    count.captured++;
    if (exchange.kind === 'turn') count.turns++;
    // The tee's bytes stay reserved until the writer has stored the batch.
    pending.bytes += tee.kept_bytes;
    if (pending.exchanges >= CAPTURE_BATCH_EXCHANGES || pending.bytes >= CAPTURE_BATCH_BYTES) {
      this.#sendPending();
    } else {
      this.#timer ??= setTimeout(() => {
        this.#timer = null;
        this.#sendPending();
      }, BATCH_WAIT_MS);
    }
  }

  reserve(bytes: number, tee: Tee): boolean {
    const most = this.#options.max_queue_bytes - bytes;
    while (this.#heldBytes > most) {
      const largest = this.#findLargest();
      if (largest === null || largest === tee) return false;
      largest.giveUp();
    }
    this.#heldBytes += bytes;
    return true;
  }

  enlist(tee: Tee): void {
    this.#large.add(tee);
  }

  delist(tee: Tee): void {
    this.#large.delete(tee);
  }

  /**
   * Finds the open exchange that holds the most bytes. The list is short: each member holds a large share of the
   * budget.
   */
  #findLargest(): Tee | null {
    let largest: Tee | null = null;
    for (const tee of this.#large) if (tee.kept_bytes > (largest?.kept_bytes ?? 0)) largest = tee;
    return largest;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  /**
   * Resolves when everything submitted so far is captured or dropped. Batches that wait for a retry are tried at once.
   * @throws CaptureFailure of code `capture_failed` when the storage place fails for several tries (for example a full
   * disk), and CatalogueError `unavailable` when it takes longer than `deadlineMs`
   */
  async settle(deadlineMs: number): Promise<void> {
    if (this.#depth === 0) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { target: this.#entered, tries: SETTLE_TRIES, resolve, reject };
    this.#waiters.push(waiter);
    const timer = setTimeout(() => {
      reject(
        new CatalogueError(
          'unavailable',
          'The writer has not stored all exchanges in time; the rest still waits',
        ),
      );
    }, deadlineMs);
    this.retryNow();
    this.#sendPending();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      const at = this.#waiters.indexOf(waiter);
      if (at >= 0) this.#waiters.splice(at, 1);
    }
  }

  /**
   * Ends the queue when the process ends: waits until everything is captured, at most until the deadline, and
   * then drops the exchanges that are left. @returns how many exchanges were dropped, how many of them the
   * writer has received and may still store, and why; null: none was dropped
   */
  async end(deadlineMs: number): Promise<LeftAtStop | null> {
    let reason = '';
    await this.settle(deadlineMs).catch((thrown: unknown) => {
      reason = toCatalogueError(thrown).message;
    });
    if (this.#depth === 0) return null;
    const left: LeftAtStop = { exchanges: this.#depth, may_be_stored: 0, reason };
    for (const timer of this.#retries.values()) clearTimeout(timer);
    this.#retries.clear();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#isKilled = true;
    for (const batch of [...this.#sent]) {
      if (batch.sent_at_ms > 0) left.may_be_stored += batch.exchanges;
      this.#dropBatch(batch, 'stop');
    }
    this.#dropBatch(this.#takePending(), 'stop');
    return left;
  }

  /**
   * Stops capture until the process restarts: accepts no more exchanges, and drops those that are not with the writer.
   * The unacknowledged batches are still captured if the writer acknowledges them, and dropped otherwise.
   */
  kill(): void {
    this.#isKilled = true;
    for (const [batch, timer] of this.#retries) {
      clearTimeout(timer);
      this.#dropBatch(batch, 'writer_killed');
    }
    this.#retries.clear();
    this.#dropBatch(this.#takePending(), 'writer_killed');
  }

  /** Retries all waiting batches at once, because the writer has restarted or a caller of `settle` waits. */
  retryNow(): void {
    const waiting = [...this.#retries];
    this.#retries.clear();
    this.#retryAfterMs = 0;
    for (const [batch, timer] of waiting) {
      clearTimeout(timer);
      this.#send(batch);
    }
  }

  counters(): CaptureCounters {
    const now = performance.now();
    let oldest = now;
    for (const { sent_at_ms: at } of this.#sent) if (at > 0) oldest = Math.min(oldest, at);
    const failing = this.#failing;
    return {
      killed: this.#isKilled,
      queue_depth: this.#depth,
      queue_bytes: this.#heldBytes,
      errors: this.#errors,
      errors_by_cause: { ...this.#errorsBy },
      attempted: this.#attempted,
      captured: this.#captured,
      dropped: this.#dropped,
      dropped_by_cause: { ...this.#droppedBy },
      in_flight: this.#attempted - this.#captured - this.#dropped,
      turns: this.#turns,
      aborted: this.#aborted,
      by_provider: Object.fromEntries([...this.#byProvider].map(([name, count]) => [name, { ...count }])),
      failing: failing === null ? null : { cause: failing.cause, for_ms: now - failing.since_ms },
      oldest_append_ms: now - oldest,
      dropping: [...this.#droppedAt].flatMap(([cause, at]) => (now - at < DROP_RECENT_MS ? [cause] : [])),
    };
  }

  #sendPending(): void {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
    if (this.#pending.exchanges === 0) return;
    const isLarge = this.#pending.bytes >= CAPTURE_BATCH_BYTES;
    const most = isLarge ? CAPTURE_LARGE_BATCHES_UNDER_WAY : CAPTURE_BATCHES_UNDER_WAY;
    if (this.#underWay >= most || this.#retryAfterMs > 0) {
      this.#isDue = true;
      return;
    }
    const batch = this.#takePending();
    this.#sent.add(batch);
    this.#send(batch);
  }

  #takePending(): Batch {
    const batch = this.#pending;
    this.#pending = makeBatch();
    this.#isDue = false;
    return batch;
  }

  #send(batch: Batch): void {
    this.#underWay++;
    batch.sent_at_ms = performance.now();
    const queue_fill = Math.max(this.#places.share, this.#heldBytes / this.#options.max_queue_bytes);
    this.#writer.append(batch.content!, queue_fill).then(
      (setApart) => {
        this.#underWay--;
        // The batch was given up at the end of the process.
        if (!this.#sent.has(batch)) return;
        this.#retryAfterMs = 0;
        this.#failing = null;
        this.#finishBatch(batch, setApart);
        // Do not send a pending batch that is not due: each batch has a high fixed cost for both
        // threads.
        if (this.#isDue) this.#sendPending();
      },
      (thrown: unknown) => {
        this.#underWay--;
        if (!this.#sent.has(batch)) return;
        batch.sent_at_ms = 0;
        const error = toCatalogueError(thrown);
        const cause = causeOf(error);
        this.#countErrors(cause, 1);
        if (error.code === 'capture_failed' && !this.#isKilled) {
          if (this.#failing?.cause !== cause) this.#failing = { cause, since_ms: performance.now() };
          this.#retryLater(batch);
          this.#discourage(error);
        } else {
          // All other batches may have waited until this batch could be written.
          this.#retryAfterMs = 0;
          const isKilled = this.#isKilled || cause === 'writer_killed';
          this.#dropBatch(batch, isKilled ? 'writer_killed' : 'lost_with_writer');
          if (this.#isDue) this.#sendPending();
        }
      },
    );
  }

  /**
   * Counts a failed try for each call of `settle`, and rejects those that have seen SETTLE_TRIES of them. Only failures
   * of the storage count. The queue continues to retry the batches.
   */
  #discourage(error: CatalogueError): void {
    if (!(error instanceof CaptureFailure) || findPlaceWords(error.why) === null) return;
    const words = `Nothing is stored now: ${findPlaceWords(error.why)} (${error.message})`;
    for (const waiter of this.#waiters) {
      waiter.tries--;
      if (waiter.tries <= 0) waiter.reject(new CaptureFailure(error.why, words, { cause: error }));
    }
  }

  /**
   * Retries the batch later, because writing failed, for example because the disk is full.
   * Meanwhile other batches wait, and exchanges are dropped when the queue is full.
   */
  #retryLater(batch: Batch): void {
    this.#retryAfterMs = Math.min(Math.max(this.#retryAfterMs * 2, RETRY_FIRST_MS), RETRY_MAX_MS);
    const timer = setTimeout(() => {
      this.#retries.delete(batch);
      this.#send(batch);
    }, this.#retryAfterMs).unref();
    this.#retries.set(batch, timer);
  }

  #finishBatch(batch: Batch, setApart: readonly SetApart[]): void {
    for (const { cause, provider, is_turn, aborted } of setApart) {
      batch.exchanges--;
      if (aborted) batch.aborted--;
      const count = openCount(batch.counts, provider);
      count.captured--;
      if (is_turn) count.turns--;
      this.#countErrors(cause, 1);
      this.#drop(cause, 1);
    }
    this.#captured += batch.exchanges;
    this.#aborted += batch.aborted;
    for (const [provider, { captured, turns }] of batch.counts) {
      const count = openCount(this.#byProvider, provider);
      count.captured += captured;
      count.turns += turns;
      this.#turns += turns;
    }
    this.#leave(batch, setApart.length);
  }

  #dropBatch(batch: Batch, cause: DropCause): void {
    if (batch.exchanges > 0) this.#drop(cause, batch.exchanges);
    this.#leave(batch, 0);
  }

  #drop(cause: DropCause, exchanges: number): void {
    this.#dropped += exchanges;
    this.#droppedBy[cause] += exchanges;
    this.#droppedAt.set(cause, performance.now());
    this.#options.onDrop?.(cause, exchanges);
  }

  #countErrors(cause: FailureCause, count: number): void {
    this.#errors += count;
    this.#errorsBy[cause] += count;
  }

  /**
   * Returns the cause for which an exchange is dropped now: `writer_killed` if capture is stopped; the
   * writer's failure if writing fails now, unless the writer is only busy; otherwise the given cause.
   */
  #causeAtDoor(otherwise: 'queue_full' | 'bytes_full'): DropCause {
    if (this.#isKilled) return 'writer_killed';
    const cause = this.#failing?.cause;
    return cause === undefined || cause === 'writer_busy' ? otherwise : cause;
  }

  /**
   * Removes a batch and what it holds, and resolves the calls of `settle` for which no older exchange is left.
   * @param gone number of exchanges that were taken out of `batch.exchanges`, because they could not be stored
   */
  #leave(batch: Batch, gone: number): void {
    this.#sent.delete(batch);
    this.#depth -= batch.exchanges + gone;
    this.#places.give(batch.exchanges + gone);
    this.release(batch.bytes);
    // A retried batch may leave after younger batches. So only calls whose target is older than the oldest remaining
    // batch are resolved.
    let oldest = this.#pending.exchanges > 0 ? this.#pending.first : Number.POSITIVE_INFINITY;
    for (const { first } of this.#sent) oldest = Math.min(oldest, first);
    while (this.#waiters.length > 0 && this.#waiters[0]!.target < oldest) this.#waiters.shift()!.resolve();
  }
}

function causeOf(error: CatalogueError): FailureCause {
  return error instanceof CaptureFailure ? error.why : 'lost_with_writer';
}

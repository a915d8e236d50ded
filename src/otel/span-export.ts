/**
 * Sends captured turns to a collector as spans: reads stored exchanges from a saved position, one batch after the
 * other, and advances the position when the collector has accepted a batch. The capture database is the queue, so no
 * exchanges wait in memory. Runs in the exporting capture reader.
 *
 * A span is sent until the collector answers: spans that were sent but not acknowledged are sent again after a restart,
 * with the same ids. What is given up is counted: spans that the collector refuses or rejects, exchanges that cannot be
 * read, and the oldest exchanges when too many wait.
 */

import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { ExchangeRecord } from '../domain/exchange.ts';
import type { NormalTurn } from '../domain/turn.ts';
import type { OtlpEncoding } from './answers.ts';
import { Collector, type CollectorOptions } from './collector.ts';
import type { ExportProgress, GivenUpCause } from './export-progress.ts';
import { OTEL_EXPORT } from './limits.ts';
import { type ServerPlace, TurnSpans } from './turn-spans.ts';
import { type SpanSource, type WrittenSpan, writeSpansJson, writeSpansProtobuf } from './write-spans.ts';

/** The stored exchanges. */
export interface TurnSource {
  /**
   * Makes newly stored exchanges visible.
   * @returns the id of the last stored exchange; 0 if nothing is stored
   */
  refresh(): number;
  /** Ids and kinds of exchanges from an id on, ascending. Ids may be missing. */
  from(id: number): Iterable<{ id: number; kind: ExchangeRecord['kind'] }>;
  /** Reads an exchange, or its turn; null when it cannot be read. */
  record(id: number): ExchangeRecord | null;
  turn(id: number): NormalTurn | null;
}

export interface SpanExportOptions {
  collector: Omit<CollectorOptions, 'encoding'> & { encoding: OtlpEncoding };
  source: SpanSource;
  has_content: boolean;
  servers: readonly ServerPlace[];
  /** Where the position is saved. */
  position_path: string;
  /** Id of the last exchange at the start of the service. Without a saved position, the export begins after it. */
  after_id: number;
  /** Whether to give up the batch at the position, because it has ended this process repeatedly. */
  gives_up_first: boolean;
}

interface Position {
  version: 1;
  /** Identifies this database to collectors. */
  instance: string;
  id: number;
}

/** Exchanges of one request. */
interface Batch {
  spans: WrittenSpan[];
  /** Id of the last stored exchange that was read for the batch. */
  last_id: number;
  /** Number of turns with spans. */
  exchanges: number;
  /** Number of exchanges that could not be read. */
  missing: number;
}

export class SpanExport {
  readonly #options: SpanExportOptions;
  readonly #turns: TurnSource;
  readonly #tell: (progress: ExportProgress) => void;
  readonly #collector: Collector;
  readonly #spans: TurnSpans;
  readonly #instance: string;
  /** Aborted when the service stops. */
  readonly #stopping = new AbortController();
  #position: number;
  #lastId = 0;
  #failures = 0;
  #failing: string | null = null;
  #givesUpFirst: boolean;

  constructor(options: SpanExportOptions, turns: TurnSource, tell: (progress: ExportProgress) => void) {
    this.#options = options;
    this.#turns = turns;
    this.#tell = tell;
    this.#collector = new Collector(options.collector);
    this.#givesUpFirst = options.gives_up_first;
    const kept = readPosition(options.position_path);
    this.#instance = kept?.instance ?? randomBytes(8).toString('hex');
    // After a restore of a backup, the saved position may be beyond the last exchange.
    this.#position = Math.min(kept?.id ?? options.after_id, options.after_id);
    this.#spans = new TurnSpans({ ...options, instance: this.#instance });
  }

  /** Sends turns until `stop` is called. Then sends the remaining stored turns, until a batch fails. */
  async run(): Promise<void> {
    this.#keepPosition();
    this.#lookBack();
    for (;;) {
      const isLast = this.#stopping.signal.aborted;
      const isDone = await this.#sendAll(isLast);
      if (isLast) break;
      if (isDone) await this.#wait(OTEL_EXPORT.look_ms);
    }
    await this.#collector.close();
  }

  /** Stops the export. Turns that are already stored are still sent, unless the collector fails. */
  stop(): void {
    this.#stopping.abort();
  }

  /**
   * Sends all stored turns. Unless `isLast`, ends after the current batch when `stop` is called.
   * @returns false if sending failed. The function has then waited, and must be called again
   */
  async #sendAll(isLast: boolean): Promise<boolean> {
    this.#lastId = this.#turns.refresh();
    this.#leaveBehind();
    while (this.#position < this.#lastId) {
      const batch = await this.#read();
      if (this.#givesUpFirst) {
        this.#givesUpFirst = false;
        this.#advance(batch, { exchanges: 0, spans: 0, given_up: { unreadable: batch.exchanges } });
        continue;
      }
      if (!(await this.#send(batch))) return false;
      if (this.#stopping.signal.aborted && !isLast) return true;
    }
    this.#report({ exchanges: 0, spans: 0, given_up: {} });
    return true;
  }

  /** Gives up the oldest exchanges when more than `waiting_exchanges` wait. */
  #leaveBehind(): void {
    const waiting = this.#lastId - this.#position;
    if (waiting <= OTEL_EXPORT.waiting_exchanges) return;
    const left = waiting - OTEL_EXPORT.waiting_exchanges;
    this.#position += left;
    this.#keepPosition();
    this.#report({ exchanges: 0, spans: 0, given_up: { behind: left } });
  }

  async #read(): Promise<Batch> {
    const batch: Batch = { spans: [], last_id: this.#lastId, exchanges: 0, missing: 0 };
    let expected = this.#position + 1;
    let bytes = 0;
    for (const { id, kind } of this.#turns.from(expected)) {
      if (id > this.#lastId) break;
      batch.missing += id - expected;
      expected = id + 1;
      if (kind !== 'turn') continue;
      const record = this.#turns.record(id);
      if (record === null) batch.missing += 1;
      else {
        const spans = this.#spans.make(record, this.#turns.turn(id));
        batch.spans.push(...spans);
        batch.exchanges += 1;
        for (const span of spans) bytes += roughBytes(span);
      }
      if (batch.exchanges >= OTEL_EXPORT.batch_exchanges || bytes >= OTEL_EXPORT.batch_bytes) {
        batch.last_id = id;
        return batch;
      }
      // Let a stop take effect.
      await nextTurn();
    }
    batch.missing += this.#lastId + 1 - expected;
    return batch;
  }

  /**
   * Sends a batch, and advances the position.
   * @returns false if the batch must be sent again, now or after a restart
   */
  async #send(batch: Batch): Promise<boolean> {
    const missing: Partial<Record<GivenUpCause, number>> =
      batch.missing > 0 ? { unreadable: batch.missing } : {};
    if (batch.spans.length === 0) {
      this.#advance(batch, { exchanges: 0, spans: 0, given_up: missing });
      return true;
    }
    const { collector, source } = this.#options;
    const body = (collector.encoding === 'json' ? writeSpansJson : writeSpansProtobuf)(
      {
        ...source,
        resource: {
          ...source.resource,
          'service.instance.id': source.resource['service.instance.id'] ?? this.#instance,
        },
      },
      batch.spans,
    );
    const delivery = await this.#collector.send(body);
    const { exchanges } = batch;
    switch (delivery.type) {
      case 'taken': {
        const rejected = Math.min(delivery.rejected, batch.spans.length);
        this.#failing = null;
        this.#failures = 0;
        const given_up = rejected > 0 ? { ...missing, rejected } : missing;
        this.#advance(batch, { exchanges, spans: batch.spans.length - rejected, given_up });
        return true;
      }
      case 'refused':
        this.#failing = delivery.reason;
        this.#failures = 0;
        this.#advance(batch, {
          exchanges: 0,
          spans: 0,
          given_up: { ...missing, refused: batch.spans.length },
        });
        return true;
      case 'later': {
        this.#spans.undo();
        if (this.#stopping.signal.aborted) return false;
        this.#failing = delivery.reason;
        this.#report({ exchanges: 0, spans: 0, given_up: {} });
        const { first, last } = OTEL_EXPORT.retry_ms;
        const backoff_ms = Math.min(last, first * 2 ** this.#failures) * (0.5 + Math.random() / 2);
        this.#failures = Math.min(this.#failures + 1, 30);
        await this.#wait(Math.max(delivery.after_ms ?? 0, backoff_ms));
        return false;
      }
    }
  }

  /** Waits, or returns at once when the service stops. */
  async #wait(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }

  #advance({ last_id }: Batch, counts: Pick<ExportProgress, 'exchanges' | 'spans' | 'given_up'>): void {
    this.#spans.settle();
    this.#position = last_id;
    this.#keepPosition();
    this.#report(counts);
  }

  #report(counts: Pick<ExportProgress, 'exchanges' | 'spans' | 'given_up'>): void {
    this.#tell({ position: this.#position, last_id: this.#lastId, failing: this.#failing, ...counts });
  }

  #keepPosition(): void {
    const position: Position = { version: 1, instance: this.#instance, id: this.#position };
    const partial = `${this.#options.position_path}.new`;
    writeFileSync(partial, `${JSON.stringify(position)}\n`, { mode: 0o600 });
    renameSync(partial, this.#options.position_path);
  }

  /** Reads the turns before the position, because later requests may contain the results of their tool calls. */
  #lookBack(): void {
    if (this.#turns.refresh() < this.#position) return;
    for (const { id, kind } of this.#turns.from(Math.max(1, this.#position + 1 - OTEL_EXPORT.looked_back))) {
      if (id > this.#position) return;
      const record = kind === 'turn' ? this.#turns.record(id) : null;
      if (record !== null) this.#spans.remember(record, record.request.headers);
    }
  }
}

/** Reads the saved position; null without a readable position. */
function readPosition(path: string): Position | null {
  try {
    const kept = JSON.parse(readFileSync(path, 'utf8')) as Position;
    const isWhole =
      kept.version === 1 &&
      /^[\da-f]{16}$/.test(kept.instance) &&
      Number.isSafeInteger(kept.id) &&
      kept.id >= 0;
    return isWhole ? kept : null;
  } catch {
    return null;
  }
}

function roughBytes({ attributes, name }: WrittenSpan): number {
  let bytes = 300 + name.length;
  for (const [key, value] of Object.entries(attributes))
    bytes += key.length + 16 + (typeof value === 'string' ? value.length : 0);
  return bytes;
}

/**
 * Encodes a batch of exchanges as the blocks of one commit. Exchanges whose content cannot be stored are set apart; the
 * others are encoded without them. Capture process.
 */
import { findPlaceCause, type SetApart } from '../../domain/capture-cause.ts';
import type { CapturedExchange, WithheldCause } from '../../domain/exchange.ts';
import { CAPTURE_NEWEST } from '../../limits.ts';
import { BlockBuilder, type CutBlock, type RawStage, type WritePosition } from './block-builder.ts';
import type { EncodedExchange, ExchangeEncoder } from './exchange-encoder.ts';
import type { ExchangeFacts, FactsReader } from './exchange-facts.ts';
import { type NotedExchange, noteExchange } from './newest-exchanges.ts';
import type { Preparer } from './preparation.ts';
import { readBack } from './prepared-body.ts';
import { listWithheld } from './prepared-exchange.ts';
import { decodeMeta } from './record.ts';
import { describeSetApart } from './set-apart.ts';

/** Batches of at least this many exchanges are compressed fast, at the cost of space. */
const HURRIED_BATCH = 16;
/** Bodies of this many bytes are encoded before they are read for the index. */
const FACTS_BYTES = 4 << 20;

/** The methods of `RawFiles` that the encoder needs. */
interface RawSink extends RawStage {
  readonly isFull: boolean;
  write(): Promise<void>;
  finish(): Promise<void>;
}

/** A batch ready to be committed. Its raw blocks are already written to their files. */
export interface EncodedBatch {
  blocks: readonly CutBlock[];
  /** The id and the piece number at which the database continues after this batch. */
  next_id: number;
  next_piece: number;
  set_apart: SetApart[];
  /** The cause of each body that was not stored. */
  withheld: WithheldCause[];
  /** What the index needs of the exchanges (`ExchangeFacts`); empty if no facts reader was given. */
  facts: ExchangeFacts[];
  /** The last exchanges of the batch, at most CAPTURE_NEWEST.exchanges. */
  newest: NotedExchange[];
}

/** How to encode a batch. */
interface EncodingPace {
  /** Whether blocks are stored uncompressed, because there is no time to compress them. */
  is_pressed: boolean;
  /** Reads from the exchanges what the index needs; null if there is no time for that. */
  facts_reader: FactsReader | null;
}

export class BatchEncoder {
  readonly #preparer: Preparer;
  readonly #encoder: ExchangeEncoder;
  readonly #raw: RawSink;
  readonly #fault: ((exchange: CapturedExchange) => void) | undefined;

  /** @param fault tests pass a function that throws, so that an exchange cannot be stored */
  constructor(
    preparer: Preparer,
    encoder: ExchangeEncoder,
    raw: RawSink,
    fault?: (exchange: CapturedExchange) => void,
  ) {
    this.#preparer = preparer;
    this.#encoder = encoder;
    this.#raw = raw;
    this.#fault = fault;
  }

  /**
   * Encodes a batch, and writes its raw blocks to their files.
   * @param bodyBytes total length of the batch's bodies
   * @throws the storage's error; the caller must then abandon the staged blocks and forget the encoded exchanges
   */
  async encode(
    batch: readonly CapturedExchange[],
    bodyBytes: number,
    { is_pressed: isPressed, facts_reader: factsReader }: EncodingPace,
    position: WritePosition,
  ): Promise<EncodedBatch> {
    const facts = factsReader === null ? null : new BatchFacts(factsReader);
    const newest: NotedExchange[] = [];
    const isHurried = batch.length >= HURRIED_BATCH;
    // If there is time, each exchange gets its own block, for which its base can be the dictionary.
    const isEachAlone = !isHurried && !isPressed;
    const builder = new BlockBuilder(position, this.#raw, isHurried ? 'hurried' : 'steady', isPressed);
    const setApart: SetApart[] = [];
    const withheld: WithheldCause[] = [];
    // Total length of the bodies that are not encoded yet.
    let ahead = bodyBytes;
    for (const [at, exchange] of batch.entries()) {
      ahead -= exchange.request_body.length + exchange.response_body.length;
      try {
        this.#fault?.(exchange);
        const prepared = this.#preparer.prepare(exchange);
        const ready = prepared instanceof Promise ? await prepared : prepared;
        const id = builder.next_id;
        let encoded: EncodedExchange;
        if (isEachAlone) {
          const alone = this.#encoder.encodeAlone(ready, id);
          builder.addBlock(alone.block);
          encoded = alone;
        } else {
          encoded = this.#encoder.draft(ready, id, isPressed);
          builder.add(encoded.draft);
        }
        facts?.add(id, encoded);
        if (batch.length - at <= CAPTURE_NEWEST.exchanges) newest.push(noteExchange(id, ready));
        withheld.push(...listWithheld(ready));
      } catch (error) {
        if (findPlaceCause(error) !== null) throw error;
        setApart.push(describeSetApart(exchange, error));
        // Later exchanges must not refer to a partly encoded one.
        this.#encoder.forget();
      }
      if (isHurried) builder.closeFull(ahead);
      else builder.close();
      if (this.#raw.isFull) await this.#raw.write();
    }
    builder.close();
    facts?.readRest();
    await this.#raw.finish();
    const { blocks, next_id, next_piece } = builder;
    const read = facts?.read ?? [];
    return { blocks, next_id, next_piece, set_apart: setApart, withheld, facts: read, newest };
  }
}

/**
 * Reads what the index needs from the bodies while they are in memory. Later they would have to be decompressed.
 * Exchanges are first encoded and then read, many at once, because the processor is slower if it alternates between
 * encoding and reading for every exchange.
 */
class BatchFacts {
  readonly read: ExchangeFacts[] = [];
  readonly #reader: FactsReader;
  #waiting: { id: number; encoded: EncodedExchange }[] = [];
  #bytes = 0;

  constructor(reader: FactsReader) {
    this.#reader = reader;
  }

  /** Takes the next exchange. Its bodies must stay in memory until `readRest`. */
  add(id: number, encoded: EncodedExchange): void {
    this.#waiting.push({ id, encoded });
    this.#bytes += encoded.request.stored.length + encoded.response.stored.length;
    if (this.#bytes >= FACTS_BYTES) this.readRest();
  }

  readRest(): void {
    for (const { id, encoded } of this.#waiting) this.#readOne(id, encoded);
    this.#waiting = [];
    this.#bytes = 0;
  }

  #readOne(id: number, { meta, request, response, request_place }: EncodedExchange): void {
    try {
      const readBodies = () => ({
        request: readBack(request),
        response: readBack(response),
        request_place: request.has_files ? undefined : request_place,
      });
      this.read.push(this.#reader.read(decodeMeta(id, meta), readBodies));
    } catch {
      // The exchange is stored nevertheless, and the index reads it later.
    }
  }
}

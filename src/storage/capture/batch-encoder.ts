/**
 * Encodes a batch of exchanges as the blocks of one commit. Exchanges that cannot be stored because of their content
 * are set apart; the others continue without them. Capture process.
 */
import { findPlaceCause, type SetApart } from '../../domain/capture-cause.ts';
import type { CapturedExchange, WithheldCause } from '../../domain/exchange.ts';
import { BlockBuilder, type CutBlock, type RawStage, type WritePosition } from './block-builder.ts';
import type { EncodedExchange, ExchangeEncoder } from './exchange-encoder.ts';
import type { ExchangeFacts, FactsReader } from './exchange-facts.ts';
import type { Preparer } from './preparation.ts';
import { readBack } from './prepared-body.ts';
import { listWithheld } from './prepared-exchange.ts';
import { decodeMeta } from './record.ts';
import { describeSetApart } from './set-apart.ts';

/** From this many exchanges per batch on, speed is more important than size. */
const HURRIED_BATCH = 16;

/** The methods of `RawFiles` that the encoder needs. */
interface RawSink extends RawStage {
  readonly isFull: boolean;
  write(): Promise<void>;
  finish(): Promise<void>;
}

/** A batch ready to be committed; the kernel already has its raw-file blocks. */
export interface EncodedBatch {
  blocks: readonly CutBlock[];
  /** The id at which the database continues after this batch. */
  next_id: number;
  next_piece: number;
  set_apart: SetApart[];
  /** The cause of each body that was not stored. */
  withheld: WithheldCause[];
  /** Facts about the exchanges for the index; empty without a reader. */
  facts: ExchangeFacts[];
}

/** How to encode a batch. */
interface EncodingPace {
  /** Whether there is no time to compress. */
  is_pressed: boolean;
  /** Reads facts from the exchanges for the index; null if there is no time for that. */
  facts_reader: FactsReader | null;
}

export class BatchEncoder {
  readonly #preparer: Preparer;
  readonly #encoder: ExchangeEncoder;
  readonly #raw: RawSink;
  readonly #fault: ((exchange: CapturedExchange) => void) | undefined;

  /** @param fault for tests: throws to make an exchange impossible to store */
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
   * @param bodyBytes total length of the batch's bodies
   * @throws the storage's error; the caller must then abandon the staged blocks and forget the encoded exchanges
   */
  async encode(
    batch: readonly CapturedExchange[],
    bodyBytes: number,
    { is_pressed: isPressed, facts_reader: factsReader }: EncodingPace,
    position: WritePosition,
  ): Promise<EncodedBatch> {
    const facts: ExchangeFacts[] = [];
    const isHurried = batch.length >= HURRIED_BATCH;
    // If there is time, each exchange gets its own block, so that its base can be the dictionary.
    const isEachAlone = !isHurried && !isPressed;
    const builder = new BlockBuilder(position, this.#raw, isHurried ? 'hurried' : 'steady', isPressed);
    const setApart: SetApart[] = [];
    const withheld: WithheldCause[] = [];
    // Bytes of the bodies that are not encoded yet.
    let ahead = bodyBytes;
    for (const exchange of batch) {
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
        if (factsReader !== null) readFacts(factsReader, id, encoded, facts);
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
    await this.#raw.finish();
    const { blocks, next_id, next_piece } = builder;
    return { blocks, next_id, next_piece, set_apart: setApart, withheld, facts };
  }
}

/** Reads the bodies while they are in memory; later, the stored copy would have to be decompressed. */
function readFacts(
  reader: FactsReader,
  id: number,
  { meta, request, response, request_place }: EncodedExchange,
  facts: ExchangeFacts[],
): void {
  try {
    const readBodies = () => ({
      request: readBack(request),
      response: readBack(response),
      request_place: request.has_files ? undefined : request_place,
    });
    facts.push(reader.read(decodeMeta(id, meta), readBodies));
  } catch {
    // The exchange is stored anyway, and the index reads it later.
  }
}

/**
 * Makes of a batch of exchanges the blocks that one commit stores. It sets apart exchanges that cannot be stored because of their
 * own content; the others go on without them. Capture process.
 */
import { findPlaceCause, type SetApart } from '../../domain/capture-cause.ts';
import type { CapturedExchange, WithheldCause } from '../../domain/exchange.ts';
import { BlockBuilder, type CutBlock, type RawStage, type WritePosition } from './block-builder.ts';
import type { ExchangeEncoder } from './exchange-encoder.ts';
import type { Preparer } from './preparation.ts';
import { listWithheld } from './prepared-exchange.ts';
import { describeSetApart } from './set-apart.ts';

/** From this many exchanges at once on, speed counts more than size. */
const HURRIED_BATCH = 16;

/** What the encoder needs of the raw files; see `RawFiles`. */
export interface RawSink extends RawStage {
  readonly isFull: boolean;
  write(): Promise<void>;
  finish(): Promise<void>;
}

/** A batch that is ready to be committed: what it put into raw files is with the system. */
export interface EncodedBatch {
  blocks: readonly CutBlock[];
  /** Where the database goes on behind it. */
  next_id: number;
  next_piece: number;
  set_apart: SetApart[];
  /** Why bodies are not kept, one for each. */
  withheld: WithheldCause[];
}

export class BatchEncoder {
  readonly #preparer: Preparer;
  readonly #encoder: ExchangeEncoder;
  readonly #raw: RawSink;
  readonly #fault: ((exchange: CapturedExchange) => void) | undefined;

  /** @param fault for tests: throws when an exchange shall not be storable */
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
   * @param bodyBytes of the batch's bodies
   * @param isPressed there is no time to compress
   * @throws the storage's error; what is staged must then be abandoned, and what was encoded forgotten
   */
  async encode(
    batch: readonly CapturedExchange[],
    bodyBytes: number,
    isPressed: boolean,
    position: WritePosition,
  ): Promise<EncodedBatch> {
    const isHurried = batch.length >= HURRIED_BATCH;
    // While there is time, each exchange is packed with the one that it builds on, which mixed runs in one block would
    // not be.
    const isEachAlone = !isHurried && !isPressed;
    const builder = new BlockBuilder(position, this.#raw, isHurried ? 'hurried' : 'steady', isPressed);
    const setApart: SetApart[] = [];
    const withheld: WithheldCause[] = [];
    // Bytes of bodies that are still to come.
    let ahead = bodyBytes;
    for (const exchange of batch) {
      ahead -= exchange.request_body.length + exchange.response_body.length;
      try {
        this.#fault?.(exchange);
        const prepared = this.#preparer.prepare(exchange);
        const ready = prepared instanceof Promise ? await prepared : prepared;
        if (isEachAlone) builder.addBlock(this.#encoder.encodeAlone(ready, builder.next_id));
        else builder.add(this.#encoder.draft(ready, builder.next_id, isPressed));
        withheld.push(...listWithheld(ready));
      } catch (error) {
        if (findPlaceCause(error) !== null) throw error;
        setApart.push(describeSetApart(exchange, error));
        // What it left there half done must not be built on.
        this.#encoder.forget();
      }
      if (isHurried) builder.closeFull(ahead);
      else builder.close();
      if (this.#raw.isFull) await this.#raw.write();
    }
    builder.close();
    await this.#raw.finish();
    const { blocks, next_id, next_piece } = builder;
    return { blocks, next_id, next_piece, set_apart: setApart, withheld };
  }
}

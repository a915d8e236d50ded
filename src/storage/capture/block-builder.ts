/**
 * Collects the records of one batch into blocks. A block is either compressed and cut into pieces for the database,
 * or stored uncompressed and packed later. Capture process.
 */
import type { FileSealing } from '../lmdb/sealed-table.ts';
import { closeBlock, splitClosed } from './block-sealing.ts';
import {
  cutBlock,
  draftBlock,
  encodeBlock,
  type Pace,
  pointToRawBlock,
  type RecordDraft,
  sealParts,
} from './codec.ts';
import type { StagedBlock } from './raw-files.ts';

/** A block is full when its records reach this size or this number; under pressure, only the size counts. */
const BLOCK_BYTES = 64 << 10;
const BLOCK_EXCHANGES = 64;

/** A block in the form in which the database stores it. */
export interface CutBlock {
  /** Id of its first exchange. */
  key: number;
  value: Buffer;
  first_piece: number;
  pieces: Buffer[];
  /**
   * The number of the raw file in which the block waits to be packed, or 0 if it waits in the database. null: it is not
   * to be packed.
   */
  waits_in: number | null;
  /** The block's length, if it is to be packed later; otherwise 0. */
  bytes: number;
}

/** The next ids and numbers in the database, and the key that encrypts its blocks. */
export interface WritePosition {
  readonly next_id: number;
  readonly next_piece: number;
  /** null: blocks are not encrypted. */
  readonly sealing: FileSealing | null;
}

/** The methods of `RawFiles` that a builder needs. */
export interface RawStage {
  /**
   * Gathers a block for the next write to a raw file.
   * @returns null if the block is too large
   * @throws the storage's error
   */
  stage(parts: readonly Buffer[]): StagedBlock | null;
}

export class BlockBuilder {
  readonly blocks: CutBlock[] = [];
  readonly #stage: RawStage;
  readonly #sealing: FileSealing | null;
  readonly #pace: Pace;
  /** Whether full blocks are stored uncompressed. */
  readonly #isPressed: boolean;
  #nextId: number;
  #nextPiece: number;
  #open: RecordDraft[] = [];
  #openBytes = 0;

  /** @param isPressed true: full blocks are stored uncompressed, and packed later */
  constructor(position: WritePosition, stage: RawStage, pace: Pace, isPressed: boolean) {
    this.#stage = stage;
    this.#sealing = position.sealing;
    this.#pace = pace;
    this.#isPressed = isPressed;
    this.#nextId = position.next_id;
    this.#nextPiece = position.next_piece;
  }

  /** The id of the next record. */
  get next_id(): number {
    return this.#nextId;
  }

  get next_piece(): number {
    return this.#nextPiece;
  }

  /** Adds a record to the open block. */
  add(draft: RecordDraft): void {
    this.#open.push(draft);
    this.#openBytes += draft.bytes;
    this.#nextId++;
  }

  /** Adds a finished block of one record. No block may be open. */
  addBlock(block: Buffer): void {
    this.#cut(block, this.#nextId);
    this.#nextId++;
  }

  /**
   * Closes the open block if it is full.
   * @param ahead total length of the batch's bodies that are not added yet
   * @throws the storage's error
   */
  closeFull(ahead: number): void {
    // If the bytes ahead are too few for a raw block, they are added to the open one. In a separate block they would be
    // compressed at once.
    const isFull = this.#isPressed
      ? this.#openBytes >= BLOCK_BYTES && ahead >= BLOCK_BYTES
      : this.#openBytes >= BLOCK_BYTES || this.#open.length >= BLOCK_EXCHANGES;
    if (isFull) this.close();
  }

  /** Closes the open block. @throws the storage's error */
  close(): void {
    if (this.#open.length === 0) return;
    const key = this.#nextId - this.#open.length;
    if (this.#isPressed && this.#openBytes >= BLOCK_BYTES) this.#putOff(this.#open, key);
    else this.#cut(encodeBlock(this.#open, null, this.#pace), key);
    this.#open = [];
    this.#openBytes = 0;
  }

  #cut(block: Buffer, key: number): void {
    const { value, pieces } = cutBlock(closeBlock(block, key, this.#sealing), this.#nextPiece);
    this.blocks.push({ key, value, first_piece: this.#nextPiece, pieces, waits_in: null, bytes: 0 });
    this.#nextPiece += pieces.length;
  }

  /** Stores the block uncompressed in a raw file, or in the database if it is too large for a raw file. */
  #putOff(records: readonly RecordDraft[], key: number): void {
    const closed =
      this.#sealing === null ? null : closeBlock(encodeBlock(records, null, 'none'), key, this.#sealing);
    const staged = this.#stage.stage(closed === null ? draftBlock(records) : splitClosed(closed));
    if (staged !== null && closed === null) sealParts(staged.memory);
    const value =
      staged === null
        ? (closed ?? encodeBlock(records, null, 'none'))
        : pointToRawBlock(records.length, staged.place);
    this.blocks.push({
      key,
      value,
      first_piece: this.#nextPiece,
      pieces: [],
      waits_in: staged?.place.file ?? 0,
      bytes: staged === null ? value.length : countBytes(staged.place.pieces),
    });
  }
}

function countBytes(pieces: readonly number[]): number {
  return pieces.reduce((sum, bytes) => sum + bytes, 0);
}

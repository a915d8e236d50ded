/**
 * Gathers the records of one batch into blocks: compressed and cut into pieces for the database, or as they are, to be
 * packed later. Capture process.
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

/** A block is closed when its records come to so many bytes, or so many exchanges. */
const BLOCK_BYTES = 64 << 10;
const BLOCK_EXCHANGES = 64;

/** A block as it goes into the database. */
export interface CutBlock {
  /** Id of its first exchange. */
  key: number;
  value: Buffer;
  first_piece: number;
  pieces: Buffer[];
  /** When it is to be packed later: the raw file that it stands in, 0 for the database itself. */
  waits_in: number | null;
  /** Of the block, when it is to be packed later. */
  bytes: number;
}

/** Where the database goes on, and what seals its blocks. */
export interface WritePosition {
  readonly next_id: number;
  readonly next_piece: number;
  /** null: blocks stand as they are. */
  readonly sealing: FileSealing | null;
}

/** What a builder needs of the raw files. */
export interface RawStage {
  /** @returns null for a block that is too large. @throws the storage's error */
  stage(parts: readonly Buffer[]): StagedBlock | null;
}

export class BlockBuilder {
  readonly blocks: CutBlock[] = [];
  readonly #stage: RawStage;
  readonly #sealing: FileSealing | null;
  readonly #pace: Pace;
  /** Full blocks are not compressed. */
  readonly #isPressed: boolean;
  #nextId: number;
  #nextPiece: number;
  #open: RecordDraft[] = [];
  #openBytes = 0;

  /** @param isPressed full blocks are staged as they are */
  constructor(position: WritePosition, stage: RawStage, pace: Pace, isPressed: boolean) {
    this.#stage = stage;
    this.#sealing = position.sealing;
    this.#pace = pace;
    this.#isPressed = isPressed;
    this.#nextId = position.next_id;
    this.#nextPiece = position.next_piece;
  }

  /** The id of the record that comes next. */
  get next_id(): number {
    return this.#nextId;
  }

  get next_piece(): number {
    return this.#nextPiece;
  }

  /** A record for the open block. */
  add(draft: RecordDraft): void {
    this.#open.push(draft);
    this.#openBytes += draft.bytes;
    this.#nextId++;
  }

  /** A block of one record, with none open. */
  addBlock(block: Buffer): void {
    this.#cut(block, this.#nextId);
    this.#nextId++;
  }

  /**
   * Closes the open block when it is full.
   * @param ahead bytes of bodies that are still to come
   * @throws the storage's error
   */
  closeFull(ahead: number): void {
    // A rest too small for a raw block would have to be compressed at once: it goes with the block before it.
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

  /** As it is, into a raw file; into the database when it is too large for one. */
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

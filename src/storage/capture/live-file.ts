/**
 * The capture database that is written to: opened, given up after a failure, opened anew, and noticed when somebody takes it
 * away. It alone knows LMDB's environment; the others get what they need of it. Capture process.
 */
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { refuseWithoutRoom } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import type { FileSealing } from '../lmdb/sealed-table.ts';
import type { CutBlock, WritePosition } from './block-builder.ts';
import { BlockReader } from './blocks.ts';
import { ExchangeIndex } from './exchange-index.ts';
import {
  appendRow,
  type CaptureEnv,
  ensureCaptureFile,
  noteRunHeaders,
  openCaptureEnv,
  rawFolder,
  syncEnv,
} from './layout.ts';
import { encodeWaiting, listWaiting, repackBlock, type WaitingBlock } from './repacking.ts';

/** Memory for what the index reads. */
const INDEX_CACHE_BYTES = 16 << 20;

/** The index of the live file, for the code that fills it. */
export type WriterIndex = Pick<
  ExchangeIndex,
  'indexed' | 'pending' | 'indexNext' | 'store' | 'listCarriedTurns'
>;

/** A row that the index of a new file begins with. */
export interface CarriedTurn {
  key: number;
  value: Buffer;
}

/** Blocks to be stored, and where the file goes on behind them. */
export interface BlocksToAppend {
  readonly blocks: readonly CutBlock[];
  readonly next_id: number;
  readonly next_piece: number;
}

/** The file as it was opened. */
interface OpenedFile {
  env: CaptureEnv;
  index: ExchangeIndex;
  /** Which file the path led to. */
  id: string;
  next_id: number;
  next_piece: number;
}

export class LiveFile implements WritePosition {
  readonly path: string;
  readonly #dataKey: Uint8Array | null;
  readonly #runHeaders: readonly string[] | null;
  #file: OpenedFile;
  #isOpen = true;
  #isGivenUp = false;

  /**
   * Opens the file, which is there.
   * @param lastSealedId ids go on behind it
   * @param runHeaders headers that name runs, of those who read the file; null: as they stand in it
   * @throws {import('./layout.ts').CaptureFileError}
   */
  constructor(
    path: string,
    dataKey: Uint8Array | null,
    lastSealedId: number,
    runHeaders: readonly string[] | null = null,
  ) {
    this.path = path;
    this.#dataKey = dataKey;
    this.#runHeaders = runHeaders;
    this.#file = openFile(path, dataKey, lastSealedId, runHeaders);
  }

  get index(): WriterIndex {
    return this.#file.index;
  }

  get sealing(): FileSealing | null {
    return this.#file.env.sealing;
  }

  get next_id(): number {
    return this.#file.next_id;
  }

  get next_piece(): number {
    return this.#file.next_piece;
  }

  /** Of the file alone; 0 when there is none. */
  get bytes(): number {
    return statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** It has to be opened anew before it is used. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** The file was removed or replaced: what is written to the open one, nobody would ever find. */
  get isGone(): boolean {
    return readFileId(this.path) !== this.#file.id;
  }

  /** Nothing is done with the open file any more, since it may be in any state. */
  giveUp(): void {
    this.#isGivenUp = true;
  }

  /**
   * Stores blocks behind all others.
   * @throws the storage's error; the file then is as it was, and to be given up
   */
  append({ blocks, next_id, next_piece }: BlocksToAppend): void {
    const { env } = this.#file;
    let bytes = 0;
    for (const { value, pieces } of blocks) {
      bytes += value.length;
      for (const piece of pieces) bytes += piece.length;
    }
    refuseWithoutRoom(this.path, bytes);
    env.root.transactionSync(() => {
      for (const block of blocks) {
        appendRow(env.blocks, block.key, block.value);
        if (block.waits_in !== null) appendRow(env.waiting!, block.key, encodeWaiting(block.waits_in));
        for (const [i, piece] of block.pieces.entries()) appendRow(env.pieces, block.first_piece + i, piece);
      }
    });
    this.#file.next_id = next_id;
    this.#file.next_piece = next_piece;
  }

  /** The blocks that wait to be packed. */
  listWaiting(): WaitingBlock[] {
    return listWaiting(this.#file.env);
  }

  /**
   * Packs a block that was stored raw.
   * @returns false for one that cannot be read: it stays as it is
   * @throws the storage's error; the block then is as it was
   */
  pack(key: number): boolean {
    const file = this.#file;
    refuseWithoutRoom(this.path, 0);
    const pieces = repackBlock(file.env, rawFolder(this.path), key, file.next_piece);
    if (pieces === null) return false;
    file.next_piece += pieces;
    return true;
  }

  /** The first id that is in it, or will be. */
  readFirstId(): number {
    return new BlockReader(this.#file.env, this.path, INDEX_CACHE_BYTES).readFirstId();
  }

  /** When its first exchange began, milliseconds since the epoch; null: it holds none. @throws {import('./layout.ts').CaptureFileError} */
  readFirstStart(): number | null {
    const blocks = new BlockReader(this.#file.env, this.path, INDEX_CACHE_BYTES);
    const meta = blocks.readMeta(blocks.readFirstId());
    return meta === undefined ? null : Date.parse(meta.record.started_at);
  }

  /** fsync of what was committed. @throws the storage's error */
  sync(): Promise<void> {
    return syncEnv(this.#file.env);
  }

  /**
   * Opens the file anew, making it when it is gone.
   * @param turns that the index of a new file begins with
   * @throws the storage's error; it is given up until this succeeds
   */
  async reopen(lastSealedId: number, turns: CarriedTurn[] = []): Promise<void> {
    this.#isGivenUp = true;
    await this.close();
    makeFolder(dirname(this.path));
    const firstId = Math.max(lastSealedId + 1, this.#file.next_id);
    await ensureCaptureFile(this.path, firstId, turns, this.#dataKey);
    this.#file = openFile(this.path, this.#dataKey, lastSealedId, this.#runHeaders);
    this.#isOpen = true;
    this.#isGivenUp = false;
  }

  /** LMDB's close is to be called once only. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#file.env.root.close();
  }
}

function openFile(
  path: string,
  dataKey: Uint8Array | null,
  lastSealedId: number,
  runHeaders: readonly string[] | null,
): OpenedFile {
  const env = openCaptureEnv(path, 'write', dataKey);
  if (runHeaders !== null) noteRunHeaders(env, runHeaders);
  const id = readFileId(path);
  const reader = new BlockReader(env, path, INDEX_CACHE_BYTES);
  return {
    env,
    id,
    index: new ExchangeIndex(env, reader, true),
    next_id: Math.max(reader.readLastId(), lastSealedId) + 1,
    next_piece: reader.readNextPiece(),
  };
}

/** Tells a file from another one at the same path; '' when there is none. */
function readFileId(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.dev}:${stat.ino}`;
}

/**
 * The live capture database: opens it, closes it after a failure, reopens it, and notices its removal. No other file of
 * the writing process opens or closes the LMDB environment of the live database. Capture process.
 */
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { refuseWithoutRoom } from '../../std/file-place.ts';
import { makeFolder } from '../../std/folder.ts';
import type { FileSealing } from '../lmdb/sealed-table.ts';
import { listReads, type OpenSnapshot } from '../lmdb/snapshots.ts';
import type { CutBlock, WritePosition } from './block-builder.ts';
import { BlockReader } from './blocks.ts';
import type { EraseOrder } from './erase-order.ts';
import type { ExchangeFacts } from './exchange-facts.ts';
import { ExchangeIndex, type TellIndexed } from './exchange-index.ts';
import { ERASURES, FileErasure, listAttachments, readErasures } from './file-erasure.ts';
import {
  appendRow,
  type CaptureEnv,
  closeEnv,
  ensureCaptureFile,
  measurePages,
  noteRunHeaders,
  openCaptureEnv,
  rawFolder,
} from './layout.ts';
import { NewestExchanges, type NotedExchange, removeNewest } from './newest-exchanges.ts';
import { encodeWaiting, listWaiting, repackBlock, type WaitingBlock } from './repacking.ts';
import type { DecodeExchange } from './stored-copy.ts';

/** Maximum memory for blocks and bodies that the index reads. */
const INDEX_CACHE_BYTES = 16 << 20;

/**
 * Minimum interval of index writes under load, in milliseconds. After a pause, INDEX_WRITES_AT_ONCE appends write their
 * index rows at once. Each index write costs extra pages, so under load several appends share one write. `tidySome`
 * writes the remaining rows.
 */
const INDEX_WRITE_MS = 100;
const INDEX_WRITES_AT_ONCE = 10;

/** The part of the index that the writer uses. */
type WriterIndex = Pick<
  ExchangeIndex,
  | 'first_id'
  | 'indexed'
  | 'stored'
  | 'pending'
  | 'isFull'
  | 'facts_reader'
  | 'indexNext'
  | 'store'
  | 'listCarriedTurns'
  | 'readAgain'
  | 'readSummary'
  | 'forgetTurns'
  | 'forgetEarly'
>;

/** A row for the index of a new file. */
export interface CarriedTurn {
  key: number;
  value: Buffer;
}

/** Blocks to store, and what is stored with them. */
interface BlocksToAppend {
  readonly blocks: readonly CutBlock[];
  /** The id of the first exchange after these blocks. */
  readonly next_id: number;
  /** The number of the first piece after these blocks. */
  readonly next_piece: number;
  /** The facts of the exchanges, in id order; empty if there was no time to read them. */
  readonly facts: readonly ExchangeFacts[];
  /** The last exchanges, at most CAPTURE_NEWEST.exchanges. */
  readonly newest: readonly NotedExchange[];
}

/** The file as it was opened. */
interface OpenedFile {
  env: CaptureEnv;
  index: ExchangeIndex;
  /** Identifies the file at the path when it was opened. */
  id: string;
  next_id: number;
  next_piece: number;
}

export class LiveFile implements WritePosition {
  readonly path: string;
  readonly #dataKey: Uint8Array | null;
  readonly #runHeaders: readonly string[] | null;
  readonly #decode: DecodeExchange | null;
  readonly #tell: TellIndexed | null;
  /** How many index writes were allowed at `#indexWritesAt`. */
  #indexWrites = INDEX_WRITES_AT_ONCE;
  #indexWritesAt = 0;
  readonly #newest = new NewestExchanges();
  readonly #isSealing: () => boolean;
  /**
   * While a sealed file is replaced by a new one: the last exchange that lists read from the index of the old one.
   * Otherwise null.
   */
  #leftListed: number | null = null;
  #file: OpenedFile;
  #isOpen = true;
  #isGivenUp = false;

  /**
   * Opens the file, which must exist.
   * @param lastSealedId last id of the sealed files
   * @param runHeaders the operator's headers that name runs; null: those recorded in the file
   * @param decode decodes exchanges while they are stored; null: they are only indexed later
   * @param tell called for each exchange that is indexed
   * @param isSealing whether an earlier file is being sealed: until the index of that file is complete, lists read
   * nothing from the index of this file
   * @throws {import('./layout.ts').CaptureFileError}
   */
  constructor(
    path: string,
    dataKey: Uint8Array | null,
    lastSealedId: number,
    runHeaders: readonly string[] | null = null,
    decode: DecodeExchange | null = null,
    tell: TellIndexed | null = null,
    isSealing: () => boolean = () => false,
  ) {
    this.path = path;
    this.#isSealing = isSealing;
    this.#decode = decode;
    this.#tell = tell;
    this.#dataKey = dataKey;
    this.#runHeaders = runHeaders;
    this.#file = openFile(path, dataKey, lastSealedId, runHeaders, decode, tell);
    this.#newest.load(this.#file.env, this.#file.next_id - 1);
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

  /** The size of the database file; 0 if it does not exist. */
  get bytes(): number {
    return statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Measures the size of the file in LMDB's own count, and how much of it is unused. The file must be open. */
  measurePages(): ReturnType<typeof measurePages> {
    return measurePages(this.#file.env);
  }

  /** Number of bytes in unused pages; 0 while the file is not open, or must be reopened. */
  get unused_bytes(): number {
    return this.#isOpen && !this.#isGivenUp ? this.measurePages().unused_bytes : 0;
  }

  /** Whether the file must be reopened before it is used. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** Whether the file was removed or replaced. Writes to the open file would then be lost. */
  get isGone(): boolean {
    return readFileId(this.path) !== this.#file.id;
  }

  /** Stops using the open file, whose state is unknown. */
  giveUp(): void {
    this.#isGivenUp = true;
  }

  /**
   * Appends blocks, with their index rows.
   * @throws the storage's error; then the file is unchanged, and the caller must give the file up
   */
  append({ blocks, next_id, next_piece, facts, newest }: BlocksToAppend): void {
    const { env } = this.#file;
    let bytes = 0;
    for (const { value, pieces } of blocks) {
      bytes += value.length;
      for (const piece of pieces) bytes += piece.length;
    }
    refuseWithoutRoom(this.path, bytes);
    const { index } = this.#file;
    const earlyWrite = facts.length === 0 ? null : index.add(facts);
    const indexWrite = facts.length === 0 ? null : this.#prepareIndex();
    const listedTo = this.#findListed(indexWrite === null ? index.stored : index.indexed, next_id - 1);
    const newestWrite = this.#newest.prepareWrite(newest, listedTo);
    env.root.transactionSync(() => {
      indexWrite?.run();
      earlyWrite?.run();
      newestWrite?.run(env);
      for (const block of blocks) {
        appendRow(env.blocks, block.key, block.value);
        if (block.waits_in !== null) appendRow(env.waiting!, block.key, encodeWaiting(block.waits_in));
        for (const [i, piece] of block.pieces.entries()) appendRow(env.pieces, block.first_piece + i, piece);
      }
    });
    indexWrite?.settle();
    earlyWrite?.settle();
    newestWrite?.settle();
    this.#file.next_id = next_id;
    this.#file.next_piece = next_piece;
  }

  /** Prepares the index rows to write with the exchanges; null: a later write stores them. */
  #prepareIndex(): ReturnType<ExchangeIndex['prepareWrite']> {
    const { index } = this.#file;
    const now = performance.now();
    const allowed = this.#indexWrites + (now - this.#indexWritesAt) / INDEX_WRITE_MS;
    if (allowed < 1) return null;
    this.#indexWrites = Math.min(INDEX_WRITES_AT_ONCE, allowed) - 1;
    this.#indexWritesAt = now;
    return index.prepareWrite();
  }

  /**
   * Finds the id of the last exchange that lists read from the index: 0 while an earlier file is being sealed; null if
   * the index has all exchanges, or will have them after the next write.
   * @param stored the last exchange in the stored index
   */
  #findListed(stored: number, lastId: number): number | null {
    if (this.#isSealing()) return 0;
    const isComplete = this.#newest.is_written ? stored >= lastId : this.#file.index.indexed >= lastId;
    return isComplete ? null : stored;
  }

  /**
   * Updates what lists read about exchanges that the index lacks.
   * @param isLast false: a change may wait for the next call
   * @returns whether there was something to write
   * @throws the storage's error; the next call then writes it
   */
  tellNewest(isLast: boolean): boolean {
    const { env, index, next_id } = this.#file;
    const listedTo = this.#findListed(index.stored, next_id - 1);
    const write = this.#newest.prepareWrite([], listedTo, isLast);
    if (write === null) return false;
    env.root.transactionSync(() => write.run(env));
    write.settle();
    return true;
  }

  /**
   * Removes what lists read about the newest exchanges, because the next file will have it. Call it before the file is
   * sealed.
   */
  leaveNewest(): void {
    const { env, index } = this.#file;
    this.#leftListed = this.#isSealing() ? 0 : index.stored;
    if (this.#newest.is_written) env.root.transactionSync(() => removeNewest(env));
  }

  /** Lists the blocks that are not packed yet. */
  listWaiting(): WaitingBlock[] {
    return listWaiting(this.#file.env);
  }

  /**
   * Packs a block that was stored raw.
   * @returns false if the block is not readable: it stays unchanged
   * @throws the storage's error; then the block is unchanged
   */
  pack(key: number): boolean {
    const file = this.#file;
    refuseWithoutRoom(this.path, 0);
    const pieces = repackBlock(file.env, rawFolder(this.path), key, file.next_piece);
    if (pieces === null) return false;
    file.next_piece += pieces;
    return true;
  }

  /**
   * Prepares an erasure of this file. The erasure must not be used after the file was reopened.
   * @param erased ids to erase, of all files
   */
  openErasure(erased: ReadonlySet<number>, marks: EraseOrder['marks']): FileErasure {
    this.#newest.forget(erased);
    return new FileErasure(this.#file.env, this.path, erased, marks);
  }

  /**
   * Erases some more exchanges of an erasure.
   * @returns false if none was left
   * @throws the storage's error; then the caller must give the file up
   */
  eraseSome(erasure: FileErasure): boolean {
    const file = this.#file;
    refuseWithoutRoom(this.path, 0);
    file.index.store();
    const next = erasure.eraseSome(file.next_piece);
    if (next === null) return false;
    file.next_piece = next;
    file.index.forgetRows();
    return true;
  }

  /**
   * Counts a completed erasure of exchanges in this file or in others. Readers that follow the file then begin again.
   */
  countErasure(): void {
    const { env } = this.#file;
    env.root.transactionSync(() => env.meta.putSync(ERASURES, Buffer.from(String(readErasures(env) + 1))));
  }

  /** Lists those of the wanted attachments that the bodies of an exchange contain. @throws CaptureFileError */
  listAttachments(id: number, wanted: ReadonlySet<string>): string[] {
    return listAttachments(new BlockReader(this.#file.env, this.path, INDEX_CACHE_BYTES), id, wanted);
  }

  /** Lists the read transactions of all processes. */
  listReads(): OpenSnapshot[] {
    const { root } = this.#file.env;
    root.readerCheck();
    return listReads(root);
  }

  /** Reads the first id that the file contains or will contain. */
  readFirstId(): number {
    return new BlockReader(this.#file.env, this.path, INDEX_CACHE_BYTES).readFirstId();
  }

  /**
   * Start time of the file's first exchange, in milliseconds since the epoch; null if the file is empty.
   * @throws {import('./layout.ts').CaptureFileError}
   */
  readFirstStart(): number | null {
    const blocks = new BlockReader(this.#file.env, this.path, INDEX_CACHE_BYTES);
    const meta = blocks.readMeta(blocks.readFirstId());
    return meta === undefined ? null : Date.parse(meta.record.started_at);
  }

  /**
   * Makes committed data survive a power failure. More may be committed meanwhile.
   * @param syncOthers syncs the files outside the database to which committed blocks refer
   * @throws the storage's error, and what `syncOthers` throws
   */
  sync(syncOthers: () => Promise<void>): Promise<void> {
    return this.#file.env.checkpoints!.write(syncOthers);
  }

  /**
   * Reopens the file, or creates it if it was removed.
   * @param turns rows for the index of a new file
   * @throws the storage's error; the file stays given up until a call succeeds
   */
  async reopen(lastSealedId: number, turns: CarriedTurn[] = []): Promise<void> {
    this.#isGivenUp = true;
    if (this.#leftListed === null && this.isGone) this.#newest.clear();
    await this.close();
    makeFolder(dirname(this.path));
    const firstId = Math.max(lastSealedId + 1, this.#file.next_id);
    await ensureCaptureFile(this.path, firstId, turns, this.#dataKey);
    this.#file = openFile(this.path, this.#dataKey, lastSealedId, this.#runHeaders, this.#decode, this.#tell);
    this.#isOpen = true;
    this.#continueNewest();
    this.#isGivenUp = false;
  }

  /** Continues what lists read about the newest exchanges after the file was opened again. */
  #continueNewest(): void {
    const { env, next_id } = this.#file;
    const left = this.#leftListed;
    this.#leftListed = null;
    this.#newest.beginFile(env, next_id - 1);
    if (left === null) return;
    const write = this.#newest.prepareWrite([], left);
    if (write === null) return;
    env.root.transactionSync(() => write.run(env));
    write.settle();
  }

  /** Closes the file if it is open; LMDB's close must be called only once. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await closeEnv(this.#file.env);
  }
}

function openFile(
  path: string,
  dataKey: Uint8Array | null,
  lastSealedId: number,
  runHeaders: readonly string[] | null,
  decode: DecodeExchange | null,
  tell: TellIndexed | null,
): OpenedFile {
  const env = openCaptureEnv(path, 'write', dataKey);
  if (runHeaders !== null) noteRunHeaders(env, runHeaders);
  const id = readFileId(path);
  const reader = new BlockReader(env, path, INDEX_CACHE_BYTES);
  return {
    env,
    id,
    index: new ExchangeIndex(env, reader, decode, tell),
    next_id: Math.max(reader.readLastId(), lastSealedId) + 1,
    next_piece: reader.readNextPiece(),
  };
}

/** Distinguishes a file from another one at the same path; '' if no file exists. */
function readFileId(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.dev}:${stat.ino}`;
}

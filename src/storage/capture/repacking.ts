/**
 * Packs blocks that were stored uncompressed because exchanges arrived faster than they could be compressed. Readers
 * see a block in either form, never in an intermediate one. Capture process, command line.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import { SealError } from '../../std/data-key.ts';
import { removeCheckpoint } from '../lmdb/checkpoint.ts';
import { closeBlock, openBlock } from './block-sealing.ts';
import { BlockReader } from './blocks.ts';
import {
  cutBlock,
  decodeBlock,
  encodeBlock,
  isInPieces,
  isRawBlock,
  readBlockHead,
  readRawPlace,
} from './codec.ts';
import { appendRow, type CaptureEnv, closeEnv, openCaptureEnv, syncEnv } from './layout.ts';
import { RawFileGone, readRawBlock } from './raw-files.ts';

/** A block that was stored uncompressed. */
export interface WaitingBlock {
  /** Id of its first exchange. */
  key: number;
  /** The raw file that contains it; 0: the database. */
  file: number;
  bytes: number;
}

/** Lists the blocks that wait to be packed, in id order, including those that a killed writer left. */
export function listWaiting(env: CaptureEnv): WaitingBlock[] {
  if (env.waiting === null) return [];
  const blocks: WaitingBlock[] = [];
  for (const { key, value } of env.waiting.getRange({ snapshot: false })) {
    blocks.push({ key, file: value.readUInt32LE(0), bytes: countRawBytes(env.blocks.get(key)) });
  }
  return blocks;
}

/** Returns the length of an uncompressed block; 0 if it does not exist or is damaged. */
function countRawBytes(stored: Buffer | undefined): number {
  if (stored === undefined) return 0;
  try {
    const place = readRawPlace(stored);
    return place === null ? stored.length : place.pieces.reduce((sum, bytes) => sum + bytes, 0);
  } catch (error) {
    // The block is damaged, which is reported when it is read.
    if (error instanceof RangeError) return 0;
    throw error;
  }
}

/** Encodes a row of `waiting`. */
export function encodeWaiting(file: number): Buffer {
  const value = Buffer.allocUnsafe(4);
  value.writeUInt32LE(file);
  return value;
}

/**
 * Compresses a block that is in the database or in a raw file, and stores it in the database.
 * @param rawFolder folder of the raw files
 * @param nextPiece number of the next free piece
 * @returns number of pieces used, 0 also if there was nothing to do; null if the block is unreadable, and stays
 * unchanged
 * @throws the storage's error; the block is then unchanged
 */
export function repackBlock(
  env: CaptureEnv,
  rawFolder: string,
  key: number,
  nextPiece: number,
): number | null {
  const stored = env.blocks.get(key);
  const place = stored === undefined ? null : readRawPlace(stored);
  let records: { parts: Buffer[]; bytes: number }[];
  try {
    const closed = place === null ? stored : readRawBlock(rawFolder, place);
    const raw = closed === undefined || isInPieces(closed) ? undefined : openBlock(closed, key, env.sealing);
    if (raw === undefined || (place === null && !isRawBlock(raw))) {
      env.waiting?.removeSync(key);
      return 0;
    }
    records = decodeBlock(readBlockHead(raw), null).map((record) => ({
      parts: [record],
      bytes: record.length,
    }));
  } catch (error) {
    if (error instanceof RawFileGone || error instanceof RangeError || error instanceof SealError)
      return null;
    throw error;
  }
  const { value, pieces } = cutBlock(
    closeBlock(encodeBlock(records, null, 'steady'), key, env.sealing),
    nextPiece,
  );
  env.root.transactionSync(() => {
    for (const [at, piece] of pieces.entries()) appendRow(env.pieces, nextPiece + at, piece);
    env.blocks.putSync(key, value);
    env.waiting?.removeSync(key);
  });
  return pieces.length;
}

/** Maximum memory for finding the number of the next piece. */
const READER_CACHE_BYTES = 1 << 20;
/** Longest time of packing between two pauses. */
const SLICE_MS = 20;

/**
 * Packs the raw blocks of a file that has no writer: a file that is being sealed, or a copy.
 * @param folder folder of the raw files
 * @param release called with the raw file of each packed block when all packed blocks are on disk
 * @param rest called about every 20 ms with the time since its last call, ms; what it throws ends the packing
 * @returns number of unreadable blocks, which stay unchanged
 * @throws the storage's error
 */
export async function repackAll(
  path: string,
  folder: string,
  release: (files: readonly number[]) => void = () => {},
  dataKey: Uint8Array | null = null,
  rest: (tookMs: number) => Promise<void> = () => nextTick(),
): Promise<number> {
  const env = openCaptureEnv(path, 'write', dataKey);
  try {
    let nextPiece = new BlockReader(env, path, READER_CACHE_BYTES).readNextPiece();
    const packed: number[] = [];
    let unread = 0;
    let start = performance.now();
    try {
      for (const { key, file } of listWaiting(env)) {
        const pieces = repackBlock(env, folder, key, nextPiece);
        if (pieces === null) unread++;
        else {
          nextPiece += pieces;
          packed.push(file);
        }
        const tookMs = performance.now() - start;
        if (tookMs < SLICE_MS) continue;
        await rest(tookMs);
        start = performance.now();
      }
    } finally {
      // The next start removes the raw files of packed blocks, so these blocks must be on disk even if the packing ends
      // early.
      await syncEnv(env);
      release(packed);
    }
    // The file is on disk and does not change any more.
    removeCheckpoint(path);
    return unread;
  } finally {
    await closeEnv(env);
  }
}

/**
 * Blocks that were stored as they were because exchanges came faster than they could be compressed, compressed later.
 * Readers see either form, never anything between. Capture process.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import { SealError } from '../../std/data-key.ts';
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
import { appendRow, type CaptureEnv, openCaptureEnv, syncEnv } from './layout.ts';
import { RawFileGone, readRawBlock } from './raw-files.ts';

/** A block that was stored as it is. */
export interface WaitingBlock {
  /** Id of its first exchange. */
  key: number;
  /** The raw file that it stands in; 0: in the database. */
  file: number;
  bytes: number;
}

/** The blocks that wait to be packed, in the order of their ids; those of a writer that was killed, too. */
export function listWaiting(env: CaptureEnv): WaitingBlock[] {
  if (env.waiting === null) return [];
  const blocks: WaitingBlock[] = [];
  for (const { key, value } of env.waiting.getRange({ snapshot: false })) {
    blocks.push({ key, file: value.readUInt32LE(0), bytes: countRawBytes(env.blocks.get(key)) });
  }
  return blocks;
}

/** Of a block that was stored as it is; 0 for none. */
function countRawBytes(stored: Buffer | undefined): number {
  if (stored === undefined) return 0;
  try {
    const place = readRawPlace(stored);
    return place === null ? stored.length : place.pieces.reduce((sum, bytes) => sum + bytes, 0);
  } catch (error) {
    // Damaged: its reader says so.
    if (error instanceof RangeError) return 0;
    throw error;
  }
}

/** The row of `waiting`. */
export function encodeWaiting(file: number): Buffer {
  const value = Buffer.allocUnsafe(4);
  value.writeUInt32LE(file);
  return value;
}

/**
 * Compresses one block where it is, or into the database when it stands in a raw file.
 * @param rawFolder where the raw files are
 * @param nextPiece number of the next free piece
 * @returns how many pieces were taken, 0 also when there was nothing to do; null for a block that cannot be read, which
 *   stays as it is
 * @throws the storage's error; the block is then as it was
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

/** Memory for finding the place of the next piece. */
const READER_CACHE_BYTES = 1 << 20;

/**
 * Packs what is still raw in a file that nobody writes to any more, a block a tick: one that is being sealed,
 * or a copy.
 * @param folder where the raw files are
 * @param release told the raw file of each block once the disk has it packed
 * @returns how many blocks could not be read, and stay as they are
 * @throws the storage's error
 */
export async function repackAll(
  path: string,
  folder: string,
  release: (file: number) => void = () => {},
  dataKey: Uint8Array | null = null,
): Promise<number> {
  const env = openCaptureEnv(path, 'write', dataKey);
  try {
    let nextPiece = new BlockReader(env, path, READER_CACHE_BYTES).readNextPiece();
    const packed: number[] = [];
    let unread = 0;
    for (const { key, file } of listWaiting(env)) {
      const pieces = repackBlock(env, folder, key, nextPiece);
      if (pieces === null) unread++;
      else {
        nextPiece += pieces;
        packed.push(file);
      }
      await nextTick();
    }
    await syncEnv(env);
    for (const file of packed) release(file);
    return unread;
  } finally {
    await env.root.close();
  }
}

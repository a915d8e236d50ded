/**
 * Writes a new copy of a capture file beside it: under another key, or without its unused pages. The caller replaces
 * the file by the copy. Damaged blocks, which the old key cannot decrypt, are copied unchanged, so that ids stay
 * the same and readers report the damage as before. Capture process, command line.
 */
import { closeSync, constants, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { SealError } from '../../std/data-key.ts';
import { namePlace } from '../../std/file-place.ts';
import { syncPath } from '../../std/synced-path.ts';
import { checkRoom, copyNewestHead, HEAD_AT } from '../lmdb/file-head.ts';
import { wipeCopiedPages } from '../lmdb/unused-bytes.ts';
import { RowBatch } from '../row-batch.ts';
import { closeBlock, openBlock } from './block-sealing.ts';
import { cutBlock, isInPieces, joinBlock, readRawPlace } from './codec.ts';
import { type CaptureEnv, createCaptureEnv, makeReadOnly, openCaptureEnv, syncEnv } from './layout.ts';

interface FileRewrite {
  path: string;
  /** Path of the copy. A file that exists there is removed. */
  copy: string;
  /** Key with which the file can be opened, and the key of the copy; null: not encrypted. Secrets. */
  from: Uint8Array | null;
  to: Uint8Array | null;
  is_sealed: boolean;
  /** Called after each transaction, with the number of bytes that it wrote. The rewrite waits for the result. */
  tell: (bytes: number) => void | Promise<void>;
}

/**
 * Writes the copy. It is on the disk when this resolves. If the source is sealed, the copy is read-only.
 * @returns number of blocks that could not be read, and were copied unchanged
 * @throws what `tell` throws, and any disk error, with the path
 */
export async function rewriteCaptureFile(rewrite: FileRewrite): Promise<number> {
  const { path, copy, from, to, is_sealed } = rewrite;
  removeDatabase(copy);
  checkRoom(copy);
  const source = openCaptureEnv(path, 'read', from);
  let damaged: number;
  try {
    const target = await createCaptureEnv(copy, to, true);
    try {
      damaged = await copyRows(source, target, rewrite.tell);
      await syncEnv(target);
    } finally {
      await target.root.close();
    }
    equalizeHeads(copy);
    if (is_sealed) await wipeCopiedPages(copy, async () => await rewrite.tell(0));
    syncPath(copy);
    rmSync(`${copy}-lock`, { force: true });
    if (is_sealed) makeReadOnly(copy);
  } catch (thrown) {
    throw namePlace(thrown, copy);
  } finally {
    await source.root.close();
  }
  return damaged;
}

async function copyRows(source: CaptureEnv, target: CaptureEnv, tell: FileRewrite['tell']): Promise<number> {
  const meta = [...source.meta.getRange({})];
  target.root.transactionSync(() => {
    for (const { key, value } of meta) target.meta.putSync(key, value);
  });
  const damaged = await copyBlocks(source, target, tell);
  for (const table of ['facts', 'tails'] as const) {
    const batch = new RowBatch<number>(target.root, target[table]);
    for (const { key, value } of source[table].getRange({}))
      if (batch.add(key, value)) await tell(batch.write());
    await tell(batch.write());
  }
  return damaged;
}

async function copyBlocks(
  source: CaptureEnv,
  target: CaptureEnv,
  tell: FileRewrite['tell'],
): Promise<number> {
  const blocks = new RowBatch<number>(target.root, target.blocks);
  const pieces = new RowBatch<number>(target.root, target.pieces);
  let nextPiece = 1;
  let damaged = 0;
  for (const { key, value } of source.blocks.getRange({})) {
    const converted = convertBlock(source, target, key, value);
    if (converted === null) damaged++;
    const block = converted ?? value;
    const cut = isInPieces(block) ? { value: block, pieces: [] } : cutBlock(block, nextPiece);
    for (const piece of cut.pieces) pieces.add(nextPiece++, piece);
    if (blocks.add(key, cut.value) || pieces.isFull) await tell(pieces.write() + blocks.write());
  }
  await tell(pieces.write() + blocks.write());
  return damaged;
}

/** Encrypts a whole block with the key of the copy; null if the block cannot be read. */
function convertBlock(source: CaptureEnv, target: CaptureEnv, key: number, value: Buffer): Buffer | null {
  try {
    if (readRawPlace(value) !== null) throw new RangeError('the block was not packed');
    const whole = joinBlock(value, (number) => source.pieces.get(number), failToRead);
    return closeBlock(openBlock(whole, key, source.sealing), key, target.sealing);
  } catch (thrown) {
    if (!(thrown instanceof SealError || thrown instanceof RangeError)) throw thrown;
    return null;
  }
}

function failToRead(): never {
  throw new RangeError('a piece of the block could not be read');
}

/**
 * Copies the newest head (LMDB: meta page) of a closed file over the other head. Call it for a copy that replaces a
 * file. If another process has the replaced file open, the lock file stays, with that file's count of transactions, by
 * which LMDB would choose the head.
 */
export function equalizeHeads(path: string): void {
  const file = openSync(path, constants.O_RDWR);
  try {
    const { page_size, bytes } = copyNewestHead(file);
    for (const page of [0, 1]) writeSync(file, bytes, 0, bytes.length, page * page_size + HEAD_AT);
    fdatasyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Removes a database file and its lock. */
export function removeDatabase(path: string): void {
  rmSync(path, { force: true });
  rmSync(`${path}-lock`, { force: true });
}

/**
 * Encrypts and decrypts blocks with the data key. A block is encrypted whole, before it is cut into pieces or put into
 * a raw file, so one call encrypts up to 64 exchanges. Writer and readers.
 * Format: [u8 64][4 bytes 0][varint count][the block, encrypted for its key in its file]. The number of exchanges is
 * not encrypted, and is at the same place as in an unencrypted block.
 */
import { SealError } from '../../std/data-key.ts';
import type { FileSealing } from '../lmdb/sealed-table.ts';

const SEALED = 0x40;
const COUNT_AT = 5;
const TABLE = 'blocks';

/** Encrypts a block; returns the block itself if `sealing` is null. @param key the block's key in its table */
export function closeBlock(block: Buffer, key: number, sealing: FileSealing | null): Buffer {
  if (sealing === null) return block;
  let end = COUNT_AT;
  while (block[end]! >= 0x80) end++;
  end++;
  const closed = sealing.seal(TABLE, key, block, end);
  closed.fill(0, 0, COUNT_AT);
  closed[0] = SEALED;
  block.copy(closed, COUNT_AT, COUNT_AT, end);
  return closed;
}

/**
 * Decrypts a block; returns the block itself if `sealing` is null.
 * @throws SealError if the block is damaged, unencrypted in an encrypted file, or encrypted in an unencrypted file
 */
export function openBlock(block: Buffer, key: number, sealing: FileSealing | null): Buffer {
  if ((block[0] === SEALED) !== (sealing !== null)) throw new SealError('not sealed as its file is');
  if (sealing === null) return block;
  let end = COUNT_AT;
  while (block[end]! >= 0x80) end++;
  return sealing.open(TABLE, key, block.subarray(end + 1));
}

/** Splits an encrypted block for `RawFiles`, which expects a short first part. */
export function splitClosed(closed: Buffer): Buffer[] {
  return [closed.subarray(0, COUNT_AT), closed.subarray(COUNT_AT)];
}

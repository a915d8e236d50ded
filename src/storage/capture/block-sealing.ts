/**
 * Blocks under a data key: sealed whole, before they are cut into pieces or put into a raw file, so that one call seals
 * up to 64 exchanges. Writer and readers.
 *
 * [u8 64][4 bytes 0][varint count][the block, sealed for its key in its file]: of a sealed block the number of exchanges shows,
 * at the place where that of others is.
 */
import { SealError } from '../../std/data-key.ts';
import type { FileSealing } from '../lmdb/sealed-table.ts';

const SEALED = 0x40;
const COUNT_AT = 5;
const TABLE = 'blocks';

/** @param key of the block; the same for `openBlock` */
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

/** @throws SealError when it is damaged, or is not sealed where everything is, or is where nothing is */
export function openBlock(block: Buffer, key: number, sealing: FileSealing | null): Buffer {
  if ((block[0] === SEALED) !== (sealing !== null)) throw new SealError('not sealed as its file is');
  if (sealing === null) return block;
  let end = COUNT_AT;
  while (block[end]! >= 0x80) end++;
  return sealing.open(TABLE, key, block.subarray(end + 1));
}

/** A closed block as `RawFiles` takes it: its first part short. */
export function splitClosed(closed: Buffer): Buffer[] {
  return [closed.subarray(0, COUNT_AT), closed.subarray(COUNT_AT)];
}

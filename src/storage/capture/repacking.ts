/**
 * Blocks that were stored as they were because exchanges came faster than they could be compressed, compressed later.
 * Readers see either form, never anything between. Actor thread of the writer.
 */
import { cutBlock, decodeBlock, encodeBlock, isRawBlock, readBlockHead } from './codec.ts';
import type { CaptureEnv } from './layout.ts';

/**
 * Compresses one block where it is.
 * @param key id of the block's first exchange
 * @param nextPiece number of the next free piece
 * @returns how many pieces were taken; 0 also when there was nothing to do
 * @throws the storage's error; the block is then as it was
 */
export function repackBlock(env: CaptureEnv, key: number, nextPiece: number): number {
  const raw = env.blocks.get(key);
  if (raw === undefined || !isRawBlock(raw)) return 0;
  const records = decodeBlock(readBlockHead(raw), null).map((record) => ({
    parts: [record],
    bytes: record.length,
  }));
  const { value, pieces } = cutBlock(encodeBlock(records, null, 'steady'), nextPiece);
  env.root.transactionSync(() => {
    for (const [at, piece] of pieces.entries()) env.pieces.putSync(nextPiece + at, piece, { append: true });
    env.blocks.putSync(key, value);
  });
  return pieces.length;
}

/**
 * Copies the pieces of request bodies, which the native library provides only during a callback, and reuses the
 * memory of larger pieces. Allocating memory for each request would cause frequent collections of the whole heap,
 * long before the heap itself has grown. Server threads, shared by all their listeners.
 */

/** Maximum bytes of free memory for request bodies that a server thread keeps. Further pieces are dropped. */
const FREE_BODY_PIECES_BYTES = 32 << 20;

/**
 * Pieces up to this size are copied into blocks that several pieces share, because a separate
 * allocation costs more than the copy.
 */
const POOLED_BYTES = 8 * 1024;
/**
 * Size of a shared block. One piece keeps the whole block alive, so in the worst case each piece
 * costs this much memory.
 */
const POOL_BYTES = 64 * 1024;
let pool = Buffer.allocUnsafeSlow(POOL_BYTES);
let poolUsed = 0;

/**
 * Maximum bytes of the memory of one body that are reused at its end. Further pieces are released
 * when they have been forwarded, or by the garbage collector.
 */
const TAKEN_BYTES_MAX = 1 << 20;
/** Sizes of reusable memory. The library reads at most the largest size at once. */
const SIZES = [16, 32, 64, 128, 192, 256, 384, 512].map((kib) => kib * 1024);
const free: Buffer[][] = SIZES.map(() => []);
let freeBytes = 0;

/** The pieces of one body. */
export class BodyPieces {
  #taken: Buffer[] | null = null;
  #takenBytes = 0;

  /** Copies bytes, so that they remain valid after the library's callback. */
  keep(bytes: ArrayBuffer): Buffer {
    const { byteLength } = bytes;
    if (byteLength <= POOLED_BYTES) return keepSmall(bytes);
    const size = SIZES.findIndex((length) => length >= byteLength);
    if (size < 0) return Buffer.from(new Uint8Array(bytes));
    let memory = free[size]!.pop();
    if (memory === undefined) memory = Buffer.allocUnsafeSlow(SIZES[size]!);
    else freeBytes -= memory.length;
    if (this.#takenBytes < TAKEN_BYTES_MAX) {
      this.#taken ??= [];
      this.#taken.push(memory);
      this.#takenBytes += memory.length;
    }
    const kept = memory.subarray(0, byteLength);
    kept.set(new Uint8Array(bytes));
    return kept;
  }

  /**
   * Takes back a piece that is no longer read, so that the next piece of a long upload uses its memory. If
   * the garbage collector freed the pieces, tens of megabytes would accumulate, and stay allocated if the
   * upload stalls. Has no effect on a piece without reusable memory.
   */
  giveBack(piece: Buffer): void {
    const { byteLength } = piece.buffer;
    if (piece.length <= POOLED_BYTES || piece.byteOffset !== 0 || !SIZES.includes(byteLength)) return;
    const at = this.#taken?.findLastIndex(({ buffer }) => buffer === piece.buffer) ?? -1;
    if (at >= 0) {
      this.#taken!.splice(at, 1);
      this.#takenBytes -= byteLength;
    }
    keepFree(Buffer.from(piece.buffer));
  }

  /** Makes the memory of the larger pieces reusable. The pieces must not be read afterwards. */
  release(): void {
    if (this.#taken === null) return;
    for (const memory of this.#taken) keepFree(memory);
    this.#taken = null;
  }
}

function keepFree(memory: Buffer): void {
  if (freeBytes + memory.length > FREE_BODY_PIECES_BYTES) return;
  free[SIZES.indexOf(memory.length)]!.push(memory);
  freeBytes += memory.length;
}

function keepSmall(bytes: ArrayBuffer): Buffer {
  const { byteLength } = bytes;
  if (poolUsed + byteLength > POOL_BYTES) {
    pool = Buffer.allocUnsafeSlow(POOL_BYTES);
    poolUsed = 0;
  }
  const kept = pool.subarray(poolUsed, poolUsed + byteLength);
  kept.set(new Uint8Array(bytes));
  poolUsed += byteLength;
  return kept;
}

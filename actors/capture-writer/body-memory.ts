/**
 * Memory that both threads see, in cells of a few sizes, for the bodies of exchanges that are under way. Bytes are copied
 * into it as they pass, once, while they are in the processor's cache; what was read from a socket is free for the next
 * read at once, and no body waits in a heap, where megabytes make the collector look at everything again and again.
 * Cells are used again, so that none is fresh from the system but at first. Front threads, one each.
 */
import { byteEngine } from '../../native/byte-engine.ts';
import { CAPTURE_FREE_CELL_BYTES } from '../../src/limits.ts';

/** From the body of a small exchange to the largest piece that comes in one; each with the memory it is cut from. */
const SIZES = [
  { cell: 8 << 10, slab: 1 << 20 },
  { cell: 64 << 10, slab: 1 << 20 },
  { cell: 512 << 10, slab: 512 << 10 },
  { cell: 4 << 20, slab: 4 << 20 },
];
/** Less than this is written as the engine does it: a call outside costs as much. */
const NATIVE_COPY_BYTES = 256;

export class BodyMemory {
  /** By size, those that nobody uses. */
  readonly #free: Uint8Array[][] = SIZES.map(() => []);
  /** Which size a cell is of. */
  readonly #sizes = new WeakMap<Uint8Array, number>();

  /** @returns a cell with room for so many bytes, or the largest there is; what it holds is of no meaning */
  take(bytes: number): Uint8Array {
    let size = 0;
    while (size < SIZES.length - 1 && SIZES[size]!.cell < bytes) size++;
    return this.#free[size]!.pop() ?? this.#cut(size);
  }

  copy(from: Uint8Array, into: Uint8Array, at: number): void {
    if (from.length < NATIVE_COPY_BYTES) into.set(from, at);
    else byteEngine.copyBytes(from, into, at);
  }

  /** Gives a cell back. Nobody may look at it any more, on any thread. */
  give(cell: Uint8Array): void {
    const size = this.#sizes.get(cell);
    if (size === undefined) return;
    const free = this.#free[size]!;
    if ((free.length + 1) * cell.length <= CAPTURE_FREE_CELL_BYTES) free.push(cell);
  }

  /** Whether it is a cell of this memory. */
  has(cell: Uint8Array): boolean {
    return this.#sizes.has(cell);
  }

  #cut(size: number): Uint8Array {
    const { cell, slab } = SIZES[size]!;
    const memory = new SharedArrayBuffer(slab);
    const free = this.#free[size]!;
    for (let at = 0; at < slab; at += cell) {
      const part = new Uint8Array(memory, at, cell);
      this.#sizes.set(part, size);
      free.push(part);
    }
    return free.pop()!;
  }
}

/**
 * Cells of shared memory, in a few sizes, for the bodies of exchanges in progress; the capture writer maps the same
 * memory. The tee copies passing bytes into a cell once, while they are in the processor's cache. The socket buffer is
 * then free for the next read. Bodies are not on a V8 heap, because the garbage collector would run more often. Cells
 * are reused, so that few are allocated. Server threads, one instance each.
 */
import { byteEngine } from '../../native/byte-engine.ts';
import { announceSpare } from '../../src/std/spare-memory.ts';
import type { MemoryPart } from './mapped-memory.ts';

/** Maximum total size of the free cells that a server thread keeps. Further free cells are dropped. */
export const CAPTURE_FREE_CELL_BYTES = 256 << 20;

/**
 * Cell sizes: for small bodies, for pieces of larger bodies, and for whole bodies of known length. Cells of one size
 * are cut from one allocation. Dropped cells are freed by the garbage collector, but shared memory does not cause it to
 * run. So there are few sizes, and nearly all cells are kept.
 */
const SIZES = [8, 64, 128, 192, 256, 320, 384, 512, 768, 1_024].map((kib) => kib << 10);
const SLAB_BYTES = 1 << 20;
/** A free cell may be up to this many times as long as the requested size. */
const LARGER_CELL = 2;
/** Copies of at least this size bypass the processor caches. */
const ASIDE_BYTES = 8 << 10;
/** Smaller copies are made by V8, because a native call would take as long as the copy. */
const NATIVE_COPY_BYTES = 256;

/** Cells that were cut from one allocation. */
interface Cut {
  /** Index of the cells' size in SIZES. */
  size: number;
  /** Allocation in the mapped memory; null for memory of this process. */
  run: Uint8Array | null;
  /** Number of cells that have not been dropped. When the last one is dropped, the allocation is returned. */
  left: number;
}

export class BodyMemory {
  readonly #part: MemoryPart | null;
  /** Free cells by size. */
  readonly #free: Uint8Array[][] = SIZES.map(() => []);
  #freeBytes = 0;
  readonly #cuts = new WeakMap<Uint8Array, Cut>();

  /**
   * @param part the mapped memory from which cells are taken until it is used up; null: only memory of this process is
   * used
   */
  constructor(part: MemoryPart | null = null) {
    this.#part = part;
    announceSpare(this);
  }

  /** Takes a cell of at least `bytes` bytes, or of the longest size if none is long enough. Its content is undefined. */
  take(bytes: number): Uint8Array {
    let wanted = 0;
    while (wanted < SIZES.length - 1 && SIZES[wanted]! < bytes) wanted++;
    let size = wanted;
    while (this.#free[size]!.length === 0) {
      size++;
      if (size < SIZES.length && SIZES[size]! <= SIZES[wanted]! * LARGER_CELL) continue;
      size = wanted;
      this.#cut(size);
    }
    const cell = this.#free[size]!.pop()!;
    this.#freeBytes -= cell.length;
    return cell;
  }

  /** Copies bytes into a cell. */
  copy(from: Uint8Array, into: Uint8Array, at: number): void {
    if (from.length < NATIVE_COPY_BYTES) into.set(from, at);
    else byteEngine.copyBytes(from, into, at);
  }

  /** Copies bytes into a cell; many bytes bypass the processor caches, for a cell that is not read soon. */
  copyAside(from: Uint8Array, into: Uint8Array, at: number): void {
    if (from.length < ASIDE_BYTES) this.copy(from, into, at);
    else byteEngine.copyBytesAside(from, into, at);
  }

  /** Returns a cell. No thread may read it afterwards. Memory that is not a cell is ignored. */
  give(cell: Uint8Array): void {
    const cut = this.#cuts.get(cell);
    if (cut === undefined) return;
    if (this.#freeBytes + cell.length > CAPTURE_FREE_CELL_BYTES) {
      this.#drop(cell, cut);
      return;
    }
    this.#free[cut.size]!.push(cell);
    this.#freeBytes += cell.length;
  }

  /** Whether the cell belongs to this memory. */
  has(cell: Uint8Array): boolean {
    return this.#cuts.has(cell);
  }

  /**
   * Drops the free cells of allocations whose cells are all free or dropped. Pages of the mapped memory go back to the
   * system.
   */
  releaseSpare(): void {
    const free = new Map<Cut, number>();
    for (const cells of this.#free)
      for (const cell of cells) {
        const cut = this.#cuts.get(cell)!;
        free.set(cut, (free.get(cut) ?? 0) + 1);
      }
    const unused = new Set([...free].flatMap(([cut, count]) => (count === cut.left ? [cut] : [])));
    for (const [size, cells] of this.#free.entries())
      this.#free[size] = cells.filter((cell) => {
        const cut = this.#cuts.get(cell)!;
        if (!unused.has(cut)) return true;
        this.#freeBytes -= cell.length;
        this.#drop(cell, cut);
        return false;
      });
  }

  #drop(cell: Uint8Array, cut: Cut): void {
    // Forget the cell, so that returning it a second time has no effect.
    this.#cuts.delete(cell);
    cut.left--;
    if (cut.left === 0 && cut.run !== null) this.#part!.give(cut.run);
  }

  #cut(size: number): void {
    const cell = SIZES[size]!;
    const count = Math.floor(SLAB_BYTES / cell);
    const run = this.#part?.take(SLAB_BYTES) ?? null;
    const memory = run?.buffer ?? new SharedArrayBuffer(count * cell);
    const from = run?.byteOffset ?? 0;
    const cut: Cut = { size, run, left: count };
    for (let i = 0; i < count; i++) {
      const part = new Uint8Array(memory, from + i * cell, cell);
      this.#cuts.set(part, cut);
      this.#free[size]!.push(part);
    }
    this.#freeBytes += count * cell;
  }
}

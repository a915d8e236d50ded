/**
 * Cells of shared memory, in a few sizes, for the bodies of exchanges in progress; the capture writer maps the same
 * memory. The tee copies passing bytes into a cell once, while they are in the processor's cache. The socket buffer is
 * then free for the next read. Bodies are not on a V8 heap, because the garbage collector would run more often. Cells
 * are reused, so that few are allocated. Server threads, one instance each.
 */
import { byteEngine } from '../../native/byte-engine.ts';
import { announceSpare } from '../../src/std/spare-memory.ts';
import type { MemoryPart } from './mapped-memory.ts';

/** Maximum total size of the free cells that a server thread keeps, if others can be returned as whole allocations. */
export const CAPTURE_FREE_CELL_BYTES = 256 << 20;

/**
 * Cell sizes: for small bodies, for pieces of larger bodies, and for whole bodies of known length. There are few sizes,
 * so that most free cells fit the next body.
 */
const SIZES = [8, 64, 128, 192, 256, 320, 384, 512, 768, 1_024].map((kib) => kib << 10);
/** Length of an allocation, from which cells of one size are cut. */
const SLAB_BYTES = 1 << 20;
/** A free cell may be up to this many times as long as the requested size. */
const LARGER_CELL = 2;
/** Copies of at least this size bypass the processor caches. */
const ASIDE_BYTES = 8 << 10;
/** Smaller copies are made by V8, because a native call would take as long as the copy. */
const NATIVE_COPY_BYTES = 256;

/** An allocation that is cut into cells of one size. It is returned as a whole, when all its cells are free. */
interface Cut {
  /** Index of the cells' size in SIZES. */
  size: number;
  /** Allocation in the mapped memory; null for memory of this process. */
  run: Uint8Array | null;
  cells: readonly Uint8Array[];
  free: Uint8Array[];
}

export class BodyMemory {
  readonly #part: MemoryPart | null;
  /**
   * Cuts with a free cell, by size. Cells are taken from the last cut, and a cut is added at the end when it gets a
   * free cell. So the cells in use are in few cuts, and the other cuts become free as a whole.
   */
  readonly #open: Cut[][] = SIZES.map(() => []);
  /** Cuts whose cells are all free. */
  readonly #unused = new Set<Cut>();
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
    for (let size = wanted; size < SIZES.length && SIZES[size]! <= SIZES[wanted]! * LARGER_CELL; size++) {
      const cut = this.#open[size]!.at(-1);
      if (cut !== undefined) return this.#takeFrom(cut);
    }
    const cut = this.#cut(wanted);
    return cut === null ? new Uint8Array(new SharedArrayBuffer(SIZES[wanted]!)) : this.#takeFrom(cut);
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

  /** Returns a cell. No thread may read it afterwards. Memory that is not a cell, or a free cell, is ignored. */
  give(cell: Uint8Array): void {
    const cut = this.#cuts.get(cell);
    if (cut === undefined || cut.free.includes(cell)) return;
    if (cut.free.length === 0) this.#open[cut.size]!.push(cut);
    cut.free.push(cell);
    this.#freeBytes += cell.length;
    if (cut.free.length === cut.cells.length) this.#unused.add(cut);
    while (this.#freeBytes > CAPTURE_FREE_CELL_BYTES && this.#unused.size > 0)
      this.#drop(this.#unused.values().next().value!);
  }

  /**
   * Whether a batch may keep the cell instead of copying its bytes: the cell is one of this memory's. If there is
   * mapped memory, all these cells are in it, so the capture process can read them.
   */
  has(cell: Uint8Array): boolean {
    return this.#cuts.has(cell);
  }

  /** Drops the cuts without a cell in use. Pages of the mapped memory go back to the system. */
  releaseSpare(): void {
    for (const cut of this.#unused) this.#drop(cut);
  }

  #takeFrom(cut: Cut): Uint8Array {
    this.#unused.delete(cut);
    const cell = cut.free.pop()!;
    if (cut.free.length === 0) this.#close(cut);
    this.#freeBytes -= cell.length;
    return cell;
  }

  /** Removes a cut from those with a free cell. It is nearly always the last one. */
  #close(cut: Cut): void {
    const open = this.#open[cut.size]!;
    open.splice(open.lastIndexOf(cut), 1);
  }

  #drop(cut: Cut): void {
    this.#unused.delete(cut);
    this.#close(cut);
    // Forget the cells, so that returning one a second time has no effect.
    for (const cell of cut.cells) {
      this.#cuts.delete(cell);
      this.#freeBytes -= cell.length;
    }
    if (cut.run !== null) this.#part!.give(cut.run);
  }

  /** Cuts an allocation into cells. @returns null if the mapped memory is used up */
  #cut(size: number): Cut | null {
    const bytes = SIZES[size]!;
    const count = Math.floor(SLAB_BYTES / bytes);
    const run = this.#part === null ? null : this.#takeRun(this.#part);
    if (run === null && this.#part !== null) return null;
    const memory = run?.buffer ?? new SharedArrayBuffer(count * bytes);
    const from = run?.byteOffset ?? 0;
    const cells = Array.from({ length: count }, (_, i) => new Uint8Array(memory, from + i * bytes, bytes));
    const cut: Cut = { size, run, cells, free: cells.slice() };
    for (const cell of cells) this.#cuts.set(cell, cut);
    this.#open[size]!.push(cut);
    this.#unused.add(cut);
    this.#freeBytes += count * bytes;
    return cut;
  }

  /** Takes an allocation from the mapped memory. If it is used up, cells of another size that are all free make room. */
  #takeRun(part: MemoryPart): Uint8Array | null {
    const run = part.take(SLAB_BYTES);
    if (run !== null || this.#unused.size === 0) return run;
    this.#drop(this.#unused.values().next().value!);
    return part.take(SLAB_BYTES);
  }
}

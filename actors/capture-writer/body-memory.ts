/**
 * Memory that the writer also sees, in cells of a few sizes, for the bodies of exchanges that are under way. The tee copies bytes
 * into it once, as they pass, while they are in the processor's cache. So the buffer of a socket is free for the next
 * read at once, and no body waits in a heap, where megabytes make the collector look at everything again and again.
 * Cells are used again, so that few are fresh from the system. Server threads, one each.
 */
import { byteEngine } from '../../native/byte-engine.ts';
import { CAPTURE_FREE_CELL_BYTES } from '../../src/limits.ts';
import type { MemoryPart } from './mapped-memory.ts';

/**
 * Lengths of cells: for small bodies, for pieces of larger ones, and for whole bodies whose length is known. Those of one
 * length are cut from one memory. What is not kept for use again is for the collector to find, and shared memory does not
 * make it look: so the lengths are few, and nearly all is kept.
 */
const SIZES = [8, 64, 128, 192, 256, 320, 384, 512, 768, 1_024].map((kib) => kib << 10);
const SLAB_BYTES = 1 << 20;
/** A free cell that is so many times as long as what is asked for will do. */
const LARGER_CELL = 2;
/** From here on it pays to pass the caches by. */
const ASIDE_BYTES = 8 << 10;
/** Less than this is written as the engine does it: a call outside costs as much. */
const NATIVE_COPY_BYTES = 256;

/** Cells that were cut from one memory. */
interface Cut {
  /** Which size they are of. */
  size: number;
  /** A run of the mapped memory; null for one that the collector finds. */
  run: Uint8Array | null;
  /** Cells that are not kept for use again. With the last of them the run is given back. */
  left: number;
}

export class BodyMemory {
  readonly #part: MemoryPart | null;
  /** By size, those that nobody uses. */
  readonly #free: Uint8Array[][] = SIZES.map(() => []);
  #freeBytes = 0;
  readonly #cuts = new WeakMap<Uint8Array, Cut>();

  /** @param part where cells are cut from while it lasts; null: from memory of this process alone */
  constructor(part: MemoryPart | null = null) {
    this.#part = part;
  }

  /** @returns a cell for so many bytes, or the longest for their beginning; what it holds is of no meaning */
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

  copy(from: Uint8Array, into: Uint8Array, at: number): void {
    if (from.length < NATIVE_COPY_BYTES) into.set(from, at);
    else byteEngine.copyBytes(from, into, at);
  }

  copyAside(from: Uint8Array, into: Uint8Array, at: number): void {
    if (from.length < ASIDE_BYTES) this.copy(from, into, at);
    else byteEngine.copyBytesAside(from, into, at);
  }

  /** Gives a cell back. Nobody may look at it any more, on any thread. */
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

  /** Whether it is a cell of this memory. */
  has(cell: Uint8Array): boolean {
    return this.#cuts.has(cell);
  }

  #drop(cell: Uint8Array, cut: Cut): void {
    // A cell that is given back twice is no cell the second time.
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

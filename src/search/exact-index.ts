/**
 * The exact vector index: every search compares the query with every vector. It is used for small sets, and for vectors
 * that are not in a graph yet. It is the reference for the approximate index, and replaces it on machines without the
 * native library. Any thread; each index belongs to one thread.
 *
 * A comparison of 1,024 dimensions takes about 0.16 µs with the addon (0.24 in a shared index) and 1.3 µs without it. A
 * vector takes 2 bytes per dimension (short-vector.ts), in a shared index 1.2 (packed-vector.ts), and 60 bytes more.
 * Vectors are stored in blocks, so that a large set grows without copying. Other threads read the blocks of a shared
 * index (index-catalog.ts).
 */
import { BestMatches } from './best-matches.ts';
import { packedForm } from './packed-vector.ts';
import type { SharedIndex } from './shared-index.ts';
import { shortForm } from './short-vector.ts';
import { checkVector } from './vector-check.ts';
import type { VectorForm } from './vector-form.ts';
import type { AcceptId, VectorIndex, VectorMatch } from './vector-index.ts';

/**
 * Initial capacity of the first block, which doubles when it is full. It is small, because there may be many indexes
 * with a single vector.
 */
const FIRST_CAPACITY = 1;
export const BLOCK_BITS = 10;
/** Number of vectors in a full block. */
const BLOCK = 1 << BLOCK_BITS;
const ID_MAX = 2 ** 32 - 1;
/** Approximate memory of one entry in the Map and in the list of ids. */
const BOOKKEEPING_BYTES = 60;

/** Input and output of a comparison, per thread; used only within one synchronous call. */
const places = new Uint32Array(BLOCK);
const similarities = new Float64Array(BLOCK);

/** The numbers of a block: 16-bit in the short form, bytes in the packed form. All blocks of an index have one form. */
type Numbers = Int16Array | Uint8Array;

export class ExactIndex implements VectorIndex {
  readonly dimensions: number;
  /** How many numbers a stored vector takes. */
  readonly #numbers: number;
  readonly savable = null;
  readonly #form: VectorForm<Numbers>;
  /** The vectors, without gaps: the last vector takes the place of a removed vector. */
  readonly #blocks: Numbers[];
  #ids: Uint32Array;
  readonly #places = new Map<number, number>();
  readonly #shared: SharedIndex | null;

  /**
   * @param dimensions at least 1
   * @param shared index that other threads read; its owner begins and ends each change
   * @param isPacked whether vectors take 1.2 bytes per dimension instead of 2; always in a shared index
   */
  constructor(dimensions: number, shared: SharedIndex | null = null, isPacked = shared !== null) {
    if (!Number.isInteger(dimensions) || dimensions < 1) throw new RangeError(`${dimensions} dimensions`);
    this.dimensions = dimensions;
    this.#form = (isPacked ? packedForm : shortForm) as VectorForm<Numbers>;
    this.#numbers = this.#form.count(dimensions);
    this.#shared = shared;
    this.#blocks = [];
    this.#putBlock(0, FIRST_CAPACITY);
    this.#ids = new Uint32Array(FIRST_CAPACITY);
  }

  get size(): number {
    return this.#places.size;
  }

  get bytes(): number {
    const numbers = this.#blocks.reduce((sum, { byteLength }) => sum + byteLength, 0);
    return numbers + this.#ids.byteLength + this.size * BOOKKEEPING_BYTES;
  }

  get unlinked(): number {
    return 0;
  }

  add(id: number, vector: Float32Array): void {
    if (!Number.isInteger(id) || id < 0 || id > ID_MAX) throw new RangeError(`${id} as an id of a vector`);
    checkVector(vector, this.dimensions);
    let place = this.#places.get(id);
    if (place === undefined) {
      place = this.size;
      this.#makeRoom(place);
      this.#shared?.enter(id);
      this.#ids[place] = id;
      this.#places.set(id, place);
    }
    this.#form.write(vector, this.#numbersAt(place));
  }

  remove(id: number): boolean {
    const place = this.#places.get(id);
    if (place === undefined) return false;
    const last = this.size - 1;
    this.#shared?.leave(id);
    if (place !== last) {
      const moved = this.#ids[last]!;
      this.#ids[place] = moved;
      this.#places.set(moved, place);
      this.#numbersAt(place).set(this.#numbersAt(last));
    }
    this.#places.delete(id);
    if (last % BLOCK === 0 && last > 0) {
      this.#blocks.pop();
      this.#shared?.dropBlock();
    }
    return true;
  }

  has(id: number): boolean {
    return this.#places.has(id);
  }

  /**
   * Returns a stored vector, with the numbers as the index stores them; undefined for an unknown id.
   * @param into memory for the vector; new by default
   */
  get(id: number, into?: Float32Array): Float32Array | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    return this.#form.read(this.#numbersAt(place), into ?? new Float32Array(this.dimensions));
  }

  search(vector: Float32Array, k: number, accept?: AcceptId, minSimilarity = -Infinity): VectorMatch[] {
    checkVector(vector, this.dimensions);
    const best = new BestMatches(k, minSimilarity);
    const { size } = this;
    let count = 0;
    for (let place = 0; place < size; place++) {
      if (accept !== undefined && !accept(this.#ids[place]!)) continue;
      places[count++] = place;
      if (count === BLOCK) {
        this.#offer(vector, count, best);
        count = 0;
      }
    }
    this.#offer(vector, count, best);
    return best.take();
  }

  /**
   * Compares only the vectors with the given ids; unknown ids are skipped.
   * @param vector a vector that `checkVector` has accepted
   */
  searchAmong(
    vector: Float32Array,
    ids: Iterable<number>,
    k: number,
    accept?: AcceptId,
    minSimilarity = -Infinity,
  ): VectorMatch[] {
    const best = new BestMatches(k, minSimilarity);
    let count = 0;
    for (const id of ids) {
      const place = this.#places.get(id);
      if (place === undefined || (accept !== undefined && !accept(id))) continue;
      places[count++] = place;
      if (count === BLOCK) {
        this.#offer(vector, count, best);
        count = 0;
      }
    }
    this.#offer(vector, count, best);
    return best.take();
  }

  /** Lists all ids, in no particular order. */
  ids(): Iterable<number> {
    return this.#places.keys();
  }

  tend(): boolean {
    return false;
  }

  /** Compares with the first `count` entries of `places`. */
  #offer(vector: Float32Array, count: number, best: BestMatches): void {
    this.#form.compare(vector, this.#blocks, BLOCK_BITS, places, count, similarities);
    for (let i = 0; i < count; i++) best.offer(this.#ids[places[i]!]!, similarities[i]!);
  }

  /** Returns a view of the stored vector. */
  #numbersAt(place: number): Numbers {
    const start = (place & (BLOCK - 1)) * this.#numbers;
    return this.#blocks[place >>> BLOCK_BITS]!.subarray(start, start + this.#numbers);
  }

  #makeRoom(place: number): void {
    if (place === this.#ids.length) {
      const ids = new Uint32Array(2 * this.#ids.length);
      ids.set(this.#ids);
      this.#ids = ids;
    }
    const block = this.#blocks[place >>> BLOCK_BITS];
    if (block === undefined) this.#putBlock(place >>> BLOCK_BITS, BLOCK);
    else if (place < BLOCK && place * this.#numbers === block.length)
      this.#putBlock(0, (2 * block.length) / this.#numbers).set(block);
  }

  /** Replaces the block of this number by an empty one with room for this many vectors, and returns the new block. */
  #putBlock(number: number, vectors: number): Numbers {
    const block = this.#shared?.makeBlock(number, vectors) ?? this.#form.make(vectors * this.#numbers);
    this.#blocks[number] = block;
    return block;
  }
}

/**
 * The exact vector index: one block of numbers, every search compares with all of them. For small sets, for what a graph
 * does not hold yet, as the measure of the approximate one, and wherever the native library is missing.
 * Any thread; each index in one.
 *
 * A comparison of 256 dimensions costs about 0.2 µs; memory is 4 bytes a dimension and 60 a vector, doubled at most
 * while it grows.
 */
import { BestMatches } from './best-matches.ts';
import type { AcceptId, VectorIndex, VectorMatch } from './vector-index.ts';

/** There may be very many sets of a single vector. */
const FIRST_CAPACITY = 1;
const ID_MAX = 2 ** 32 - 1;
/** What a Map of numbers and the list of ids take for one entry, about. */
const BOOKKEEPING_BYTES = 60;

export class ExactIndex implements VectorIndex {
  readonly dimensions: number;
  /** Vectors one after another, without holes: a removed one's place goes to the last. */
  #numbers: Float32Array;
  #ids: Uint32Array;
  readonly #places = new Map<number, number>();

  /** @param dimensions ≥ 1 */
  constructor(dimensions: number) {
    if (!Number.isInteger(dimensions) || dimensions < 1) throw new RangeError(`${dimensions} dimensions`);
    this.dimensions = dimensions;
    this.#numbers = new Float32Array(FIRST_CAPACITY * dimensions);
    this.#ids = new Uint32Array(FIRST_CAPACITY);
  }

  get size(): number {
    return this.#places.size;
  }

  get bytes(): number {
    return this.#numbers.byteLength + this.#ids.byteLength + this.size * BOOKKEEPING_BYTES;
  }

  get unlinked(): number {
    return 0;
  }

  add(id: number, vector: Float32Array): void {
    if (!Number.isInteger(id) || id < 0 || id > ID_MAX) throw new RangeError(`${id} as an id of a vector`);
    this.#check(vector);
    for (const number of vector) if (!Number.isFinite(number)) throw new RangeError(`${number} in a vector`);
    let place = this.#places.get(id);
    if (place === undefined) {
      place = this.size;
      if (place === this.#ids.length) this.#grow();
      this.#ids[place] = id;
      this.#places.set(id, place);
    }
    this.#numbers.set(vector, place * this.dimensions);
  }

  remove(id: number): boolean {
    const place = this.#places.get(id);
    if (place === undefined) return false;
    const last = this.size - 1;
    if (place !== last) {
      const moved = this.#ids[last]!;
      this.#ids[place] = moved;
      this.#places.set(moved, place);
      const from = last * this.dimensions;
      this.#numbers.copyWithin(place * this.dimensions, from, from + this.dimensions);
    }
    this.#places.delete(id);
    return true;
  }

  has(id: number): boolean {
    return this.#places.has(id);
  }

  get(id: number): Float32Array | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    return this.#numbers.slice(place * this.dimensions, (place + 1) * this.dimensions);
  }

  search(vector: Float32Array, k: number, accept?: AcceptId, minSimilarity = -Infinity): VectorMatch[] {
    this.#check(vector);
    const best = new BestMatches(k, minSimilarity);
    const { size } = this;
    for (let place = 0; place < size; place++) {
      const id = this.#ids[place]!;
      if (accept === undefined || accept(id)) best.offer(id, this.#compare(vector, place));
    }
    return best.take();
  }

  /** Looks at the given ids alone; those that are not there are passed over. */
  searchAmong(
    vector: Float32Array,
    ids: Iterable<number>,
    k: number,
    accept?: AcceptId,
    minSimilarity = -Infinity,
  ): VectorMatch[] {
    this.#check(vector);
    const best = new BestMatches(k, minSimilarity);
    for (const id of ids) {
      const place = this.#places.get(id);
      if (place === undefined || (accept !== undefined && !accept(id))) continue;
      best.offer(id, this.#compare(vector, place));
    }
    return best.take();
  }

  /** Every id, in no order. */
  ids(): Iterable<number> {
    return this.#places.keys();
  }

  tend(): boolean {
    return false;
  }

  #compare(vector: Float32Array, place: number): number {
    const numbers = this.#numbers;
    const start = place * this.dimensions;
    const { length } = vector;
    const whole = length - (length % 4);
    // Four sums, so that one addition need not wait for the last.
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    let i = 0;
    for (; i < whole; i += 4) {
      const at = start + i;
      a += vector[i]! * numbers[at]!;
      b += vector[i + 1]! * numbers[at + 1]!;
      c += vector[i + 2]! * numbers[at + 2]!;
      d += vector[i + 3]! * numbers[at + 3]!;
    }
    for (; i < length; i++) a += vector[i]! * numbers[start + i]!;
    return a + b + (c + d);
  }

  #grow(): void {
    const capacity = this.#ids.length * 2;
    const numbers = new Float32Array(capacity * this.dimensions);
    numbers.set(this.#numbers);
    this.#numbers = numbers;
    const ids = new Uint32Array(capacity);
    ids.set(this.#ids);
    this.#ids = ids;
  }

  #check({ length }: Float32Array): void {
    if (length !== this.dimensions)
      throw new RangeError(`a vector of ${length} dimensions where ${this.dimensions} are expected`);
  }
}

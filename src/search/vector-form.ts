/** A form in which an exact index keeps vectors. Pure; any thread. */
export interface VectorForm<Numbers extends Int16Array | Uint8Array> {
  /** Returns how many numbers a vector of this many dimensions takes. */
  count(dimensions: number): number;
  /** Allocates memory for this many numbers. */
  make(numbers: number): Numbers;
  /** Writes a vector at the beginning of `into`. */
  write(vector: Float32Array, into: Numbers): void;
  /** Reads the vector at the beginning of `from`. @returns `into` */
  read(from: Numbers, into: Float32Array): Float32Array;
  /** Compares like `VectorEngine`. */
  compare(
    query: Float32Array,
    blocks: readonly Numbers[],
    blockBits: number,
    places: Uint32Array,
    count: number,
    similarities: Float64Array,
  ): number;
}

/**
 * Reduces dimensions while nearly preserving angles: each number is added, with a sign, to a few places of a shorter
 * vector (Kane and Nelson, "Sparser Johnson-Lindenstrauss Transforms", arXiv 1012.1577). Cosines have an error of
 * about 1 / √dimensions: good enough to find candidates, which are then compared exactly. Any thread.
 */
import { createPrng } from '../std/prng.ts';

/** Number of places to which each number is added; `project` has a line for each place. */
const PLACES = 2;
/** Seed of the projection, fixed so that it is the same at every start. */
const SEED = 7;
/** Name of the projection, which changes whenever projected vectors would change. */
export const PROJECTION_NAME = `sparse${PLACES} seed${SEED}`;

export class Projection {
  readonly #places: Uint16Array;
  readonly #signs: Float64Array;
  readonly #sums: Float64Array;
  readonly #projected: Float32Array;

  /** @param to 1 … 65,535 */
  constructor(from: number, to: number) {
    const prng = createPrng(SEED);
    this.#sums = new Float64Array(to);
    this.#projected = new Float32Array(to);
    this.#places = Uint16Array.from({ length: from * PLACES }, () => prng.below(to));
    this.#signs = Float64Array.from({ length: from * PLACES }, () => (prng.chance(0.5) ? 1 : -1));
  }

  /**
   * Projects a vector, and scales the result to length 1.
   * @returns the result, or zeros if all its numbers are 0; the next call overwrites it
   */
  project(vector: Float32Array): Float32Array {
    const sums = this.#sums.fill(0);
    const places = this.#places;
    const signs = this.#signs;
    for (let at = 0; at < places.length; at += PLACES) {
      const number = vector[at / PLACES]!;
      sums[places[at]!]! += signs[at]! * number;
      sums[places[at + 1]!]! += signs[at + 1]! * number;
    }
    let squares = 0;
    for (let at = 0; at < sums.length; at++) squares += sums[at]! * sums[at]!;
    const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares);
    const projected = this.#projected;
    for (let at = 0; at < sums.length; at++) projected[at] = sums[at]! * scale;
    return projected;
  }
}

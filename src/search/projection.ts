/**
 * Fewer dimensions that keep the angles, nearly: each number is added, with a sign, to a few places of a shorter vector
 * (Kane and Nelson, "Sparser Johnson-Lindenstrauss Transforms", arXiv 1012.1577). Cosines come out with an error of
 * about 1 / √dimensions: good enough to find candidates, which are then compared whole. Any thread.
 */
import { createPrng } from '../std/prng.ts';

/** Places that each number goes to. */
const PLACES = 2;
/** The same projection at every start. */
const SEED = 7;
/** Changes whenever projected vectors would. */
export const PROJECTION_NAME = `sparse${PLACES} seed${SEED}`;

export class Projection {
  readonly #to: number;
  readonly #places: Uint16Array;
  readonly #signs: Int8Array;

  /** @param to 1 … 65,535 */
  constructor(from: number, to: number) {
    const prng = createPrng(SEED);
    this.#to = to;
    this.#places = Uint16Array.from({ length: from * PLACES }, () => prng.below(to));
    this.#signs = Int8Array.from({ length: from * PLACES }, () => (prng.chance(0.5) ? 1 : -1));
  }

  /** @returns a vector of length 1, or zeros; a plain array, as the native library takes it */
  project(vector: Float32Array): number[] {
    const projected = new Array<number>(this.#to).fill(0);
    for (let at = 0; at < this.#places.length; at++)
      projected[this.#places[at]!]! += this.#signs[at]! * vector[(at / PLACES) | 0]!;
    let squares = 0;
    for (const number of projected) squares += number * number;
    const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares);
    for (let at = 0; at < projected.length; at++) projected[at]! *= scale;
    return projected;
  }
}

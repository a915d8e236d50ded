/**
 * Seeded pseudo-random numbers: the same seed gives the same sequence on every machine. For simulation, sampling and
 * jitter; never for secrets. Any thread.
 */

/** A stream of reproducible numbers. */
export interface Prng {
  /** Returns a whole number in 0 … 2^32 − 1. */
  uint32(): number;
  /** Returns a number in [0, 1) with 32 bits of resolution. */
  float(): number;
  /** Returns a whole number in 0 … bound − 1; `bound` in 1 … 2^32. */
  below(bound: number): number;
  /** Returns true with the given probability. */
  chance(probability: number): boolean;
}

/**
 * Makes a generator: xoshiro128** (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", 2018), its
 * four words filled from the seed by splitmix32 so that neighbouring seeds give unrelated streams.
 * @param seed any whole number; its low 32 bits count
 */
export function createPrng(seed: number): Prng {
  let mix = seed | 0;
  const nextWord = (): number => {
    mix = (mix + 0x9e3779b9) | 0;
    let word = mix ^ (mix >>> 16);
    word = Math.imul(word, 0x21f0aaad);
    word ^= word >>> 15;
    word = Math.imul(word, 0x735a2d97);
    return word ^ (word >>> 15);
  };
  let a = nextWord();
  let b = nextWord();
  let c = nextWord();
  let d = nextWord() | 1; // all four words zero would be a fixed point

  const uint32 = (): number => {
    const product = Math.imul(b, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 11) | (d >>> 21);
    return result;
  };
  const float = (): number => uint32() / 0x1_0000_0000;
  return {
    uint32,
    float,
    below: (bound) => Math.floor(float() * bound),
    chance: (probability) => float() < probability,
  };
}

/** One suite for both vector indexes. The approximate index is compared with the exact one. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { GRAPH_SIZE_MIN, HnswIndex, loadHnswlib } from '../../src/search/hnsw-index.ts';
import { chooseIndex } from '../../src/search/open-index.ts';
import type { VectorIndex } from '../../src/search/vector-index.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';

const D = 32;
const KINDS: Record<string, (dimensions: number) => VectorIndex> = {
  exact: (dimensions) => new ExactIndex(dimensions),
  hnsw: (dimensions) => new HnswIndex(loadHnswlib(), dimensions),
};

/** Numbers that no vector may contain. */
const ABSURD = [Number.NaN, Infinity, -Infinity, 3e38, -(2 ** 21)];
const withNumber = (number: number) => Float32Array.of(1, number);

function unit(numbers: ArrayLike<number>): Float32Array {
  const vector = Float32Array.from(numbers);
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((number) => number / length);
}

function randomVector(prng: Prng, dimensions = D): Float32Array {
  return unit(Array.from({ length: dimensions }, () => prng.float() + prng.float() + prng.float() - 1.5));
}

/** Makes vectors around this many centres, like texts about this many subjects. */
function createTopics(prng: Prng, topics: number, dimensions: number): () => Float32Array {
  const centres = Array.from({ length: topics }, () => randomVector(prng, dimensions));
  return () => {
    const centre = centres[prng.below(topics)]!;
    const noise = randomVector(prng, dimensions);
    return unit(centre.map((number, at) => number + 0.8 * noise[at]!));
  };
}

function tendAll(index: VectorIndex): void {
  while (index.tend(50));
}

describe.each(Object.entries(KINDS))('the %s index', (_name, make) => {
  it('finds nothing while it is empty', () => {
    const index = make(D);
    expect(index.search(randomVector(createPrng(1)), 5)).toEqual([]);
    expect(index.size).toBe(0);
    expect(index.remove(1)).toBe(false);
    expect(index.get(1)).toBeUndefined();
    expect(index.tend(1)).toBe(false);
  });

  it('returns the nearest first with their cosine, and equally near ones by id', () => {
    const index = make(4);
    index.add(7, Float32Array.of(1, 0, 0, 0));
    index.add(3, Float32Array.of(1, 0, 0, 0));
    index.add(9, unit([1, 1, 0, 0]));
    index.add(1, Float32Array.of(0, 0, 1, 0));
    index.add(2, Float32Array.of(-1, 0, 0, 0));
    const found = index.search(Float32Array.of(1, 0, 0, 0), 10);
    expect(found.map(({ id }) => id)).toEqual([3, 7, 9, 1, 2]);
    expect(found[2]!.similarity).toBeCloseTo(Math.SQRT1_2, 4);
    expect(found[4]!.similarity).toBeCloseTo(-1, 6);
    expect(index.search(Float32Array.of(1, 0, 0, 0), 2).map(({ id }) => id)).toEqual([3, 7]);
    expect(index.search(Float32Array.of(1, 0, 0, 0), 0)).toEqual([]);
  });

  it('omits what is not similar enough', () => {
    const index = make(2);
    index.add(1, Float32Array.of(1, 0));
    index.add(2, unit([1, 1]));
    index.add(3, Float32Array.of(0, 1));
    expect(index.search(Float32Array.of(1, 0), 5, undefined, 0.7).map(({ id }) => id)).toEqual([1, 2]);
    expect(index.search(Float32Array.of(1, 0), 5, (id) => id !== 1, 0.7).map(({ id }) => id)).toEqual([2]);
  });

  it('keeps a copy of its input', () => {
    const index = make(2);
    const vector = Float32Array.of(1, 0);
    index.add(1, vector);
    vector.fill(0);
    expect(index.get(1)).toEqual(Float32Array.of(1, 0));
    expect(index.search(Float32Array.of(1, 0), 1)).toEqual([{ id: 1, similarity: 1 }]);
  });

  it('finds no similarity to a vector of zeros', () => {
    const index = make(2);
    index.add(1, new Float32Array(2));
    index.add(2, Float32Array.of(1, 0));
    expect(index.search(Float32Array.of(1, 0), 5, undefined, 0.01)).toEqual([{ id: 2, similarity: 1 }]);
    expect(index.search(new Float32Array(2), 5, undefined, 0.01)).toEqual([]);
  });

  it('refuses invalid ids and vectors', () => {
    const index = make(2);
    for (const id of [-1, 0.5, 2 ** 32, Number.NaN])
      expect(() => index.add(id, Float32Array.of(1, 0))).toThrow(RangeError);
    for (const vector of [Float32Array.of(1), Float32Array.of(1, 0, 0), ...ABSURD.map(withNumber)]) {
      expect(() => index.add(1, vector)).toThrow(RangeError);
      for (const k of [0, 1]) expect(() => index.search(vector, k)).toThrow(RangeError);
    }
    expect(index.size).toBe(0);
    // Each number is within the bound, but all together exceed it.
    index.add(1, Float32Array.of(2 ** 20, -(2 ** 20)));
    expect(index.remove(1)).toBe(true);
    index.add(2 ** 32 - 1, Float32Array.of(1, 0));
    expect(index.search(Float32Array.of(1, 0), 1)[0]!.id).toBe(2 ** 32 - 1);
  });

  it('accepts an id again while its vector exists and after its removal, also with a graph', () => {
    const index = make(D);
    const prng = createPrng(5);
    for (let id = 0; id < GRAPH_SIZE_MIN + 50; id++) index.add(id, randomVector(prng));
    tendAll(index);
    const target = randomVector(prng);
    index.add(10, target);
    expect(index.search(target, 1)[0]!.id).toBe(10);
    tendAll(index);
    expect(index.search(target, 1)[0]!.id).toBe(10);
    expect(index.remove(10)).toBe(true);
    expect(index.has(10)).toBe(false);
    expect(index.search(target, 50).some(({ id }) => id === 10)).toBe(false);
    index.add(10, target);
    tendAll(index);
    expect(index.search(target, 1)[0]).toMatchObject({ id: 10 });
    expect(index.size).toBe(GRAPH_SIZE_MIN + 50);
  });

  it('has the same content as a map of vectors after random changes', () => {
    const step = fc.oneof(
      fc.record({ op: fc.constant('add' as const), id: fc.nat(12), seed: fc.nat(1_000) }),
      fc.record({ op: fc.constant('remove' as const), id: fc.nat(12), seed: fc.nat(1_000) }),
      fc.record({ op: fc.constant('tend' as const), id: fc.nat(12), seed: fc.nat(1_000) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.nat(1_000), fc.nat(8), (steps, seed, k) => {
        const index = make(8);
        const model = new Map<number, Float32Array>();
        for (const { op, id, seed: vectorSeed } of steps) {
          if (op === 'tend') index.tend(1);
          else if (op === 'remove') expect(index.remove(id)).toBe(model.delete(id));
          else {
            const vector = randomVector(createPrng(vectorSeed), 8);
            index.add(id, vector);
            model.set(id, vector);
          }
        }
        const query = randomVector(createPrng(seed), 8);
        const wanted = [...model]
          .map(([id, vector]) => ({ id, similarity: vector.reduce((sum, x, at) => sum + x * query[at]!, 0) }))
          .sort((a, b) => b.similarity - a.similarity)
          .slice(0, k);
        const found = index.search(query, k);
        expect(found.length).toBe(wanted.length);
        found.forEach(({ similarity }, at) => {
          expect(similarity).toBeCloseTo(wanted[at]!.similarity, 4);
        });
        expect(index.size).toBe(model.size);
      }),
      { seed: 11, numRuns: 60 },
    );
  });
});

describe('the hnsw index with a graph', () => {
  const SIZE = 6_000;
  const DIMENSIONS = 64;

  function fill(prng: Prng, size = SIZE, dimensions = DIMENSIONS) {
    const exact = new ExactIndex(dimensions);
    const hnsw = new HnswIndex(loadHnswlib(), dimensions);
    const next = createTopics(prng, 120, dimensions);
    for (let id = 0; id < size; id++) {
      const vector = next();
      exact.add(id, vector);
      hnsw.add(id, vector);
    }
    return { exact, hnsw, next };
  }

  type Filled = ReturnType<typeof fill>;
  const graphs = new Map<number, Filled>();
  /** An index with a complete graph, for tests that change nothing; it is made once. */
  function filled(dimensions: 64 | 600): Filled {
    const kept = graphs.get(dimensions);
    if (kept !== undefined) return kept;
    const made = fill(createPrng(21), dimensions === 64 ? SIZE : 3_000, dimensions);
    tendAll(made.hnsw);
    graphs.set(dimensions, made);
    return made;
  }

  it.each([64, 600] as const)(
    'finds in %i dimensions at least 0.98 of what the exact index finds',
    { tags: 'long' },
    (dimensions) => {
      const { exact, hnsw, next } = filled(dimensions);
      expect(hnsw.unlinked).toBe(0);
      let found = 0;
      let wanted = 0;
      for (let n = 0; n < 200; n++) {
        const query = next();
        const truth = exact.search(query, 5);
        const ids = new Set(hnsw.search(query, 5).map(({ id }) => id));
        wanted += truth.length;
        found += truth.filter(({ id }) => ids.has(id)).length;
      }
      expect(wanted).toBe(1_000);
      expect(found / wanted).toBeGreaterThanOrEqual(0.98);
    },
  );

  it('refuses invalid vectors, and still answers afterwards', () => {
    for (const dimensions of [64, 600] as const) {
      const { exact, hnsw, next } = filled(dimensions);
      const query = next();
      for (const number of ABSURD) {
        const absurd = query.with(5, number);
        expect(() => hnsw.search(absurd, 5)).toThrow(RangeError);
        expect(() => hnsw.search(absurd, 5, (id) => id > 9, 0.2)).toThrow(RangeError);
        expect(() => hnsw.add(7, absurd)).toThrow(RangeError);
      }
      expect(hnsw.search(query, 1)).toEqual(exact.search(query, 1));
    }
  });

  it('answers the same while the graph is being built as before and after', () => {
    const { exact, hnsw, next } = fill(createPrng(22), 3_000);
    const query = next();
    const truth = exact.search(query, 5).map(({ id }) => id);
    let looks = 0;
    do {
      looks++;
      expect(hnsw.search(query, 5).map(({ id }) => id)).toEqual(truth);
    } while (hnsw.tend(0));
    expect(looks).toBeGreaterThan(100);
  });

  it('returns all vectors that a filter accepts, even if they are few', () => {
    const { exact, hnsw, next } = filled(64);
    for (const modulo of [2, 10, 100, 1_000, 3_000]) {
      const accept = (id: number) => id % modulo === 1;
      for (let n = 0; n < 10; n++) {
        const query = next();
        const truth = exact.search(query, 50, accept);
        const found = hnsw.search(query, 50, accept);
        expect(found.length).toBe(truth.length);
        expect(found.every(({ id }) => accept(id))).toBe(true);
        expect(found[0]!.similarity).toBeCloseTo(truth[0]!.similarity, 5);
        const near = exact.search(query, 50, accept, 0.3);
        expect(hnsw.search(query, 50, accept, 0.3).length).toBe(near.length);
      }
    }
  });

  it('returns the full similarity of what it found in fewer dimensions', { tags: 'long' }, () => {
    const { exact, hnsw, next } = filled(600);
    for (let n = 0; n < 20; n++) {
      const query = next();
      const similarityOf = new Map(
        exact.search(query, exact.size).map(({ id, similarity }) => [id, similarity]),
      );
      const found = hnsw.search(query, 10, (id) => id % 3 !== 0, 0.3);
      for (const { id, similarity } of found) expect(similarity).toBe(similarityOf.get(id));
      const truth = exact.search(query, 10, (id) => id % 3 !== 0, 0.3);
      expect(found.length).toBe(truth.length);
    }
  });

  it('returns all vectors if more are requested than exist', () => {
    const { hnsw, next } = filled(64);
    const found = hnsw.search(next(), SIZE + 1_500);
    expect(new Set(found.map(({ id }) => id)).size).toBe(SIZE);
  });

  it('builds the graph again after many removals, and finds the remaining vectors', { tags: 'long' }, () => {
    const { exact, hnsw, next } = fill(createPrng(25));
    tendAll(hnsw);
    const before = hnsw.bytes;
    for (let id = 0; id < SIZE; id++) {
      if (id % 2 === 0) continue;
      exact.remove(id);
      hnsw.remove(id);
    }
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 50; n++) {
        const query = next();
        const truth = exact.search(query, 5);
        expect(hnsw.search(query, 5)[0]!.similarity).toBeCloseTo(truth[0]!.similarity, 5);
      }
      tendAll(hnsw);
    }
    expect(hnsw.size).toBe(SIZE / 2);
    expect(hnsw.bytes).toBeLessThan(before);
  });
});

describe('the choice of an index', () => {
  it('is the graph if the library is installed, without a warning', () => {
    const warnings: string[] = [];
    expect(chooseIndex((message) => warnings.push(message))(4)).toBeInstanceOf(HnswIndex);
    expect(warnings).toEqual([]);
  });

  it('is a comparison with all vectors otherwise, with one warning', () => {
    const warnings: string[] = [];
    const make = chooseIndex(
      (message) => warnings.push(message),
      () => {
        throw new Error('Could not locate the bindings file. Tried:\n → /a/path');
      },
    );
    expect(make(4)).toBeInstanceOf(ExactIndex);
    expect(make(4)).toBeInstanceOf(ExactIndex);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('the graph of hnswlib cannot be loaded');
    expect(warnings[0]).not.toContain('/a/path');
  });
});

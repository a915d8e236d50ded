/** Comparing vectors: the addon and its fallback, one suite for both, and a comparison of the two bit by bit. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadVectorAddon, type VectorEngine, vectorFallback } from '../../native/vector-engine.ts';
import { countNumbers, writeShort } from '../../src/search/short-vector.ts';
import { listLevels, useLevel } from './levels.ts';

const addon = loadVectorAddon();
const levels = listLevels(addon);
const engines: [name: string, engine: VectorEngine, level: number][] = [['the fallback', vectorFallback, 0]];
for (const level of levels) engines.push([`the addon at level ${level}`, addon!, level]);

const BLOCK_BITS = 2;

/** Stored vectors one after the other. */
function store(vectors: readonly Float32Array[]): Int16Array {
  const numbers = countNumbers(vectors[0]!.length);
  const block = new Int16Array(vectors.length * numbers);
  for (const [at, vector] of vectors.entries()) writeShort(vector, block.subarray(at * numbers));
  return block;
}

function compare(engine: VectorEngine, query: Float32Array, blocks: Int16Array[], places: number[]) {
  const similarities = new Float64Array(places.length);
  const given = Uint32Array.from(places);
  expect(engine.compareShort(query, blocks, BLOCK_BITS, given, places.length, similarities)).toBe(
    places.length,
  );
  return similarities;
}

describe.each(engines)('the vector engine %s', (_name, engine, level) => {
  useLevel(addon, level);

  it.each([1, 2, 15, 16, 17, 33, 256])('returns inner products of %i dimensions', (dimensions) => {
    const row = (seed: number) => Float32Array.from({ length: dimensions }, (_, at) => Math.sin(seed + at));
    const rows = [0, 1, 2, 3, 4, 5].map(row);
    const query = row(9);
    const places = [5, 0, 3, 3];
    const found = compare(engine, query, [store(rows.slice(0, 4)), store(rows.slice(4))], places);
    for (const [at, place] of places.entries()) {
      const expected = query.reduce((sum, x, i) => sum + x * rows[place]![i]!, 0);
      expect(found[at]! - expected).toBeLessThan(2e-5 * Math.sqrt(dimensions));
      expect(expected - found[at]!).toBeLessThan(2e-5 * Math.sqrt(dimensions));
    }
  });

  it('reads nothing for an empty request', () => {
    const out = new Float64Array(1).fill(7);
    expect(engine.compareShort(Float32Array.of(1), [], BLOCK_BITS, new Uint32Array(1), 0, out)).toBe(0);
    expect(out[0]).toBe(7);
  });

  it('refuses missing places, and more than there is room for', () => {
    const query = Float32Array.of(1, 2);
    const blocks = [new Int16Array(4 * countNumbers(2)), new Int16Array(countNumbers(2))];
    const ask = (places: number[], count = places.length, room = count) =>
      engine.compareShort(query, blocks, BLOCK_BITS, Uint32Array.from(places), count, new Float64Array(room));
    expect(ask([4])).toBe(1);
    for (const outside of [5, 8, 2 ** 32 - 1]) expect(() => ask([outside])).toThrow(RangeError);
    expect(() => ask([0], 2)).toThrow(RangeError);
    expect(() => ask([0, 1], 2, 1)).toThrow(RangeError);
    expect(() =>
      engine.compareShort(new Float32Array(0), blocks, 2, Uint32Array.of(0), 1, new Float64Array(1)),
    ).toThrow(RangeError);
  });
});

describe.each(levels)('the addon at level %i and its fallback', (level) => {
  useLevel(addon, level);

  it('refuse values of another kind', () => {
    const vector = Float32Array.of(1);
    const good = [vector, [store([vector])], BLOCK_BITS, Uint32Array.of(0), 1, new Float64Array(1)];
    const ask = (args: unknown[]) =>
      addon!.compareShort(...(args as Parameters<VectorEngine['compareShort']>));
    expect(ask(good)).toBe(1);
    for (let at = 0; at < good.length; at++) {
      for (const other of [undefined, {}, 'one', new Uint8Array(8)])
        expect(() => ask(good.with(at, other as never)), `${at}`).toThrow(TypeError);
    }
    expect(() => ask(good.with(1, [7] as never))).toThrow(TypeError);
  });

  it('return the same bits', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 70 }).chain((dimensions) => {
          const vector = fc.float32Array({
            minLength: dimensions,
            maxLength: dimensions,
            noNaN: true,
            noDefaultInfinity: true,
          });
          return fc.tuple(
            vector,
            fc.array(vector, { minLength: 1, maxLength: 6 }),
            fc.array(fc.nat(), { maxLength: 8 }),
          );
        }),
        ([query, rows, picks]) => {
          const blocks: Int16Array[] = [];
          for (let at = 0; at < rows.length; at += 2 ** BLOCK_BITS)
            blocks.push(store(rows.slice(at, at + 2 ** BLOCK_BITS)));
          const places = picks.map((pick) => pick % rows.length);
          expect(compare(addon!, query, blocks, places)).toEqual(
            compare(vectorFallback, query, blocks, places),
          );
        },
      ),
    );
  });
});

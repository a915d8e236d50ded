/** Comparing vectors: the addon and its fallback, one suite for both, and a comparison of the two bit by bit. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadVectorAddon, type VectorEngine, vectorFallback } from '../../native/vector-engine.ts';
import { packedForm } from '../../src/search/packed-vector.ts';
import { shortForm } from '../../src/search/short-vector.ts';
import { listLevels, useLevel } from './levels.ts';

const addon = loadVectorAddon();
const levels = listLevels(addon);
const engines: [name: string, engine: VectorEngine, level: number][] = [['the fallback', vectorFallback, 0]];
for (const level of levels) engines.push([`the addon at level ${level}`, addon!, level]);

const BLOCK_BITS = 2;

type Numbers = Int16Array | Uint8Array;
interface Form {
  stored: 'short' | 'packed';
  /** Stored vectors one after the other. */
  store(vectors: readonly Float32Array[]): Numbers;
  compare(engine: VectorEngine, ...call: unknown[]): number;
  /** Largest error of a number, as a share of the largest number of the vector. */
  error: number;
}

function storeIn<Block extends Numbers>(
  form: {
    count(dimensions: number): number;
    make(numbers: number): Block;
    write(vector: Float32Array, into: Block): void;
  },
  vectors: readonly Float32Array[],
): Block {
  const numbers = form.count(vectors[0]!.length);
  const block = form.make(vectors.length * numbers);
  for (const [at, vector] of vectors.entries()) form.write(vector, block.subarray(at * numbers) as Block);
  return block;
}

const FORMS: Form[] = [
  {
    stored: 'short',
    store: (vectors) => storeIn(shortForm, vectors),
    compare: (engine, ...call) => engine.compareShort(...(call as Parameters<VectorEngine['compareShort']>)),
    error: 2e-5,
  },
  {
    stored: 'packed',
    store: (vectors) => storeIn(packedForm, vectors),
    compare: (engine, ...call) =>
      engine.comparePacked(...(call as Parameters<VectorEngine['comparePacked']>)),
    error: 2e-3,
  },
];

function compare(form: Form, engine: VectorEngine, query: Float32Array, blocks: Numbers[], places: number[]) {
  const similarities = new Float64Array(places.length);
  const given = Uint32Array.from(places);
  expect(form.compare(engine, query, blocks, BLOCK_BITS, given, places.length, similarities)).toBe(
    places.length,
  );
  return similarities;
}

describe.each(engines)('the vector engine %s', (_name, engine, level) => {
  useLevel(addon, level);

  describe.each(FORMS)('with $stored vectors', (form) => {
    it.each([1, 2, 15, 16, 17, 33, 256])('returns inner products of %i dimensions', (dimensions) => {
      const row = (seed: number) => Float32Array.from({ length: dimensions }, (_, at) => Math.sin(seed + at));
      const rows = [0, 1, 2, 3, 4, 5].map(row);
      const query = row(9);
      const places = [5, 0, 3, 3];
      const blocks = [form.store(rows.slice(0, 4)), form.store(rows.slice(4))];
      const found = compare(form, engine, query, blocks, places);
      for (const [at, place] of places.entries()) {
        const wanted = query.reduce((sum, x, i) => sum + x * rows[place]![i]!, 0);
        expect(Math.abs(found[at]! - wanted)).toBeLessThan(form.error * Math.sqrt(dimensions));
      }
    });

    it('reads nothing for an empty request', () => {
      const out = new Float64Array(1).fill(7);
      expect(form.compare(engine, Float32Array.of(1), [], BLOCK_BITS, new Uint32Array(1), 0, out)).toBe(0);
      expect(out[0]).toBe(7);
    });

    it('refuses places that do not exist, and a list of results that is too short', () => {
      const query = Float32Array.of(1, 2);
      const four = form.store([query, query, query, query]);
      const blocks = [four, form.store([query])];
      const ask = (places: number[], count = places.length, room = count) =>
        form.compare(
          engine,
          query,
          blocks,
          BLOCK_BITS,
          Uint32Array.from(places),
          count,
          new Float64Array(room),
        );
      expect(ask([4])).toBe(1);
      for (const outside of [5, 8, 2 ** 32 - 1]) expect(() => ask([outside])).toThrow(RangeError);
      expect(() => ask([0], 2)).toThrow(RangeError);
      expect(() => ask([0, 1], 2, 1)).toThrow(RangeError);
      const nothing = new Float32Array(0);
      expect(() =>
        form.compare(engine, nothing, blocks, 2, Uint32Array.of(0), 1, new Float64Array(1)),
      ).toThrow(RangeError);
    });
  });
});

describe.each(levels)('the addon at level %i and its fallback', (level) => {
  useLevel(addon, level);

  it.each(FORMS)('refuse values of another kind than $stored vectors', (form) => {
    const vector = Float32Array.of(1);
    const good = [vector, [form.store([vector])], BLOCK_BITS, Uint32Array.of(0), 1, new Float64Array(1)];
    expect(form.compare(addon!, ...good)).toBe(1);
    for (let at = 0; at < good.length; at++) {
      for (const other of [undefined, {}, 'one', new Uint16Array(8)])
        expect(() => form.compare(addon!, ...good.with(at, other as never)), `${at}`).toThrow(TypeError);
    }
    expect(() => form.compare(addon!, ...good.with(1, [7] as never))).toThrow(TypeError);
  });

  it.each(FORMS)('return the same bits with $stored vectors', (form) => {
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
          const blocks: Numbers[] = [];
          for (let at = 0; at < rows.length; at += 2 ** BLOCK_BITS)
            blocks.push(form.store(rows.slice(at, at + 2 ** BLOCK_BITS)));
          const places = picks.map((pick) => pick % rows.length);
          expect(compare(form, addon!, query, blocks, places)).toEqual(
            compare(form, vectorFallback, query, blocks, places),
          );
        },
      ),
    );
  });
});

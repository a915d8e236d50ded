/** The graphs of native code: what they find compared with a full search, what they refuse, and their files. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Graph, loadGraphEngine } from '../../native/graph-engine.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { longFrom } from '../long-parts.ts';
import { listLevels, useLevel } from './levels.ts';

const engine = loadGraphEngine();
const SIZE = 3_000;
const M = 16;
const EF = 64;
/** Permitted error of a similarity, as in src/search/hnsw-index.ts: a graph keeps fifteen values per number. */
const COARSENESS = 0.1;
/** Values that no vector contains. Some of them can make a walk over a graph endless. */
const ABSURD = [Number.NaN, Infinity, -Infinity, 3e38, -3e38, 2 ** 21];

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'graph-engine-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function randomVector(prng: Prng, dimensions: number): Float32Array {
  const vector = Float32Array.from({ length: dimensions }, () => prng.float() + prng.float() - 1);
  const length = Math.hypot(...vector);
  return vector.map((number) => number / length);
}

function createGraph(dimensions: number, size = SIZE): { graph: Graph; vectors: Float32Array[]; prng: Prng } {
  const prng = createPrng(dimensions);
  const vectors = Array.from({ length: size }, () => randomVector(prng, dimensions));
  const graph = engine.createGraph(dimensions, size, M, EF, 100);
  for (const [label, vector] of vectors.entries()) engine.addPoint(graph, vector, label);
  return { graph, vectors, prng };
}

function search(graph: Graph, vector: Float32Array, wanted: number, ef = 200) {
  const labels = new Uint32Array(wanted);
  const similarities = new Float32Array(wanted);
  const count = engine.searchGraph(graph, vector, wanted, ef, labels, similarities);
  return Array.from({ length: count }, (_, at) => ({ label: labels[at]!, similarity: similarities[at]! }));
}

function cosine(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}

const levels = listLevels(engine);

for (const [at, level] of levels.entries())
  describe(`a graph at level ${level}`, longFrom(at, 1), () => {
    useLevel(engine, level);

    // Sizes around the step of the multiplication, around the padding with zeros, and with sums too large for 16 bits.
    it.each([1, 2, 8, 31, 32, 33, 63, 64, 65, 100, 577])(
      'finds the nearest vectors, best first, in %i dimensions',
      { tags: 'long' },
      (dimensions) => {
        const { graph, vectors, prng } = createGraph(dimensions);
        let found = 0;
        const QUERIES = 25;
        for (let n = 0; n < QUERIES; n++) {
          const query = randomVector(prng, dimensions);
          const all = Float64Array.from(vectors, (vector) => cosine(query, vector));
          const similarities = all.toSorted().reverse();
          const near = search(graph, query, 20);
          expect(near).toHaveLength(20);
          for (const [at, { label, similarity }] of near.entries()) {
            expect(Math.abs(similarity - all[label]!)).toBeLessThan(COARSENESS);
            expect(similarity).toBeLessThanOrEqual(near[Math.max(0, at - 1)]!.similarity);
          }
          // Counts results that are as near as the fifth one, except for differences that the graph cannot represent.
          found +=
            near.filter(({ label }) => all[label]! >= similarities[4]! - COARSENESS / 2).length >= 5 ? 1 : 0;
        }
        expect(found / QUERIES).toBeGreaterThanOrEqual(0.96);
      },
    );

    it('is the same whenever it is built from the same vectors, with instructions of any width', {
      tags: 'long',
    }, () => {
      for (const [dimensions, size] of [
        [40, SIZE],
        [700, 300],
        [17_000, 30],
      ] as const) {
        engine.setWidestLevel(level);
        const a = createGraph(dimensions, size);
        engine.setWidestLevel(0);
        const b = createGraph(dimensions, size);
        for (let n = 0; n < 20; n++) {
          const query = randomVector(a.prng, dimensions);
          const coarse = search(b.graph, query, 10, 20);
          engine.setWidestLevel(level);
          expect(search(a.graph, query, 10, 20)).toEqual(coarse);
          engine.setWidestLevel(0);
        }
      }
      engine.setWidestLevel(level);
    });

    it('finds no removed point, and still as many as requested', () => {
      const { graph, vectors } = createGraph(16);
      for (let label = 0; label < SIZE; label += 2) engine.markRemoved(graph, label);
      expect(() => engine.markRemoved(graph, 0)).toThrow();
      for (let n = 0; n < 50; n++) {
        const near = search(graph, vectors[n]!, 30, 30);
        expect(near).toHaveLength(30);
        expect(near.every(({ label }) => label % 2 === 1)).toBe(true);
      }
      expect(engine.countPoints(graph)).toBe(SIZE);
    });

    it('keeps the greatest numbers of either sign', () => {
      for (const dimensions of [64, 20_000]) {
        const graph = engine.createGraph(dimensions, 4, M, EF, 100);
        const flat = new Float32Array(dimensions).fill(1 / Math.sqrt(dimensions));
        const signs = flat.map((number, at) => (at % 2 === 0 ? number : -number));
        for (const [label, vector] of [flat, flat.map((number) => -number), signs].entries())
          engine.addPoint(graph, vector, label);
        const near = search(graph, flat, 3);
        expect(near.map(({ label }) => label)).toEqual([0, 2, 1]);
        for (const [at, similarity] of [1, 0, -1].entries())
          expect(Math.abs(near[at]!.similarity - similarity)).toBeLessThan(0.03);
      }
    });

    it('answers if it is empty, has fewer than requested, or only zeros', () => {
      const graph = engine.createGraph(4, 10, M, EF, 100);
      expect(search(graph, Float32Array.of(1, 0, 0, 0), 5)).toEqual([]);
      engine.addPoint(graph, new Float32Array(4), 3);
      engine.addPoint(graph, Float32Array.of(0, 1, 0, 0), 8);
      expect(search(graph, Float32Array.of(0, 1, 0, 0), 5).map(({ label }) => label)).toEqual([8, 3]);
      for (const { similarity } of search(graph, new Float32Array(4), 5)) expect(similarity).toBe(0);
      expect(search(graph, Float32Array.of(0, 1, 0, 0), 0)).toEqual([]);
    });

    it('grows only on request', () => {
      const graph = engine.createGraph(4, 2, M, EF, 100);
      const vector = Float32Array.of(1, 0, 0, 0);
      engine.addPoint(graph, vector, 0);
      engine.addPoint(graph, vector, 1);
      expect(() => engine.addPoint(graph, vector, 2)).toThrow();
      engine.resizeGraph(graph, 3);
      engine.addPoint(graph, vector, 2);
      expect([engine.countPoints(graph), engine.capacityOf(graph)]).toEqual([3, 3]);
      expect(() => engine.resizeGraph(graph, 2)).toThrow();
    });

    it('refuses invalid input, and continues', () => {
      const { graph, vectors } = createGraph(8, 50);
      const [labels, similarities] = [new Uint32Array(5), new Float32Array(5)];
      const vector = vectors[0]!;
      const wrong: (() => unknown)[] = [
        () => engine.addPoint(graph, new Float32Array(7), 50),
        () => engine.addPoint(graph, vector, -1),
        () => engine.addPoint(graph, vector, 1.5),
        () => engine.addPoint(graph, vectors[1]!, 0),
        ...ABSURD.map((number) => () => engine.addPoint(graph, vector.with(3, number), 50)),
        ...ABSURD.map((number) => () => search(graph, vector.with(3, number), 5)),
        () => engine.addPoint({} as Graph, vector, 50),
        () => engine.addPoint(null as unknown as Graph, vector, 50),
        () => engine.searchGraph(graph, new Float32Array(9), 5, 10, labels, similarities),
        () => engine.searchGraph(graph, vector, 6, 10, labels, similarities),
        () => engine.searchGraph(graph, vector, 5, 10, new Uint32Array(4), similarities),
        () => engine.searchGraph(graph, vector, 5, 0, labels, similarities),
        () => engine.searchGraph(graph, vector, 5, 10, similarities as unknown as Uint32Array, similarities),
        () => engine.searchGraph(graph, [...vector] as unknown as Float32Array, 5, 10, labels, similarities),
        () => engine.markRemoved(graph, 1_000),
        () => engine.createGraph(0, 10, M, EF, 100),
        () => engine.createGraph(4, 0, M, EF, 100),
        () => (engine.addPoint as () => void)(),
      ];
      for (const call of wrong) expect(call).toThrow();
      for (const number of ABSURD) {
        expect(() => search(graph, vector.with(0, number), 5)).toThrow(RangeError);
        expect(() => engine.addPoint(graph, vector.with(0, number), 50)).toThrow(RangeError);
      }
      expect(search(graph, vector, 1)[0]!.label).toBe(0);
      expect(engine.countPoints(graph)).toBe(50);
    });

    it('finds points with finite similarities for the smallest and the greatest numbers that a vector may contain', () => {
      const { graph, prng } = createGraph(33, 500);
      for (const size of [2 ** -149, 1e-38, 1e-30, 1e-29, 2 ** 20]) {
        const vector = randomVector(prng, 33).map((number) => Math.sign(number) * size);
        engine.addPoint(engine.createGraph(33, 1, M, EF, 100), vector, 0);
        const near = search(graph, vector, 20);
        expect(near).toHaveLength(20);
        for (const { similarity } of near) expect(similarity).toSatisfy(Number.isFinite);
      }
    });
  });

describe('the file of a graph', () => {
  it('restores the same graph, with its marks', async () => {
    const { graph, prng } = createGraph(33);
    engine.markRemoved(graph, 7);
    const file = join(dir, 'same.graph');
    await engine.writeGraph(graph, file);
    const back = await engine.readGraph(33, file);
    expect([engine.countPoints(back), engine.capacityOf(back)]).toEqual([SIZE, SIZE]);
    for (let n = 0; n < 20; n++) {
      const query = randomVector(prng, 33);
      expect(search(back, query, 10)).toEqual(search(graph, query, 10));
    }
    expect(() => engine.markRemoved(back, 7)).toThrow();
  });

  it('is refused if it is not a graph, is cut off, or has other vectors', async () => {
    const { graph } = createGraph(33, 100);
    const file = join(dir, 'good.graph');
    await engine.writeGraph(graph, file);
    const bytes = readFileSync(file);
    const bad = join(dir, 'bad.graph');
    const longer = Buffer.concat([bytes, Buffer.alloc(1)]);
    for (const content of [Buffer.alloc(0), Buffer.from('no graph'), bytes.subarray(0, -1), longer]) {
      writeFileSync(bad, content);
      await expect(engine.readGraph(33, bad)).rejects.toThrow();
    }
    await expect(engine.readGraph(33, join(dir, 'none.graph'))).rejects.toThrow();
    await expect(engine.readGraph(200, file)).rejects.toThrow('another number of dimensions');
    await expect(engine.writeGraph(graph, join(dir, 'no', 'folder'))).rejects.toThrow();
  });

  it('is refused if a link leads out of the graph, or if numbers contradict each other', async () => {
    const { graph } = createGraph(33, 400);
    const file = join(dir, 'whole.graph');
    await engine.writeGraph(graph, file);
    const bytes = readFileSync(file);
    const HEAD_BYTES = 96;
    const pointBytes = Number(bytes.readBigUInt64LE(24));
    const rowAt = Number(bytes.readBigUInt64LE(40));
    const upperAt = HEAD_BYTES + 400 * pointBytes;
    // The offset of the first record on upper levels that is not empty.
    let firstUpper = upperAt;
    while (bytes.readUInt32LE(firstUpper) === 0) firstUpper += 4;
    const changes: Record<string, (copy: Buffer) => void> = {
      'a capacity above the maximum': (copy) => copy.writeBigUInt64LE(1n << 40n, 8),
      'a capacity below the number of points': (copy) => copy.writeBigUInt64LE(399n, 8),
      'more points than the file contains': (copy) => copy.writeBigUInt64LE(401n, 16),
      'points of another size': (copy) => copy.writeBigUInt64LE(1n, 24),
      'a size of points that overflows when it is multiplied by their number': (copy) =>
        copy.writeBigUInt64LE(1n << 61n, 24),
      'a start point that does not exist': (copy) => copy.writeUInt32LE(400, 52),
      'a start point on a level that it does not have': (copy) =>
        copy.writeInt32LE(copy.readInt32LE(48) + 1, 48),
      'a start point on a level below the lowest': (copy) => copy.writeInt32LE(-1, 48),
      'another number of links on the upper levels': (copy) => copy.writeBigUInt64LE(1_000_000n, 56),
      'another number of links on the lowest level': (copy) => copy.writeBigUInt64LE(5n, 64),
      'no candidates': (copy) => copy.writeBigUInt64LE(0n, 88),
      'a neighbour that does not exist': (copy) => copy.writeUInt32LE(400, HEAD_BYTES + 4),
      'more neighbours than a list can have': (copy) => copy.writeUInt16LE(33, HEAD_BYTES),
      'a row without a scale': (copy) => copy.writeFloatLE(Number.NaN, HEAD_BYTES + rowAt + 32),
      'a row of numbers that no row can have': (copy) => copy.writeUInt8(0, HEAD_BYTES + rowAt),
      'a label twice': (copy) => copy.writeUInt32LE(1, HEAD_BYTES + pointBytes - 8),
      'a label above the maximum': (copy) => copy.writeUInt32LE(1, HEAD_BYTES + pointBytes - 4),
      'half a list on an upper level': (copy) =>
        copy.writeUInt32LE(copy.readUInt32LE(firstUpper) - 4, firstUpper),
      'a list on an upper level that ends beyond the file': (copy) => copy.writeUInt32LE(68 * 64, firstUpper),
      'a neighbour on an upper level that does not exist': (copy) => copy.writeUInt32LE(400, firstUpper + 8),
    };
    const bad = join(dir, 'odd.graph');
    for (const [what, change] of Object.entries(changes)) {
      const copy = Buffer.from(bytes);
      change(copy);
      writeFileSync(bad, copy);
      await expect(engine.readGraph(33, bad), what).rejects.toThrow();
    }
    writeFileSync(bad, bytes);
    expect(engine.countPoints(await engine.readGraph(33, bad))).toBe(400);
  });

  it('contains the graph as it was when the writing began, even if points are removed meanwhile', async () => {
    const { graph, vectors } = createGraph(33);
    engine.markRemoved(graph, 7);
    const files = [join(dir, 'first.graph'), join(dir, 'second.graph')] as const;
    const written = engine.writeGraph(graph, files[0]);
    for (let label = 100; label < 200; label++) engine.markRemoved(graph, label);
    const again = engine.writeGraph(graph, files[1]);
    expect(() => engine.addPoint(graph, vectors[0]!, SIZE)).toThrow('being written');
    expect(() => engine.resizeGraph(graph, 2 * SIZE)).toThrow('being written');
    expect(search(graph, vectors[100]!, 30).every(({ label }) => label < 100 || label >= 200)).toBe(true);
    await Promise.all([written, again]);
    const [before, after] = [await engine.readGraph(33, files[0]), await engine.readGraph(33, files[1])];
    const holds = (of: Graph, label: number) => search(of, vectors[label]!, 1)[0]!.label === label;
    expect([holds(before, 7), holds(before, 100), holds(before, 99)]).toEqual([false, true, true]);
    expect([holds(after, 7), holds(after, 100), holds(after, 99)]).toEqual([false, false, true]);
    engine.resizeGraph(graph, SIZE + 1);
    engine.addPoint(graph, vectors[0]!, SIZE);
    await expect(engine.writeGraph(graph, join(dir, 'no', 'folder'))).rejects.toThrow();
    engine.resizeGraph(graph, SIZE + 2);
  });

  it('accepts new points where all neighbours were removed', () => {
    const { graph, vectors, prng } = createGraph(16);
    engine.resizeGraph(graph, SIZE + 400);
    // Equal vectors become each other's only neighbours.
    for (let label = SIZE; label < SIZE + 300; label++) engine.addPoint(graph, vectors[0]!, label);
    for (let label = SIZE; label < SIZE + 300; label++) engine.markRemoved(graph, label);
    engine.markRemoved(graph, 0);
    for (let n = 0; n < 20; n++) {
      const label = SIZE + 300 + n;
      engine.addPoint(graph, vectors[0]!, label);
      expect(search(graph, vectors[0]!, 400, 400).some((near) => near.label === label)).toBe(true);
      engine.addPoint(graph, randomVector(prng, 16), label + 50);
    }
  });
});

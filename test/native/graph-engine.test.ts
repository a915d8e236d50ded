/** The graphs of native code: what they find beside comparing with all, what they refuse, and their files. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Graph, loadGraphEngine } from '../../native/graph-engine.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { listLevels, useLevel } from './levels.ts';

const engine = loadGraphEngine();
const SIZE = 3_000;
const M = 16;
const EF = 64;
/** How far a similarity may be off, as src/search/hnsw-index.ts has it: a graph keeps fifteen values a number. */
const COARSENESS = 0.1;

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
  return a.reduce((sum, x, at) => sum + x * b[at]!, 0);
}

const levels = listLevels(engine);

describe.each(levels)('a graph at level %i', (level) => {
  useLevel(engine, level);

  // Around the step in which numbers are multiplied, what is filled up with zeros, and sums that are too many for 16 bits.
  it.each([1, 2, 8, 31, 32, 33, 63, 64, 65, 100, 577])(
    'finds the nearest, best first, in %i dimensions',
    (dimensions) => {
      const { graph, vectors, prng } = createGraph(dimensions);
      let found = 0;
      const QUERIES = 50;
      for (let n = 0; n < QUERIES; n++) {
        const query = randomVector(prng, dimensions);
        const similarities = vectors.map((vector) => cosine(query, vector)).sort((a, b) => b - a);
        const near = search(graph, query, 20);
        expect(near).toHaveLength(20);
        for (const [at, { label, similarity }] of near.entries()) {
          expect(Math.abs(similarity - cosine(query, vectors[label]!))).toBeLessThan(COARSENESS);
          expect(similarity).toBeLessThanOrEqual(near[Math.max(0, at - 1)]!.similarity);
        }
        // As near as the fifth, but for what the graph cannot tell apart.
        found +=
          near.filter(({ label }) => cosine(query, vectors[label]!) >= similarities[4]! - COARSENESS / 2)
            .length >= 5
            ? 1
            : 0;
      }
      expect(found / QUERIES).toBeGreaterThanOrEqual(0.96);
    },
  );

  it('comes to the same whenever it is made of the same, however wide the instructions are', () => {
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

  it('does not find what is marked as removed, and as much as is wanted all the same', () => {
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
        expect(near[at]!.similarity).toBeCloseTo(similarity, 5);
    }
  });

  it('answers when there is nothing, less than is wanted, or only zeros', () => {
    const graph = engine.createGraph(4, 10, M, EF, 100);
    expect(search(graph, Float32Array.of(1, 0, 0, 0), 5)).toEqual([]);
    engine.addPoint(graph, new Float32Array(4), 3);
    engine.addPoint(graph, Float32Array.of(0, 1, 0, 0), 8);
    expect(search(graph, Float32Array.of(0, 1, 0, 0), 5).map(({ label }) => label)).toEqual([8, 3]);
    for (const { similarity } of search(graph, new Float32Array(4), 5)) expect(similarity).toBe(0);
    expect(search(graph, Float32Array.of(0, 1, 0, 0), 0)).toEqual([]);
  });

  it('grows when it is told to, and not by itself', () => {
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

  it('refuses what does not fit, and lives on', () => {
    const { graph, vectors } = createGraph(8, 50);
    const [labels, similarities] = [new Uint32Array(5), new Float32Array(5)];
    const vector = vectors[0]!;
    const wrong: (() => unknown)[] = [
      () => engine.addPoint(graph, new Float32Array(7), 50),
      () => engine.addPoint(graph, vector, -1),
      () => engine.addPoint(graph, vector, 1.5),
      () => engine.addPoint(graph, vectors[1]!, 0),
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
    expect(search(graph, vector, 1)[0]!.label).toBe(0);
  });
});

describe('the file of a graph', () => {
  it('gives the same graph back, with its marks', async () => {
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

  it('is refused when it is none, is cut short, or is of other vectors', async () => {
    const { graph } = createGraph(33, 100);
    const file = join(dir, 'good.graph');
    await engine.writeGraph(graph, file);
    const bytes = readFileSync(file);
    const bad = join(dir, 'bad.graph');
    for (const content of [Buffer.alloc(0), Buffer.from('no graph'), bytes.subarray(0, bytes.length - 1)]) {
      writeFileSync(bad, content);
      await expect(engine.readGraph(33, bad)).rejects.toThrow();
    }
    await expect(engine.readGraph(33, join(dir, 'none.graph'))).rejects.toThrow();
    await expect(engine.readGraph(200, file)).rejects.toThrow('other vectors');
    await expect(engine.writeGraph(graph, join(dir, 'no', 'folder'))).rejects.toThrow();
  });
});

/** Graphs on the disk: what is loaded, what is left out, and the effect of a crash or a damaged file. */
import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { GraphFolder } from '../../src/search/graph-folder.ts';
import { HnswIndex, loadHnswlib } from '../../src/search/hnsw-index.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { createUlidSource } from '../../src/std/id.ts';
import { createPrng } from '../../src/std/prng.ts';
import { makeFolder } from '../storage/folder.ts';

const DIMENSIONS = 64;
const SIZE = 3_000;
const KIND = 'model-1';

function createVectors(seed: number, size = SIZE): Float32Array[] {
  const prng = createPrng(seed);
  return Array.from({ length: size }, () => {
    const vector = Float32Array.from({ length: DIMENSIONS }, () => prng.below(2_001) / 1_000 - 1);
    const length = Math.hypot(...vector);
    return vector.map((x) => x / length);
  });
}

/** An index whose vectors have names. Ids are positions and may be used again; names are permanent. */
function createIndex(vectors: readonly Float32Array[]): HnswIndex {
  const index = new HnswIndex(loadHnswlib(), DIMENSIONS);
  for (const [id, vector] of vectors.entries()) index.add(id, vector);
  return index;
}

function tendAll(index: HnswIndex): void {
  while (index.tend(1_000));
}

const nameOf = (id: number) => `pattern-${id}`;
const find = (name: string) => Number(name.split('-')[1]);
const vectors = createVectors(1);
const queries = createVectors(2, 20);

function createFolder() {
  const dir = join(makeFolder(), 'graphs');
  return { dir, folder: new GraphFolder(dir, createUlidSource(createManualClock())) };
}

const list = (dir: string) => readdirSync(dir).sort();

describe('a graph on the disk', () => {
  const saved = createIndex(vectors);
  tendAll(saved);

  it('is loaded completely: nothing is linked again, and the results are the same', async () => {
    const { folder } = createFolder();
    expect(await folder.save('one', KIND, saved, nameOf)).toBe(true);
    const index = createIndex(vectors);
    expect(index.unlinked).toBe(SIZE);
    expect(await folder.restore('one', KIND, index, find)).toBe(SIZE);
    expect(index.unlinked).toBe(0);
    expect(index.tend(1)).toBe(false);
    for (const query of queries) expect(index.search(query, 10)).toEqual(saved.search(query, 10));
  });

  it('is loaded under other ids, except for vectors that have changed', async () => {
    const { folder } = createFolder();
    await folder.save('one', KIND, saved, nameOf);
    // The store has lost a third of its vectors, has replaced some, and has new ones.
    const changed = createVectors(3, 40);
    const index = new HnswIndex(loadHnswlib(), DIMENSIONS);
    const names: string[] = [];
    const add = (name: string, vector: Float32Array) => {
      index.add(names.length, vector);
      names.push(name);
    };
    for (let at = SIZE - 1; at >= 0; at--) {
      if (at % 3 === 0) continue;
      add(nameOf(at), at < 60 ? changed[at % 40]! : vectors[at]!);
    }
    for (const vector of changed) add(`new-${names.length}`, vector);
    const linked = await folder.restore('one', KIND, index, (name) => {
      const id = names.indexOf(name);
      return id < 0 ? undefined : id;
    });
    expect(linked).toBe(SIZE - SIZE / 3 - 40);
    expect(index.unlinked).toBe(80);
    const exactOf = (query: Float32Array) =>
      names
        .map((_, id) => ({ id, similarity: index.get(id)!.reduce((sum, x, i) => sum + x * query[i]!, 0) }))
        .sort((a, b) => b.similarity - a.similarity);
    for (let round = 0; round < 2; round++) {
      let hits = 0;
      for (const query of queries) {
        const truth = exactOf(query)
          .slice(0, 5)
          .map(({ id }) => id);
        const found = index.search(query, 5).map(({ id }) => id);
        hits += truth.filter((id) => found.includes(id)).length;
      }
      expect(hits).toBeGreaterThanOrEqual(95);
      tendAll(index);
      expect(index.unlinked).toBe(0);
    }
  });

  it('contains no removed vector, and can be saved again', async () => {
    const { folder, dir } = createFolder();
    const index = createIndex(vectors);
    await folder.save('one', KIND, saved, nameOf);
    await folder.restore('one', KIND, index, find);
    const [nearest] = index.search(queries[0]!, 1);
    index.remove(nearest!.id);
    expect(await folder.save('one', KIND, index, nameOf)).toBe(true);
    expect(list(dir)).toHaveLength(2);
    const again = createIndex(vectors);
    again.remove(nearest!.id);
    expect(await folder.restore('one', KIND, again, find)).toBe(SIZE - 1);
    expect(again.search(queries[0]!, 5).map(({ id }) => id)).not.toContain(nearest!.id);
    expect(again.search(queries[0]!, 5)).toEqual(index.search(queries[0]!, 5));
  });

  it('accepts no vector while it is being written; new ones are found, and linked afterwards', async () => {
    const index = createIndex(vectors);
    tendAll(index);
    const file = join(makeFolder(), 'graph');
    const saving = index.saveGraph(file);
    expect(await index.saveGraph(file)).toBe(null);
    const [late] = createVectors(9, 1);
    index.add(SIZE, late!);
    index.remove(7);
    expect(index.tend(1_000)).toBe(false);
    expect(index.unlinked).toBe(1);
    expect(index.search(late!, 1)).toMatchObject([{ id: SIZE }]);
    const ids = await saving;
    expect(ids).toHaveLength(SIZE);
    expect(ids![7]).toBe(null);
    expect(ids!.filter((id) => id !== null)).toHaveLength(SIZE - 1);
    tendAll(index);
    expect(index.unlinked).toBe(0);
    expect(index.search(late!, 1)).toMatchObject([{ id: SIZE }]);
  });

  it.each([
    ['is of another embedder', 'model-2', () => {}],
    ['is cut', KIND, (graph: string) => truncateSync(graph, readFileSync(graph).length - 100)],
    [
      'has another byte',
      KIND,
      (graph: string) => {
        const bytes = readFileSync(graph);
        bytes[bytes.length >> 1]! ^= 1;
        writeFileSync(graph, bytes);
      },
    ],
    [
      'has a list with another byte',
      KIND,
      (_graph: string, places: string) => {
        writeFileSync(places, readFileSync(places, 'utf8').replace('pattern-7"', 'pattern-8"'));
      },
    ],
    ['has no list', KIND, (_graph: string, places: string) => writeFileSync(places, '')],
    ['has gone', KIND, (graph: string) => writeFileSync(graph, '')],
  ])('that %s is left out and built again', async (_what, kind, damage) => {
    const { folder, dir } = createFolder();
    await folder.save('one', KIND, saved, nameOf);
    const files = list(dir).map((file) => join(dir, file));
    damage(files.find((file) => file.endsWith('.graph'))!, files.find((file) => file.endsWith('.json'))!);
    const index = createIndex(vectors);
    expect(await folder.restore('one', kind, index, find)).toBe(0);
    expect(index.unlinked).toBe(SIZE);
    tendAll(index);
    expect(index.search(vectors[5]!, 1)).toMatchObject([{ id: 5 }]);
    expect(await folder.save('one', KIND, index, nameOf)).toBe(true);
    expect(await folder.restore('one', KIND, createIndex(vectors), find)).toBe(SIZE);
  });

  it('does not exist before a save, nor for an index without a graph', async () => {
    const { folder } = createFolder();
    expect(await folder.restore('one', KIND, createIndex(vectors), find)).toBe(0);
    expect(await folder.save('one', KIND, createIndex(vectors.slice(0, 3)), nameOf)).toBe(false);
  });

  it('is not mistaken for the remains of a crash while it is being written', async () => {
    const { folder, dir } = createFolder();
    const outcomes = await Promise.all([
      folder.save('one', KIND, saved, nameOf),
      folder.keepOnly(new Set(['one'])),
      folder.restore('one', KIND, createIndex(vectors), find),
    ]);
    expect(outcomes).toEqual([true, undefined, SIZE]);
    expect(list(dir)).toHaveLength(2);
  });

  it('stays, while files with other names and the remains of a crash are removed', async () => {
    const { folder, dir } = createFolder();
    await folder.save('one', KIND, saved, nameOf);
    await folder.save('two-2', KIND, saved, nameOf);
    const [graph, places] = list(dir);
    mkdirSync(dir, { recursive: true });
    for (const left of ['one-01ARZ3.graph', 'one.json.tmp', 'three-01ARZ3.graph', 'three.json'])
      writeFileSync(join(dir, left), 'x');
    await folder.keepOnly(new Set(['one', 'four']));
    expect(list(dir)).toEqual([graph, places]);
    expect(await folder.restore('one', KIND, createIndex(vectors), find)).toBe(SIZE);
  });
});

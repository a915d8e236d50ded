/**
 * Searches in an index that another thread shares. They have the same results as in that thread; some tests also
 * compare them with the exact index.
 */
import { randomUUID } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadGraphEngine } from '../../native/graph-engine.ts';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { GRAPH_SIZE_MIN, HnswIndex, loadHnswlib } from '../../src/search/hnsw-index.ts';
import { IndexCatalog, SharedIndexes } from '../../src/search/index-catalog.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { makeFolder } from '../storage/folder.ts';

const VECTORS = 'vectors of a test';
const KINDS = ['loop', 'stall', ''];
const FAMILIES = ['claude', 'gpt'];

function randomVector(prng: Prng, dimensions: number): Float32Array {
  const vector = Float32Array.from({ length: dimensions }, () => prng.float() + prng.float() - 1);
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((number) => number / length);
}

const nameOf = (id: number) => `pat_${id}`;
const kindOf = (id: number) => KINDS[id % KINDS.length]!;
const familyOf = (id: number) => FAMILIES[id % FAMILIES.length]!;

/** A shared index, and another thread's view of it. */
function share(dimensions: number) {
  const key = randomUUID();
  const catalog = new IndexCatalog(key);
  onTestFinished(() => catalog.close());
  const shared = catalog.share('one', '', dimensions);
  const index = new HnswIndex(loadHnswlib(), dimensions, shared);
  const reader = new SharedIndexes(key, VECTORS);
  catalog.serve(VECTORS);
  const add = (id: number, vector: Float32Array) => {
    shared.describe(id, { name: nameOf(id), kind: kindOf(id), family: familyOf(id) });
    index.add(id, vector);
  };
  const remove = (id: number) => {
    if (index.remove(id)) shared.forget(id);
  };
  return { key, catalog, shared, index, reader, add, remove };
}

/** Searches both ways, and expects equal results. */
function compare(
  { index, reader }: Pick<ReturnType<typeof share>, 'index' | 'reader'>,
  vector: Float32Array,
  k: number,
  min_similarity: number,
  kind: string | null,
): void {
  const accept = kind === null ? undefined : (id: number) => kindOf(id) === kind;
  const own = index.search(vector, k, accept, min_similarity);
  const found = reader.search({ name: 'one', vector, k, min_similarity, kind, family: 'gpt' });
  expect(found).toEqual(
    own.map(({ id, similarity }) => ({
      name: nameOf(id),
      similarity,
      is_preferred: familyOf(id) === 'gpt',
    })),
  );
}

describe('a shared index', () => {
  it('has the same results as the index on the thread that shares it, after vectors are added and removed', () => {
    const step = fc.record({
      op: fc.constantFrom('add', 'add', 'remove', 'tend'),
      id: fc.nat(40),
      seed: fc.nat(1_000),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.nat(1_000), fc.nat(9), (steps, seed, k) => {
        const sharing = share(8);
        const exact = new ExactIndex(8);
        for (const { op, id, seed: vectorSeed } of steps) {
          if (op === 'tend') sharing.index.tend(1);
          else if (op === 'remove') {
            sharing.remove(id);
            exact.remove(id);
          } else {
            const vector = randomVector(createPrng(vectorSeed), 8);
            sharing.add(id, vector);
            exact.add(id, vector);
          }
        }
        const query = randomVector(createPrng(seed), 8);
        for (const kind of [null, 'loop', 'never seen']) compare(sharing, query, k, 0.1, kind);
        const truth = exact.search(query, k, undefined, -1).map(({ id }) => nameOf(id));
        const found = sharing.reader.search({
          name: 'one',
          vector: query,
          k,
          min_similarity: -1,
          kind: null,
          family: '',
        });
        expect(found!.map(({ name }) => name)).toEqual(truth);
        sharing.catalog.close();
      }),
      { numRuns: 60 },
    );
  });

  it.each([24, 500])(
    'has the same results with a graph of %i dimensions, after changes, a compaction and new blocks',
    { tags: 'long' },
    (dimensions) => {
      const sharing = share(dimensions);
      const prng = createPrng(dimensions);
      const count = GRAPH_SIZE_MIN + 700;
      const ask = () => {
        for (let n = 0; n < 12; n++) {
          const query = randomVector(prng, dimensions);
          for (const kind of [null, 'stall', 'never seen'])
            compare(sharing, query, 1 + prng.below(20), prng.below(2) === 0 ? 0.2 : -1, kind);
        }
      };
      for (let id = 0; id < count; id++) sharing.add(id, randomVector(prng, dimensions));
      ask();
      // At first half of the vectors are in the graph, then all of them.
      for (let n = 0; n < 3; n++) {
        sharing.index.tend(20);
        ask();
      }
      while (sharing.index.tend(50));
      ask();
      // Some vectors are replaced, more are added, and some are not linked yet.
      for (let n = 0; n < 300; n++) sharing.add(prng.below(count + 200), randomVector(prng, dimensions));
      ask();
      while (sharing.index.tend(50));
      // After so many changes, the graph is built again.
      for (let id = 0; id < count; id += 2) sharing.remove(id);
      ask();
      while (sharing.index.tend(50));
      ask();
      for (let id = 0; id < count + 200; id++) sharing.remove(id);
      ask();
      sharing.add(7, randomVector(prng, dimensions));
      ask();
    },
  );

  it('has a graph that comes from the disk', async () => {
    const saved = share(24);
    const prng = createPrng(3);
    const vectors = Array.from({ length: GRAPH_SIZE_MIN + 100 }, () => randomVector(prng, 24));
    for (const [id, vector] of vectors.entries()) saved.add(id, vector);
    while (saved.index.tend(50));
    const file = `${makeFolder()}/one.graph`;
    const ids = await saved.index.saveGraph(file);
    const sharing = share(24);
    for (const [id, vector] of vectors.entries()) if (id % 7 !== 0) sharing.add(id, vector);
    await sharing.index.restoreGraph(file, ids!);
    expect(sharing.index.unlinked).toBe(0);
    for (let n = 0; n < 40; n++)
      compare(sharing, randomVector(prng, 24), 5, 0.1, n % 2 === 0 ? null : 'loop');
  });

  it('is counted with its memory', () => {
    const sharing = share(8);
    const alone = new HnswIndex(loadHnswlib(), 8);
    const prng = createPrng(1);
    for (let id = 0; id < 100; id++) {
      const vector = randomVector(prng, 8);
      sharing.add(id, vector);
      alone.add(id, vector);
    }
    expect(sharing.index.bytes).toBeGreaterThan(alone.bytes + 100 * 8);
  });
});

describe('a catalog', () => {
  const query = { vector: Float32Array.of(1, 0), k: 3, min_similarity: 0, kind: null, family: '' };

  it('lists non-empty indexes, of the names and of the group', () => {
    const key = randomUUID();
    const catalog = new IndexCatalog(key);
    const make = (name: string, group: string, isFull = true) => {
      const shared = catalog.share(name, group, 2);
      const index = new HnswIndex(loadHnswlib(), 2, shared);
      if (isFull) index.add(0, Float32Array.of(1, 0));
    };
    make('a', 'alice');
    make('b', 'alice');
    make('empty', 'alice', false);
    make('c', 'bob');
    make('commons', '');
    const reader = new SharedIndexes(key, VECTORS);
    expect(reader.list(['a'])).toBeNull();
    catalog.serve(VECTORS);
    expect(reader.list(['commons', 'empty', 'not there'])).toEqual(['commons']);
    expect(reader.list(['commons'], 'alice')?.toSorted()).toEqual(['a', 'b', 'commons']);
    expect(reader.list([], 'carol')).toEqual([]);
    expect(() => catalog.share('a', '', 2)).toThrow();
  });

  it('is searched only with its key and its vectors, and only while it is served', () => {
    const key = randomUUID();
    const catalog = new IndexCatalog(key);
    const shared = catalog.share('one', '', 2);
    const index = new HnswIndex(loadHnswlib(), 2, shared);
    shared.describe(0, { name: 'pat_0', kind: '', family: '' });
    index.add(0, Float32Array.of(1, 0));
    catalog.serve(VECTORS);
    const reader = new SharedIndexes(key, VECTORS);
    expect(reader.search({ name: 'one', ...query })).toHaveLength(1);
    expect(reader.search({ name: 'two', ...query })).toEqual([]);
    expect(new SharedIndexes(key, 'others').search({ name: 'one', ...query })).toBeNull();
    expect(new SharedIndexes(randomUUID(), VECTORS).search({ name: 'one', ...query })).toBeNull();
    catalog.serve('');
    expect(reader.search({ name: 'one', ...query })).toBeNull();
    catalog.serve(VECTORS);
    const next = new IndexCatalog(key);
    // The first catalog's index can still be changed, but searches no longer find it.
    catalog.serve(VECTORS);
    expect(reader.search({ name: 'one', ...query })).toBeNull();
    next.serve(VECTORS);
    expect(reader.search({ name: 'one', ...query })).toEqual([]);
    catalog.close();
    expect(reader.list([])).toEqual([]);
    next.close();
    expect(reader.list([])).toBeNull();
  });

  it('does not block a caller: a search returns null while the index is being changed', () => {
    const sharing = share(2);
    sharing.add(0, Float32Array.of(1, 0));
    const found = sharing.shared.change(() => sharing.reader.search({ name: 'one', ...query }));
    expect(found).toBeNull();
    expect(sharing.reader.search({ name: 'one', ...query })).toHaveLength(1);
  });

  it('leaves a search through very many vectors to the thread of the index', () => {
    const sharing = share(2);
    for (let id = 0; id < 4_097; id++) sharing.add(id, Float32Array.of(1, 0));
    expect(sharing.reader.search({ name: 'one', ...query })).toBeNull();
    sharing.remove(5);
    expect(sharing.reader.search({ name: 'one', ...query })).toHaveLength(3);
  });

  it('refuses vectors of other dimensions', () => {
    const sharing = share(2);
    sharing.add(0, Float32Array.of(1, 0));
    const vector = Float32Array.of(1, 0, 0);
    expect(() => sharing.reader.search({ name: 'one', ...query, vector })).toThrow(RangeError);
  });
});

describe('threads that search while one changes', () => {
  const DIMENSIONS = 24;
  const READERS = 3;

  it('find a vector that is always there, even if other searching threads are ended', {
    tags: 'long',
  }, async () => {
    const sharing = share(DIMENSIONS);
    const prng = createPrng(11);
    const count = GRAPH_SIZE_MIN + 300;
    const lasting = Array.from({ length: 50 }, () => randomVector(prng, DIMENSIONS));
    for (const [id, vector] of lasting.entries()) sharing.add(id, vector);
    for (let id = lasting.length; id < count; id++) sharing.add(id, randomVector(prng, DIMENSIONS));
    while (sharing.index.tend(50));
    const state = new Int32Array(new SharedArrayBuffer(4 * (1 + 2 * READERS)));
    const start = (at: number) =>
      new Worker(new URL('./shared-index-reader.ts', import.meta.url), {
        workerData: { key: sharing.key, vectors_id: VECTORS, lasting, state, at },
      });
    const workers = Array.from({ length: READERS }, (_, at) => start(at));
    const failures: unknown[] = [];
    for (const worker of workers) worker.on('error', (error) => failures.push(error));
    const searched = () => Array.from({ length: READERS }, (_, at) => Atomics.load(state, 1 + 2 * at));
    const nextTick = () => new Promise<void>((resolve) => setImmediate(resolve));
    while (searched().some((times) => times === 0) && failures.length === 0) await nextTick();
    const before = searched();
    let isEnded = false;
    for (let round = 0; failures.length === 0; round++) {
      for (let n = 0; n < 40; n++) {
        const id = lasting.length + prng.below(count);
        if (prng.below(2) === 0) sharing.remove(id);
        else sharing.add(id, randomVector(prng, DIMENSIONS));
      }
      sharing.index.tend(2);
      await nextTick();
      if (round === 60 && !isEnded) {
        isEnded = true;
        await workers[0]!.terminate();
      }
      const have = searched();
      if (round >= 120 && have.every((times, at) => at === 0 || times > before[at]! + 200)) break;
    }
    Atomics.store(state, 0, 1);
    await Promise.all(
      workers.slice(1).map((worker) => new Promise((resolve) => worker.once('exit', resolve))),
    );
    expect(failures).toEqual([]);
    const misses = Array.from({ length: READERS }, (_, at) => Atomics.load(state, 2 + 2 * at));
    // A walk is approximate.
    for (const [at, times] of searched().entries()) expect(misses[at]).toBeLessThanOrEqual(0.02 * times);
    // The ended thread does not hold the index, so the next change does not wait.
    sharing.remove(lasting.length);
    compare(sharing, lasting[3]!, 5, 0.1, null);
  });

  it('find nothing after the changing thread has ended, even in the middle of a change', async () => {
    const key = randomUUID();
    const writer = new Worker(new URL('./shared-index-writer.ts', import.meta.url), {
      workerData: { key, vectors_id: VECTORS },
    });
    const told = (what: string) =>
      new Promise<void>((resolve) => {
        const listen = (message: unknown) => {
          if (message !== what) return;
          writer.off('message', listen);
          resolve();
        };
        writer.on('message', listen);
      });
    const reader = new SharedIndexes(key, VECTORS);
    const query = {
      name: 'one',
      vector: Float32Array.of(1, 0),
      k: 3,
      min_similarity: 0,
      kind: null,
      family: '',
    };
    const shared = told('shared');
    await shared;
    expect(reader.search(query)).toHaveLength(1);
    const changing = told('changing');
    writer.postMessage('change');
    await changing;
    expect(reader.list(['one'])).toEqual(['one']);
    expect(reader.search(query)).toBeNull();
    await writer.terminate();
    expect(reader.list(['one'])).toBeNull();
    // Another catalog replaces that of the ended thread.
    const catalog = new IndexCatalog(key, loadGraphEngine());
    onTestFinished(() => catalog.close());
    catalog.serve(VECTORS);
    expect(reader.list(['one'])).toEqual([]);
  });
});

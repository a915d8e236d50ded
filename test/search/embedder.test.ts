/** The embedder in the compute pool with real threads: the shipped model, batching, bounds, and threads that die. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { CatalogueError } from '../../src/errors.ts';
import { EMBEDDING_TEXT_CHARACTERS } from '../../src/limits.ts';
import { ComputePool, openCompute } from '../../src/runtime/compute-pool.ts';
import { EMBED_TASK } from '../../src/search/embedder.ts';
import { EMBEDDING_BATCH_TEXTS, EMBEDDING_QUEUE_TEXTS } from '../../src/search/limits.ts';
import { OnnxEmbedder } from '../../src/search/onnx-embedder.ts';
import { findModelDir, openEmbedder } from '../../src/search/open-embedder.ts';
import { createDeferred } from '../../src/std/deferred.ts';

const ENTRY = new URL('../../src/threads/compute-thread-entry.ts', import.meta.url);
const TEST_ENTRY = new URL('./compute-entry.ts', import.meta.url);

const DEADLINE_MS = 60_000;

function createPool(entry: URL, modelDir = findModelDir({ model_dir: null })): ComputePool {
  return new ComputePool({
    entry,
    threads: 1,
    options: { model_dir: modelDir },
    queue_calls_max: 16,
    call_deadline_ms: DEADLINE_MS,
  });
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, x, i) => sum + x * b[i]!, 0);
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const thrown: unknown = await promise.then(
    () => null,
    (error: unknown) => error,
  );
  return thrown instanceof CatalogueError ? thrown.code : String(thrown);
}

describe('the shipped model', () => {
  let pool: ComputePool;
  let embedder: OnnxEmbedder;
  beforeAll(async () => {
    pool = createPool(ENTRY);
    embedder = (await openEmbedder({ model_dir: null, remote: null }, pool.run, 1)) as OnnxEmbedder;
  });
  afterAll(async () => {
    await embedder.close();
    await pool.close();
  });

  const ODD = [
    'Fix the flaky parser test',
    '',
    ' \n\t ',
    'a',
    'naïve Привет 日本語テキスト 🦊 \u0301',
    'half \ud800 a pair \udc00',
    'nul \0 and \u202e marks',
    '__proto__ constructor toString',
    'word '.repeat(2_000),
    'x'.repeat(100_000),
    '日'.repeat(100_000),
    '!?'.repeat(50_000),
  ];

  it('returns vectors of length 1 for any text, and zeros for a text without words', async () => {
    const vectors = await embedder.embed(ODD);
    expect(vectors).toHaveLength(ODD.length);
    for (const [i, vector] of vectors.entries()) {
      expect(vector).toHaveLength(embedder.dimensions);
      const hasWord = /[\p{L}\p{N}]/u.test(ODD[i]!);
      expect(Math.sqrt(dot(vector, vector))).toBeCloseTo(hasWord ? 1 : 0, 5);
    }
  });

  it('returns the same numbers for a text alone, in a batch, and in another thread', async () => {
    const together = await embedder.embed(ODD);
    const other = createPool(ENTRY);
    const again = await OnnxEmbedder.open(other.run, 1);
    try {
      expect(again.id).toBe(embedder.id);
      for (const [i, text] of ODD.entries()) {
        const [alone] = await again.embed([text]);
        for (const [k, x] of alone!.entries()) expect(together[i]![k]).toBeCloseTo(x, 5);
      }
      expect(await again.embed(ODD)).toEqual(together);
    } finally {
      await other.close();
    }
  });

  it('returns more similar vectors for texts about the same subject', async () => {
    const [query, same, unlike] = await embedder.embed([
      'The test suite fails because the database connection times out',
      'database connection timed out, so tests are failing',
      'Write a poem about spring flowers for the newsletter',
    ]);
    expect(dot(query!, same!)).toBeGreaterThan(0.5);
    expect(dot(query!, unlike!)).toBeLessThan(0.2);
  });

  it('reads a text only up to the bound', async () => {
    const long = 'alpha beta '.repeat(EMBEDDING_TEXT_CHARACTERS).slice(0, EMBEDDING_TEXT_CHARACTERS);
    const [cut, longer] = await embedder.embed([long, `${long} gamma delta`]);
    expect(longer).toEqual(cut);
  });

  it('can be used from another thread through a port', async () => {
    const port = pool.offer();
    const compute = openCompute(port);
    const there = await OnnxEmbedder.open(compute, 1);
    expect(there.id).toBe(embedder.id);
    expect(await there.embed(['one way', 'or another'])).toEqual(
      await embedder.embed(['one way', 'or another']),
    );
    // The other thread runs the task directly, as an actor does.
    const flat = (await compute(EMBED_TASK, { texts: ['one way'] })) as Float32Array;
    expect(flat).toHaveLength(embedder.dimensions);
    port.close();
  });
});

describe('a pool that cannot load its model', () => {
  it('says why in one line', async () => {
    const dir = fileURLToPath(new URL('.', import.meta.url));
    const pool = createPool(ENTRY, dir);
    try {
      await expect(OnnxEmbedder.open(pool.run, 1)).rejects.toThrow(
        `embedding model in ${dir}: there is neither model.onnx nor onnx/model.onnx`,
      );
    } finally {
      await pool.close();
    }
  });
});

describe('waiting texts', () => {
  /** A pool whose runs end when the test says so. */
  function createManual() {
    const runs: { texts: readonly string[]; end: () => void }[] = [];
    let hasNew = createDeferred();
    const compute = async (task: string, input: unknown) => {
      if (task !== EMBED_TASK) return { id: 'manual', dimensions: 1 };
      const { texts } = input as { texts: readonly string[] };
      const ended = createDeferred();
      runs.push({ texts, end: ended.resolve });
      hasNew.resolve();
      await ended.promise;
      return Float32Array.from(texts, (text) => text.length);
    };
    const waitForRun = async (count: number) => {
      while (runs.length < count) {
        await hasNew.promise;
        hasNew = createDeferred();
      }
      return runs[count - 1]!;
    };
    return { runs, compute, waitForRun };
  }

  it('run together if they arrive in one turn, or during another run', async () => {
    const { runs, compute, waitForRun } = createManual();
    const embedder = await OnnxEmbedder.open(compute, 1);
    const answers = [embedder.embed(['a']), embedder.embed(['bb', 'ccc'])];
    (await waitForRun(1)).end();
    expect(runs[0]!.texts).toEqual(['a', 'bb', 'ccc']);
    expect(await Promise.all(answers)).toEqual([
      [Float32Array.of(1)],
      [Float32Array.of(2), Float32Array.of(3)],
    ]);

    const first = embedder.embed(['first']);
    await waitForRun(2);
    const later = Array.from({ length: EMBEDDING_BATCH_TEXTS + 1 }, (_, i) => embedder.embed([`${i}`]));
    expect(embedder.waiting).toBe(EMBEDDING_BATCH_TEXTS + 1);
    runs[1]!.end();
    await first;
    (await waitForRun(3)).end();
    (await waitForRun(4)).end();
    await Promise.all(later);
    expect(runs.map(({ texts }) => texts.length)).toEqual([3, 1, EMBEDDING_BATCH_TEXTS, 1]);
  });

  it('are refused beyond the bound, and accepted again when there is room', async () => {
    const { runs, compute, waitForRun } = createManual();
    const embedder = await OnnxEmbedder.open(compute, 1);
    const running = embedder.embed(['x']);
    await waitForRun(1);
    const full = embedder.embed(new Array<string>(EMBEDDING_QUEUE_TEXTS).fill('y'));
    expect(await codeOf(embedder.embed(['one more']))).toBe('unavailable');
    expect(embedder.waiting).toBe(EMBEDDING_QUEUE_TEXTS);
    for (let run = 1; run <= 1 + EMBEDDING_QUEUE_TEXTS / EMBEDDING_BATCH_TEXTS; run++)
      (await waitForRun(run)).end();
    await running;
    expect(await full).toHaveLength(EMBEDDING_QUEUE_TEXTS);
    const taken = embedder.embed(['now']);
    (await waitForRun(runs.length + 1)).end();
    expect(await taken).toEqual([Float32Array.of(3)]);
  });

  it('are also limited by their size', async () => {
    const { compute, waitForRun } = createManual();
    const embedder = await OnnxEmbedder.open(compute, 1);
    const running = embedder.embed(['x']);
    const run = await waitForRun(1);
    const big = new Array<string>(2_048).fill('z'.repeat(EMBEDDING_TEXT_CHARACTERS));
    const waiting = embedder.embed(big);
    expect(await codeOf(embedder.embed(['one more']))).toBe('unavailable');
    await embedder.close();
    run.end();
    await running;
    expect(await codeOf(waiting)).toBe('unavailable');
    expect(await codeOf(embedder.embed(['late']))).toBe('unavailable');
    expect(await codeOf(embedder.embed([]))).toBe('unavailable');
  });

  it('need no run if the list is empty', async () => {
    const { runs, compute } = createManual();
    const embedder = await OnnxEmbedder.open(compute, 1);
    expect(await embedder.embed([])).toEqual([]);
    expect(runs).toEqual([]);
  });
});

describe('a pool thread', () => {
  it('that dies fails its texts, and the next ones are embedded', async () => {
    const pool = createPool(TEST_ENTRY);
    try {
      const embedder = await OnnxEmbedder.open(pool.run, 1);
      for (let round = 0; round < 3; round++) {
        expect(await codeOf(embedder.embed(['die']))).toBe('unavailable');
        expect(await embedder.embed(['alive'])).toEqual([Float32Array.of(1, 5)]);
      }
      expect(pool.threads).toBe(1);
    } finally {
      await pool.close();
    }
  });

  it('whose task throws continues, without the error’s text', async () => {
    const pool = createPool(TEST_ENTRY);
    try {
      const embedder = await OnnxEmbedder.open(pool.run, 1);
      const error: unknown = await embedder.embed(['fail']).catch((thrown: unknown) => thrown);
      expect((error as Error).message).toBe('The embedding model does not answer');
      expect(((error as Error).cause as Error).message).toBe('the graph is unwell');
      expect(await embedder.embed(['alive'])).toEqual([Float32Array.of(1, 5)]);
    } finally {
      await pool.close();
    }
  });

  it('that hangs is given up at the deadline and replaced', async () => {
    // Time stops until the test moves it, because the start of a new thread counts against the deadline.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const pool = createPool(TEST_ENTRY);
    try {
      const embedder = await OnnxEmbedder.open(pool.run, 1);
      const hanging = codeOf(embedder.embed(['hang']));
      while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
      vi.advanceTimersByTime(DEADLINE_MS);
      expect(await hanging).toBe('unavailable');
      expect(await embedder.embed(['alive'])).toEqual([Float32Array.of(1, 5)]);
    } finally {
      vi.useRealTimers();
      await pool.close();
    }
  });

  it('refuses other tasks', async () => {
    const pool = createPool(ENTRY);
    try {
      await expect(pool.run('rm', null)).rejects.toThrow('no task is called rm');
    } finally {
      await pool.close();
    }
  });
});

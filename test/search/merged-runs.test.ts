/** Texts that arrive during a run of the model go together into the next run. */
import { expect, it } from 'vitest';
import { EMBEDDING_BATCH_TEXTS } from '../../src/search/limits.ts';
import { MergedRuns } from '../../src/search/merged-runs.ts';

/** The vector of a text: its length, twice. */
const vectorsOf = (texts: readonly string[]) =>
  Float32Array.from(texts.flatMap(({ length }) => [length, length]));

it('each caller gets the vectors of its texts', async () => {
  const runs: string[][] = [];
  const merged = new MergedRuns(async (texts) => {
    runs.push([...texts]);
    return vectorsOf(texts);
  });
  const [two, single, none] = await Promise.all([
    merged.embed(['a', 'bb']),
    merged.embed(['ccc']),
    merged.embed([]),
  ]);
  expect([two, single, none].map((vectors) => [...vectors!])).toEqual([[1, 1, 2, 2], [3, 3], []]);
  expect(runs).toEqual([['a', 'bb', 'ccc']]);
});

it('one run is in progress at a time, and texts beyond its bound wait for the next', async () => {
  const sizes: number[] = [];
  let underWay = 0;
  const merged = new MergedRuns(async (texts) => {
    expect(++underWay).toBe(1);
    sizes.push(texts.length);
    await new Promise((resolve) => setImmediate(resolve));
    underWay--;
    return vectorsOf(texts);
  });
  const many = Array.from({ length: EMBEDDING_BATCH_TEXTS - 1 }, () => 'text');
  const asked = [merged.embed(['a']), merged.embed(many), merged.embed(['b', 'c']), merged.embed(many)];
  const answers = await Promise.all(asked);
  expect(answers.map(({ length }) => length / 2)).toEqual([1, many.length, 2, many.length]);
  expect(sizes).toEqual([EMBEDDING_BATCH_TEXTS, 2, many.length]);
});

it('the callers of a failed run get its error, and others continue', async () => {
  let isBroken = true;
  const merged = new MergedRuns(async (texts) => {
    if (isBroken) throw new Error('the model is broken');
    return vectorsOf(texts);
  });
  const failed = await Promise.allSettled([merged.embed(['a']), merged.embed(['b'])]);
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  isBroken = false;
  expect([...(await merged.embed(['cc']))]).toEqual([2, 2]);
});

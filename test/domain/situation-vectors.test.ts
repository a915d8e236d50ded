/** Situations as vectors: a task finds its like, and only the same situations are the same. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cosineOf, embedSituations, firstSentence } from '../../src/domain/situation-vectors.ts';

/** A word a dimension. */
const embedder = {
  id: 'words',
  embed: async (texts: readonly string[]) =>
    texts.map((text) => {
      const vector = new Float32Array(64);
      for (const word of text.toLowerCase().match(/\w+/g) ?? []) {
        let hash = 7;
        for (const char of word) hash = (hash * 31 + char.charCodeAt(0)) % 64;
        vector[hash]! += 1;
      }
      const length = Math.sqrt(cosineOf(vector, vector)) || 1;
      return vector.map((value) => value / length);
    }),
};

const TASK = 'Fix the failing unit tests of the date parser';
const LONG = `${TASK}. Stuck at \`npm test\`, which failed: expected 2024-01-01 but got 2023-12-31 near line 40 of parse.ts`;

describe('the vectors of a situation', () => {
  it('lie nearer to its task than the whole text does', async () => {
    const { search, whole } = await embedSituations(embedder, [LONG]);
    const [task] = await embedder.embed([TASK]);
    expect(cosineOf(search[0]!, task!)).toBeGreaterThan(cosineOf(whole[0]!, task!) + 0.1);
    expect(cosineOf(search[0]!, task!)).toBeGreaterThan(0.9);
  });

  it('are those of the text where it is one sentence', async () => {
    const { search, whole } = await embedSituations(embedder, [TASK, 'one line', LONG]);
    expect(search[0]).toEqual(whole[0]);
    expect(search[1]).toEqual(whole[1]);
    expect(search[2]).not.toEqual(whole[2]);
  });

  it('have length 1, whatever the texts', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ minLength: 1, maxLength: 80 })), async (texts) => {
        const { search, whole } = await embedSituations(embedder, texts);
        for (const [at, vector] of search.entries()) {
          const length = cosineOf(vector, vector);
          expect(length === 0 ? cosineOf(whole[at]!, whole[at]!) : length).toBeCloseTo(
            length === 0 ? 0 : 1,
            4,
          );
        }
      }),
    );
  });
});

describe('the first sentence', () => {
  it('ends where a sentence does', () => {
    expect(firstSentence(LONG)).toBe(TASK);
    expect(firstSentence('Why does it fail? It should not.')).toBe('Why does it fail');
    expect(firstSentence('a heading that is long\nand the rest')).toBe('a heading that is long');
    expect(firstSentence('Edit src/a.ts and v1.2 of it')).toBe('Edit src/a.ts and v1.2 of it');
    expect(firstSentence('e.g. this one goes on')).toBe('e.g. this one goes on');
    expect(firstSentence('')).toBe('');
  });
});

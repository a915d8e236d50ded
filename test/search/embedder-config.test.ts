/** The configuration of embeddings by variables, and which values are valid similarity measures. */
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { averagePrecision, ndcgAt10, rankAll, reciprocalRank, spearman } from '../../bench/eval/measures.ts';
import { type Config, loadConfig } from '../../src/config.ts';

const read = (env: NodeJS.ProcessEnv): Config['embedding'] => loadConfig({ listener: 'api' }, env).embedding;

describe('the configured embedder', () => {
  it('is the shipped model unless another folder is named', () => {
    expect(read({})).toEqual({ model_dir: null, remote: null });
    expect(read({ EMBEDDING_MODEL_DIR: 'models/small' })).toEqual({
      model_dir: resolve('models/small'),
      remote: null,
    });
    expect(read({ EMBEDDING_MODEL_DIR: '', EMBEDDING_API_KEY: '' })).toEqual(read({}));
  });

  it('is remote with a key, or with an address', () => {
    expect(read({ EMBEDDING_API_KEY: 'k' }).remote).toEqual({
      url: 'https://api.openai.com/v1',
      model: 'text-embedding-3-small',
      key: 'k',
    });
    expect(read({ EMBEDDING_API_URL: 'http://127.0.0.1:9/v1/', EMBEDDING_API_MODEL: 'own' }).remote).toEqual({
      url: 'http://127.0.0.1:9/v1',
      model: 'own',
      key: '',
    });
    const config = read({ EMBEDDING_API_KEY: 'k' });
    expect(Object.isFrozen(config) && Object.isFrozen(config.remote)).toBe(true);
  });

  it('is refused with one line that never shows the key', () => {
    expect(() => read({ EMBEDDING_API_URL: 'ftp://somewhere' })).toThrow(/^EMBEDDING_API_URL="ftp/);
    expect(() => read({ EMBEDDING_API_MODEL: 'x'.repeat(201) })).toThrow(/^EMBEDDING_API_MODEL=/);
    expect(() => read({ EMBEDDING_MODEL_DIR: 'a\nb' })).toThrow(/^EMBEDDING_MODEL_DIR="a\\nb"/);
    expect(() => read({ EMBEDDING_API_KEY: 'secret\nsecret' })).toThrow(/^EMBEDDING_API_KEY=\(not shown\)/);
  });
});

describe('the quality measures', () => {
  it('are those of the sets’ page', () => {
    // Ties share their mean rank: ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3.
    expect(spearman([1, 5, 5, 9], [10, 20, 30, 40])).toBeCloseTo(4.5 / Math.sqrt(4.5 * 5), 10);
    expect(spearman([3, 2, 1], [1, 2, 3])).toBe(-1);
    const ranking = rankAll([0.1, 0.9, 0.5, 0.5]);
    expect(ranking).toEqual([1, 2, 3, 0]);
    const relevant = new Set([2, 0]);
    const ideal = 1 + 1 / Math.log2(3);
    expect(ndcgAt10(ranking, relevant)).toBeCloseTo((1 / Math.log2(3) + 1 / Math.log2(5)) / ideal, 10);
    expect(averagePrecision(ranking, relevant)).toBeCloseTo((1 / 2 + 2 / 4) / 2, 10);
    expect(reciprocalRank(ranking, relevant)).toBe(0.5);
    expect([ndcgAt10([], relevant), averagePrecision([], relevant), reciprocalRank([], relevant)]).toEqual([
      0, 0, 0,
    ]);
  });
});

/** The default model's graph compared with the same arithmetic on plain numbers, which was used for the corpus. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  BUCKETS,
  bucketsOfWord,
  COMMON_WEIGHT,
  countPieces,
  dampCount,
  SKETCH,
  splitWords,
} from '../../src/search/model-maker/features.ts';
import { type NgramWeights, writeNgramGraph } from '../../src/search/model-maker/ngram-graph.ts';
import { TOKENIZER, TOKENIZER_CONFIG } from '../../src/search/model-maker/tokenizer.ts';
import { OnnxModel } from '../../src/search/onnx-model.ts';
import { findModelDir } from '../../src/search/open-embedder.ts';
import { createPrng } from '../../src/std/prng.ts';

const tokenizer = new Tokenizer(TOKENIZER, TOKENIZER_CONFIG);
const wordsOf = (text: string) => splitWords(tokenizer.encode(text).ids);
const prng = createPrng(7);
const THE = bucketsOfWord(wordsOf('the')[0]!).at(-1)!;

const weights: NgramWeights = {
  buckets: Int8Array.from({ length: BUCKETS }, () => prng.below(255) - 127),
  bucket_scale: 0.05,
  words: new Uint8Array(BUCKETS).fill(100),
  axes: Int8Array.from({ length: SKETCH * 4 }, () => prng.below(255) - 127),
  axis_scale: 0.0001,
  axis_count: 4,
  fold: 16,
};
weights.words[THE] = COMMON_WEIGHT * 100;

let dir: string;
let model: OnnxModel;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'ngram-model-'));
  writeFileSync(join(dir, 'model.onnx'), writeNgramGraph(weights));
  writeFileSync(join(dir, 'tokenizer.json'), JSON.stringify(TOKENIZER));
  writeFileSync(join(dir, 'tokenizer_config.json'), JSON.stringify(TOKENIZER_CONFIG));
  model = await OnnxModel.open(dir);
});
afterAll(async () => {
  await model.close();
  rmSync(dir, { recursive: true });
});

/** The vector that the model should return. */
function embedByHand(text: string): number[] {
  const sketch = new Float64Array(SKETCH);
  const counts = countPieces(tokenizer.encode(text).ids, new Set([THE]));
  for (const [bucket, count] of counts) {
    sketch[bucket % SKETCH]! += dampCount(count) * weights.buckets[bucket]! * weights.bucket_scale;
  }
  const { axis_count, axis_scale, fold } = weights;
  const axis = (row: number, a: number) => weights.axes[row * axis_count + a]! * axis_scale;
  const along = Array.from({ length: axis_count }, (_, a) =>
    sketch.reduce((sum, x, row) => sum + x * axis(row, a), 0),
  );
  const rest = new Array<number>(fold).fill(0);
  for (const [row, x] of sketch.entries()) {
    rest[row % fold]! += x - along.reduce((sum, y, a) => sum + y * axis(row, a), 0);
  }
  const joined = [...along, ...rest];
  const length = Math.hypot(...joined) || 1;
  return joined.map((x) => x / length);
}

describe('the default model’s graph', () => {
  it('counts the pieces of any text as in the corpus', async () => {
    const word = fc.constantFrom(
      'the',
      'the',
      'test',
      'tests',
      'a',
      'parseHTTPRequest',
      'retry_count',
      'naïve',
      '日本',
      'x9',
    );
    const text = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 60 }),
      fc.array(word, { maxLength: 30 }).map((words) => words.join(' ')),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 4 }), async (texts) => {
        const flat = await model.embed(texts);
        for (const [i, text] of texts.entries()) {
          const expected = embedByHand(text);
          const actual = flat.subarray(i * expected.length, (i + 1) * expected.length);
          for (const [k, x] of expected.entries()) expect(actual[k]).toBeCloseTo(x, 4);
        }
      }),
      { numRuns: 150 },
    );
  });
});

describe('the default model’s tokenizer', () => {
  it('finds words in identifiers, in any case and script, and drops the rest', () => {
    const spell = (text: string) =>
      wordsOf(text).map((bytes) => Buffer.from(bytes.map((byte) => byte - 1)).toString('utf8'));
    expect(spell('parseHTTPRequest(my_var, "Café") // 42')).toEqual([
      'parse',
      'http',
      'request',
      'my',
      'var',
      'café',
      '42',
    ]);
    expect(spell('ПРИВЕТ мир')).toEqual(['привет', 'мир']);
    expect(spell(' \n\t*** ')).toEqual([]);
    expect(spell('a'.repeat(50)).map((part) => part.length)).toEqual([24, 24, 2]);
  });
});

describe('the shipped model', () => {
  it('returns the same vectors as its predecessor and has the same id: stored vectors remain valid', async () => {
    const shipped = await OnnxModel.open(findModelDir({ model_dir: null }));
    try {
      const { id, dimensions } = shipped.facts;
      expect(id).toBe('onnx:ff15d994625f8110');
      const places = [0, 1, 100, 383, 384, 700, dimensions - 1];
      const before = {
        'migrate the schema of the billing service; at present a deadlock is reported': [
          -0.2932674, -0.0122502, 0.0326329, 0.0017661, -0.020904, 0.0012772, -0.0080363,
        ],
        'the the the 日本 parseHTTPRequest retry_count the': [
          -0.2055792, 0.0057314, 0.0163083, -0.0002222, 0.0094091, -0.0031021, 0.0059205,
        ],
      };
      const flat = await shipped.embed(Object.keys(before));
      for (const [row, numbers] of Object.values(before).entries())
        for (const [i, place] of places.entries())
          expect(flat[row * dimensions + place]).toBeCloseTo(numbers[i]!, 6);
    } finally {
      await shipped.close();
    }
  });
});

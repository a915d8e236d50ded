/**
 * Makes src/search/default-model: `node src/search/model-maker/make.ts [cache folder]`. The output is always the same
 * bytes: the corpus is pinned, and random choices use a fixed seed. Development only; needs npm, tar and some minutes.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { findAxes, type SparseRow } from './axes.ts';
import { readCorpus } from './corpus.ts';
import {
  BUCKETS,
  bucketsOfWord,
  COMMON_WEIGHT,
  COMMON_WORDS,
  countPieces,
  dampCount,
  SKETCH,
  splitWords,
} from './features.ts';
import { writeNgramGraph } from './ngram-graph.ts';
import { TOKENIZER, TOKENIZER_CONFIG } from './tokenizer.ts';

/** Upper bound of a piece's rarity, ln(texts / texts with the piece), and the constant added so that no weight is 0. */
const RARITY_MAX = 5;
const RARITY_ADD = 1;
const AXES = 384;
const FOLD = 640;
/** Every n-th text of the corpus is used to compute the axes. */
const AXES_SAMPLE = 3;

const target = new URL('../default-model/', import.meta.url);
const tokenizer = new Tokenizer(TOKENIZER, TOKENIZER_CONFIG);
const encode = (text: string) => tokenizer.encode(text).ids;

const common = new Set(COMMON_WORDS.map((word) => bucketsOfWord(splitWords(encode(word))[0]!).at(-1)!));
const words = new Uint8Array(BUCKETS).fill(100);
for (const bucket of common) words[bucket] = COMMON_WEIGHT * 100;

const texts = readCorpus(process.argv[2] ?? join(tmpdir(), 'understudy-corpus'));
const pieces = texts.map((text) => countPieces(encode(text), common));
const frequency = new Uint32Array(BUCKETS);
for (const counts of pieces) for (const bucket of counts.keys()) frequency[bucket]!++;

const scale = (RARITY_MAX + RARITY_ADD) / 127;
const buckets = new Int8Array(BUCKETS);
for (let bucket = 0; bucket < BUCKETS; bucket++) {
  const rarity = Math.min(RARITY_MAX, Math.log((texts.length + 1) / (frequency[bucket]! + 1))) + RARITY_ADD;
  // The sign is independent of the place in the sketch, so unrelated pieces at the same place cancel out on average.
  const sign = (Math.imul(bucket + 1, 0x9e3779b1) >>> 27) & 1 ? 1 : -1;
  buckets[bucket] = sign * Math.round(rarity / scale);
}

const rows = pieces.filter((_, i) => i % AXES_SAMPLE === 0).map(sketchRow);
const axes = findAxes(rows, SKETCH, AXES);
let largest = 0;
for (const x of axes) largest = Math.max(largest, Math.abs(x));
const axisScale = largest / 127;

mkdirSync(target, { recursive: true });
const json = (name: string, value: unknown) =>
  writeFileSync(new URL(name, target), `${JSON.stringify(value, null, 2)}\n`);
json('tokenizer.json', TOKENIZER);
json('tokenizer_config.json', TOKENIZER_CONFIG);
const model = writeNgramGraph({
  buckets,
  bucket_scale: scale,
  words,
  axes: Int8Array.from(axes, (x) => Math.round(x / axisScale)),
  axis_scale: axisScale,
  axis_count: AXES,
  fold: FOLD,
});
writeFileSync(new URL('model.onnx', target), model);
const characters = texts.reduce((sum, text) => sum + text.length, 0);
console.log(
  `${texts.length} texts, ${characters} characters; ${model.length} bytes, ${AXES + FOLD} dimensions`,
);

/** Makes a text's sketch, of length 1. */
function sketchRow(counts: ReadonlyMap<number, number>): SparseRow {
  const sketch = new Map<number, number>();
  let square = 0;
  for (const [bucket, count] of counts) {
    const at = bucket % SKETCH;
    sketch.set(at, (sketch.get(at) ?? 0) + dampCount(count) * buckets[bucket]!);
  }
  for (const x of sketch.values()) square += x * x;
  const length = Math.sqrt(square) || 1;
  return {
    at: Uint16Array.from(sketch.keys()),
    values: Float32Array.from(sketch.values(), (x) => x / length),
  };
}

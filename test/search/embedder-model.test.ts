/** Any sentence-transformers ONNX export: tokens, pooling and normalisation against values worked out by hand. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OnnxModel } from '../../src/search/onnx-model.ts';
import { STATES, TOKENS, type ToyOptions, TYPE_ZERO, writeToyModel } from './toy-model.ts';

let dir: string;
const opened: OnnxModel[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'toy-model-'));
});
afterEach(async () => {
  for (const model of opened.splice(0)) await model.close();
  rmSync(dir, { recursive: true });
});

async function open(options: ToyOptions = {}): Promise<OnnxModel> {
  writeToyModel(dir, options);
  const model = await OnnxModel.open(dir);
  opened.push(model);
  return model;
}

function unit(vector: readonly number[]): number[] {
  const length = Math.hypot(...vector);
  return vector.map((x) => x / length);
}

/** The mean of the tokens' states plus the row of token type 0, normalized to length 1. */
function meanOf(tokens: readonly string[], type: readonly number[] = TYPE_ZERO): number[] {
  const rows = tokens.map((token) => STATES[TOKENS.indexOf(token as (typeof TOKENS)[number])]!);
  return unit([0, 1, 2].map((i) => rows.reduce((sum, row) => sum + row[i]! + type[i]!, 0) / rows.length));
}

function expectClose(actual: Float32Array, expected: readonly number[]): void {
  expect(actual.length).toBe(expected.length);
  for (const [i, x] of expected.entries()) expect(actual[i]).toBeCloseTo(x, 5);
}

describe('an export with a hidden state', () => {
  it('is pooled by the mean over the text’s tokens and has length 1', async () => {
    const model = await open();
    expect(model.facts.dimensions).toBe(3);
    expectClose(
      await model.embed(['Red running FOX']),
      meanOf(['[CLS]', 'red', 'run', '##ning', 'fox', '[SEP]']),
    );
    // Calculated by hand: states (3,4,-2) + (4,2,-3), each plus (0.5,0,0.25), mean (4,3,-2.25).
    expectClose(await model.embed(['']), unit([4, 3, -2.25]));
  });

  it('ignores padding, so the other texts of a batch have no effect', async () => {
    const model = await open();
    const texts = ['fox', 'red fox runs running red fox', 'unheard', ''];
    const together = await model.embed(texts);
    for (const [i, text] of texts.entries()) {
      expectClose(together.subarray(3 * i, 3 * i + 3), [...(await model.embed([text]))]);
    }
    expectClose(together.subarray(0, 3), meanOf(['[CLS]', 'fox', '[SEP]']));
    expectClose(together.subarray(6, 9), meanOf(['[CLS]', '[UNK]', '[SEP]']));
  });

  it('gets token types only if the graph requires them', async () => {
    const model = await open({ token_types: false });
    expectClose(await model.embed(['fox']), meanOf(['[CLS]', 'fox', '[SEP]'], [0, 0, 0]));
  });

  it('is found under onnx/ too', async () => {
    const model = await open({ graph_file: 'onnx/model.onnx' });
    expectClose(await model.embed(['fox']), meanOf(['[CLS]', 'fox', '[SEP]']));
  });

  it('is pooled by its first token if its configuration says so', async () => {
    const model = await open({
      files: { '1_Pooling/config.json': { pooling_mode_cls_token: true, pooling_mode_mean_tokens: false } },
    });
    const longer = await model.embed(['fox', 'red red red']);
    expectClose(longer.subarray(0, 3), meanOf(['[CLS]']));
    expectClose(longer.subarray(3), meanOf(['[CLS]']));
  });

  it.each([
    ['tokenizer_config.json', { pad_token: '[PAD]', model_max_length: 4 }],
    ['sentence_bert_config.json', { max_seq_length: 4 }],
    ['config.json', { max_position_embeddings: 4 }],
  ])('cuts a text at the tokens that %s names, but keeps its end token', async (name, value) => {
    const model = await open({ files: { [name]: value } });
    expectClose(await model.embed(['red fox runs running']), meanOf(['[CLS]', 'red', 'fox', '[SEP]']));
  });

  it('accepts a text of any length', async () => {
    const model = await open({ files: { 'tokenizer_config.json': { model_max_length: 1e30 } } });
    const vectors = await model.embed(['red '.repeat(1_000_000), '\ud800\0', 'fox']);
    expect(vectors.length).toBe(9);
    expect(vectors.every(Number.isFinite)).toBe(true);
  });
});

describe('an export with its own sentence embedding', () => {
  it('returns this embedding, normalised', async () => {
    const model = await open({ output: 'sentence' });
    expectClose(
      await model.embed(['fox', 'red fox']),
      [...meanOf(['[CLS]', 'fox', '[SEP]']), ...meanOf(['[CLS]', 'red', 'fox', '[SEP]'])].map((x) => -x),
    );
  });
});

describe('the id of a model', () => {
  it('is the same for the same files and differs for others', async () => {
    const first = await open();
    const again = await open();
    const other = await open({ files: { '1_Pooling/config.json': { pooling_mode_cls_token: true } } });
    const third = await open({ token_types: false });
    expect(again.facts).toEqual(first.facts);
    expect(new Set([first, other, third].map((model) => model.facts.id)).size).toBe(3);
  });
});

describe('an unfit folder', () => {
  const rejects = async (reason: RegExp) => {
    const error: unknown = await OnnxModel.open(dir).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    const { message } = error as Error;
    expect(message).toMatch(reason);
    expect(message).toContain(dir);
    expect(message).not.toContain('\n');
  };

  it('is named if it is missing or empty', async () => {
    await rejects(/neither model\.onnx nor onnx\/model\.onnx/);
    rmSync(dir, { recursive: true });
    await rejects(/no such folder/);
    writeFileSync(dir, '');
    await rejects(/no such folder/);
  });

  it('is named if its tokenizer is missing, invalid JSON, or of an unknown kind', async () => {
    writeToyModel(dir);
    rmSync(join(dir, 'tokenizer.json'));
    await rejects(/no tokenizer\.json/);
    writeFileSync(join(dir, 'tokenizer.json'), '{');
    await rejects(/tokenizer\.json is not a JSON object/);
    writeFileSync(join(dir, 'tokenizer.json'), '{"model":{"type":"Runes"}}');
    await rejects(/tokenizer\.json cannot be used/);
  });

  it('is named if its graph is invalid', async () => {
    writeToyModel(dir);
    writeFileSync(join(dir, 'model.onnx'), 'not a graph');
    await rejects(/the graph cannot be loaded/);
  });

  it.each<[string, ToyOptions, RegExp]>([
    ['outputs', { output: 'logits' }, /none of the outputs/],
    ['inputs', { extra_input: 'pixel_values' }, /pixel_values/],
    [
      'pooling',
      { files: { '1_Pooling/config.json': { pooling_mode_max_tokens: true } } },
      /pooling_mode_max_tokens/,
    ],
    [
      'layers',
      { files: { 'modules.json': [{ type: 'sentence_transformers.models.Dense' }] } },
      /not supported: Dense/,
    ],
    ['a list of modules', { files: { 'modules.json': '{}' } }, /modules\.json is not a list/],
  ])('is named when its %s cannot be served', async (_what, options, reason) => {
    writeToyModel(dir, options);
    await rejects(reason);
  });
});

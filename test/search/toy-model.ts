/** Makes a small sentence-transformers export: a WordPiece tokenizer and a graph that looks tokens up. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OnnxGraph } from '../../src/search/model-maker/onnx-graph.ts';

export const TOKENS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'red', 'fox', 'run', '##ning', '##s'] as const;
/** The last hidden state of each token, by the token's id. */
export const STATES = TOKENS.map((_, id) => [id + 1, (id * id) % 7, -id]);
/** Row of token type 0, which the graph adds to every token. */
export const TYPE_ZERO = [0.5, 0, 0.25];

export interface ToyOptions {
  /** The path of the graph. */
  graph_file?: 'model.onnx' | 'onnx/model.onnx';
  /** `sentence` also returns the sum of a text's own tokens as `sentence_embedding`. */
  output?: 'hidden' | 'sentence' | 'logits';
  /** false: the graph has no input for token types. */
  token_types?: boolean;
  extra_input?: string;
  /** Files by name, written as JSON. They are added to the default files, or replace those of the same name. */
  files?: Record<string, unknown>;
}

/** Writes the export into `dir`. */
export function writeToyModel(dir: string, options: ToyOptions = {}): void {
  const g = new OnnxGraph();
  const ids = g.input('input_ids', 'int64', ['batch', 'tokens']);
  const mask = g.input('attention_mask', 'int64', ['batch', 'tokens']);
  const table = g.constant(Float32Array.from(STATES.flat()), [TOKENS.length, 3]);
  let state = g.node('Gather', [table, ids]);
  if (options.token_types !== false) {
    const types = g.input('token_type_ids', 'int64', ['batch', 'tokens']);
    const typeTable = g.constant(Float32Array.of(...TYPE_ZERO, 9, 9, 9), [2, 3]);
    state = g.node('Add', [state, g.node('Gather', [typeTable, types])]);
  }
  if (options.extra_input !== undefined) {
    g.input(options.extra_input, 'int64', ['batch', 'tokens']);
  }
  if (options.output === 'logits') {
    g.node('Identity', [state], {}, 'logits');
    g.output('logits', 'float', ['batch', 'tokens', 3]);
  } else {
    g.node('Identity', [state], {}, 'last_hidden_state');
    g.output('last_hidden_state', 'float', ['batch', 'tokens', 3]);
  }
  if (options.output === 'sentence') {
    const own = g.node('Unsqueeze', [g.node('Cast', [mask], { to: 1 }), g.ints(2)]);
    const sum = g.node('ReduceSum', [g.node('Mul', [state, own]), g.ints(1)], { keepdims: 0 });
    g.node('Neg', [sum], {}, 'sentence_embedding');
    g.output('sentence_embedding', 'float', ['batch', 3]);
  }
  const graphFile = join(dir, options.graph_file ?? 'model.onnx');
  mkdirSync(join(graphFile, '..'), { recursive: true });
  writeFileSync(graphFile, g.encode('toy'));
  const files: Record<string, unknown> = {
    'tokenizer.json': TOKENIZER,
    'tokenizer_config.json': { pad_token: '[PAD]', model_max_length: 512 },
    ...options.files,
  };
  for (const [name, value] of Object.entries(files)) {
    mkdirSync(join(dir, name, '..'), { recursive: true });
    writeFileSync(join(dir, name), typeof value === 'string' ? value : JSON.stringify(value));
  }
}

/** The tokenizer of published BERT exports, with a vocabulary of nine tokens. */
const TOKENIZER = {
  version: '1.0',
  added_tokens: [0, 1, 2, 3].map((id) => ({
    id,
    content: TOKENS[id],
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, lowercase: true },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [
      { SpecialToken: { id: '[CLS]', type_id: 0 } },
      { Sequence: { id: 'A', type_id: 0 } },
      { SpecialToken: { id: '[SEP]', type_id: 0 } },
    ],
    pair: [],
    special_tokens: {
      '[CLS]': { id: '[CLS]', ids: [2], tokens: ['[CLS]'] },
      '[SEP]': { id: '[SEP]', ids: [3], tokens: ['[SEP]'] },
    },
  },
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: Object.fromEntries(TOKENS.map((token, id) => [token, id])),
  },
};

/**
 * A folder with a sentence-transformers ONNX export, loaded: tokenizer, graph and pooling as one function from texts to
 * vectors. One graph run at a time, on one core. Compute threads, and the thread of a round (src/teaching); the session
 * never leaves its thread.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { EMBEDDING_TEXT_CHARACTERS } from '../limits.ts';
import { type ModelFacts, normalise } from './embedder.ts';
import { EMBEDDING_BATCH_TOKENS, EMBEDDING_TOKENS_MAX } from './limits.ts';
import { WordTokens } from './word-tokens.ts';

/** Paths of the graph file in exports. */
const GRAPH_FILES = ['model.onnx', 'onnx/model.onnx'];
const INPUTS = ['input_ids', 'attention_mask', 'token_type_ids'] as const;
/** Names that exporters use for outputs: a vector per text, or else a vector per token. */
const TEXT_OUTPUT = 'sentence_embedding';
const TOKEN_OUTPUTS = ['last_hidden_state', 'token_embeddings'];
/** Modules of a sentence-transformers pipeline that are implemented here; any other would change the vectors. */
const MODULES = ['Transformer', 'Pooling', 'Normalize'];

/**
 * Maps the {@link hashFiles} of an export to that of an earlier export with the same vectors, except for rounding.
 * Stored vectors of the earlier export stay valid.
 */
const SAME_VECTORS: Readonly<Record<string, string>> = { '7360b091e6c8d5c5': 'ff15d994625f8110' };

type Pooling = 'mean' | 'cls';
type Runtime = typeof import('onnxruntime-node');

/** One text, ready for the graph. */
interface Encoded {
  /** The text's index among the requested texts. */
  at: number;
  ids: BigInt64Array;
}

export class OnnxModel {
  readonly facts: ModelFacts;
  readonly #session: InferenceSession;
  readonly #Tensor: Runtime['Tensor'];
  readonly #tokens: WordTokens;
  readonly #output: string;
  readonly #pooling: Pooling;
  readonly #tokensMax: number;
  readonly #padId: bigint;
  /** The token with which the tokenizer ends every text; null without one. It is kept when a text is cut. */
  readonly #endId: bigint | null;

  private constructor(parts: {
    session: InferenceSession;
    Tensor: Runtime['Tensor'];
    tokens: WordTokens;
    output: string;
    pooling: Pooling;
    tokens_max: number;
    pad_id: number;
    facts: ModelFacts;
  }) {
    this.#session = parts.session;
    this.#Tensor = parts.Tensor;
    this.#tokens = parts.tokens;
    this.#output = parts.output;
    this.#pooling = parts.pooling;
    this.#tokensMax = parts.tokens_max;
    this.#padId = BigInt(parts.pad_id);
    this.facts = parts.facts;
    const frame = parts.tokens.encode('');
    this.#endId = frame.length > 1 ? frame.at(-1)! : null;
  }

  /**
   * Loads an export, and runs it once.
   * @param dir of an export: `model.onnx` or `onnx/model.onnx`, `tokenizer.json`, and the files beside them
   * @throws Error with a one-line message that names the folder and its fault
   */
  static async open(dir: string): Promise<OnnxModel> {
    try {
      return await OnnxModel.#open(dir);
    } catch (thrown) {
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      throw new Error(`embedding model in ${dir}: ${reason.split('\n', 1)[0]!.slice(0, 500)}`);
    }
  }

  static async #open(dir: string): Promise<OnnxModel> {
    if (!existsSync(dir) || !statSync(dir).isDirectory()) throw new Error('there is no such folder');
    const graphFile = GRAPH_FILES.map((name) => join(dir, name)).find((file) => existsSync(file));
    if (graphFile === undefined) throw new Error(`there is neither ${GRAPH_FILES.join(' nor ')}`);
    if (!existsSync(join(dir, 'tokenizer.json'))) throw new Error('there is no tokenizer.json');
    checkModules(dir);
    const tokenizerJson = readJson(dir, 'tokenizer.json');
    const tokenizerConfig = readJson(dir, 'tokenizer_config.json');
    const tokenizer = openTokenizer(tokenizerJson, tokenizerConfig);
    const { InferenceSession, Tensor } = await loadRuntime();
    const session = await openSession(InferenceSession, graphFile);
    const output = [TEXT_OUTPUT, ...TOKEN_OUTPUTS].find((name) => session.outputNames.includes(name));
    if (output === undefined) {
      throw new Error(`the graph has none of the outputs ${[TEXT_OUTPUT, ...TOKEN_OUTPUTS].join(', ')}`);
    }
    const strange = session.inputNames.find((name) => !(INPUTS as readonly string[]).includes(name));
    if (strange !== undefined) throw new Error(`the graph wants an input that is not known: ${strange}`);
    const padToken = tokenizerConfig.pad_token;
    const parts = {
      session,
      Tensor,
      tokens: new WordTokens(tokenizer, tokenizerJson),
      output,
      pooling: output === TEXT_OUTPUT ? 'mean' : readPooling(dir),
      tokens_max: readTokensMax(dir, tokenizerConfig),
      pad_id: tokenizer.token_to_id(typeof padToken === 'string' ? padToken : '[PAD]') ?? 0,
    } as const;
    const hash = hashFiles(dir, graphFile);
    const id = `onnx:${SAME_VECTORS[hash] ?? hash}`;
    const probe = new OnnxModel({ ...parts, facts: { id, dimensions: 0 } });
    // The graph's declared shape may be symbolic. One run reveals the dimensions and proves that the model works.
    const dimensions = (await probe.embed(['a'])).length;
    return new OnnxModel({ ...parts, facts: { id, dimensions } });
  }

  /**
   * Embeds texts, in batches of similar length.
   * @param texts each is cut at EMBEDDING_TEXT_CHARACTERS and at the model's token limit
   * @returns the vectors, one after another, each of length 1 or all zeros; in shared memory, which is passed to
   *   another thread without a copy
   */
  async embed(texts: readonly string[]): Promise<Float32Array> {
    const encoded = texts.map((text, at): Encoded => ({ at, ids: this.#encode(text) }));
    // Texts of similar length are batched, because padding costs as much as other tokens.
    encoded.sort((a, b) => a.ids.length - b.ids.length);
    let flat: Float32Array | null = null;
    for (const batch of cutBatches(encoded)) {
      const vectors = await this.#run(batch);
      const dimensions = vectors.length / batch.length;
      flat ??= allocateShared(texts.length * dimensions);
      for (const [row, { at }] of batch.entries()) {
        const vector = vectors.subarray(row * dimensions, (row + 1) * dimensions);
        flat.set(normalise(vector), at * dimensions);
      }
    }
    return flat ?? new Float32Array(0);
  }

  /** Frees the graph's memory. */
  async close(): Promise<void> {
    await this.#session.release();
  }

  #encode(text: string): BigInt64Array {
    const ids = this.#tokens.encode(cutText(text));
    if (ids.length <= this.#tokensMax) return ids;
    const cut = ids.slice(0, this.#tokensMax);
    if (this.#endId !== null) cut[cut.length - 1] = this.#endId;
    return cut;
  }

  /**
   * Runs the graph once.
   * @returns a vector for each text of the batch, not yet normalised
   * @throws Error if the graph's output has another type or shape
   */
  async #run(batch: readonly Encoded[]): Promise<Float32Array> {
    const rows = batch.length;
    // At least one column, because a graph may refuse zero tokens.
    const columns = Math.max(1, ...batch.map(({ ids }) => ids.length));
    const ids = new BigInt64Array(rows * columns).fill(this.#padId);
    const mask = new BigInt64Array(rows * columns);
    for (const [row, text] of batch.entries()) {
      const from = row * columns;
      ids.set(text.ids, from);
      mask.fill(1n, from, from + text.ids.length);
    }
    const data = { input_ids: ids, attention_mask: mask, token_type_ids: new BigInt64Array(rows * columns) };
    const feeds: Record<string, Tensor> = {};
    for (const name of INPUTS) {
      if (this.#session.inputNames.includes(name)) {
        feeds[name] = new this.#Tensor('int64', data[name], [rows, columns]);
      }
    }
    const output = (await this.#session.run(feeds, [this.#output]))[this.#output]!;
    if (output.type !== 'float32') throw new Error(`${this.#output} holds ${output.type}, not float32`);
    const values = output.data as Float32Array;
    const { dims } = output;
    if (this.#output === TEXT_OUTPUT) {
      if (dims.length !== 2 || dims[0] !== rows) throw badShape(this.#output, dims);
      return values;
    }
    if (dims.length !== 3 || dims[0] !== rows || dims[1] !== columns) throw badShape(this.#output, dims);
    return this.#pooling === 'cls'
      ? takeFirst(values, rows, columns, dims[2]!)
      : poolMean(values, batch, columns, dims[2]!);
  }
}

/**
 * Allocates shared memory for vectors, which the receiving thread soon drops. V8 would count other buffers towards the
 * growth of that thread's heap until the next minor collection, and so collect its whole heap every second.
 */
function allocateShared(count: number): Float32Array {
  return new Float32Array(new SharedArrayBuffer(count * Float32Array.BYTES_PER_ELEMENT));
}

/** Cuts a text to the part that is embedded, without half a surrogate pair at the end. */
function cutText(text: string): string {
  return text.slice(0, EMBEDDING_TEXT_CHARACTERS).toWellFormed();
}

/** Divides texts into batches that stay under the limit including padding; a single text may be a batch. */
function* cutBatches(sorted: readonly Encoded[]): Generator<readonly Encoded[]> {
  let from = 0;
  for (let to = 1; to <= sorted.length; to++) {
    const isFull = to < sorted.length && (to + 1 - from) * sorted[to]!.ids.length > EMBEDDING_BATCH_TOKENS;
    if (to < sorted.length && !isFull) continue;
    yield sorted.slice(from, to);
    from = to;
  }
}

/** Computes for each text the mean of the vectors of its tokens, without padding. */
function poolMean(
  values: Float32Array,
  batch: readonly Encoded[],
  columns: number,
  width: number,
): Float32Array {
  const pooled = new Float32Array(batch.length * width);
  for (const [row, { ids }] of batch.entries()) {
    for (let i = 0; i < width; i++) {
      let sum = 0;
      for (let column = 0; column < ids.length; column++)
        sum += values[(row * columns + column) * width + i]!;
      pooled[row * width + i] = sum / Math.max(1, ids.length);
    }
  }
  return pooled;
}

function takeFirst(values: Float32Array, rows: number, columns: number, width: number): Float32Array {
  const pooled = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    const from = row * columns * width;
    pooled.set(values.subarray(from, from + width), row * width);
  }
  return pooled;
}

function badShape(output: string, dims: readonly number[]): Error {
  return new Error(`${output} has the shape [${dims.join(', ')}]`);
}

/**
 * Loads the ONNX runtime with the first model, not with this module. The package may be missing, because npm continues
 * without an optional package whose install script fails, and a thread that fails to load does not report why.
 * @throws Error if the runtime cannot be loaded
 */
async function loadRuntime(): Promise<Runtime> {
  try {
    return await import('onnxruntime-node');
  } catch (thrown) {
    const reason = (thrown instanceof Error ? thrown.message : String(thrown)).split('\n', 1)[0];
    throw new Error(
      `onnxruntime-node, which runs the model, cannot be loaded: if the package is missing, npm install --ignore-scripts installs it; EMBEDDING_API_KEY selects a remote service instead (${reason})`,
    );
  }
}

async function openSession(
  InferenceSession: Runtime['InferenceSession'],
  file: string,
): Promise<InferenceSession> {
  try {
    return await InferenceSession.create(file, {
      executionProviders: ['cpu'],
      executionMode: 'sequential',
      // One thread per run, because the pool already has a thread for each core that it may use.
      intraOpNumThreads: 1,
      interOpNumThreads: 1,
      logSeverityLevel: 3,
    });
  } catch (thrown) {
    throw new Error(`the graph cannot be loaded (${thrown instanceof Error ? thrown.message : thrown})`);
  }
}

function openTokenizer(json: object, config: object): Tokenizer {
  try {
    return new Tokenizer(json, config);
  } catch (thrown) {
    throw new Error(`tokenizer.json cannot be used (${thrown instanceof Error ? thrown.message : thrown})`);
  }
}

/** Reads a file with a JSON object; a missing file counts as an empty object. @throws Error for any other content */
function readJson(dir: string, name: string): Record<string, unknown> {
  const file = join(dir, name);
  if (!existsSync(file)) return {};
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
  } catch {
    // The error below reports invalid JSON.
  }
  throw new Error(`${name} is not a JSON object`);
}

/** Refuses a pipeline with another layer (Dense, for example), because its vectors would be wrong without it. */
function checkModules(dir: string): void {
  const file = join(dir, 'modules.json');
  if (!existsSync(file)) return;
  let modules: unknown;
  try {
    modules = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    throw new Error('modules.json is not JSON');
  }
  if (!Array.isArray(modules)) throw new Error('modules.json is not a list');
  for (const module of modules as { type?: unknown }[]) {
    const type = String(module?.type).split('.').at(-1)!;
    if (!MODULES.includes(type))
      throw new Error(`modules.json names a module that is not supported: ${type}`);
  }
}

function readPooling(dir: string): Pooling {
  const config = readJson(dir, '1_Pooling/config.json');
  const modes = Object.keys(config).filter((key) => key.startsWith('pooling_mode_') && config[key] === true);
  if (modes.length === 0 || (modes.length === 1 && modes[0] === 'pooling_mode_mean_tokens')) return 'mean';
  if (modes.length === 1 && modes[0] === 'pooling_mode_cls_token') return 'cls';
  throw new Error(`1_Pooling/config.json asks for ${modes.join(' and ')}; supported are mean and cls`);
}

/** Finds the smallest limit of tokens in the export's files, and at most this program's own limit. */
function readTokensMax(dir: string, tokenizerConfig: Record<string, unknown>): number {
  const named = [
    tokenizerConfig.model_max_length,
    readJson(dir, 'config.json').max_position_embeddings,
    readJson(dir, 'sentence_bert_config.json').max_seq_length,
  ].filter((n): n is number => typeof n === 'number' && n >= 2);
  return Math.floor(Math.min(EMBEDDING_TOKENS_MAX, ...named));
}

/**
 * Hashes the graph, the tokenizer with its configuration, and the kind of pooling. The token limits in `config.json`
 * and `sentence_bert_config.json` are not included.
 */
function hashFiles(dir: string, graphFile: string): string {
  const hash = createHash('sha256').update(readFileSync(graphFile));
  for (const name of ['tokenizer.json', 'tokenizer_config.json', '1_Pooling/config.json']) {
    // Hashes the JSON value instead of the text: otherwise reformatting would cause a whole store to be embedded
    // again.
    if (existsSync(join(dir, name))) hash.update(`\0${name}\0${JSON.stringify(readJson(dir, name))}`);
  }
  return hash.digest('hex').slice(0, 16);
}

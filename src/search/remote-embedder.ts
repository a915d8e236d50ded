/**
 * The embedder for an OpenAI-compatible `POST …/embeddings`. The key is only sent in one header: no error and no log
 * contains the key, or anything from the service's answers but their status. Any thread.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Pool } from 'undici';
import { CatalogueError } from '../errors.ts';
import { type Embedder, normalise } from './embedder.ts';
import { TextBatcher } from './text-batcher.ts';

/**
 * Maximum number of texts in one request to the service, maximum time for the answer, and maximum size of the answer.
 */
export const EMBEDDING_REMOTE_TEXTS = 96;
const EMBEDDING_REMOTE_TIMEOUT_MS = 20_000;
const EMBEDDING_REMOTE_ANSWER_BYTES = 32 << 20;
/** Maximum number of concurrent requests to the service, and the delay before the only retry. */
const EMBEDDING_REMOTE_PARALLEL = 4;
const EMBEDDING_REMOTE_RETRY_MS = 500;
/** Delays between attempts at a service that was down at the start. */
const EMBEDDING_REMOTE_RETRY_FIRST_MS = 1_000;
const EMBEDDING_REMOTE_RETRY_MAX_MS = 30_000;
/** Maximum number of dimensions of a vector from the service. */
const EMBEDDING_DIMENSIONS_MAX = 8_192;

interface RemoteEmbedderOptions {
  /** Base address of the service, without a trailing slash; `/embeddings` is appended. */
  url: string;
  /** Secret; '' for a service without a key. */
  key: string;
  model: string;
  timeout_ms?: number;
  retry_ms?: number;
  /**
   * Delay before a service that was down at the start is asked again; doubles up to EMBEDDING_REMOTE_RETRY_MAX_MS.
   */
  first_retry_ms?: number;
}

/**
 * Opens the pool of connections. The library is loaded only if there is a service, because loading it takes a tenth of
 * the time in which a thread starts.
 */
async function openPool({
  url,
  timeout_ms = EMBEDDING_REMOTE_TIMEOUT_MS,
}: RemoteEmbedderOptions): Promise<Pool> {
  const { Pool } = await import('undici');
  return new Pool(new URL(url).origin, {
    connections: EMBEDDING_REMOTE_PARALLEL,
    connect: { timeout: timeout_ms },
    headersTimeout: timeout_ms,
    bodyTimeout: timeout_ms,
  });
}

/** A failure of the service; `retryable` if the same request may succeed shortly after. */
class RemoteError extends Error {
  readonly retryable: boolean;

  constructor(message: string, retryable: boolean) {
    super(`the embedding service ${message}`);
    this.name = 'RemoteError';
    this.retryable = retryable;
  }
}

export class RemoteEmbedder implements Embedder {
  readonly id: string;
  readonly #options: RemoteEmbedderOptions;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #batcher: TextBatcher;
  /** 0 until the first answer. */
  #dimensions = 0;
  readonly #closed = new AbortController();

  private constructor(options: RemoteEmbedderOptions, pool: Pool) {
    const url = new URL(options.url);
    this.#options = options;
    this.id = `remote:${nameRemote(options.url)}#${options.model}`;
    this.#path = `${url.pathname.replace(/\/$/, '')}/embeddings${url.search}`;
    this.#pool = pool;
    this.#batcher = new TextBatcher({
      batch_texts: EMBEDDING_REMOTE_TEXTS,
      parallel: EMBEDDING_REMOTE_PARALLEL,
      run: (texts) => this.#run(texts),
    });
  }

  /**
   * Asks the service for one vector, to learn the number of dimensions. A service that cannot be reached, or fails, is
   * asked again from time to time. Until it answers, the number is unknown and no text is embedded.
   * @param onDown called with the reason if the service does not answer now
   * @throws Error with a one-line message if the service refuses, or does not answer with a vector
   */
  static async open(
    options: RemoteEmbedderOptions,
    onDown: (reason: string) => void = () => {},
  ): Promise<RemoteEmbedder> {
    const embedder = new RemoteEmbedder(options, await openPool(options));
    try {
      await embedder.#run(['a']);
      return embedder;
    } catch (thrown) {
      if (thrown instanceof RemoteError && thrown.retryable) {
        onDown(thrown.message);
        void embedder.#meet();
        return embedder;
      }
      await embedder.close();
      throw thrown;
    }
  }

  /** Asks the service again until it answers. */
  async #meet(): Promise<void> {
    const { signal } = this.#closed;
    let pauseMs = this.#options.first_retry_ms ?? EMBEDDING_REMOTE_RETRY_FIRST_MS;
    while (this.#dimensions === 0) {
      try {
        await wait(pauseMs, undefined, { ref: false, signal });
        await this.#ask(['a']);
      } catch {
        if (signal.aborted) return;
        pauseMs = Math.min(2 * pauseMs, EMBEDDING_REMOTE_RETRY_MAX_MS);
      }
    }
  }

  get dimensions(): number {
    return this.#dimensions;
  }

  embed(texts: readonly string[]): Promise<Float32Array[]> {
    if (this.#dimensions === 0) {
      const detail = 'The embedding service has not answered yet';
      return Promise.reject(new CatalogueError('unavailable', detail));
    }
    return this.#batcher.embed(texts);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#batcher.close();
    if (!this.#pool.destroyed) await this.#pool.destroy();
  }

  async #run(texts: readonly string[]): Promise<Float32Array[]> {
    // Services refuse empty texts, which have no content anyway.
    const asked = texts.map((text) => text.toWellFormed()).filter((text) => text.trim() !== '');
    const found = asked.length === 0 ? [] : await this.#askTwice(asked);
    let next = 0;
    return texts.map((text) => (text.trim() === '' ? new Float32Array(this.#dimensions) : found[next++]!));
  }

  async #askTwice(texts: readonly string[]): Promise<Float32Array[]> {
    try {
      return await this.#ask(texts);
    } catch (thrown) {
      if (!(thrown instanceof RemoteError) || !thrown.retryable) throw thrown;
      await wait(this.#options.retry_ms ?? EMBEDDING_REMOTE_RETRY_MS, undefined, { ref: false });
      return await this.#ask(texts);
    }
  }

  async #ask(texts: readonly string[]): Promise<Float32Array[]> {
    const { key, model, timeout_ms } = this.#options;
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      accept: 'application/json',
    };
    if (key !== '') headers.authorization = `Bearer ${key}`;
    let status: number;
    let text: string;
    try {
      const answer = await this.#pool.request({
        method: 'POST',
        path: this.#path,
        headers,
        body: JSON.stringify({ model, input: texts, encoding_format: 'float' }),
        // The pool's own timeouts apply between two bytes; this one applies to the whole request.
        signal: AbortSignal.timeout(timeout_ms ?? EMBEDDING_REMOTE_TIMEOUT_MS),
      });
      status = answer.statusCode;
      text = await readBounded(answer.body);
    } catch (thrown) {
      if (thrown instanceof RemoteError) throw thrown;
      throw new RemoteError(`cannot be reached (${nameFailure(thrown)})`, true);
    }
    if (status !== 200) throw new RemoteError(`answered ${status}`, status === 429 || status >= 500);
    return this.#readVectors(text, texts.length);
  }

  /**
   * Reads the vectors of an answer. Validates every value, because searches use these vectors from then on.
   * @throws RemoteError for an answer without valid vectors
   */
  #readVectors(text: string, count: number): Float32Array[] {
    const data = parseObject(text)?.data;
    if (!Array.isArray(data) || data.length !== count) throw badAnswer('another number of vectors');
    const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
    for (const [place, entry] of (data as ({ index?: unknown; embedding?: unknown } | null)[]).entries()) {
      const at = typeof entry?.index === 'number' ? entry.index : place;
      const values: unknown = entry?.embedding;
      if (!Number.isInteger(at) || at < 0 || at >= count || vectors[at] !== undefined) {
        throw badAnswer('vectors out of place');
      }
      if (!Array.isArray(values) || values.length === 0 || values.length > EMBEDDING_DIMENSIONS_MAX) {
        throw badAnswer('no vector of an acceptable length');
      }
      if (!values.every((x) => typeof x === 'number' && Number.isFinite(x))) {
        throw badAnswer('something that is not a number');
      }
      if (this.#dimensions === 0) this.#dimensions = values.length;
      if (values.length !== this.#dimensions) throw badAnswer('vectors of another length than before');
      vectors[at] = normalise(Float32Array.from(values as number[]));
    }
    return vectors as Float32Array[];
  }
}

/** Names the service of an address: the address without a trailing slash and without a query. */
export function nameRemote(address: string): string {
  const { origin, pathname } = new URL(address);
  return `${origin}${pathname.replace(/\/$/, '')}`;
}

function badAnswer(what: string): RemoteError {
  return new RemoteError(`answered with ${what}`, false);
}

async function readBounded(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > EMBEDDING_REMOTE_ANSWER_BYTES) {
      body.destroy();
      throw badAnswer('too much');
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseObject(text: string): { data?: unknown } | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? (value as { data?: unknown } | null) : null;
  } catch {
    return null;
  }
}

/** Names an error by its code or class, because its message may contain the sent text. */
function nameFailure(thrown: unknown): string {
  if (!(thrown instanceof Error)) return 'unknown';
  return 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : thrown.name;
}

/** The remote embedder with a service of the test: what it sends, what it accepts, and what it never reveals. */
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CatalogueError } from '../../src/errors.ts';
import { EMBEDDING_REMOTE_TEXTS, RemoteEmbedder } from '../../src/search/remote-embedder.ts';

const KEY = 'sk-very-secret-0123456789';

interface Asked {
  path: string;
  headers: IncomingHttpHeaders;
  body: { model: string; input: string[]; encoding_format: string };
}

let server: Server;
let url: string;
let asked: Asked[];
/** Answers a request; tests replace it. */
let answer: (response: ServerResponse, body: Asked['body'], attempt: number) => void;
const open: RemoteEmbedder[] = [];

/** A vector that identifies its text. */
const vectorOf = (text: string) => [text.length, 1, 0];
const giveVectors: typeof answer = (response, { input }) => {
  response.end(
    JSON.stringify({
      // In any order: the index identifies the text.
      data: input.map((text, index) => ({ index, embedding: vectorOf(text) })).reverse(),
    }),
  );
};

beforeEach(async () => {
  asked = [];
  answer = giveVectors;
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Asked['body'];
      asked.push({ path: request.url!, headers: request.headers, body });
      answer(response, body, asked.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  for (const embedder of open.splice(0)) await embedder.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

async function connect(
  options: { timeout_ms?: number; base?: string; key?: string } = {},
): Promise<RemoteEmbedder> {
  const embedder = await RemoteEmbedder.open({
    url: options.base ?? `${url}/v1`,
    key: options.key ?? KEY,
    model: 'small-1',
    retry_ms: 1,
    ...(options.timeout_ms === undefined ? {} : { timeout_ms: options.timeout_ms }),
  });
  open.push(embedder);
  asked.length = 0;
  return embedder;
}

function unit(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector);
  return Float32Array.from(vector, (x) => x / length);
}

function expectClose(vectors: readonly Float32Array[], texts: readonly string[]): void {
  expect(vectors).toHaveLength(texts.length);
  for (const [i, text] of texts.entries()) {
    for (const [k, x] of unit(vectorOf(text)).entries()) expect(vectors[i]![k]).toBeCloseTo(x, 6);
  }
}

async function failureOf(promise: Promise<unknown>): Promise<CatalogueError> {
  const thrown: unknown = await promise.catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(CatalogueError);
  return thrown as CatalogueError;
}

describe('a remote embedder', () => {
  it('sends documented requests, and returns vectors of length 1 in the order of the texts', async () => {
    const embedder = await connect();
    expect(embedder.dimensions).toBe(3);
    expect(embedder.id).toBe(`remote:${url}/v1#small-1`);
    expectClose(await embedder.embed(['one', 'three', 'x']), ['one', 'three', 'x']);
    expect(asked).toHaveLength(1);
    expect(asked[0]!.path).toBe('/v1/embeddings');
    expect(asked[0]!.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(asked[0]!.body).toEqual({
      model: 'small-1',
      input: ['one', 'three', 'x'],
      encoding_format: 'float',
    });
  });

  it('sends no credential to a service that requires none', async () => {
    const embedder = await connect({ key: '' });
    await embedder.embed(['a']);
    expect(asked[0]!.headers.authorization).toBeUndefined();
  });

  it('does not send empty texts, and sends limited portions', async () => {
    const embedder = await connect();
    const texts = Array.from({ length: EMBEDDING_REMOTE_TEXTS + 5 }, (_, i) => 't'.repeat(i + 1));
    expectClose(await embedder.embed(texts), texts);
    expect(asked.map(({ body }) => body.input.length).sort((a, b) => a - b)).toEqual([
      5,
      EMBEDDING_REMOTE_TEXTS,
    ]);
    asked.length = 0;
    const [empty, full] = await embedder.embed([' \n', 'full']);
    expect(empty).toEqual(new Float32Array(3));
    expectClose([full!], ['full']);
    expect(asked[0]!.body.input).toEqual(['full']);
  });

  it.each([429, 500, 503])('retries once after %i', async (status) => {
    const embedder = await connect();
    answer = (response, body, attempt) => {
      if (attempt > 1) return giveVectors(response, body, attempt);
      response.statusCode = status;
      response.end('busy');
    };
    expectClose(await embedder.embed(['again']), ['again']);
    expect(asked).toHaveLength(2);
  });

  it('retries once after a lost connection', async () => {
    const embedder = await connect();
    answer = (response, body, attempt) => {
      if (attempt > 1) return giveVectors(response, body, attempt);
      response.socket!.destroy();
    };
    expectClose(await embedder.embed(['again']), ['again']);
  });

  it('gives up after the second failure, and serves the next call', async () => {
    const embedder = await connect();
    answer = (response) => {
      response.statusCode = 503;
      response.end();
    };
    expect((await failureOf(embedder.embed(['x']))).code).toBe('unavailable');
    expect(asked).toHaveLength(2);
    answer = giveVectors;
    expectClose(await embedder.embed(['x']), ['x']);
  });

  it('does not repeat what was finally refused', async () => {
    const embedder = await connect();
    answer = (response) => {
      response.statusCode = 401;
      response.end();
    };
    expect((await failureOf(embedder.embed(['x']))).code).toBe('unavailable');
    expect(asked).toHaveLength(1);
  });

  it('waits at most its timeout, for the head and for the whole', async () => {
    const embedder = await connect({ timeout_ms: 100 });
    answer = () => {};
    expect((await failureOf(embedder.embed(['x']))).code).toBe('unavailable');
    answer = (response) => {
      response.write('{');
    };
    expect((await failureOf(embedder.embed(['x']))).code).toBe('unavailable');
  });

  it.each<[string, unknown]>([
    ['no JSON', '<html>'],
    ['null', 'null'],
    ['no list', { data: {} }],
    ['too few', { data: [] }],
    ['a null entry', { data: [null] }],
    ['a place twice', { data: [{ index: 1, embedding: [1, 0, 0] }] }],
    ['an invalid place', { data: [{ index: -0.5, embedding: [1, 0, 0] }] }],
    ['another length', { data: [{ index: 0, embedding: [1, 0] }] }],
    ['an empty vector', { data: [{ index: 0, embedding: [] }] }],
    ['text in a vector', { data: [{ index: 0, embedding: [1, 'a', 0] }] }],
    ['null in a vector', { data: [{ index: 0, embedding: [1, null, 0] }] }],
    ['a vector in base64', { data: [{ index: 0, embedding: 'AACAPw==' }] }],
  ])('refuses an answer with %s', async (_what, body) => {
    const embedder = await connect();
    answer = (response) => void response.end(typeof body === 'string' ? body : JSON.stringify(body));
    expect((await failureOf(embedder.embed(['x']))).code).toBe('unavailable');
    expect(asked).toHaveLength(1);
  });

  it('never reveals its key, nor the service’s text', async () => {
    const embedder = await connect();
    answer = (response, _body, attempt) => {
      response.statusCode = attempt % 2 === 0 ? 500 : 429;
      response.end(`your key ${KEY} is over its limit`);
    };
    const error = await failureOf(embedder.embed(['x']));
    answer = (response) => void response.end(`not JSON ${KEY}`);
    const other = await failureOf(embedder.embed(['x']));
    for (const text of [
      inspect(error, { depth: 9 }),
      inspect(other, { depth: 9 }),
      inspect(embedder),
      embedder.id,
    ]) {
      expect(text).not.toContain(KEY);
      expect(text).not.toContain('over its limit');
    }
  });

  it('says in one line why it cannot start', async () => {
    answer = (response) => {
      response.statusCode = 404;
      response.end();
    };
    await expect(connect()).rejects.toThrow('the embedding service answered 404');
    answer = (response) => {
      response.end('{"data":[{"embedding":"none"}]}');
    };
    await expect(connect()).rejects.toThrow(
      'the embedding service answered with no vector of an acceptable length',
    );
  });

  it.each([
    ['fails', undefined, 'answered 503'],
    ['cannot be reached', 'http://127.0.0.1:1/v1', 'cannot be reached (ECONNREFUSED)'],
  ])('starts with a service that %s, and embeds nothing', async (_what, base, reason) => {
    answer = (response) => {
      response.statusCode = 503;
      response.end();
    };
    const reasons: string[] = [];
    const options = { url: base ?? `${url}/v1`, key: KEY, model: 'small-1', retry_ms: 1, first_retry_ms: 1 };
    const embedder = await RemoteEmbedder.open(options, (why) => reasons.push(why));
    open.push(embedder);
    expect(reasons).toEqual([`the embedding service ${reason}`]);
    expect(embedder.dimensions).toBe(0);
    expect(embedder.id).toBe(`remote:${options.url}#small-1`);
    const failure = await failureOf(embedder.embed(['x']));
    expect([failure.code, failure.retryable]).toEqual(['unavailable', true]);
  });

  it('recovers by itself once the service answers', async () => {
    answer = (response, body, attempt) => {
      if (attempt > 4) return giveVectors(response, body, attempt);
      response.statusCode = 503;
      response.end();
    };
    const embedder = await RemoteEmbedder.open({
      url: `${url}/v1`,
      key: KEY,
      model: 'small-1',
      retry_ms: 1,
      first_retry_ms: 1,
    });
    open.push(embedder);
    expect(embedder.dimensions).toBe(0);
    await expect.poll(() => embedder.dimensions).toBe(3);
    expectClose(await embedder.embed(['four']), ['four']);
  });

  it('fails waiting requests when it is closed', async () => {
    const embedder = await connect();
    await embedder.close();
    await embedder.close();
    expect((await failureOf(embedder.embed(['x']))).code).toBe('unavailable');
  });
});

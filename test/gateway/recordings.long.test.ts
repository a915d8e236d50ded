/**
 * Recorded provider traffic through the gateway: a raw client sends every recorded request, a raw upstream answers with
 * the recorded response, and both sides are compared byte for byte. The recordings have no chunk boundaries or splits,
 * so the test draws unusual ones from a seed. Skipped without the recordings. Test thread, gateway as a process.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { STATUS_CODES } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { CliChild } from '../cli/child.ts';
import { openRawClient, type RawAnswer, type RawClient } from '../fixtures/raw-client.ts';
import { headerValue, messageBytes, splitBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, type ReceivedRequest, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { sharedFile } from '../fixtures/shared.ts';

const FILES = ['mirascope', 'pydantic-ai'].map((name) => sharedFile(`recordings/${name}.jsonl.gz`));

/** Simultaneous exchanges, each on its own client connection, which is reused. */
const CONNECTIONS = 6;

/** A header that names the recording; it is compared like any other end-to-end header. */
const INDEX_HEADER = 'x-replay-index';

interface RecordedSide {
  headers: [name: string, value: string][];
  body: { text: string } | { base64: string };
}

interface Recording {
  source: string;
  provider: string;
  method: string;
  url: string;
  request: RecordedSide;
  response: RecordedSide & { status: number };
}

/** One prepared recording: the bytes to send, and the expected results. */
interface Replay {
  source: string;
  index: number;
  method: string;
  /** Path and query after the gateway's prefix. */
  target: string;
  prefix: string;
  request_headers: [string, string][];
  request_body: Buffer;
  request_framing: 'length' | 'chunked' | 'none';
  status_line: string;
  response_headers: [string, string][];
  response_body: Buffer;
  response_framing: 'length' | 'chunked' | 'none';
  chunk_sizes: number[];
  split_sizes: number[];
}

/**
 * Hop-by-hop and framing headers of the recording. The replay makes new framing, and the recorders had already decoded
 * the bodies.
 */
const REFRAMED = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length']);

/** Headers that each hop writes itself, or that the HTTP parser may place last: compared separately or not at all. */
const OWN = new Set(['host', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'date']);

function bytesOf(body: RecordedSide['body']): Buffer {
  return 'text' in body ? Buffer.from(body.text) : Buffer.from(body.base64, 'base64');
}

function oddSizes(prng: Prng): number[] {
  return [1, 2, 3, 7, 61, 509, 1021, 4093, 16_381]
    .map((size) => 1 + prng.below(2 * size))
    .sort(() => prng.float() - 0.5);
}

function prefixOf(recording: Recording, host: string): string {
  if (recording.provider === 'gemini') return '/gemini';
  if (recording.provider !== 'bedrock') return '';
  return `/bedrock/${/^bedrock-runtime\.([a-z\d-]+)\./.exec(host)![1]}`;
}

function prepare(recording: Recording, index: number): Replay {
  const prng = createPrng(index);
  const [, host, target] = /^https:\/\/([^/]+)(.*)$/.exec(recording.url)!;
  const request_body = bytesOf(recording.request.body);
  const response_body = bytesOf(recording.response.body);
  const { status } = recording.response;
  const bodyless = recording.method === 'GET' || (recording.method === 'DELETE' && request_body.length === 0);
  const kept = (headers: [string, string][]): [string, string][] =>
    headers.filter(([name]) => !REFRAMED.has(name.toLowerCase()));
  const headers = kept(recording.request.headers);
  // Some recorders left out this header, which HTTP/1.1 requires.
  const named = headers.some(([name]) => name.toLowerCase() === 'host');
  return {
    source: recording.source,
    index,
    method: recording.method,
    target: target!,
    prefix: prefixOf(recording, host!),
    request_headers: [
      ...(named ? [] : ([['host', host!]] as [string, string][])),
      ...headers,
      [INDEX_HEADER, String(index)],
    ],
    request_body,
    request_framing: bodyless ? 'none' : prng.chance(0.5) && request_body.length > 0 ? 'chunked' : 'length',
    status_line: `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    response_headers: kept(recording.response.headers),
    response_body,
    response_framing: status === 204 ? 'none' : prng.chance(0.6) ? 'chunked' : 'length',
    chunk_sizes: oddSizes(prng),
    split_sizes: oddSizes(prng),
  };
}

async function loadReplays(): Promise<Replay[]> {
  const replays: Replay[] = [];
  for (const { path: file } of FILES) {
    for (const line of gunzipSync(await readFile(file))
      .toString('utf8')
      .split('\n')) {
      if (line !== '') replays.push(prepare(JSON.parse(line) as Recording, replays.length));
    }
  }
  return replays;
}

function requestBytes(replay: Replay): Buffer {
  return messageBytes(
    `${replay.method} ${replay.prefix}${replay.target} HTTP/1.1`,
    replay.request_headers,
    replay.request_body,
    { framing: replay.request_framing, chunk_sizes: replay.chunk_sizes },
  );
}

function responseBytes(replay: Replay): Buffer {
  return messageBytes(replay.status_line, replay.response_headers, replay.response_body, {
    framing: replay.response_framing,
    chunk_sizes: replay.chunk_sizes,
  });
}

/** End-to-end headers in order, duplicates kept, names lower-cased (an allowed difference). */
function endToEnd(headers: readonly (readonly [string, string])[]): string[] {
  return headers.filter(([n]) => !OWN.has(n.toLowerCase())).map(([n, v]) => `${n.toLowerCase()}: ${v}`);
}

/** The differences between the client's request and the upstream's, in words; empty if they are equal. */
function compareRequest(replay: Replay, got: ReceivedRequest, upstreamHost: string): string[] {
  const faults: string[] = [];
  const startLine = `${replay.method} ${replay.target} HTTP/1.1`;
  if (got.start_line !== startLine) faults.push(`start line ${got.start_line}`);
  if (endToEnd(got.headers).join('\n') !== endToEnd(replay.request_headers).join('\n')) {
    faults.push(
      `request headers ${JSON.stringify(got.headers)} for ${JSON.stringify(replay.request_headers)}`,
    );
  }
  const hosts = got.headers.filter(([name]) => name.toLowerCase() === 'host').map(([, value]) => value);
  if (hosts.join() !== upstreamHost) faults.push(`host ${hosts.join()}`);
  if (got.framing !== replay.request_framing) faults.push(`request framing ${got.framing}`);
  if (!got.body.equals(replay.request_body)) faults.push(`request body of ${got.body.length} bytes`);
  if (got.headers.some(([name]) => /^(via|forwarded|x-forwarded-.*|x-svc-.*)$/i.test(name)))
    faults.push('a proxy mark');
  return faults;
}

function compareAnswer(replay: Replay, got: RawAnswer): string[] {
  const faults: string[] = [];
  if (got.start_line !== replay.status_line) faults.push(`status line ${got.start_line}`);
  if (endToEnd(got.headers).join('\n') !== endToEnd(replay.response_headers).join('\n')) {
    faults.push(
      `response headers ${JSON.stringify(got.headers)} for ${JSON.stringify(replay.response_headers)}`,
    );
  }
  if (got.headers.filter(([name]) => name.toLowerCase() === 'date').length > 1) faults.push('two dates');
  if (got.framing !== replay.response_framing) faults.push(`response framing ${got.framing}`);
  if (!got.complete) faults.push('the answer was cut');
  if (!got.body.equals(replay.response_body)) faults.push(`response body of ${got.body.length} bytes`);
  return faults;
}

describe.skipIf(!FILES.every(({ is_there }) => is_there))('recorded traffic (../shared/recordings)', () => {
  let replays: Replay[];
  let dir: string;
  let upstream: RawUpstream;
  let gateway: CliChild;
  let port: number;
  let everyByte = false;
  let faults: string[] = [];
  /** Number of kept connections that ended before the answer to their next request began. */
  let lostConnections = 0;

  const note = (replay: Replay, found: string[]): void => {
    faults.push(...found.map((fault) => `#${replay.index} ${replay.source}: ${fault}`));
  };

  beforeAll(async () => {
    replays = await loadReplays();
    dir = await mkdtemp(join(tmpdir(), 'understudy-replay-'));
    upstream = await startRawUpstream(async (connection, request) => {
      const index = Number(request.headers.findLast(([name]) => name === INDEX_HEADER)?.[1]);
      const replay = replays[index];
      if (replay === undefined) throw new Error(`a request without its index: ${request.start_line}`);
      note(replay, compareRequest(replay, request, `127.0.0.1:${upstream.port}`));
      const answer = responseBytes(replay);
      await connection.writePieces(splitBytes(answer, everyByte ? [1] : replay.split_sizes));
    });
    upstream.keep_requests = false;
    gateway = new CliChild(['gateway', '--port', '0', '--db', join(dir, 'capture.mdb')], {
      env: {
        DATA_DIR: dir,
        SVC_REDACT: '0',
        GW_UPSTREAM_BASE: upstream.url,
        GW_GEMINI_BASE: upstream.url,
        GW_BEDROCK_BASE: upstream.url,
      },
    });
    const [, found] = await gateway.waitForOutput(/Gateway\s+http:\/\/[^:]+:(\d+)/);
    port = Number(found);
  });

  beforeEach(() => {
    faults = [];
    lostConnections = 0;
    everyByte = false;
  });

  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    await upstream.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** False if the connection cannot be used again. */
  async function replayOn(client: RawClient, replay: Replay, isSecondTry = false): Promise<boolean> {
    const before = client.received_bytes;
    await client.writePieces(splitBytes(requestBytes(replay), everyByte ? [1] : replay.split_sizes));
    try {
      const answer = await client.readAnswer();
      note(replay, compareAnswer(replay, answer));
      if (headerValue(answer, 'connection') !== 'close') return true;
      // The gateway closes the connection after an empty chunked body, but not after any other body.
      if (replay.response_body.length > 0) note(replay, ['the connection was closed after a body']);
    } catch (error) {
      // A kept connection may end just when it is used again, as every client must expect (RFC 9112, section 9.3.1).
      // Then no byte of the answer came, and the request does not count as an exchange. This is rare; anything else is
      // a fault.
      if (before > 0 && client.received_bytes === before && !isSecondTry) {
        lostConnections++;
        const other = await openRawClient(port);
        await replayOn(other, replay, true);
        other.socket.destroy();
      } else {
        note(replay, [(error as Error).message.slice(0, 300)]);
      }
    }
    return false;
  }

  async function replayAll(chosen: readonly Replay[]): Promise<void> {
    const waiting = chosen[Symbol.iterator]();
    const work = async (): Promise<void> => {
      let client = await openRawClient(port);
      for (const replay of waiting) {
        const usable = await replayOn(client, replay);
        // Received data is kept for the analysis of failures, so it is dropped now and then.
        if (!usable || client.received_bytes > 1 << 20) {
          client.socket.destroy();
          client = await openRawClient(port);
        }
      }
      client.socket.destroy();
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, work));
  }

  it('passes both ways byte for byte, split at odd boundaries', async () => {
    await replayAll(replays);
    expect(upstream.errors).toEqual([]);
    expect(faults.slice(0, 10)).toEqual([]);
    expect(faults.length).toBe(0);
    expect(lostConnections).toBeLessThanOrEqual(3);
    expect(replays.length).toBeGreaterThan(2_500);
  });

  it('passes byte for byte when each byte is a separate write', async () => {
    everyByte = true;
    const small = replays.filter(
      (replay) => requestBytes(replay).length + responseBytes(replay).length < 6_000,
    );
    const chosen = new Map<string, Replay>();
    for (const replay of small) {
      const type = replay.response_headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? '';
      chosen.set(
        `${replay.prefix} ${replay.target.replace(/\/[^/]*\d[^/]*\//, '/*/')} ${type} ${replay.request_framing}`,
        replay,
      );
    }
    const sample = [...chosen.values()].slice(0, 24);
    expect(sample.length).toBeGreaterThan(10);
    await replayAll(sample);
    expect(upstream.errors).toEqual([]);
    expect(faults).toEqual([]);
  });

  it('is captured with each body as it was on the wire', async () => {
    const flushed = await fetch(`http://127.0.0.1:${port}/__gw/flush`, { method: 'POST' });
    expect(await flushed.json()).toMatchObject({ flushed: true });
    const reader = CaptureReader.open(join(dir, 'capture.mdb'));
    const seen = new Set<number>();
    const wrong: string[] = [];
    for (const record of reader.exchanges()) {
      const index = Number(record.request.headers.findLast(([name]) => name === INDEX_HEADER)?.[1]);
      const replay = replays[index]!;
      seen.add(index);
      const said = (fault: string): unknown => wrong.push(`#${index} ${replay.source}: ${fault}`);
      if (!replay.request_body.equals(reader.body(record.id, 'request')!)) said('stored request body');
      if (!replay.response_body.equals(reader.body(record.id, 'response')!)) said('stored response body');
      if (record.request.bytes !== replay.request_body.length) said(`request bytes ${record.request.bytes}`);
      if (record.response.bytes !== replay.response_body.length)
        said(`response bytes ${record.response.bytes}`);
      if (`${record.path}${record.query && '?'}${record.query}` !== replay.prefix + replay.target) {
        said(`target ${record.path} ${record.query}`);
      }
      if (record.aborted || record.truncated) said('marked aborted or truncated');
      if (record.status !== Number(replay.status_line.split(' ')[1])) said(`status ${record.status}`);
    }
    await reader.close();
    expect(wrong.slice(0, 10)).toEqual([]);
    expect(seen.size).toBe(replays.length);
  });
});

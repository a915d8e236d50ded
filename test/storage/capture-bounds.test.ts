/** Bodies from attackers who want to stop the writer. Their exchange is still prepared, and so is the next one. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  brotliCompressSync,
  brotliDecompressSync,
  constants,
  deflateRawSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { MASKS_PER_BODY } from '../../src/storage/capture/body-editor.ts';
import { DECOMPRESSION } from '../../src/storage/capture/encoding.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { Preparer } from '../../src/storage/capture/preparation.ts';
import type { PreparedExchange } from '../../src/storage/capture/prepared-exchange.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { drawsOf } from '../long-parts.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const preparer = new Preparer(true, 64 << 20);

async function store(
  exchange: CapturedExchange,
): Promise<{ request: Buffer; response: Buffer; prepared: PreparedExchange }> {
  const prepared = await preparer.prepare(exchange);
  const request = preparer.editRequest(prepared, null, 0).stored;
  const response = preparer.editResponse(prepared, null, 0).stored;
  return { request, response, prepared };
}

describe('an unbroken run of megabytes that begins like a key', () => {
  const run = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9'.repeat(230_000);

  it('is stored, in a body and in a stream, and masked if it is a key', { tags: 'long' }, async () => {
    const request = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: `see ${run} here` }] }));
    const stream = Buffer.from(
      `data: {"delta":{"text":"it is"}}\n\ndata: {"delta":{"text":"${run}"}}\n\ndata: {"delta":{"text":".e30.c2ln"}}\n\n`,
    );
    const stored = await store(
      makeExchange({
        request_body: request,
        response_headers: ['content-type', 'text/event-stream'],
        response_body: stream,
      }),
    );
    expect(stored.request.equals(request)).toBe(true);
    expect(stored.response.toString()).toBe(
      'data: {"delta":{"text":"it is"}}\n\ndata: {"delta":{"text":"[redacted]"}}\n\ndata: {"delta":{"text":"[redacted]"}}\n\n',
    );
  });

  it('is masked as one token, also if it continues the end of an earlier body', {
    tags: 'long',
  }, async () => {
    const begin = Buffer.from(`{"text":"${run}`);
    const whole = Buffer.from(`{"text":"${run}.e30.c2ln"}`);
    const first = await preparer.prepare(makeExchange({ request_body: begin }));
    const base = preparer.editRequest(first, null, 0);
    const second = await preparer.prepare(makeExchange({ request_body: whole }));
    expect(preparer.editRequest(second, base, begin.length).stored.toString()).toBe('{"text":"[redacted]"}');
    expect(preparer.editRequest(second, null, 0).stored.toString()).toBe('{"text":"[redacted]"}');
  });
});

describe('a body that cannot be searched in time', () => {
  it('is withheld with its cause and counted; its exchange and the next ones are stored', async () => {
    const path = join(makeFolder(), 'data', 'capture.mdb');
    const log = await CaptureLog.open({ path, redact: true });
    const secret = 'sk-ant-api03-abcdefgh';
    const masks = Buffer.from(`${secret} `.repeat(MASKS_PER_BODY + 1));
    const plain = Buffer.from('{"text":"nothing to mask"}');
    const evil = makeExchange({ run_id: 'evil', request_body: masks, response_body: plain });
    const next = makeExchange({ run_id: 'next', request_body: plain, response_body: plain });
    await log.append([evil]);
    await log.append([next, evil, next]);
    expect(log.stats().withheld).toEqual({
      redaction_budget: 2,
      decompression_budget: 0,
      undecodable: 0,
      failed: 0,
    });
    await log.flush();
    const reader = CaptureReader.open(path);
    const records = [...reader.exchanges()];
    expect(records.map(({ run_id, truncated }) => [run_id, truncated])).toEqual([
      ['evil', true],
      ['next', false],
      ['evil', true],
      ['next', false],
    ]);
    expect(records[0]!.request).toMatchObject({ withheld: 'redaction_budget', bytes: evil.request_bytes });
    expect(records[1]!.request).not.toHaveProperty('withheld');
    expect(reader.body(1, 'request')).toHaveLength(0);
    expect(Buffer.from(reader.body(1, 'response')!)).toEqual(plain);
    expect(Buffer.from(reader.body(4, 'request')!)).toEqual(plain);
    await reader.close();
    await log.close();
  });

  it('may consist almost entirely of its credential: it is stored unchanged, or withheld with its cause', async () => {
    const credential = `${'a'.repeat(6_000)}b${'a'.repeat(2_000)}`;
    const body = Buffer.alloc(4 << 20, 'a');
    const { prepared, request, response } = await store(
      makeExchange({
        request_headers: ['x-api-key', credential],
        request_body: body,
        response_body: Buffer.from('{}'),
      }),
    );
    // Without the addon, the search takes longer but ends.
    if (prepared.request_withheld === null) expect(request.equals(body)).toBe(true);
    else expect(prepared.request_withheld).toBe('redaction_budget');
    expect(response.toString()).toBe('{}');
  });
});

describe('compressed bodies', () => {
  /** Less than 200 bytes that unpack to 60 MB. */
  const bomb = brotliCompressSync(Buffer.alloc(60 << 20), {
    params: { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_QUALITY]: 9 },
  });
  const answer = (body: Buffer, coding: string): CapturedExchange =>
    makeExchange({ response_headers: ['content-encoding', coding], response_body: body });

  it('that decompress to far more than their size use up only their own time, and other bodies are still decoded', {
    tags: 'long',
  }, async () => {
    expect(bomb.length).toBeLessThan(200);
    expect(brotliDecompressSync(bomb)).toHaveLength(60 << 20);
    // A clock that advances some milliseconds with each call, so that the machine's speed does not matter.
    let now = 0;
    const slow = new Preparer(true, 64 << 20, { now: () => (now += 20) });
    const text = Buffer.from(JSON.stringify({ text: 'words and words '.repeat(3_000) }));
    const rows = Buffer.from(JSON.stringify(Array(6_000).fill({ id: 1, name: 'a row' })));
    expect(rows.length / gzipSync(rows).length).toBeGreaterThan(100);
    const causes: (string | null)[] = [];
    for (let i = 0; i < 60; i++) {
      const prepared = await slow.prepare(answer(bomb, 'br'));
      causes.push(prepared.response_withheld);
      // The stored bytes are never as many as the unpacked ones.
      expect(prepared.response_raw.length).toBeLessThanOrEqual(
        DECOMPRESSION.most_bytes + DECOMPRESSION.most_for_each_byte * bomb.length,
      );
      const ordinary = await slow.prepare(answer(gzipSync(text), 'gzip'));
      expect(ordinary.response_raw.equals(text)).toBe(true);
      expect(ordinary.truncated).toBe(false);
    }
    expect(causes.filter((cause) => cause === 'decompression_budget').length).toBeGreaterThan(30);
    // After a minute, bodies may use time again.
    now += 60_000;
    const prepared = await slow.prepare(answer(gzipSync(rows), 'gzip'));
    expect(prepared.response_raw.equals(rows)).toBe(true);
  });

  it('do not increase the memory of the process', { tags: 'long' }, async () => {
    const preparer = new Preparer(true, 64 << 20);
    for (let i = 0; i < 20; i++) await preparer.prepare(answer(bomb, 'br'));
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 50; i++) await preparer.prepare(answer(bomb, 'br'));
    // One body unpacks to 60 MB, so 50 leaked bodies would take 3 GB. The memory of the last two may not be returned
    // yet.
    expect(process.memoryUsage().rss - before).toBeLessThan(150 << 20);
  });

  it('in many layers, or with an unknown encoding, are withheld', async () => {
    const noise = randomBytes(400);
    for (const coding of ['x-acme', 'gzip, gzip, gzip, gzip, gzip', Array(20_000).fill('br').join(',')]) {
      const { prepared, response } = await store(answer(noise, coding));
      expect(prepared.response_withheld).toBe('undecodable');
      expect(prepared.truncated).toBe(true);
      expect(response).toHaveLength(0);
    }
  });
});

describe('any exchange', () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    fc
      .constantFrom(
        'eyJ',
        'sk-ant-',
        'sk-',
        'Bearer ',
        '"api_key":"',
        '\\u002d',
        '%2D',
        '\\',
        '"',
        '"text":"',
        '"bytes":"',
        '{',
        '-----BEGIN PRIVATE KEY-----',
        '\0@svc-file:',
        'data:image/png;base64,',
        'A'.repeat(1_500),
        's\0k\0-\0',
        '\ufeff',
        'hunter2hunter2',
      )
      .map((text) => Buffer.from(text)),
  );
  const plain = fc
    .array(fc.tuple(piece, fc.integer({ min: 1, max: 40 })), { maxLength: 8 })
    .map((parts) => Buffer.concat(parts.flatMap(([part, times]) => Array<Buffer>(times).fill(part))));
  const body = fc
    .tuple(plain, fc.constantFrom('none', 'gzip', 'br', 'zstd', 'deflate', 'cut', 'gzip twice'))
    .map(([bytes, how]) => {
      if (how === 'gzip') return gzipSync(bytes);
      if (how === 'br') return brotliCompressSync(bytes);
      if (how === 'zstd') return zstdCompressSync(bytes);
      if (how === 'deflate') return deflateRawSync(bytes);
      if (how === 'cut') return gzipSync(bytes).subarray(0, -5);
      return how === 'none' ? bytes : gzipSync(gzipSync(bytes));
    });
  const name = fc.oneof(
    fc.constantFrom(
      'content-type',
      'content-encoding',
      'authorization',
      'cookie',
      'x-api-key',
      'location',
      'x',
      '',
    ),
    fc.string({ maxLength: 30 }),
  );
  const value = fc.oneof(
    fc.constantFrom(
      'text/event-stream',
      'application/vnd.amazon.eventstream',
      'application/pdf',
      'gzip',
      'br',
      'zstd, gzip',
      'Bearer hunter2hunter2',
      'Basic aHVudGVyMjpodW50ZXIy',
      'a=hunter2hunter2; b="x"',
      'https://h/?key=abc&x=1',
    ),
    fc.string({ unit: 'binary', maxLength: 60 }),
  );
  const headers = fc.array(fc.tuple(name, value), { maxLength: 6 }).map((pairs) => pairs.flat());
  const exchange = fc.record({
    run_id: fc.option(fc.string({ unit: 'binary', maxLength: 20 })),
    note: fc.string({ maxLength: 20 }),
    path: fc.string({ unit: 'binary', maxLength: 30 }),
    query: fc.oneof(fc.string({ maxLength: 60 }), fc.constant('key=hunter2hunter2&%zz=%')),
    request_headers: headers,
    response_headers: headers,
    request_body: body,
    response_body: body,
    aborted: fc.boolean(),
    truncated: fc.boolean(),
  });

  it.each([true, false])('is prepared with any bytes (SVC_REDACT %s)', { tags: 'long' }, async (redact) => {
    const preparer = new Preparer(redact, 1 << 20);
    await fc.assert(
      fc.asyncProperty(fc.array(exchange, { minLength: 1, maxLength: 3 }), async (exchanges) => {
        let base = null;
        let before: Buffer = Buffer.alloc(0);
        for (const parts of exchanges) {
          const prepared = await preparer.prepare(makeExchange(parts));
          let prefix = 0;
          while (prefix < before.length && before[prefix] === prepared.request_raw[prefix]) prefix++;
          base = preparer.editRequest(prepared, base, base === null ? 0 : prefix);
          before = base.raw;
          preparer.editResponse(prepared, null, 0);
          // `failed`: the search for secrets itself failed, which is a bug in Understudy even if it is handled well.
          expect([prepared.request_withheld, prepared.response_withheld]).not.toContain('failed');
        }
      }),
      drawsOf(500),
    );
  });
});

describe('a credential that the gateway adds', () => {
  const secret = 'the-operators-own-key-0123456789';
  const echo = Buffer.from(JSON.stringify({ text: `it came with ${secret}` }));
  const own = new Preparer(true, 64 << 20, { operator_secrets: [secret] });

  it.each([0, 64])(
    'is masked together with %i credentials of the client, each in many forms',
    async (count) => {
      const cookies = Array.from({ length: count }, (_, at) => `c${at}=<"${at}&/'+~>`);
      const exchange = makeExchange({
        request_headers: ['content-type', 'application/json', 'cookie', cookies.join('; ')],
        response_body: echo,
      });
      const prepared = await own.prepare(exchange);
      expect(own.editResponse(prepared, null, 0).stored.toString()).toBe(
        '{"text":"it came with [redacted]"}',
      );
    },
  );
});

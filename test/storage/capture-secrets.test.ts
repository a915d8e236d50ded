/**
 * Canaries are put into every place where a secret can be. Then every byte of the data directory is searched for them.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  brotliCompressSync,
  crc32,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange, readAllFiles } from './captured.ts';
import { makeFolder } from './folder.ts';

/** Stores the exchanges. @returns a reader's view, and every byte on the disk */
async function store(
  exchanges: CapturedExchange[],
  redact: boolean,
): Promise<{
  texts: string;
  disk: Buffer;
  bodies: { request: Buffer; response: Buffer }[];
  truncated: boolean[];
}> {
  const folder = makeFolder();
  const path = join(folder, 'data', 'capture.mdb');
  const log = await CaptureLog.open({ path, redact, max_decoded_bytes: 1 << 20 });
  // Exchanges are stored in a batch and one by one, because a batch is packed in another way than a single exchange.
  await log.append(exchanges);
  for (const exchange of exchanges) await log.append([exchange]);
  await log.flush();
  const reader = CaptureReader.open(path);
  const bodies = exchanges.map((_, i) => ({
    request: Buffer.from(reader.body(i + 1, 'request')!),
    response: Buffer.from(reader.body(i + 1, 'response')!),
  }));
  const records = [...reader.exchanges()];
  const all = records.flatMap((record) => [
    JSON.stringify(record),
    Buffer.from(reader.body(record.id, 'request')!).toString('latin1'),
    Buffer.from(reader.body(record.id, 'response')!).toString('latin1'),
  ]);
  await reader.close();
  await log.rotate();
  await log.close();
  return {
    texts: all.join('\n'),
    disk: Buffer.concat(
      readAllFiles(folder).map((file) => Buffer.concat([Buffer.from(file.path), file.bytes])),
    ),
    bodies,
    truncated: records.map((record) => record.truncated),
  };
}

function canary(name: string): string {
  return `CANARY-${name}-${randomBytes(9).toString('hex')}`;
}

/** All notations of a value that must be masked in an answer. */
function echoes(value: string): string {
  return [
    value,
    JSON.stringify({ v: value }),
    encodeURIComponent(value),
    encodeURIComponent(value).replace(/%../g, (hex) => hex.toLowerCase()),
    value.replaceAll('/', '\\/'),
    Buffer.from(value).toString('base64'),
  ].join('\n');
}

for (const redact of [true, false]) {
  describe(`never stored, SVC_REDACT=${redact ? 1 : 0}`, () => {
    it('are credential headers, secret query values, and their echoes in the answer', async () => {
      const headers = [
        'authorization',
        'Proxy-Authorization',
        'x-api-key',
        'API-KEY',
        'x-goog-api-key',
        'x-amz-security-token',
        'x-acme-token',
        'x-my-secret',
      ].map((name) => [name, canary(name)] as const);
      const cookies = [canary('ck1'), canary('ck2')];
      const password = `${canary('pw')}/+ "q"`;
      const queries = [
        'key',
        'ACCESS_token',
        '%73ig',
        'signature',
        'X-Amz-%53ignature',
        'x-amz-credential',
        'X-Amz-Security-Token',
      ].map((name) => [name, canary(name.replace('%', ''))] as const);
      const basic = Buffer.from(`user:${password}`, 'latin1').toString('base64');
      const secrets = [
        ...headers.map(([, value]) => value),
        ...cookies,
        password,
        basic,
        ...queries.map(([, value]) => value),
      ];
      const setCookie = canary('set');
      const signed = canary('signed');
      const exchange = makeExchange({
        run_id: `run ${secrets[0]}`,
        note: `note ${secrets[1]}`,
        path: `/v1/${secrets[2]}/messages`,
        query: `a=1&${queries.map(([name, value]) => `${name}=${value}`).join('&')}`,
        request_headers: [
          ...headers.flatMap(([name, value], i) => [name, i === 0 ? `Bearer ${value}` : value]),
          'authorization',
          `Basic ${basic}`,
          'cookie',
          `a=${cookies[0]}; b=${cookies[1]}`,
          'x-echo',
          `and ${secrets[3]}`,
          'referer',
          `https://h/?key=${signed}`,
        ],
        response_headers: [
          'set-cookie',
          `session=${setCookie}`,
          'set-cookie',
          `other=${setCookie}`,
          'location',
          `https://h/p?x=1&access_token=${signed}&${secrets.map((secret) => encodeURIComponent(secret)).join('&')}`,
          'x-debug',
          secrets.filter((secret) => !secret.includes('"')).join(' '),
        ],
        request_body: Buffer.from(redact ? `{"text":${JSON.stringify(secrets.join(' '))}}` : '{}'),
        response_body: Buffer.from(`{"error":"bad key"}\n${secrets.map(echoes).join('\n')}`),
      });
      const { texts, disk } = await store([exchange, { ...exchange, run_id: 'r' }], redact);
      for (const secret of [...secrets, setCookie, signed]) {
        for (const form of echoes(secret).split('\n')) {
          const needle = form.replace(/^\{"v":"|"\}$/g, '');
          expect(texts.includes(needle), `${needle} in what a reader sees`).toBe(false);
          expect(disk.includes(needle), `${needle} on disk`).toBe(false);
        }
      }
      expect(texts).toContain('[redacted]');
      expect(texts).toContain('"x-my-secret","[redacted]"');
    });
  });
}

describe('keys inside bodies', () => {
  const key = `sk-ant-api03-${randomBytes(40).toString('hex')}`;
  const text = `{"messages":[{"role":"user","content":"my key is ${key}, keep it"}]}`;
  const masked = text.replace(key, '[redacted]');

  it('are masked whole, in growing conversations too', async () => {
    const turns = Array.from({ length: 12 }, (_, turn) =>
      JSON.stringify({
        messages: Array.from({ length: turn + 1 }, (_, i) => ({
          role: 'user',
          content: `${i % 3 === 1 ? `key ${key.slice(0, -1)}${i}` : 'no key'} ${String(i).repeat(3_000)}`,
        })),
      }),
    );
    const { texts, disk, bodies } = await store(
      turns.map((turn) => makeExchange({ run_id: 'r', request_body: Buffer.from(turn) })),
      true,
    );
    expect(texts.includes(key.slice(0, 30))).toBe(false);
    expect(disk.includes(key.slice(0, 30))).toBe(false);
    for (const [i, turn] of turns.entries()) {
      expect(bodies[i]!.request.toString()).toBe(turn.replace(/sk-ant-api03-[0-9a-f]+/g, '[redacted]'));
    }
  });

  it('stay byte for byte with SVC_REDACT=0', async () => {
    const { bodies } = await store(
      [makeExchange({ request_body: Buffer.from(text), response_body: gzipSync(text) })],
      false,
    );
    expect(bodies[0]!.request.toString()).toBe(text);
    expect(bodies[0]!.response.equals(gzipSync(text))).toBe(true);
  });

  it('are masked in streams that contain them in pieces; echoes of the credential are always masked', async () => {
    const credential = canary('streamed');
    const makeEvents = (value: string): Buffer =>
      Buffer.from(
        [...value].map((char) => `data: {"delta":{"type":"text_delta","text":"${char}"}}\n\n`).join(''),
      );
    // The media type of the stream does not matter.
    for (const [redact, type] of [
      [true, 'text/event-stream'],
      [false, 'text/event-stream'],
      [true, 'text/plain'],
      [true, 'application/octet-stream'],
      [false, 'application/json'],
    ] as const) {
      const { bodies } = await store(
        [key, credential].map((value) =>
          makeExchange({
            request_headers: ['x-api-key', credential],
            response_headers: ['content-type', type],
            response_body: makeEvents(`it is ${value}!`),
          }),
        ),
        redact,
      );
      const texts = bodies.map(({ response }) =>
        [...response.toString().matchAll(/"text":"([^"]*)"/g)].map((match) => match[1]).join(''),
      );
      expect(texts[0]!.includes(key)).toBe(!redact);
      expect(texts[1]).toMatch(/^it is (\[redacted\])+!$/);
    }
  });

  it('are masked in frames with checksums, even if earlier answers with the same media type were different', async () => {
    const makeFrame = (payload: string): Buffer => {
      const body = Buffer.from(payload);
      const out = Buffer.alloc(16 + body.length);
      out.writeUInt32BE(out.length, 0);
      out.writeUInt32BE(0, 4);
      out.writeUInt32BE(crc32(out.subarray(0, 8)), 8);
      body.copy(out, 12);
      out.writeUInt32BE(crc32(out.subarray(0, out.length - 4)), out.length - 4);
      return out;
    };
    const frames = (value: string): Buffer =>
      Buffer.concat(
        [...value].map((char) =>
          makeFrame(`{"bytes":"${Buffer.from(`{"text":"${char}"}`).toString('base64')}"}`),
        ),
      );
    const make = (value: string) =>
      makeExchange({
        response_headers: ['content-type', 'application/vnd.amazon.eventstream'],
        response_body: Buffer.concat([
          frames(value),
          makeFrame(JSON.stringify({ filler: 'no key '.repeat(200) })),
        ]),
      });
    const { bodies } = await store([make('nothing'), make('nothing'), make(key), make(key)], true);
    const texts = bodies.map(({ response }) =>
      [...response.toString('latin1').matchAll(/"bytes":"([^"]*)"/g)]
        .map((match) => JSON.parse(Buffer.from(match[1]!, 'base64').toString()).text)
        .join(''),
    );
    expect(texts.slice(0, 2)).toEqual(['nothing', 'nothing']);
    for (const text of texts.slice(2)) expect(text).toMatch(/^(\[redacted\])+$/);
  });

  it('are masked inside compressed bodies, which are then stored decoded', async () => {
    const encodings: [string, Buffer][] = [
      ['gzip', gzipSync(text)],
      ['x-gzip', gzipSync(text)],
      ['br', brotliCompressSync(text)],
      ['zstd', zstdCompressSync(text)],
      ['zstd', Buffer.concat([...text].map((char) => zstdCompressSync(char)))],
      ['ZSTD', Buffer.concat([zstdCompressSync(text.slice(0, 9)), zstdCompressSync(text.slice(9))])],
      ['gzip', Buffer.concat([gzipSync(text.slice(0, 9)), gzipSync(text.slice(9))])],
      ['deflate', deflateSync(text)],
      ['deflate', deflateRawSync(text)],
      ['gzip, br', brotliCompressSync(gzipSync(text))],
      ['identity', Buffer.from(text)],
      ['gzip', Buffer.from(text)],
    ];
    const { bodies, disk, truncated } = await store(
      encodings.map(([encoding, body]) =>
        makeExchange({
          request_headers: ['content-encoding', encoding],
          request_body: body,
          response_headers: ['Content-Encoding', encoding],
          response_body: body,
        }),
      ),
      true,
    );
    for (const [i, [encoding]] of encodings.entries()) {
      expect(bodies[i]!.request.toString(), encoding).toBe(masked);
      expect(bodies[i]!.response.toString(), encoding).toBe(masked);
    }
    expect(truncated).toEqual(truncated.map(() => false));
    expect(disk.includes(key)).toBe(false);
  });

  it('are never stored if the compressed body is damaged, cut off, unknown or a bomb', async () => {
    const long = Buffer.from(`${'word '.repeat(200)}${key} ${randomBytes(20_000).toString('hex')}`);
    const damaged = gzipSync(long);
    damaged.fill(0xff, damaged.length - 3_000, damaged.length - 2_900);
    const cases: [string, Buffer][] = [
      ['gzip', damaged],
      ['gzip', gzipSync(long).subarray(0, 9_000)],
      ['br', brotliCompressSync(long).subarray(0, 9_000)],
      ['zstd', zstdCompressSync(long).subarray(0, 9_000)],
      ['zstd', Buffer.concat([zstdCompressSync('first'), zstdCompressSync(long).subarray(0, 9_000)])],
      ['deflate', deflateSync(long).subarray(0, 9_000)],
      ['compress', gzipSync(long)],
      // A brotli stream never begins with this byte.
      ['br', Buffer.concat([Buffer.from([0x11]), randomBytes(500)])],
      ['gzip', gzipSync(Buffer.concat([long, Buffer.alloc(4 << 20, 'a')]))],
    ];
    const { bodies, texts, disk, truncated } = await store(
      cases.map(([encoding, body]) =>
        makeExchange({ response_headers: ['content-encoding', encoding], response_body: body }),
      ),
      true,
    );
    expect(truncated).toEqual(truncated.map(() => true));
    expect(texts.includes(key)).toBe(false);
    for (const [i, [encoding, body]] of cases.entries()) {
      expect(disk.includes(body.subarray(20, 200)), `${i} ${encoding}`).toBe(false);
    }
    // The decodable part is stored.
    for (const i of [0, 1, 5, 8]) expect(bodies[i]!.response.toString()).toContain('[redacted]');
    expect(bodies[4]!.response.toString().slice(0, 5)).toBe('first');
    expect(bodies[6]!.response.length).toBe(0);
    expect(bodies[8]!.response.length).toBeLessThanOrEqual(1 << 20);
  });
});

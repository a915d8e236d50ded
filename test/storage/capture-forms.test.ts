/** Cached forms of requests: the stored result is the same as without the cache. */
import { rmSync } from 'node:fs';
import { setImmediate as nextTick } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { Preparer } from '../../src/storage/capture/preparation.ts';
import type { PreparedExchange } from '../../src/storage/capture/prepared-exchange.ts';
import { encodeMeta } from '../../src/storage/capture/record.ts';
import { drawsOf } from '../long-parts.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const KEY = 'sk-ant-api03-0123456789abcdefghijKLMNOPQRST';
const SECRET = 'hunter2hunter2';
const PEM = '-----BEGIN PRIVATE KEY-----';

const name = fc.constantFrom(
  'host',
  'x-api-key',
  'authorization',
  'content-type',
  'content-encoding',
  'x-id',
  'cookie',
);
const value = fc.constantFrom(
  ...[
    '',
    '1',
    '4096',
    'application/json',
    'identity',
    'a"b\\c',
    'é',
    SECRET,
    `Bearer ${SECRET}`,
    KEY,
    `k=${KEY}`,
  ],
  ...[
    '/p?access_token=abcdefgh',
    `${PEM}MIIE`,
    'MIIEabcd',
    `api_key:`,
    'abcdefgh12345678',
    `x${SECRET}x`,
    '-----END PRIVATE KEY-----',
  ],
);
const form = fc.array(fc.tuple(name, value, fc.boolean()), { maxLength: 5 }).map((fields) => ({
  headers: fields.flatMap(([name, value]): string[] => [name, value]),
  varying: fields.flatMap(([, , varies], i) => (varies ? [2 * i + 1] : [])),
}));
const request = fc.record({
  run_id: fc.option(fc.constantFrom('r', 'r2', SECRET, KEY, '€')),
  path: fc.constantFrom('/v1/messages', `/v1/${SECRET}`),
  query: fc.constantFrom('', `key=${SECRET}`),
  values: fc.array(value, { minLength: 5, maxLength: 5 }),
  response_headers: fc.constantFrom([], ['x-echo', SECRET], ['x-echo', `"${KEY}"`], ['request-id', 'req_1']),
});

/** Every part of a prepared exchange that is stored, or that decides what is stored. */
function describe(prepared: PreparedExchange) {
  const { secrets, request_type, response_type, response_coding, request_decoded } = prepared;
  const meta = encodeMeta(prepared, false, false).toString();
  return { meta, texts: secrets.texts, request_type, response_type, response_coding, request_decoded };
}

it.each([true, false])(
  'requests of a form are masked like any others (%s)',
  { tags: 'long' },
  async (redact) => {
    // All preparers share the secret on which masked labels depend.
    const extras = { data_dir: makeFolder() };
    onTestFinished(() => rmSync(extras.data_dir, { recursive: true }));
    await fc.assert(
      fc.asyncProperty(
        form,
        fc.array(request, { minLength: 2, maxLength: 8 }),
        async (request_form, requests) => {
          const preparer = new Preparer(redact, 1_000, extras);
          for (const { values, ...parts } of requests) {
            const request_headers = request_form.headers.slice();
            for (const [i, at] of request_form.varying.entries()) request_headers[at] = values[i]!;
            const exchange: CapturedExchange = makeExchange({ ...parts, request_headers });
            const alone = await new Preparer(redact, 1_000, extras).prepare(exchange);
            const found = await preparer.prepare({ ...exchange, request_form });
            expect(describe(found)).toEqual(describe(alone));
          }
        },
      ),
      drawsOf(2_000),
    );
  },
);

it('a form is read once while only plain values vary', async () => {
  const preparer = new Preparer(true, 1_000);
  const request_form = { headers: ['host', 'a', 'x-api-key', SECRET, 'content-length', '10'], varying: [5] };
  const prepare = async (length: string, run_id: string | null = null) => {
    const request_headers = request_form.headers.with(5, length);
    return preparer.prepare(makeExchange({ request_headers, request_form, run_id }));
  };
  const first = await prepare('10');
  const second = await prepare('123456', 'run-1');
  expect(second.secrets).toBe(first.secrets);
  expect(second.head.route).toBe(first.head.route);
  expect(JSON.parse(second.head.headers).replace(/:credential\n[\da-f]{12}$/, ':credential')).toBe(
    `host\na\nx-api-key\n[redacted]\ncontent-length\n123456\n:credential`,
  );
  expect(second.head.run_id).toBe('"run-1"');
  expect((await prepare(SECRET)).head.headers).not.toContain(SECRET);
});

it('long heads are not remembered, because each may be different', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const preparer = new Preparer(true, 1_000);
  const prepare = (at: number) => {
    const headers = ['host', 'a', 'x-long', `${at} ${'long '.repeat(12_000)}`];
    const request_form = { headers, varying: [] };
    return preparer.prepare(makeExchange({ request_headers: headers, request_form }));
  };
  await prepare(0);
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let at = 1; at <= 400; at++) await prepare(at);
  const measure = () => process.memoryUsage().heapUsed - before;
  for (let i = 0; i < 200 && measure() > 8_000_000; i++) {
    collect();
    await nextTick();
  }
  expect(measure()).toBeLessThan(8_000_000);
});

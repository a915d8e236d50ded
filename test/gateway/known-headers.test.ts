/** The cache of headers: each request gets its own headers, not those of earlier requests. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type FilteredRequest, filterRequestHeaders } from '../../src/gateway/headers.ts';
import { drawsOf } from '../long-parts.ts';

const OWN = ['host', 'content-length', 'expect', 'trailer', 'x-svc-run', 'x-svc-seq'];
const HOP_BY_HOP = ['connection', 'keep-alive', 'te', 'transfer-encoding', 'upgrade', 'proxy-authorization'];

type Pairs = [string, string][];
const VARYING = ['content-length', 'x-svc-run', 'x-svc-seq', 'x-request-id', 'traceparent'];

const ask = (pairs: Pairs, framing: 'none' | 'length' = 'none'): Omit<FilteredRequest, 'form'> => {
  const { form, ...filtered } = filterRequestHeaders({
    method: 'POST',
    path: '/',
    query: null,
    headers: pairs.flat(),
    framing,
    content_length: 0,
  });
  // The cached form with this request's own values must equal the request's headers.
  const own = pairs.map(([name, value]) => (VARYING.includes(name) ? [name] : [name, value]));
  expect(
    form.headers.flatMap((text, at) =>
      at % 2 === 1 ? [] : form.varying.includes(at + 1) ? [[text]] : [[text, form.headers[at + 1]]],
    ),
  ).toEqual(own);
  return filtered;
};

/** The result without the cache. */
function describe(pairs: Pairs, framing: 'none' | 'length'): Omit<FilteredRequest, 'form'> {
  const nominated = pairs
    .filter(([name]) => name === 'connection')
    .flatMap(([, value]) => value.split(/ *, */));
  const last = (name: string): string | undefined => pairs.findLast(([n]) => n === name)?.[1];
  const kept = pairs.filter(([name]) => ![...OWN, ...HOP_BY_HOP, ...nominated].includes(name));
  const seq = last('x-svc-seq');
  return {
    lines: pairs.some(([name, value]) => kept.some(([n]) => n === name) && value.includes('\x7f'))
      ? null
      : kept.map(([name, value]) => `${name}: ${value}\r\n`).join(''),
    has_zero_length: framing === 'none' && last('content-length') !== undefined,
    run_id: last('x-svc-run') || null,
    seq: seq !== undefined && /^\d+$/.test(seq) ? Number(seq) : null,
  };
}

it('a head is the same with and without the cache, for any order of requests and values of equal length', () => {
  const name = fc.constantFrom(
    'x-a',
    'x-b',
    'connection',
    'content-length',
    'x-svc-run',
    'x-svc-seq',
    'x-request-id',
    'traceparent',
    'host',
    'te',
  );
  const value = fc.constantFrom('', '1', '2', 'x-a', 'x-b', 'x-a, traceparent', 'a\x7f', 'close');
  const request = fc.tuple(
    fc.array(fc.tuple(name, value), { maxLength: 5 }),
    fc.constantFrom<('none' | 'length')[]>('none', 'length'),
  );
  fc.assert(
    fc.property(fc.array(request, { minLength: 2, maxLength: 8 }), (requests) => {
      for (const [pairs, framing] of [...requests, ...requests]) {
        expect(ask(pairs, framing)).toEqual(describe(pairs, framing));
      }
    }),
    drawsOf(1_000),
  );
});

it('a request with a credential as long as a cached one gets its own credential', () => {
  const lines = (key: string) =>
    ask(
      [
        ['host', 'gw'],
        ['x-api-key', key],
        ['content-length', '5'],
      ],
      'length',
    ).lines;
  expect(['one', 'two', 'one', 'six'].map(lines)).toEqual(
    ['one', 'two', 'one', 'six'].map((key) => `x-api-key: ${key}\r\n`),
  );
});

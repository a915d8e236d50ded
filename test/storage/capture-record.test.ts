/** The stored facts about an exchange are read back unchanged, for any texts and numbers. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Preparer } from '../../src/storage/capture/preparation.ts';
import type { PreparedExchange } from '../../src/storage/capture/prepared-exchange.ts';
import { decodeMeta, encodeMeta } from '../../src/storage/capture/record.ts';
import { drawsOf } from '../long-parts.ts';
import { makeExchange } from './captured.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const headers = fc.array(
  text.map((value) => value.replaceAll('\n', ' ')),
  { maxLength: 4 },
);
const ms = fc.oneof(
  fc.double({ min: 0, max: 1e4, noNaN: true }),
  fc.double({ min: 0, max: 1e12, noNaN: true }),
  fc.nat(5_000).map((thousandths) => thousandths / 1_000),
);
const parts = fc.record({
  run_id: fc.option(text),
  seq: fc.option(fc.nat()),
  note: text,
  provider: text,
  method: text,
  path: text,
  query: text.map((query) => query.replaceAll('=', '')),
  status: fc.nat(999),
  shape: fc.constantFrom(null, 'messages' as const, 'gemini' as const),
  kind: fc.constantFrom('turn' as const, 'other' as const),
  started_at_ms: fc.nat({ max: 2 ** 47 }),
  first_byte_ms: fc.option(ms),
  duration_ms: ms,
  request_bytes: fc.nat({ max: 2 ** 40 }),
  response_bytes: fc.nat({ max: 2 ** 40 }),
  aborted: fc.boolean(),
  truncated: fc.boolean(),
  request_headers: headers.map((values) => values.flatMap((value, i) => [`n${i}`, value])),
  response_headers: headers.map((values) => values.flatMap((value, i) => [`n${i}`, value])),
});

const round = (value: number) => Math.round(value * 1_000) / 1_000;
const pair = (flat: readonly string[]) =>
  flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1]!]] : []));

it('a record is read as it was written', () => {
  // All exchanges use one encoder, so that a wrong cache would show in the next exchange.
  const preparer = new Preparer(false, 1_000);
  const shared = ['content-type', 'text/plain'];
  fc.assert(
    fc.property(
      parts,
      fc.boolean(),
      fc.boolean(),
      fc.boolean(),
      (part, sameHeaders, requestFiles, responseFiles) => {
        const exchange = makeExchange(sameHeaders ? { ...part, request_headers: shared } : part);
        const prepared = preparer.prepare(exchange) as PreparedExchange;
        const meta = decodeMeta(7, encodeMeta(prepared, requestFiles, responseFiles));
        const { request_has_files, response_has_files, record } = meta;
        expect({ request_has_files, response_has_files }).toEqual({
          request_has_files: requestFiles,
          response_has_files: responseFiles,
        });
        const { run_id, seq, note, provider, method, path, query, status, shape, kind, aborted, truncated } =
          part;
        expect(record).toMatchObject({
          ...{
            id: 7,
            run_id,
            seq,
            note,
            provider,
            method,
            path,
            query,
            status,
            shape,
            kind,
            aborted,
            truncated,
          },
          started_at: new Date(part.started_at_ms).toISOString(),
          first_byte_ms: part.first_byte_ms === null ? null : round(part.first_byte_ms),
          duration_ms: round(part.duration_ms),
          request: { headers: pair(exchange.request_headers), bytes: part.request_bytes },
          response: { headers: pair(exchange.response_headers), bytes: part.response_bytes },
        });
      },
    ),
    drawsOf(500),
  );
});

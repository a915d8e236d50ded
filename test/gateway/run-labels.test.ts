/** The run that a request names, in the bytes that clients send. */
import { expect, it } from 'vitest';
import { filterRequestHeaders } from '../../src/gateway/headers.ts';
import { readStepHead } from '../../src/gateway/relegation/step-head.ts';

it.each([
  ['ASCII', 'checkout fix 17', 'checkout fix 17'],
  [
    'UTF-8',
    Buffer.from('caf\u00e9 \u30c6\u30b9\u30c8 \u{1f600}').toString('latin1'),
    'caf\u00e9 \u30c6\u30b9\u30c8 \u{1f600}',
  ],
  ['one byte a character', 'caf\u00e9', 'caf\u00e9'],
  ['bytes of neither kind of text', '\u00ff\u00fe', '\u00ff\u00fe'],
  ['nothing', '', null],
])('a run named in %s', (_name, wire, runId) => {
  const headers = ['host', 'gw', 'x-svc-run', wire, 'x-svc-seq', '1'];
  const head = {
    method: 'POST',
    path: '/v1/messages',
    query: null,
    headers,
    framing: 'none',
    content_length: 0,
  } as const;
  expect(filterRequestHeaders(head)).toMatchObject({ run_id: runId, seq: 1, lines: '' });
  expect(readStepHead('messages', headers)).toMatchObject({ run_id: runId, seq: 1 });
});

/** The second reading of an answer, from its bytes: it agrees with the first reading of real answers. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RelegationWire } from '../../../src/domain/exchange.ts';
import { RelegationLedger } from '../../../src/gateway/relegation/relegation-ledger.ts';
import { normalizeTurn } from '../../../src/providers/normal-turn.ts';
import { parseExact } from '../../../src/std/exact-json.ts';
import { readAnswerBytes, readingsDiffer } from '../../../src/student/serving/answer-bytes.ts';
import { RELEGATION_WIRES } from '../../../src/student/serving/protocol.ts';
import { sharedFile } from '../../fixtures/shared.ts';
import { haveRecordings, readRecordings } from '../../providers/recordings.ts';

function readNormally(wire: RelegationWire, body: Uint8Array) {
  return normalizeTurn({
    shape: wire,
    path: '',
    status: 200,
    request_headers: [],
    response_headers: [],
    request_body: new Uint8Array(),
    response_body: body,
    truncated: false,
  });
}

describe('two readings', () => {
  const call = (name: string, input: string) =>
    ({ type: 'tool_call', id: '', name, input: parseExact(input) }) as const;
  const text = (words: string) => ({ type: 'text', text: words }) as const;

  it('are equal if calls have the same arguments by value', () => {
    expect(
      readingsDiffer([call('look', '{"a":1.0,"b":"x"}')], [text('I look.'), call('look', '{"b":"x","a":1}')]),
    ).toBe(false);
    expect(readingsDiffer([text('Done.\n\nAll well.')], [text('Done. '), text('All well.')])).toBe(false);
  });

  it.each([
    [[call('get_order', '{}')], [call('get_order', '{"city":"Oslo"}')]],
    [[call('look', '{"id":2512292042121000001}')], [call('look', '{"id":2512292042121000002}')]],
    [[call('look', '{"id":2512292042121000000}')], [call('look', '{"id":2512292042121000001}')]],
    [[call('get_weatherget_time', '{}')], [call('get_weather', '{}'), call('get_time', '{}')]],
    [[call('look', '{"a":"1"}')], [call('look', '{"a":1}')]],
    [[text('Done.')], [text('Not done.')]],
    [[text('Done.')], [call('look', '{}')]],
  ])('differ: %j and %j', (left, other) => {
    expect(readingsDiffer(left, other)).toBe(true);
  });
});

it('comparisons with different readings are counted by mode', () => {
  const ledger = new RelegationLedger();
  ledger.compared(false, true, 'on');
  ledger.compared(true, false, 'on');
  ledger.compared(false, true, 'shadow');
  expect(ledger.counters()).toMatchObject({
    audit: { compared: 2, agreed: 1, reading_differs: 1 },
    shadow: { compared: 1, agreed: 0, reading_differs: 1 },
  });
});

describe('the bytes of an answer', () => {
  const read = (wire: RelegationWire, body: string) => readAnswerBytes(wire, [], Buffer.from(body));
  const chunks = (...deltas: object[]) =>
    deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`).join('');
  const piece = (fields: object, at: object = {}) => ({ tool_calls: [{ ...at, function: fields }] });

  it('may contain calls whose arguments are an object, or come in pieces with every digit', () => {
    expect(read('chat_completions', chunks(piece({ name: 'look', arguments: { city: 'Oslo' } })))).toEqual([
      { type: 'tool_call', id: '', name: 'look', input: { city: 'Oslo' } },
    ]);
    const pieces = ['{"id":25122920421', '21000001,"a":1.', '50}'].map((text, at) =>
      piece({ arguments: text, ...(at === 0 ? { name: 'look' } : {}) }, { index: 0 }),
    );
    expect(JSON.stringify(read('chat_completions', chunks(...pieces)))).toContain(
      '"input":{"id":2512292042121000001,"a":1.50}',
    );
  });

  it('may contain calls of custom tools, whose texts may look like JSON, and of a local shell', () => {
    const action = { type: 'exec', command: ['ls', '-1'], env: {} };
    const output = [
      { type: 'custom_tool_call', call_id: 'a', name: 'exec', input: '{"a": 1}' },
      { type: 'local_shell_call', call_id: 'b', action },
    ];
    const calls = [
      { type: 'tool_call', id: '', name: 'exec', input: '{"a": 1}' },
      { type: 'tool_call', id: '', name: 'local_shell', input: action },
    ];
    expect(read('responses', JSON.stringify({ object: 'response', output }))).toEqual(calls);
    const events = output.map((item) => ({ type: 'response.output_item.done', item }));
    const stream = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    expect(read('responses', stream)).toEqual(calls);
  });

  it('may contain several calls without any index or id', () => {
    const both = [
      piece({ name: 'look', arguments: '{"a":1}' }),
      piece({ name: 'look', arguments: '{"a":2}' }),
    ];
    expect(read('chat_completions', chunks(...both))).toMatchObject([
      { input: { a: 1 } },
      { input: { a: 2 } },
    ]);
  });

  it('are refused if they are no answer, or if they contain more than text and calls', () => {
    for (const wire of RELEGATION_WIRES)
      for (const body of ['', '{}', '[]', 'x', 'data: x\n\n', '{"error":{"message":"no"}}'])
        expect([body, read(wire, body)]).toEqual([body, null]);
    const server = '{"type":"message","content":[{"type":"server_tool_use","name":"search","input":{}}]}';
    expect(read('messages', server)).toBeNull();
    expect(
      read('responses', '{"object":"response","output":[{"type":"web_search_call","status":"completed"}]}'),
    ).toBeNull();
  });
});

/** The wire of a reported answer; null: a wire that students do not serve. */
function wireOf(body: string): RelegationWire | null {
  if (/"object": ?"chat\.completion/.test(body)) return 'chat_completions';
  if (/"type": ?"(?:message|message_start)"/.test(body)) return 'messages';
  return /"object": ?"response"|"type": ?"response\./.test(body) ? 'responses' : null;
}

const reported = sharedFile('reported/README.md');
describe.skipIf(!reported.is_there)(`the reported answers ${reported.needed}`, () => {
  const folder = dirname(reported.path);
  const names = reported.is_there ? readdirSync(folder).filter((name) => name.endsWith('.response')) : [];
  it.each(names)('%s is read the same twice', (name) => {
    const body = readFileSync(join(folder, name));
    const wire = wireOf(body.toString('utf8'));
    const turn = wire === null ? null : readNormally(wire, body);
    // A failed answer is neither taught nor compared.
    if (wire === null || turn === null || turn.answer.error !== null || turn.answer.stop_reason === null)
      return;
    const said = readAnswerBytes(wire, [], body);
    // The second reading does not support compactions, because a student never gives one.
    if (said === null) expect(name).toMatch(/^f/);
    else expect([said, readingsDiffer(turn.answer.content, said)]).toEqual([said, false]);
  });
});

describe.skipIf(!haveRecordings)(`recorded answers (../shared/recordings)`, () => {
  it('are read the same twice', () => {
    let count = 0;
    for (const file of ['mirascope', 'pydantic-ai'] as const)
      for (const { stored, kind } of readRecordings(file)) {
        const wire = RELEGATION_WIRES.find((name) => name === stored.shape);
        const turn =
          wire === undefined || kind !== 'turn' || stored.status !== 200 ? null : normalizeTurn(stored);
        if (
          wire === undefined ||
          turn === null ||
          turn.answer.error !== null ||
          turn.answer.stop_reason === null
        )
          continue;
        const said = readAnswerBytes(wire, stored.response_headers, stored.response_body);
        // The second reading does not support calls of a provider's own tools.
        if (said === null) continue;
        const body = Buffer.from(stored.response_body).toString('utf8').slice(0, 2_000);
        expect([readingsDiffer(turn.answer.content, said), body]).toEqual([false, body]);
        count++;
      }
    expect(count).toBeGreaterThan(100);
  });
});

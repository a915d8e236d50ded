/** Numbers of captured calls keep their digits wherever a run is shown: traces, `/capture`, `inspect --json`, spans. */

import { expect, it } from 'vitest';
import { tellConversation } from '../../src/captures/conversation.ts';
import { readRun } from '../../src/captures/inspect.ts';
import { RunChains } from '../../src/captures/run-chains.ts';
import { describeRun, traceRun } from '../../src/captures/trace.ts';
import { formatJson } from '../../src/cli/terminal-text.ts';
import { NO_WORDS } from '../../src/domain/run-mark.ts';
import { TurnSpans } from '../../src/otel/turn-spans.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { MadeSource } from './made-run.ts';

const DIGITS = ['2512292042121000001', '2512292042121000002', '1.0', '0.10', '1e3'];
const input = parseExact(`{"ids":[${DIGITS.join(',')}]}`);
const EXACT = `"ids":[${DIGITS.join(',')}]`;

/** One answer that calls a tool, and the turn that brings its result. */
function source(): MadeSource {
  const made = new MadeSource();
  const call = { type: 'tool_use', id: 'c1', name: 'look', input };
  const user = { role: 'user', content: 'Look.' };
  const asked = { model: 'm', messages: [user] };
  made.add({
    run_id: 'r',
    request: asked,
    response: { type: 'message', model: 'm', content: [call], stop_reason: 'tool_use' },
  });
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'ok' }] };
  made.add({
    run_id: 'r',
    request: { ...asked, messages: [user, { role: 'assistant', content: [call] }, result] },
    response: {
      type: 'message',
      model: 'm',
      content: [{ type: 'text', text: 'Done.' }],
      stop_reason: 'end_turn',
    },
  });
  return made;
}

it('numbers are exact in a trace, a conversation and inspect --json', () => {
  const made = source();
  const chains = new RunChains();
  for (const record of made.summaries()) chains.add(record);
  const run = describeRun(made, chains, [...chains.runs][0]!)!;
  expect([...traceRun(made, chains, run, { words: NO_WORDS, hasFile: () => false })].join('')).toContain(
    EXACT,
  );
  const told = [...tellConversation(made, 'r')].map((turn) => JSON.stringify(turn)).join('\n');
  expect(told).toContain(EXACT);
  const shown = [...readRun(made, 'r')].map(({ turn }) => formatJson(turn?.answer, 0)).join('\n');
  expect(shown).toContain(EXACT);
});

it('numbers are exact in spans', () => {
  const made = source();
  const spans = new TurnSpans({ instance: 'i', has_content: true, servers: [] });
  const all = made.records.flatMap((record) => spans.make(record, normalizeTurn(made.copy(record.id)!)));
  expect(all.map(({ name }) => name)).toContain('execute_tool look');
  const words = JSON.stringify(all);
  expect(words.split(EXACT.replaceAll('"', '\\"')).length).toBeGreaterThan(2);
});

it('a request in which the client rounded numbers still continues its conversation', () => {
  const made = source();
  const [first, second] = made.records.map(({ id }) => made.copy(id)!);
  const rounded = JSON.stringify(JSON.parse(Buffer.from(second!.request_body).toString()));
  expect(rounded).not.toContain('2512292042121000001');
  const { answered } = decodeExchange(first!);
  expect(decodeExchange({ ...second!, request_body: Buffer.from(rounded) }).conversation).toContain(answered);
});

/** The cache of hashed conversations: a conversation has the same fingerprints with and without it. */
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { remembered } from '../../src/providers/conversation.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import type { StoredExchange } from '../../src/providers/stored-exchange.ts';

type Message = { role: string; content: unknown };

const LONG = 'the same words of a long task, again and again; '.repeat(120);

const block = fc.oneof(
  fc.nat(5).map((n) => ({ type: 'text', text: `${LONG} ${n}` })),
  fc.nat(3).map((n) => ({ type: 'text', text: `${n}`, cache_control: { type: 'ephemeral' } })),
  fc.nat(3).map((n) => ({ type: 'thinking', thinking: `${n}`, signature: `${n}` })),
  fc.nat(3).map((n) => ({
    type: 'tool_use',
    id: `call_${n}`,
    name: 'read',
    input: { path: `${n}`, deep: [n, { n }] },
  })),
  fc.nat(3).map((n) => ({
    type: 'tool_result',
    tool_use_id: `call_${n}`,
    content: `${LONG} ${n}`,
    is_error: n === 0,
  })),
);
const message = fc.record({
  role: fc.constantFrom('user', 'assistant'),
  content: fc.array(block, { minLength: 1, maxLength: 3 }),
});

function exchangeOf(messages: Message[]): StoredExchange {
  const response = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    stop_reason: 'end_turn',
    content: [{ type: 'text', text: LONG }],
  };
  return {
    shape: 'messages',
    path: '/v1/messages',
    status: 200,
    request_headers: [],
    response_headers: ['content-type', 'application/json'],
    request_body: Buffer.from(JSON.stringify({ model: 'm', messages })),
    response_body: Buffer.from(JSON.stringify(response)),
    truncated: false,
  };
}

const linksOf = (messages: Message[]) => {
  const {
    findSideCall: _asked,
    listTexts: _texts,
    sketchSystem,
    ...told
  } = decodeExchange(exchangeOf(messages));
  return { ...told, sketch: sketchSystem?.() };
};

it('fingerprints do not depend on what was read before', () => {
  // Each step takes one of three conversations with the same first message, may drop its end, add messages, and change
  // a message.
  const step = fc.record({
    added: fc.array(message, { maxLength: 3 }),
    dropped: fc.nat(2),
    edited: fc.option(fc.nat(30)),
    run: fc.nat(2),
  });
  fc.assert(
    fc.property(message, fc.array(step, { minLength: 4, maxLength: 12 }), (first, steps) => {
      remembered.clear();
      const read: { messages: Message[]; links: ReturnType<typeof linksOf> }[] = [];
      const runs: Message[][] = [[first], [first], [first]];
      for (const { added, dropped, edited, run } of steps) {
        const kept = runs[run]!.slice(0, Math.max(1, runs[run]!.length - dropped));
        const messages = [...kept, ...added];
        const at = edited === null ? 0 : edited % messages.length;
        if (edited !== null) messages[at] = { role: messages[at]!.role, content: `edited ${edited}` };
        runs[run] = messages;
        read.push({ messages, links: linksOf(messages) });
      }
      for (const { messages, links } of read) {
        remembered.clear();
        expect(links).toEqual(linksOf(messages));
      }
    }),
    { numRuns: 12 },
  );
});

it('content that was hashed before is not hashed again', () => {
  remembered.clear();
  const find = vi.spyOn(remembered, 'find');
  const counts = () => find.mock.results.map(({ value }) => (value as { count: number } | null)?.count ?? 0);
  const messages: Message[] = [{ role: 'user', content: 'begin' }];
  for (let turn = 0; turn < 40; turn++)
    messages.push(
      { role: 'assistant', content: `${LONG} ${turn}` },
      { role: 'user', content: `${LONG} go on ${turn}` },
    );
  decodeExchange(exchangeOf(messages));
  messages.push({ role: 'assistant', content: LONG }, { role: 'user', content: LONG });
  decodeExchange(exchangeOf(messages));
  // Only the first message, by which the earlier request is found, and the new messages are hashed.
  expect(counts()).toEqual([0, 81]);
  find.mockRestore();
});

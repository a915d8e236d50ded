/** The turn to which the span of a tool call belongs if requests of one run overlap. */

import { expect, it } from 'vitest';
import type { ExchangeRecord } from '../../src/domain/exchange.ts';
import type { NormalTurn, TurnMessage } from '../../src/domain/turn.ts';
import { TurnSpans } from '../../src/otel/turn-spans.ts';

const PROMPT: TurnMessage = { role: 'user', content: [{ type: 'text', text: 'Look at both.' }] };

function recordOf(id: number): ExchangeRecord {
  return {
    id,
    run_id: 'run-1',
    provider: 'anthropic',
    shape: 'messages',
    status: 200,
    path: '/v1/messages',
    started_at: new Date(1_795_459_738_000 + id * 1_000).toISOString(),
    duration_ms: 20,
    note: '',
    usage: {},
    request: { headers: [] },
    response: { headers: [] },
  } as unknown as ExchangeRecord;
}

const callOf = (id: string): TurnMessage =>
  ({ role: 'assistant', content: [{ type: 'tool_call', id, name: 'look', input: {} }] }) as TurnMessage;

const resultOf = (id: string): TurnMessage =>
  ({
    role: 'user',
    content: [
      { type: 'tool_result', call_id: id, content: [{ type: 'text', text: 'seen' }], is_error: false },
    ],
  }) as TurnMessage;

function turnOf(messages: readonly TurnMessage[], answer: TurnMessage): NormalTurn {
  return {
    request: { model: 'm', messages },
    answer: { id: 'a', model: 'm', content: answer.content, stop_reason: 'tool_use', usage: {} },
    problem: '',
  } as unknown as NormalTurn;
}

const make = () => new TurnSpans({ instance: 'i', has_content: false, servers: [] });

it('a tool call is a child of the turn that requested it, not of the exchange before', () => {
  const spans = make();
  const [first] = spans.make(recordOf(1), turnOf([PROMPT], callOf('c1')));
  const [second] = spans.make(recordOf(2), turnOf([PROMPT], callOf('c2')));
  const [toolOfFirst] = spans.make(recordOf(3), turnOf([PROMPT, callOf('c1'), resultOf('c1')], callOf('c3')));
  const [toolOfSecond] = spans.make(
    recordOf(4),
    turnOf([PROMPT, callOf('c2'), resultOf('c2')], callOf('c4')),
  );
  expect(toolOfFirst!.parent_span_id).toBe(first!.span_id);
  expect(toolOfSecond!.parent_span_id).toBe(second!.span_id);
  expect(toolOfFirst!.start_ms).toBe(first!.end_ms);
});

it('a call is forgotten if the turn that requested it is undone', () => {
  const spans = make();
  const [first] = spans.make(recordOf(1), turnOf([PROMPT], callOf('c1')));
  spans.settle();
  spans.make(recordOf(2), turnOf([PROMPT], callOf('c2')));
  spans.undo();
  const request = turnOf([PROMPT, callOf('c2'), resultOf('c2')], callOf('c3'));
  expect(spans.make(recordOf(3), request)[0]!.parent_span_id).toBe(first!.span_id);
});

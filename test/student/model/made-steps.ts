/** Golden steps made by hand, for the tests of the student's core. */

import type { NormalRequest, TurnMessage, TurnTool } from '../../../src/domain/turn.ts';
import type { AnswerDigest } from '../../../src/student/model/answer.ts';
import type { LearnedStep } from '../../../src/student/model/learned-step.ts';
import { digestStep, type StepDigest } from '../../../src/student/model/step.ts';
import { plainExtras } from '../../../src/student/model/step-extras.ts';

export function tool(name: string): TurnTool {
  return {
    kind: 'function',
    name,
    description: `does ${name}`,
    input_schema: { type: 'object' },
    settings: null,
  };
}

export function makeRequest(messages: TurnMessage[], over: Partial<NormalRequest> = {}): NormalRequest {
  return {
    model: 'm-1',
    system: [{ type: 'text', text: 'You help.\nToday is 2026-03-04.' }],
    messages,
    tools: [tool('get_order'), tool('refund'), tool('cancel')],
    tool_choice: null,
    thinking: null,
    response_schema: null,
    max_output_tokens: 1_000,
    previous_answer_id: null,
    ...over,
  };
}

export function user(text: string): TurnMessage {
  return { role: 'user', content: [{ type: 'text', text }] };
}

/** A call and its result. */
export function called(name: string, input: unknown, result: string, isError = false): TurnMessage[] {
  return [
    { role: 'assistant', content: [{ type: 'tool_call', id: 'toolu_1', name, input }] },
    {
      role: 'tool',
      content: [
        {
          type: 'tool_result',
          call_id: 'toolu_1',
          name,
          is_error: isError,
          content: [{ type: 'text', text: result }],
        },
      ],
    },
  ];
}

export function digest(messages: TurnMessage[], over: Partial<NormalRequest> = {}): StepDigest {
  return digestStep(makeRequest(messages, over), plainExtras());
}

export function callAnswer(name: string, input: unknown): AnswerDigest {
  return {
    content: [{ type: 'tool_call', id: '', name, input }],
    stop_reason: 'tool_use',
    input_tokens: 100,
    output_tokens: 20,
  };
}

export function textAnswer(text: string): AnswerDigest {
  return { content: [{ type: 'text', text }], stop_reason: 'end_turn', input_tokens: 100, output_tokens: 20 };
}

/** The id of an order. Each index has a different id. */
export function orderId(i: number): string {
  return `ORD-${7_000 + 13 * i}`;
}

const STATUSES = ['delivered', 'pending'] as const;

/** Golden step `i`: the action depends on the order's status, and the status on `i`. */
export function makeOrderStep(i: number, over: { status?: string; order?: string } = {}): LearnedStep {
  const status = over.status ?? STATUSES[i % 2]!;
  const order = over.order ?? orderId(i);
  const step = digest([
    user(`Please look after order ${order}, thanks.`),
    ...called(
      'get_order',
      { order_id: order },
      JSON.stringify({
        order_id: order,
        status,
        customer: `C${900 + i}`,
        paid: { total: 10.5 + i, currency: 'EUR' },
      }),
    ),
  ]);
  const answer =
    status === 'delivered'
      ? callAnswer('refund', { order_id: order, amount: 10.5 + i, currency: 'EUR' })
      : callAnswer('cancel', { order_id: order });
  return { run_id: `run-${i}`, step, answer };
}

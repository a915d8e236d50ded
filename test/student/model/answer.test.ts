/** Which golden answers may become exemplars. */

import { describe, expect, it } from 'vitest';
import type { NormalAnswer, TurnBlock } from '../../../src/domain/turn.ts';
import { digestAnswer } from '../../../src/student/model/answer.ts';

function makeAnswer(content: TurnBlock[], stop_reason: NormalAnswer['stop_reason']): NormalAnswer {
  return {
    id: null,
    model: 'm',
    content,
    stop_reason,
    usage: {
      input_tokens: 3,
      output_tokens: 2,
      cache_read_tokens: null,
      cache_write_tokens: null,
      cache_write_1h_tokens: null,
    },
    error: null,
  };
}

function call(input: unknown): TurnBlock {
  return { type: 'tool_call', id: 'call_1', name: 'deploy', input };
}

describe('an answer', () => {
  it('is an exemplar with the ids of its calls emptied', () => {
    expect(digestAnswer(makeAnswer([call({ region: 'eu' })], 'tool_use'))).toEqual({
      content: [{ type: 'tool_call', id: '', name: 'deploy', input: { region: 'eu' } }],
      stop_reason: 'tool_use',
      input_tokens: 3,
      output_tokens: 2,
    });
  });

  it('is an exemplar with a text as the input of a tool that takes a text', () => {
    const forms = new Map([['deploy', 'text' as const]]);
    const answer = makeAnswer([call('deploy("eu");')], 'tool_use');
    expect(digestAnswer(answer, forms)?.content).toMatchObject([{ input: 'deploy("eu");' }]);
    expect(digestAnswer(answer)).toBeNull();
    for (const input of ['', 'deploy("[redacted]");', { region: 'eu' }])
      expect(digestAnswer(makeAnswer([call(input)], 'tool_use'), forms), String(input)).toBeNull();
  });

  it.each([
    ['a text', makeAnswer([{ type: 'text', text: 'Use [redacted] as the key.' }], 'end_turn')],
    ['an input', makeAnswer([call({ headers: [{ authorization: 'Bearer [redacted]' }] })], 'tool_use')],
    ['the name of a field', makeAnswer([call({ '[redacted]': 1 })], 'tool_use')],
  ])('is not learnt if capture masked %s, because the text is unknown', (_where, answer) => {
    expect(digestAnswer(answer)).toBeNull();
  });
});

/** Small rules of the step handler: the last result's id in a raw body, the price of a model, an answer's two forms. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findPrice } from '../../../src/domain/price.ts';
import { MessagesAnswerReader } from '../../../src/providers/messages/answer.ts';
import { NormalReading } from '../../../src/providers/normal-reading.ts';
import { messagesWire } from '../../../src/student/serving/messages-wire.ts';
import { findLastResultId } from '../../../src/student/serving/step-handler.ts';

describe('the last result’s id', () => {
  const find = (value: unknown, space = 0) =>
    findLastResultId(Buffer.from(JSON.stringify(value, null, space)));

  it('is found in any layout', () => {
    const body = [{ tool_use_id: 'toolu_1' }, { tool_use_id: 'toolu_2', content: 'x' }];
    expect(find(body)).toBe('toolu_2');
    expect(find(body, 2)).toBe('toolu_2');
  });

  it('is not found if it is missing, nor within a text', () => {
    expect(find({ messages: [] })).toBeNull();
    expect(find({ text: '{"tool_use_id":"toolu_1"}' })).toBeNull();
    expect(find({ tool_use_id: 5 })).toBeNull();
    expect(findLastResultId(Buffer.from('"tool_use_id":'))).toBeNull();
  });
});

describe('the price of a model', () => {
  const prices = {
    'claude-big': { input: 3, output: 15 },
    'claude-big-2': { input: 4, output: 16 },
    claude: { input: 1, output: 1 },
  };
  it.each([
    ['claude-big', 3],
    ['claude-big-20250514', 3],
    ['claude-big-2', 4],
    ['claude-big-2@20250514', 4],
    ['claude-bigger', 1],
    ['other', undefined],
    ['claud', undefined],
    ['__proto__', undefined],
  ])('is found by its name or the longest fitting beginning of it: %s', (model, input) => {
    expect(findPrice(prices, model)?.input).toBe(input);
  });
});

describe('an answer on the wire', () => {
  const block = fc.oneof(
    fc.record({ type: fc.constant('text' as const), text: fc.string({ minLength: 1, unit: 'binary' }) }),
    fc.record({
      type: fc.constant('tool_call' as const),
      id: fc.constant(''),
      name: fc.string({ minLength: 1 }),
      input: fc.dictionary(fc.string(), fc.jsonValue()) as fc.Arbitrary<unknown>,
    }),
  );

  it('reads the same as events and as one body', () => {
    fc.assert(
      fc.property(fc.array(block, { minLength: 1, maxLength: 4 }), fc.nat(20_000), (content, size) => {
        const long = [...content, { type: 'text' as const, text: '🙂é'.repeat(size + 1) }];
        const answer = {
          content: long,
          stop_reason: 'end_turn' as const,
          input_tokens: 5,
          output_tokens: 6,
        };
        const whole = messagesWire.writeAnswer(answer, { model: 'm' });
        const wholeReader = new MessagesAnswerReader(new NormalReading());
        wholeReader.readWhole(JSON.parse(Buffer.from(whole.body).toString()));
        const streamed = messagesWire.writeAnswer(answer, { model: 'm', stream: true });
        const reader = new MessagesAnswerReader(new NormalReading());
        for (const frame of Buffer.from(streamed.body).toString().split('\n\n')) {
          const found = /^event: (\w+)\ndata: (.*)$/s.exec(frame);
          if (found !== null) reader.readEvent(found[1]!, JSON.parse(found[2]!));
        }
        const plain = (blocks: ReturnType<typeof reader.finish>['content']) =>
          blocks.map((it) => (it.type === 'tool_call' ? { ...it, id: '' } : it));
        const read = wholeReader.finish().content;
        const ids = read.flatMap((it) => (it.type === 'tool_call' ? [it.id] : []));
        expect(ids).toEqual(whole.call_ids);
        expect(new Set([...ids, ...streamed.call_ids]).size).toBe(ids.length * 2);
        expect(plain(reader.finish().content)).toEqual(plain(read));
        expect(plain(read)).toEqual(JSON.parse(JSON.stringify(long)));
      }),
      { numRuns: 60 },
    );
  });
});

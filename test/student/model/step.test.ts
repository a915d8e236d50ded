/** Digests of steps: what counts, what is noise, and bounds for any input. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NormalAnswer, TurnBlock, TurnMessage } from '../../../src/domain/turn.ts';
import { STEP_BODY_BYTES } from '../../../src/gateway/relegation/relegated-exchange.ts';
import { digestAnswer } from '../../../src/student/model/answer.ts';
import { STUDENT_CORE } from '../../../src/student/model/limits.ts';
import { readBetas, readMessagesSettings } from '../../../src/student/model/step-extras.ts';
import { MARK } from '../../../src/student/model/step-marks.ts';
import { readTokens } from '../../../src/student/model/text-tokens.ts';
import { readStep, WIRES } from '../../../src/student/serving/step-reading.ts';
import { drawsOf } from '../../long-parts.ts';
import { called, digest, tool, user } from './made-steps.ts';

const readMessages = (body: unknown, headers: string[]) => readStep(WIRES.messages, body, headers);

const text = (content: string): TurnBlock => ({ type: 'text', text: content });

function answer(content: TurnBlock[], over: Partial<NormalAnswer> = {}): NormalAnswer {
  return {
    id: 'msg_1',
    model: 'm-1',
    content,
    stop_reason: 'end_turn',
    usage: {
      input_tokens: 5,
      output_tokens: 3,
      cache_read_tokens: 2,
      cache_write_tokens: null,
      cache_write_1h_tokens: null,
    },
    error: null,
    ...over,
  };
}

/** A different word for each number, without digits. */
const wordOf = (i: number) => [...String(i)].map((digit) => 'abcdefghij'[Number(digit)]).join('');

describe('a digest of a step', () => {
  it('ignores dates, ids and numbers of the system prompt, but not its words', () => {
    const of = (system: string) => digest([user('Hi')], { system: [text(system)] }).system;
    const original = of('You help.\nToday is Monday, 2026-03-04.\nSession 8f3a-11');
    expect(of('You help.\nToday is Friday, 2027-11-30.\nSession 77bc-90')).toEqual(original);
    expect(of('You never help.\nToday is Monday, 2026-03-04.\nSession 8f3a-11')).not.toEqual(original);
  });

  it('is the same whether the student or the upstream gave the earlier answers', () => {
    const of = (id: string, words: string, last: string) =>
      digest([
        user('Look at order 7'),
        {
          role: 'assistant',
          content: [text(words), { type: 'tool_call', id, name: 'look', input: { at: 7 } }],
        },
        {
          role: 'tool',
          content: [
            {
              type: 'tool_result',
              call_id: id,
              name: 'look',
              is_error: false,
              content: [text('{"state":"open"}')],
            },
          ],
        },
        { role: 'assistant', content: [text(last)] },
        user('And now close it'),
      ]);
    const upstreams = of('toolu_01A', 'First I look at the order.', 'It is open. Anything else?');
    expect(of('toolu_99', 'A look.', 'Open.')).toEqual(upstreams);
  });

  it('names the rules that the step breaks, by the version in its header', () => {
    const of = (more: object, version = '2023-06-01') =>
      readMessages({ model: 'm', max_tokens: 9, messages: [user('x')], ...more }, [
        'Anthropic-Version',
        version,
      ])!.step.breaches;
    expect(of({})).toEqual([]);
    expect(of({ temperature: 0 })).toEqual([]);
    expect(of({ temperature: 0 }, '2026-10-21')).toEqual(['sampling']);
    const listed = { role: 'system', content: [{ type: 'text', text: 'Agents: a, b' }] };
    expect(of({ messages: [{ role: 'user', content: 'x' }, listed] })).toEqual(['role system']);
  });

  it('is unsupported if the provider is to store the conversation', () => {
    const of = (more: object) =>
      readMessages({ model: 'm', max_tokens: 9, messages: [user('x')], ...more }, [])!.step.unsupported;
    expect(of({})).toBe('');
    expect(of({ thread: null })).toBe('');
    expect(of({ thread: { type: 'create' } })).toMatch(/keep the conversation/);
    expect(of({ thread: { type: 'continue', previous_message_id: 'msg_1' } })).toMatch(/keeps/);
  });

  it('marks the numbers of a system prompt, except for those of days, times and ids', () => {
    const of = (system: string) => {
      const { marks } = digest([user('Hi')], { system: [text(system)] });
      return marks.flatMap((kind, m) =>
        m % 3 === 0 && kind === MARK.system_number ? [marks.slice(m, m + 3)] : [],
      );
    };
    const noted = [
      'You may refund at most $500.',
      'Wait 30s.',
      'Below 2.5% of 1,200 it is 3 tries.',
      '1. Look',
    ];
    for (const line of noted) {
      expect(of(`You help.\n${line}`), line).toHaveLength(1);
      const other = line.replace(/\d/, (digit) => String(Number(digit) + 1));
      const [[, place, value]] = of(line) as [number[]];
      const [[, otherPlace, otherValue]] = of(other) as [number[]];
      expect(otherPlace, line).toBe(place);
      expect(otherValue, line).not.toBe(value);
    }
    for (const [line, other] of [
      ['Spend $500 at most.', 'Spend €500 at most.'],
      ['€500 is too much', '$500 is too much'],
      ['Ask where it is > 500.', 'Ask where it is < 500.'],
      ['Ask where it is >= 500.', 'Ask where it is > 500.'],
      ['Below -20 it stops.', 'Below 20 it stops.'],
      ['Give 20% to them.', 'Give 20 to them.'],
      ['500€ a day', '500 £ a day'],
    ] as const) {
      expect(of(line), line).toHaveLength(1);
      expect(of(line), line).not.toEqual(of(other));
    }
    for (const line of ['(3) of them', 'Take ./4 of it', 'At –7'])
      expect(of(line), line).not.toEqual(of(line.replace(/\d/, '8')));
    const passed = [
      'It is 2026.',
      'Today is May 4.',
      'At 12:30',
      'On 2026-03-04 it was 5',
      'Run 8f3a11b',
      'Id 1234567890',
      'In /srv/app7/x',
      'See part-5 and a.6',
    ];
    for (const line of passed) expect(of(line), line).toEqual([]);
    expect(of('Row 1 has 2.\nRow 3 has 4.').map(([, place]) => place)).not.toEqual(
      of('Row 1 has 2.').map(([, place]) => place),
    );
    const rows = Array.from({ length: 500 }, (_, i) => `Item ${wordOf(i)} costs ${i}.`);
    expect(of(rows.join('\n'))).toHaveLength(STUDENT_CORE.system_numbers + 1);
    expect(of(rows.join('\n'))).not.toEqual(of(rows.with(-1, `Item ${wordOf(499)} costs 7.`).join('\n')));
  });

  it('reads even a very long system prompt to its end', () => {
    const rules = Array.from({ length: 6_000 }, (_, i) => `Rule ${wordOf(i)} holds.`).join('\n');
    const of = (end: string) => digest([user('Hi')], { system: [text(`${rules}\n${end}`)] }).system;
    expect(of('Refund what is broken.'), 'read before').toEqual(of('Refund what is broken.'));
    expect(of('Refund what is broken.')).not.toEqual(of('Never refund.'));
    expect(of('Today is 2026-03-04.')).toEqual(of('Today is 2027-11-30.'));
    expect(of('').length).toBe(STUDENT_CORE.system_sentences + 1);
  });

  it('reads the last tool and the settings of the largest body, and schemas within schemas', () => {
    const tools = Array.from({ length: 1_000 }, (_, i) => ({
      name: `t${i}`,
      description: 'what it does '.repeat(150),
      input_schema: { type: 'object' },
    }));
    const scope = (more: object) =>
      readMessages({ model: 'm', max_tokens: 9, messages: [user('x')], tools, ...more }, [])!.step.scope;
    const base = scope({});
    expect(JSON.stringify(tools).length).toBeGreaterThan(0.9 * STEP_BODY_BYTES);
    expect(JSON.stringify(tools).length).toBeLessThan(STEP_BODY_BYTES);
    expect(scope({ temperature: 0 })).not.toBe(base);
    expect(scope({ tool_choice: { type: 'any' } })).not.toBe(base);
    expect(scope({ tools: tools.with(-1, { ...tools[0]!, name: 'other' }) })).not.toBe(base);
    const nested = (leaf: string): object => {
      let schema: object = { type: leaf };
      for (let depth = 0; depth < 40; depth++) schema = { type: 'object', properties: { a: schema } };
      return { tools: [{ name: 't', input_schema: schema }] };
    };
    expect(scope(nested('string'))).not.toBe(scope(nested('number')));
  });

  it('has the same scope for tools in another order and for explicit defaults', () => {
    const tools = ['look', 'send'].map((name) => ({
      name,
      description: name,
      input_schema: { type: 'object' },
    }));
    const scope = (more: object) =>
      readMessages({ model: 'm', max_tokens: 9, messages: [user('x')], tools, ...more }, [])!.step.scope;
    const base = scope({});
    expect(scope({ tools: tools.toReversed() })).toBe(base);
    expect(scope({ temperature: 1, top_p: 1, tool_choice: { type: 'auto' } })).toBe(base);
    for (const other of [
      { temperature: 0.9 },
      { top_p: 0.5 },
      { top_k: 1 },
      { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
      { tools: [tools[0]!, { ...tools[1]!, description: 'other' }] },
      { tools: tools.slice(1) },
    ])
      expect(scope(other)).not.toBe(base);
  });

  it('has another scope for settings whose type the normal form does not know', () => {
    const scope = (more: object) =>
      readMessages({ model: 'm', max_tokens: 9, messages: [user('x')], ...more }, [])!.step.scope;
    const all = [
      {},
      { thinking: { type: 'between_tools' } },
      { thinking: { type: 'of_tomorrow' } },
      { thinking: { type: 'adaptive' } },
      { thinking: { type: 'disabled' } },
      { output_format: { type: 'text' } },
      { output_format: { type: 'json_schema', schema: {} } },
    ];
    expect(new Set(all.map(scope)).size).toBe(all.length);
    const budget = (budget_tokens: number) => scope({ thinking: { type: 'enabled', budget_tokens } });
    expect(budget(1_024)).toBe(budget(2_048));
  });

  it('has another scope for other tools, settings and models, not for another order of keys or user', () => {
    const scope = (body: Record<string, unknown>) =>
      readMessages({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'x' }], ...body }, [])!
        .step.scope;
    const tools = (schema: unknown) => [{ name: 't', description: 'd', input_schema: schema }];
    const base = scope({ tools: tools({ type: 'object', properties: {} }) });
    expect(
      scope({
        tools: tools({ properties: {}, type: 'object' }),
        metadata: { user_id: 'u' },
        stream: true,
        max_tokens: 10,
      }),
    ).toBe(base);
    expect(scope({ tools: tools({ type: 'object', properties: { a: {} } }) })).not.toBe(base);
    expect(scope({ tools: tools({ type: 'object', properties: {} }), temperature: 0.5 })).not.toBe(base);
    expect(scope({ tools: tools({ type: 'object', properties: {} }), model: 'n' })).not.toBe(base);
    const cached = [
      {
        name: 't',
        description: 'd',
        input_schema: { type: 'object', properties: {} },
        cache_control: { type: 'ephemeral' },
      },
    ];
    expect(scope({ tools: cached })).toBe(base);
  });

  it('names the calls whose results the step answers', () => {
    expect(digest([user('Hi')]).stage).toBe('task');
    expect(digest([user('Hi'), ...called('get_order', {}, '{}', true)]).stage).toBe('get_order!');
    expect(digest([user('Hi'), { role: 'assistant', content: [text('Yes?')] }, user('More')]).stage).toBe(
      'said',
    );
    // The order of concurrent calls does not matter, and the number of calls of one tool does not matter.
    const atOnce = (...names: string[]) => {
      const pairs = names.map((name) => called(name, {}, '{}'));
      const merged = [0, 1].map((at) => ({
        role: pairs[0]![at]!.role,
        content: pairs.flatMap((pair) => pair[at]!.content),
      }));
      return digest([user('Hi'), ...(merged as ReturnType<typeof called>)]).stage;
    };
    expect(atOnce('look', 'find')).toBe('find look');
    expect(atOnce('find', 'look')).toBe('find look');
    expect(atOnce('look', 'find', 'look')).toBe(atOnce('find', 'look', 'look', 'look'));
  });

  it('treats several messages of the user in a row as one, as the API does', () => {
    const call = called('get_order', {}, '{}');
    for (const behind of [[], call, [...call, user('Go on.')]]) {
      const joined = digest([user('Refund it.'), user('No, stop.'), ...behind]);
      expect(joined).toEqual(digest([user('Refund it.\nNo, stop.'), ...behind]));
      expect(joined).not.toEqual(digest([user('Refund it.'), ...behind]));
    }
  });

  it('names the reasons why no student may answer', () => {
    const assistant: TurnMessage = { role: 'assistant', content: [text('{')] };
    expect(digest([user('Hi'), assistant]).unsupported).not.toBe('');
    expect(digest([]).unsupported).not.toBe('');
    const image: TurnBlock = {
      type: 'media',
      kind: 'image',
      media_type: 'image/png',
      source: 'base64',
      data: 'aa',
    };
    expect(digest([{ role: 'user', content: [image] }]).unsupported).not.toBe('');
    expect(digest([user('Hi')]).unsupported).toBe('');
    // Also at later steps, if the block is in the task or in an earlier request of the user.
    const unknown: TurnMessage = {
      role: 'user',
      content: [
        { type: 'other', name: 'hologram', value: {} },
        { type: 'text', text: 'Look' },
      ],
    };
    for (const said of [image, ...unknown.content.slice(0, 1)])
      expect(digest([{ role: 'user', content: [said] }, assistant, user('And then?')]).unsupported).not.toBe(
        '',
      );
    expect(digest([user('Hi'), assistant, unknown, assistant, user('And then?')]).unsupported).not.toBe('');
    expect(digest([user('Hi'), assistant, user('And then?')]).unsupported).toBe('');
    const forced = digest([user('Hi')], {
      tool_choice: { mode: 'tool', names: ['refund'], parallel: false },
    });
    expect(forced).toMatchObject({ must_call: true, callable: ['refund'], calls_max: 1 });
    expect(
      digest([user('Hi')], { tool_choice: { mode: 'none', names: [], parallel: null } }).callable,
    ).toBeNull();
  });

  it('has a bounded size after a run of 400 turns', () => {
    const messages = [user('Go through all of it.')];
    for (let i = 0; i < 400; i++)
      messages.push(
        ...called(
          `tool_${i % 30}`,
          { n: i, why: 'because '.repeat(20) },
          JSON.stringify({
            i,
            rows: Array.from({ length: 50 }, (_, n) => ({ n, text: 'word '.repeat(30) })),
          }),
        ),
      );
    const long = digest(messages);
    expect(long.turn).toBe(400);
    expect(JSON.stringify(long).length).toBeLessThan(40_000);
    expect(JSON.stringify(long.sources).length).toBeLessThan(2 * STUDENT_CORE.step);
    expect(long.marks.length).toBeLessThanOrEqual(3 * STUDENT_CORE.marks);
  });

  it('is bounded for hostile steps', () => {
    const deep = `${'['.repeat(20_000)}1${']'.repeat(20_000)}`;
    const hostile = [
      deep,
      '{"__proto__": {"polluted": true}, "constructor": {"prototype": 1}}',
      '\ud800'.repeat(5_000),
      'a'.repeat(3_000_000),
      `${'(a+)+$'.repeat(5_000)}!`,
      '-'.repeat(100_000),
      '1,'.repeat(100_000),
      `{"a":"${'x'.repeat(40_000)}"}`,
      '"\u0000\u2028\u{1f600}'.repeat(1_000),
      '/'.repeat(50_000),
      `${'a@'.repeat(20_000)}b`,
    ];
    for (const bad of hostile) {
      const step = digest(
        [user(bad), ...called(bad.slice(0, 300), { [bad.slice(0, 200)]: bad.slice(0, 100_000) }, bad)],
        {
          system: [text(bad)],
          tools: [tool(bad.slice(0, 100))],
        },
      );
      const { prompt = [], ...rest } = step;
      expect(JSON.stringify(rest).length).toBeLessThan(120_000);
      expect(prompt.flat().join('').length).toBeLessThan(STUDENT_CORE.prompt_characters + 100);
    }
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it('never throws on any JSON body, and is the same each time', { tags: 'long' }, () => {
    const block = fc.oneof(
      fc.record({ type: fc.constant('text'), text: fc.string({ unit: 'binary' }) }),
      fc.record({ type: fc.constant('tool_use'), id: fc.string(), name: fc.string(), input: fc.jsonValue() }),
      fc.record({
        type: fc.constant('tool_result'),
        tool_use_id: fc.string(),
        content: fc.oneof(fc.string(), fc.json(), fc.jsonValue()),
      }),
      fc.jsonValue(),
    );
    const message = fc.record({
      role: fc.constantFrom('user', 'assistant', 'system', 7),
      content: fc.oneof(fc.string(), fc.array(block), fc.jsonValue()),
    });
    const body = fc.record(
      {
        model: fc.jsonValue(),
        system: fc.oneof(fc.string(), fc.jsonValue()),
        messages: fc.array(message),
        tools: fc.oneof(fc.array(fc.jsonValue()), fc.jsonValue()),
        tool_choice: fc.jsonValue(),
        thinking: fc.jsonValue(),
        temperature: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(body, (request) => {
        const read = readMessages(request, ['anthropic-beta', 'b, a']);
        expect(readMessages(structuredClone(request), ['Anthropic-Beta', 'a,b'])).toEqual(read);
      }),
      drawsOf(300),
    );
  });
});

describe('extras of a step', () => {
  it('are the fields that the normal form lacks, except those that change for each request', () => {
    const body = { model: 'm', stream: true, metadata: {}, temperature: 1, top_k: null };
    expect(readMessagesSettings(body)).toEqual({ temperature: 1 });
    expect(readBetas(['b,a', ' a '])).toEqual(['a', 'b']);
  });
});

describe('a digest of an answer', () => {
  const call: TurnBlock = { type: 'tool_call', id: 'toolu_9', name: 'refund', input: { a: 1 } };

  it('keeps text and calls, and empties ids', () => {
    const thinking: TurnBlock = { type: 'thinking', text: 'hm', signature: 's', redacted: false };
    expect(digestAnswer(answer([thinking, text('So:'), call], { stop_reason: 'tool_use' }))).toEqual({
      content: [text('So:'), { ...call, id: '' }],
      stop_reason: 'tool_use',
      input_tokens: 7,
      output_tokens: 3,
      cache_read_tokens: 2,
    });
  });

  it('is null for what must not be learned', () => {
    expect(digestAnswer(answer([text('cut')], { stop_reason: 'max_tokens' }))).toBeNull();
    expect(digestAnswer(answer([text('x')], { error: 'overloaded' }))).toBeNull();
    expect(digestAnswer(answer([{ type: 'other', name: 'server_tool_use', value: {} }]))).toBeNull();
    expect(digestAnswer(answer([{ type: 'refusal', text: 'no' }]))).toBeNull();
    expect(digestAnswer(answer([]))).toBeNull();
    expect(digestAnswer(answer([text('x'.repeat(STUDENT_CORE.answer + 1))]))).toBeNull();
    expect(digestAnswer(answer([call]))).toBeNull();
    expect(digestAnswer(answer([{ ...call, input: 'no object' }], { stop_reason: 'tool_use' }))).toBeNull();
    const hostile: unknown = JSON.parse('{"__proto__": {"a": 1}}');
    expect(digestAnswer(answer([{ ...call, input: hostile }], { stop_reason: 'tool_use' }))).toBeNull();
    let deep: unknown = 1;
    for (let i = 0; i < 5_000; i++) deep = { deep };
    expect(digestAnswer(answer([{ ...call, input: deep }], { stop_reason: 'tool_use' }))).toBeNull();
  });
});

describe('tokens', () => {
  it('keep identifiers, numbers, addresses and paths whole', () => {
    const words = (source: string) =>
      readTokens(source, 100).map(({ start, end }) => source.slice(start, end));
    expect(words('Order ORD-12/7, $1,204.50 to a.b@c.org; see /srv/x-1/y.py:12 (v1.2.3).')).toEqual([
      'Order',
      'ORD-12/7',
      ',',
      '$',
      '1,204.50',
      'to',
      'a.b@c.org',
      ';',
      'see',
      '/srv/x-1/y.py',
      ':',
      '12',
      '(',
      'v1.2.3',
      ')',
      '.',
    ]);
  });

  it('are in order and do not overlap, for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (source) => {
        let end = 0;
        // One assertion checks all tokens, because there are tens of thousands.
        let isInOrder = true;
        for (const token of readTokens(source, 1_000)) {
          isInOrder &&= token.start >= end && token.end > token.start;
          end = token.end;
        }
        expect(isInOrder).toBe(true);
        expect(end).toBeLessThanOrEqual(source.length);
      }),
    );
  });
});

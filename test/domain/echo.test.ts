/**
 * An answer compared with its echo in the next request: what counts as a difference, and which changes clients make.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EchoCheck, type EchoDifference } from '../../src/domain/echo.ts';
import type { NormalTurn, TurnBlock, TurnMessage, TurnTool } from '../../src/domain/turn.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { sharedFile } from '../fixtures/shared.ts';
import { haveRecordings, readRecordings } from '../providers/recordings.ts';

const text = (words: string): TurnBlock => ({ type: 'text', text: words });
const call = (id: string, name: string, input: unknown): TurnBlock => ({
  type: 'tool_call',
  id,
  name,
  input,
});
const result = (call_id: string, words: string): TurnMessage => ({
  role: 'tool',
  content: [{ type: 'tool_result', call_id, name: null, is_error: false, content: [text(words)] }],
});
const user = (words: string): TurnMessage => ({ role: 'user', content: [text(words)] });
const assistant = (...content: TurnBlock[]): TurnMessage => ({ role: 'assistant', content });

function turn(
  messages: TurnMessage[],
  content: TurnBlock[] = [],
  stop: 'end_turn' | 'max_tokens' = 'end_turn',
  tools: TurnTool[] = [],
) {
  const usage = { input_tokens: 1, output_tokens: 1, cache_read_tokens: 0, cache_write_tokens: 0 };
  return {
    request: {
      model: 'm',
      system: [],
      messages,
      tools,
      tool_choice: null,
      thinking: null,
      response_schema: null,
      max_output_tokens: null,
      previous_answer_id: null,
    },
    answer: { id: 'a', model: 'm', content, stop_reason: stop, usage, error: null },
    problem: '',
  } as unknown as NormalTurn;
}

const TASK = [user('Look up the order.')];

/** The tool of a coding agent whose client fills in the default values of the schema. */
const EDIT: TurnTool = {
  kind: 'function',
  name: 'Edit',
  description: '',
  input_schema: {
    type: 'object',
    properties: {
      path: { type: 'string' },
      replace_all: { type: 'boolean', default: false },
      marks: {
        type: 'array',
        items: {
          type: 'object',
          properties: { at: { type: 'number' }, tries: { type: 'number', default: 2 } },
        },
      },
    },
  },
  settings: null,
};

/** The answer as it was read, and the messages that repeat it in the next request. */
function compare(read: TurnBlock[], echo: TurnMessage[], stop: 'end_turn' | 'max_tokens' = 'end_turn') {
  const check = new EchoCheck();
  const exchange = { wire: 'chat_completions', is_answered: true };
  check.add({ id: 1, ...exchange }, turn(TASK, read, stop));
  const difference = check.add(
    { id: 2, ...exchange },
    turn([...TASK, ...echo, user('And then?')], [], 'end_turn', [EDIT]),
  );
  return { difference, compared: check.compared };
}

describe('a difference between an answer and its echo', () => {
  const id = '2512292042121000001';
  const cases: Record<string, [read: TurnBlock[], echo: TurnMessage[]]> = {
    'a text that was not read at all': [[], [assistant(text('It is on its way.'))]],
    'a piece of a text that was not read': [
      [text('It is on its')],
      [assistant(text('It is on its way to the customer.'))],
    ],
    'a piece of a text that was read twice': [
      [text('It is is on on its way.')],
      [assistant(text('It is on its way.'))],
    ],
    'arguments read as empty': [
      [call('c1', 'get_weather', {})],
      [assistant(call('c1', 'get_weather', { city: 'Oslo' })), result('c1', 'rain')],
    ],
    'two calls read as one': [
      [call('c1', 'get_weatherget_time', '{"city":"Oslo"}{"city":"Oslo"}')],
      [
        assistant(call('c1', 'get_weather', { city: 'Oslo' }), call('c2', 'get_time', { city: 'Oslo' })),
        result('c1', 'rain'),
        result('c2', 'noon'),
      ],
    ],
    'a call that was not read': [
      [call('call_1', 'get_weather', { city: 'Oslo' })],
      [assistant(call('call_1', 'get_weather', { city: 'Oslo' }), call('call_2', 'get_time', {}))],
    ],
    'a call read twice': [
      [call('c1', 'get_time', {}), call('c2', 'get_time', {})],
      [assistant(call('c1', 'get_time', {}))],
    ],
    'a name read with a repetition': [[call('c1', 'get_get', {})], [assistant(call('c1', 'get', {}))]],
    'another order of the calls': [
      [call('c1', 'get_time', {}), call('c2', 'get_weather', {})],
      [assistant(call('c2', 'get_weather', {}), call('c1', 'get_time', {}))],
    ],
    'ids on other calls': [
      [call('c1', 'get', { of: 1 }), call('c2', 'get', { of: 2 })],
      [assistant(call('c2', 'get', { of: 1 }), call('c1', 'get', { of: 2 }))],
    ],
    'a field that is not the default value': [
      [call('c1', 'Edit', { path: 'a' })],
      [assistant(call('c1', 'Edit', { path: 'a', replace_all: true }))],
    ],
    'a default value of another tool': [
      [call('c1', 'Cut', { path: 'a' })],
      [assistant(call('c1', 'Cut', { path: 'a', replace_all: false }))],
    ],
    'an integer beyond 2^53 that was rounded': [
      [call('c1', 'get', { id: 2512292042121000000 })],
      [assistant(call('c1', 'get', parseExact(`{"id":${id}}`)))],
    ],
  };
  for (const [name, [read, echo]] of Object.entries(cases))
    it(name, () => {
      const { difference } = compare(read, echo);
      expect(difference).toMatchObject({ exchange_id: 1, repeated_by: 2 });
      expect(difference!.read).not.toBe(difference!.repeated);
    });

  it('shows both texts from shortly before their first difference', () => {
    const same = 'The order was found in the archive. '.repeat(40);
    const { difference } = compare(
      [text(`${same}Paid: no`)],
      [assistant(text(`${same}Paid: no. Sent: yes`))],
    );
    expect(difference!.read).toMatch(/^….*Paid: no$/);
    expect(difference!.repeated).toMatch(/^….*Paid: no\. Sent: yes$/);
  });
});

describe('a change by the client', () => {
  const long = 'The parcel left the warehouse on Monday and arrives on Thursday.';
  const cases: Record<string, [read: TurnBlock[], echo: TurnMessage[]]> = {
    'reasoning left out': [
      [{ type: 'thinking', text: 'Hm.', signature: 's', redacted: false }, text(long)],
      [assistant(text(long))],
    ],
    'reasoning in tags left out': [[text(`<think>Hm.</think>\n${long}`)], [assistant(text(long))]],
    'white space trimmed, an empty text dropped': [
      [text(`  ${long}\n`), text(''), call('c1', 'get', {})],
      [assistant(text(long), call('c1', 'get', {})), result('c1', 'x')],
    ],
    'one text in two messages': [
      [text(long)],
      [assistant(text(long.slice(0, 20))), assistant(text(long.slice(20)))],
    ],
    'a text dropped beside a call': [[text(long), call('c1', 'get', {})], [assistant(call('c1', 'get', {}))]],
    'a text cut off': [[text(long)], [assistant(text(`${long.slice(0, 20)}…`))]],
    'a placeholder': [[call('c1', 'get', {})], [assistant(text('(no content)'), call('c1', 'get', {}))]],
    'another text': [[text(long)], [assistant(text('Forty-two, as ever, is what you were after.'))]],
    'JSON written in another way': [[text('{"a":1,"b":[2]}')], [assistant(text('{ "b": [2], "a": 1.0 }'))]],
    'other quotation marks': [[text('It’s “sent” — today')], [assistant(text('It\'s "sent" - today'))]],
    'other ids for all calls': [[call('c1', 'get', { a: 1 })], [assistant(call('x9', 'get', { a: 1 }))]],
    'null fields left out': [
      [call('c1', 'get', { a: 1, b: null })],
      [assistant(call('c1', 'get', { a: 1 }))],
    ],
    'default values of the schema filled in': [
      [call('c1', 'Edit', { path: 'a', marks: [{ at: 1 }] })],
      [assistant(call('c1', 'Edit', { path: 'a', replace_all: false, marks: [{ at: 1, tries: 2 }] }))],
    ],
    'a default value of the schema left out': [
      [call('c1', 'Edit', { path: 'a', replace_all: false })],
      [assistant(call('c1', 'Edit', { path: 'a' }))],
    ],
    'no arguments and empty ones': [[call('c1', 'get', '')], [assistant(call('c1', 'get', {}))]],
    'keys in another order, a number in another form': [
      [call('c1', 'get', parseExact('{"a":1.0,"b":2}'))],
      [assistant(call('c1', 'get', { b: 2, a: 1 }))],
    ],
    'calls and results in pairs': [
      [call('c1', 'get', { a: 1 }), call('c2', 'get', { a: 2 })],
      [
        assistant(call('c1', 'get', { a: 1 })),
        result('c1', 'x'),
        assistant(call('c2', 'get', { a: 2 })),
        result('c2', 'y'),
      ],
    ],
    'a call told in words': [[call('c1', 'get', { a: 1 })], [assistant(text('I called get with a = 1.'))]],
    'arguments told as the answer': [[call('c1', 'final_result', { a: 1 })], [assistant(text('{"a": 1}'))]],
    'a call that the client made up': [
      [call('toolu_01A', 'get', {})],
      [assistant(call('toolu_01A', 'get', {}), call('auto_load_7', 'search_tools', {}))],
    ],
    'a masked secret': [
      [call('c1', 'sign_in', { key: 'in pieces' })],
      [assistant(call('c1', 'sign_in', { key: '[redacted]' }))],
    ],
    'a lone surrogate replaced': [[text('It is \ud83d here')], [assistant(text('It is \ufffd here'))]],
  };
  for (const [name, [read, echo]] of Object.entries(cases))
    it(name, () => expect(compare(read, echo)).toEqual({ difference: null, compared: 1 }));

  it('may be a repair of arguments in an answer that was cut off', () => {
    const read = [call('c1', 'get', '{"city":"Os')];
    expect(compare(read, [assistant(call('c1', 'get', {}))], 'max_tokens').difference).toBeNull();
  });
});

describe('an echo is found', () => {
  const exchange = { wire: 'messages', is_answered: true };
  const add = (check: EchoCheck, id: number, of: NormalTurn): EchoDifference | null =>
    check.add({ id, ...exchange }, of);

  it('by the id of a call if the history was rewritten', () => {
    const check = new EchoCheck();
    add(check, 1, turn([user('Begin.')], [call('toolu_1', 'get', {})]));
    const summed = [user('Summary of what happened.'), assistant(call('toolu_1', 'get', { a: 1 }))];
    expect(add(check, 2, turn([...summed, result('toolu_1', 'x')]))).toMatchObject({ exchange_id: 1 });
  });

  it('not after a compaction of the history', () => {
    const check = new EchoCheck();
    add(check, 1, turn([user('Begin.')], [text('Begun with the parser.')]));
    expect(add(check, 2, turn([user('Summary.'), assistant(text('Read.')), user('Go on.')]))).toBeNull();
    expect(check.compared).toBe(0);
  });

  it('for either of two answers to one request', () => {
    const check = new EchoCheck();
    add(check, 1, turn([user('Begin.')], [text('One way to begin it.')]));
    add(check, 2, turn([user('Begin.')], [text('Another way to begin it all.')]));
    const echo = assistant(text('One way to begin it.'));
    expect(add(check, 3, turn([user('Begin.'), echo, user('Go on.')]))).toBeNull();
  });

  it('for an answer whose beginning was in its request', () => {
    const check = new EchoCheck();
    add(check, 1, turn([user('Begin.'), assistant(text('{"a":'))], [text('1}')]));
    expect(add(check, 2, turn([user('Begin.'), assistant(text('{"a":1}')), user('Go on.')]))).toBeNull();
    expect(check.compared).toBe(1);
  });

  it('not on another wire, to which the client converts', () => {
    const check = new EchoCheck();
    add(check, 1, turn([user('Begin.')], [text('Begun with half of')]));
    const next = turn([user('Begin.'), assistant(text('Begun with half of it.')), user('Go on.')]);
    expect(check.add({ id: 2, wire: 'responses', is_answered: true }, next)).toBeNull();
  });

  it('once for each answer', () => {
    const check = new EchoCheck();
    const echo = assistant(text('Begun with all of it.'));
    add(check, 1, turn([user('Begin.')], [text('Begun with all')]));
    expect(add(check, 2, turn([user('Begin.'), echo, user('Go on.')], [text('Done.')]))).not.toBeNull();
    const after = [user('Begin.'), echo, user('Go on.'), assistant(text('Done.')), user('More.')];
    expect(add(check, 3, turn(after))).toBeNull();
  });
});

const reported = sharedFile('reported/README.md');

describe.skipIf(!reported.is_there)(`reported conversations ${reported.needed}`, () => {
  const folder = dirname(reported.path);
  const names = reported.is_there
    ? readdirSync(folder)
        .filter((name) => name.endsWith('.0.request'))
        .map((name) => name.slice(0, -'.0.request'.length))
    : [];

  it('contain each answer as it was read', () => {
    let compared = 0;
    for (const name of names) {
      const check = new EchoCheck();
      for (let id = 0; existsSync(join(folder, `${name}.${id}.request`)); id++) {
        const [request, response] = ['request', 'response'].map((side) =>
          readFileSync(join(folder, `${name}.${id}.${side}`)),
        );
        const shape = request!.includes('"messages"')
          ? /message_start|"type": ?"message"/.test(response!.toString())
            ? 'messages'
            : 'chat_completions'
          : 'responses';
        const type = response!.toString().startsWith('{') ? 'application/json' : 'text/event-stream';
        const read = normalizeTurn({
          shape,
          path: '/',
          status: 200,
          request_headers: [],
          response_headers: ['content-type', type],
          request_body: request!,
          response_body: response!,
          truncated: false,
        });
        if (read === null) continue;
        const exchange = { id: id + 1, wire: shape, is_answered: read.answer.stop_reason !== null };
        expect(check.add(exchange, read), name).toBeNull();
      }
      compared += check.compared;
    }
    expect(compared).toBeGreaterThan(15);
  });
});

describe.skipIf(!haveRecordings)('recorded conversations (../shared/recordings)', () => {
  function* checked(change: (turn: NormalTurn) => NormalTurn | null) {
    for (const file of ['mirascope', 'pydantic-ai'] as const) {
      let source = '';
      let check = new EchoCheck();
      let id = 0;
      for (const { line, stored } of readRecordings(file)) {
        const itsSource = line.source.replace(/#\d+$/, '');
        if (itsSource !== source) check = new EchoCheck();
        source = itsSource;
        const read = normalizeTurn(stored);
        if (read === null) continue;
        const is_answered = stored.status === 200 && read.answer.stop_reason !== null;
        const before = check.compared;
        const changed = change(read);
        const difference = check.add({ id: ++id, wire: stored.shape, is_answered }, changed ?? read);
        yield { source, difference, compared: check.compared - before };
      }
    }
  }

  it('contain each answer as it was read', { tags: 'long' }, () => {
    let compared = 0;
    for (const run of checked(() => null)) {
      compared += run.compared;
      expect(run.difference, run.source).toBeNull();
    }
    expect(compared).toBeGreaterThan(700);
  });

  it('show arguments that were lost', { tags: 'long' }, () => {
    let found = 0;
    const lose = (read: NormalTurn): NormalTurn => {
      const content = read.answer.content.map((block) =>
        block.type === 'tool_call' ? { ...block, input: {} } : block,
      );
      return { ...read, answer: { ...read.answer, content } };
    };
    for (const { difference } of checked(lose)) if (difference !== null) found += 1;
    expect(found).toBeGreaterThan(200);
  });
});

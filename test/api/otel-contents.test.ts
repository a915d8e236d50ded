/**
 * Calls and tasks in agents' telemetry, over real sockets: cases that users reported, and similar ones. Contents that
 * are not sent are unknown, each call is one step, and numbers keep their digits.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { sharedFile } from '../fixtures/shared.ts';

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

type Value = string | number | boolean | { raw: object };

function attributesOf(fields: Record<string, Value>): object[] {
  return Object.entries(fields).map(([key, value]) => ({ key, value: otlpValue(value) }));
}

function otlpValue(value: Value): object {
  if (typeof value === 'object') return value.raw;
  if (typeof value === 'string') return { stringValue: value };
  return typeof value === 'boolean' ? { boolValue: value } : { intValue: String(value) };
}

let spans = 0;

interface MadeSpan {
  name?: string;
  scope?: string;
  at?: number;
  parent?: string;
  id?: string;
  attributes: Record<string, Value>;
  events?: { name: string; attributes: Record<string, Value> }[];
  status?: object;
}

const AT = 1_795_834_534_000n;

/** A span of the conversation `session`. Without a parent it has a separate trace. */
function makeSpan(
  session: string,
  { name = 'span', at, id, parent, attributes, events = [], status }: MadeSpan,
): object {
  spans += 1;
  const start = (AT + BigInt(at ?? spans)) * 1_000_000n;
  return {
    traceId: 'ab'.repeat(16),
    spanId: id ?? spans.toString(16).padStart(16, '0'),
    parentSpanId: parent ?? '',
    name,
    startTimeUnixNano: String(start),
    endTimeUnixNano: String(start + 1_000_000n),
    attributes: attributesOf({ 'session.id': session, ...attributes }),
    events: events.map((event) => ({ name: event.name, attributes: attributesOf(event.attributes) })),
    ...(status === undefined ? {} : { status }),
  };
}

async function send(path: string, body: unknown): Promise<void> {
  const answer = await api.post(path, body);
  expect([answer.status, answer.text]).toEqual([200, '{}']);
}

const sendSpans = (session: string, ...made: MadeSpan[]) =>
  sendRaw(made.map((span) => makeSpan(session, span)));

const sendRaw = (made: object[]) =>
  send('/otel/v1/traces', { resourceSpans: [{ scopeSpans: [{ scope: { name: 'x' }, spans: made }] }] });

async function readRun(run_id: string) {
  const run = (await api.get(`/v1/monitor/runs/${run_id}`)).body;
  const { steps } = (await api.get(`/v1/monitor/runs/${run_id}/steps`)).body as {
    steps: Record<string, unknown>[];
  };
  return { run, steps, fired: steps.flatMap(({ fired }) => fired as string[]) };
}

const tool = (name: string, more: Record<string, Value> = {}): Record<string, Value> => ({
  'gen_ai.operation.name': 'execute_tool',
  'gen_ai.tool.name': name,
  ...more,
});

const chat = (messages: object[]): Record<string, Value> => ({
  'gen_ai.operation.name': 'chat',
  'gen_ai.input.messages': JSON.stringify(messages),
});
const user = (content: string) => ({ role: 'user', parts: [{ type: 'text', content }] });
const call = (id: string, name: string, args: unknown = {}) => ({
  role: 'assistant',
  parts: [{ type: 'tool_call', id, name, arguments: args }],
});
const result = (id: string, response: unknown) => ({
  role: 'tool',
  parts: [{ type: 'tool_call_response', id, response }],
});

describe('a reported case gives the right steps', () => {
  const CASES: Record<string, { run: string; task?: string; steps: object[] }> = {
    'otlp-no-content': {
      run: 'no-content',
      steps: Array(5).fill({ action: 'read_file', action_input: null, observation: null, is_error: false }),
    },
    'otlp-claude-code-no-details': {
      run: 'cc-no-details',
      steps: Array(5).fill({ action: 'Read', action_input: null, observation: null, is_error: false }),
    },
    'otlp-i3-constant-call-id': {
      run: 'i3',
      steps: ['list_dir', 'read_file', 'run_tests', 'edit'].map((action, n) => ({
        action,
        action_input: `{"n":${n}}`,
        observation: `result ${n}`,
      })),
    },
    'otlp-j1-strands-events': {
      run: 'j1',
      steps: [
        { action_input: '{"caseId":"abc"}', observation: 'Case abc is open', is_error: false },
        { action_input: '{"caseId":"xyz"}', observation: 'Error: no such case', is_error: true },
      ],
    },
    'otlp-j2-strands-latest-convention': {
      run: 'j2',
      steps: [{ action_input: '{"caseId":"abc"}', observation: 'Case abc is open' }],
    },
    'otlp-k1-separate-assistant-messages': {
      run: 'k1',
      task: 'Weather and time in Oslo, both please',
      steps: [
        { action: 'get_weather', observation: 'rain' },
        { action: 'get_time', observation: '12:00' },
      ],
    },
    'otlp-k2-control-one-assistant-message': {
      run: 'k2',
      steps: [
        { action: 'get_weather', action_input: '{"city":"Oslo"}', observation: 'rain' },
        { action: 'get_time', action_input: '{"zone":"UTC"}', observation: '12:00' },
      ],
    },
    'otlp-k5-result-field': {
      run: 'k5',
      steps: [{ action: 'get_weather', action_input: '{"city":"Oslo"}', observation: 'rain' }],
    },
    'otlp-m1-status-name': { run: 'm1', steps: Array(3).fill({ is_error: true, observation: 'boom' }) },
    'otlp-q1-openinference-contents': { run: 'q1', task: 'Mend the parser', steps: [{ action: 'grep' }] },
    'otlp-q2-openllmetry-prompts': { run: 'q2', task: 'Mend the parser', steps: [{ action: 'grep' }] },
  };

  for (const [name, { run, task, steps }] of Object.entries(CASES)) {
    const file = sharedFile(`reported/${name}.json`);
    it.skipIf(!file.is_there)(`${name} ${file.needed}`, async () => {
      const body = JSON.parse(readFileSync(file.path, 'utf8')) as object;
      const path = 'resourceLogs' in body ? '/otel/v1/logs' : '/otel/v1/traces';
      await send(path, body);
      await send(path, body);
      const read = await readRun(run);
      expect(read.steps).toMatchObject(steps);
      expect(read.fired).toEqual([]);
      if (task !== undefined) expect(read.run).toMatchObject({ task });
    });
  }

  const turns = sharedFile('reported/otlp-i4-ids-begin-anew-each-turn.json');
  it.skipIf(!turns.is_there)(`ids that begin anew each turn ${turns.needed}`, async () => {
    const first = readFileSync(turns.path, 'utf8');
    // The second turn: the same ids of calls, in separate spans.
    const second = first
      .replace(/"spanId": *"0000000000000013"/, '"spanId":"0000000000000015"')
      .replace(/"spanId": *"0000000000000014"/, '"spanId":"0000000000000016"');
    for (const body of [first, second, first, second]) await send('/otel/v1/traces', JSON.parse(body));
    expect((await readRun('i4')).steps).toHaveLength(4);
  });
});

describe('contents that are not sent', () => {
  it.each<[string, Record<string, Value>]>([
    ['GenAI', tool('search')],
    [
      'OpenInference',
      { 'openinference.span.kind': 'TOOL', 'tool.name': 'search', 'tool.parameters': '{"q":"str"}' },
    ],
    [
      'OpenInference, hidden',
      {
        'openinference.span.kind': 'TOOL',
        'tool.name': 'search',
        'input.value': '__REDACTED__',
        'output.value': '__REDACTED__',
      },
    ],
    ['OpenLLMetry', { 'traceloop.span.kind': 'tool', 'traceloop.entity.name': 'search' }],
    ['LangSmith', { 'langsmith.span.kind': 'tool', 'gen_ai.tool.name': 'search' }],
    ['AI SDK', { 'ai.operationId': 'ai.toolCall', 'ai.toolCall.name': 'search', 'ai.toolCall.id': 'c' }],
    ['failures by their class alone', tool('search', { 'error.type': 'ToolError' })],
  ])('are unknown, and their steps raise no alarm: spans of %s', async (name, attributes) => {
    const session = `untold ${name}`;
    await sendSpans(session, ...Array.from({ length: 12 }, () => ({ attributes })));
    const { steps, fired } = await readRun(encodeURIComponent(session));
    expect(steps).toHaveLength(12);
    expect(steps[11]).toMatchObject({ action: 'search', action_input: null, observation: null });
    expect(fired).toEqual([]);
  });

  it.each<[string, Record<string, Value>]>([
    [
      'Claude Code',
      { tool_name: 'mcp_tool', tool_parameters: '{"mcp_server_name":"a","mcp_tool_name":"b"}' },
    ],
    ['failures by their class', { tool_name: 'Bash', success: 'false', error_type: 'ShellError' }],
  ])('are unknown, and their steps raise no alarm: events of %s', async (name, attributes) => {
    const session = `events ${name}`;
    const logRecords = Array.from({ length: 12 }, (_, at) => ({
      timeUnixNano: String((AT + BigInt(at)) * 1_000_000n),
      body: { stringValue: 'claude_code.tool_result' },
      attributes: attributesOf({
        'event.name': 'tool_result',
        'session.id': session,
        tool_use_id: `t${at}`,
        ...attributes,
      }),
    }));
    await send('/otel/v1/logs', {
      resourceLogs: [{ scopeLogs: [{ scope: { name: 'com.anthropic.claude_code.events' }, logRecords }] }],
    });
    const { steps, fired } = await readRun(encodeURIComponent(session));
    expect(steps).toHaveLength(12);
    expect(steps[11]).toMatchObject({ action_input: null, observation: null });
    expect(fired).toEqual([]);
  });

  it('are not the same as empty contents, which can make a loop', async () => {
    const attributes = tool('list', {
      'gen_ai.tool.call.arguments': '{"of":"x"}',
      'gen_ai.tool.call.result': '',
    });
    await sendSpans('told-empty', ...Array.from({ length: 5 }, () => ({ attributes })));
    const { steps, fired } = await readRun('told-empty');
    expect(steps[0]).toMatchObject({ action_input: '{"of":"x"}', observation: '' });
    expect(fired).toContain('infinite_loop');
  });
});

describe('a call is one step', () => {
  it("if Traceloop's wrapper and the model’s messages contain it, in one request or in two", async () => {
    const wrapper = {
      name: 'get_weather.tool',
      attributes: {
        'traceloop.span.kind': 'tool',
        'traceloop.entity.name': 'get_weather',
        'traceloop.entity.input': '{"args":["Oslo"],"kwargs":{}}',
        'traceloop.entity.output': '"rain"',
      },
    };
    const first = { attributes: chat([user('Weather?'), call('c1', 'get_weather'), result('c1', 'rain')]) };
    const second = {
      attributes: chat([
        user('Weather?'),
        call('c1', 'get_weather'),
        result('c1', 'rain'),
        call('c2', 'get_weather'),
        result('c2', 'snow'),
      ]),
    };
    await sendSpans('wrapped', wrapper, first);
    await sendSpans('wrapped', wrapper);
    await sendSpans('wrapped', second);
    expect((await readRun('wrapped')).run).toMatchObject({ steps: 2, task: 'Weather?' });
  });

  it('if a tool span and the messages contain it, with one id for all calls', async () => {
    const messages: object[] = [user('Go')];
    for (let n = 0; n < 3; n++) {
      messages.push(call('same', 'look', { n }), result('same', `result ${n}`));
      await sendSpans(
        'same-id',
        {
          attributes: tool('look', {
            'gen_ai.tool.call.id': 'same',
            'gen_ai.tool.call.arguments': `{"n":${n}}`,
          }),
        },
        { attributes: chat(messages) },
      );
    }
    const { steps } = await readRun('same-id');
    expect(steps.map(({ action_input }) => action_input)).toEqual(['{"n":0}', '{"n":1}', '{"n":2}']);
  });

  it('with its failure, even if all calls have one id', async () => {
    const attributes = tool('look', { 'gen_ai.tool.call.id': 'same' });
    await sendSpans(
      'failures',
      { attributes },
      { attributes, status: { code: 2, message: 'gone' } },
      { attributes },
    );
    const { steps } = await readRun('failures');
    expect(steps.map(({ is_error }) => is_error)).toEqual([false, true, false]);
  });

  it("with the outcome that a child span of Claude Code's tool span contains", async () => {
    await sendSpans(
      'execution',
      { id: 'aaaaaaaaaaaaaaaa', name: 'claude_code.tool', attributes: tool('Bash', { full_command: 'ls' }) },
      {
        parent: 'aaaaaaaaaaaaaaaa',
        name: 'claude_code.tool.execution',
        attributes: { success: false, error: 'exit 2' },
      },
    );
    expect((await readRun('execution')).steps).toMatchObject([
      { action_input: 'ls', observation: 'exit 2', is_error: true },
    ]);
  });

  it('with its result, also if two results in one answer have the same id', async () => {
    const both = {
      role: 'assistant',
      parts: [...call('c', 'one', { n: 1 }).parts, ...call('c', 'two', { n: 2 }).parts],
    };
    await sendSpans('twice', {
      attributes: chat([user('Go'), both, result('c', 'first'), result('c', 'second')]),
    });
    expect((await readRun('twice')).steps).toMatchObject([
      { action: 'one', observation: 'first' },
      { action: 'two', observation: 'second' },
    ]);
  });

  it('also if three messages contain the calls of one answer, with its text', async () => {
    const said = { role: 'assistant', parts: [{ type: 'text', content: 'I look at both.' }] };
    await sendSpans('three', {
      attributes: chat([
        user('Go'),
        said,
        call('a', 'x'),
        call('b', 'y'),
        result('b', '2'),
        result('a', '1'),
      ]),
    });
    expect((await readRun('three')).steps).toMatchObject([
      { action: 'y', observation: '2', thought: 'I look at both.' },
      { action: 'x', observation: '1' },
    ]);
  });
});

describe('failures and numbers', () => {
  it.each([2, '2', 'STATUS_CODE_ERROR', 'ERROR'])('a status of %j is an error', async (code) => {
    await sendSpans(`status ${JSON.stringify(code)}`, {
      attributes: tool('t'),
      status: { code, message: 'boom' },
    });
    const { steps } = await readRun(encodeURIComponent(`status ${JSON.stringify(code)}`));
    expect(steps).toMatchObject([{ is_error: true, observation: 'boom' }]);
  });

  it.each([0, 1, 'STATUS_CODE_OK', 'STATUS_CODE_UNSET', null])(
    'a status of %j is no failure',
    async (code) => {
      await sendSpans(`status ${JSON.stringify(code)}`, { attributes: tool('t'), status: { code } });
      expect((await readRun(encodeURIComponent(`status ${JSON.stringify(code)}`))).steps).toMatchObject([
        { is_error: false },
      ]);
    },
  );

  it('numbers keep their digits in texts, in values and as bare JSON', async () => {
    const big = '2512292042121000001';
    const pair = (key: string, value: object) => ({ key, value });
    const kvlist = {
      raw: { kvlistValue: { values: [pair('id', { intValue: big }), pair('part', { doubleValue: 0.5 })] } },
    };
    const response = { raw: { stringValue: `{"id":${big}}` } };
    const attributes = tool('t', {
      'gen_ai.tool.call.arguments': kvlist,
      'gen_ai.tool.call.result': response,
    });
    await sendSpans('digits', { attributes });
    const messages = `[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"u","arguments":{"id":${big}}}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":{"id":${big}}}]}]`;
    await sendSpans('digits', { attributes: { 'gen_ai.input.messages': messages } });
    const bare = JSON.stringify({
      resourceSpans: [
        {
          scopeSpans: [
            {
              spans: [
                makeSpan('digits', {
                  attributes: tool('v', { 'gen_ai.tool.call.arguments': { raw: { intValue: 'BIG' } } }),
                }),
              ],
            },
          ],
        },
      ],
    }).replace('"BIG"', big);
    expect((await api.post('/otel/v1/traces', bare)).status).toBe(200);
    expect((await readRun('digits')).steps).toMatchObject([
      { action_input: `{"id":${big},"part":0.5}`, observation: `{"id":${big}}` },
      { action_input: `{"id":${big}}`, observation: `{"id":${big}}` },
      { action_input: big },
    ]);
  });
});

describe('the task', () => {
  const openinference = (at: number, fields: Record<string, string>) =>
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [`llm.input_messages.${at}.message.${name}`, value]),
    );
  it.each<[string, MadeSpan]>([
    [
      'parts of OpenInference',
      {
        attributes: {
          ...openinference(0, { role: 'tool', content: 'a result' }),
          ...openinference(10, { role: 'user', content: 'Later' }),
          ...openinference(2, {
            role: 'user',
            'contents.0.message_content.type': 'image',
            'contents.1.message_content.type': 'text',
            'contents.1.message_content.text': 'Mend it',
          }),
        },
      },
    ],
    [
      'numbered prompts, of which a result comes first',
      {
        attributes: {
          'gen_ai.prompt.0.role': 'system',
          'gen_ai.prompt.0.content': 'You are x',
          'gen_ai.prompt.1.role': 'user',
          'gen_ai.prompt.1.content': '[{"type":"tool_result","content":"a result"}]',
          'gen_ai.prompt.2.role': 'user',
          'gen_ai.prompt.2.content': '[{"type":"text","text":"Mend it"}]',
        },
      },
    ],
    [
      'an event for each message',
      {
        attributes: { 'gen_ai.operation.name': 'chat' },
        events: [
          { name: 'gen_ai.system.message', attributes: { content: 'You are x' } },
          { name: 'gen_ai.tool.message', attributes: { content: 'a result' } },
          { name: 'gen_ai.user.message', attributes: { content: '[{"text":"Mend it"}]' } },
        ],
      },
    ],
    [
      'the messages in an event',
      {
        attributes: { 'gen_ai.operation.name': 'chat' },
        events: [
          {
            name: 'gen_ai.client.inference.operation.details',
            attributes: {
              'gen_ai.input.messages': JSON.stringify([
                { role: 'user', parts: result('c', 'a result').parts },
                user('Mend it'),
              ]),
            },
          },
        ],
      },
    ],
    [
      'AI SDK',
      {
        attributes: {
          'ai.prompt':
            '{"messages":[{"role":"tool","content":[{"type":"tool-result"}]},{"role":"user","content":[{"type":"text","text":"Mend it"}]}]}',
        },
      },
    ],
  ])('is found in the messages: %s', async (name, span) => {
    const session = `task ${name}`;
    await sendSpans(session, span, { attributes: tool('grep') });
    expect((await readRun(encodeURIComponent(session))).run).toMatchObject({ task: 'Mend it', steps: 1 });
  });

  it('is not taken from a tool’s input or output', async () => {
    const events = [
      {
        name: 'gen_ai.client.inference.operation.details',
        attributes: { 'gen_ai.input.messages': JSON.stringify([user('an input')]) },
      },
    ];
    await sendSpans(
      'no-task',
      { attributes: tool('grep', { user_prompt: 'x' }), events },
      {
        attributes: {
          ...openinference(1, { role: 'tool', content: 'a result' }),
          ...openinference(0, { role: 'assistant', content: 'I look' }),
        },
      },
    );
    expect((await readRun('no-task')).run).toMatchObject({ task: '' });
  });
});

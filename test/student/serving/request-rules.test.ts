/** Which requests the upstream may refuse. The student does not serve these. */
import { describe, expect, it } from 'vitest';
import { endsWithUser, findBreaches } from '../../../src/student/serving/request-rules.ts';

const isValidRequest = (body: unknown, version: '2023-06-01' | '2026-10-21') =>
  findBreaches(body, version).length === 0;
const TOOL = { name: 'look', input_schema: { type: 'object' } };
const ask = { role: 'user', content: 'hello' };
const call = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} });
const result = (id: string, more: object = {}) => ({ type: 'tool_result', tool_use_id: id, ...more });
const good = { model: 'm', max_tokens: 1, messages: [ask], tools: [TOOL] };
const said = (...messages: unknown[]) => ({ ...good, messages });
const user = (...content: unknown[]) => ({ role: 'user', content });
const assistant = (...content: unknown[]) => ({ role: 'assistant', content });
const marked = (count: number) =>
  Array.from({ length: count }, () => ({ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }));

describe('a request', () => {
  it.each([
    good,
    { ...good, tools: undefined },
    { ...good, system: '' },
    { ...good, system: [{ type: 'text', text: 'a' }], stream: true, temperature: 1, top_p: 0, top_k: 3 },
    { ...good, stop_sequences: ['a'], metadata: { user_id: 'u' }, a_field_of_tomorrow: 1 },
    { ...good, tool_choice: { type: 'tool', name: 'look' } },
    { ...good, tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    { ...good, tools: [TOOL, { type: 'bash_20250124', name: 'bash' }] },
    said(ask, ask),
    said(ask, assistant(call('a'), call('b')), user(result('b'), result('a'), { type: 'text', text: 'and' })),
    said(ask, assistant(call('a')), user(result('a', { content: [{ type: 'text', text: 'x' }] }))),
    said(ask, assistant({ type: 'thinking', thinking: '', signature: 's' }, call('a')), user(result('a'))),
    said(ask, { role: 'assistant', content: '' }),
    said(user({ type: 'image', source: {} }, { type: 'text', text: 'a' })),
    { ...good, thinking: { type: 'enabled', budget_tokens: 1_024 }, max_tokens: 1_025 },
    { ...good, thinking: { type: 'adaptive', display: 'omitted' } },
    { ...good, thinking: { type: 'disabled' } },
    { ...good, output_format: { type: 'json_schema', schema: {} } },
    { ...good, metadata: {} },
    { ...good, metadata: { user_id: null } },
    { ...good, container: null, output_format: null, cache_control: null },
    { ...good, cache_control: { type: 'ephemeral', ttl: '1h' } },
    said(user(...marked(4))),
  ])('is one that the upstream takes: %j', (body) => {
    expect(isValidRequest(body, '2023-06-01')).toBe(true);
  });

  const bad: unknown[] = [
    null,
    [],
    'text',
    {},
    { ...good, model: '' },
    { ...good, model: 5 },
    { ...good, max_tokens: 0 },
    { ...good, max_tokens: '1' },
    { ...good, max_tokens: undefined },
    { ...good, max_tokens: 1.5 },
    { ...good, messages: [] },
    { ...good, messages: {} },
    { ...good, stream: 'yes' },
    { ...good, system: [{ type: 'text', text: '' }] },
    { ...good, system: 5 },
    { ...good, stop_sequences: [''] },
    { ...good, stop_sequences: 'a' },
    { ...good, temperature: 1.1 },
    { ...good, temperature: '1' },
    { ...good, metadata: 'm' },
    { ...good, metadata: { user_id: 7 } },
    { ...good, metadata: { user_id: 'u'.repeat(257) } },
    { ...good, metadata: { user_id: 'u', team: 't' } },
    { ...good, tools: [TOOL, TOOL] },
    { ...good, tools: [{ name: 'a b', input_schema: { type: 'object' } }] },
    { ...good, tools: [{ name: 'a', input_schema: { type: 'string' } }] },
    { ...good, tools: [{ name: 'a' }] },
    { ...good, tools: {} },
    { ...good, tools: undefined, tool_choice: { type: 'auto' } },
    { ...good, tools: [], tool_choice: { type: 'any' } },
    { ...good, tool_choice: { type: 'tool', name: 'other' } },
    { ...good, tool_choice: { type: 'sometimes' } },
    { ...good, tool_choice: 'auto' },
    said({ role: 'assistant', content: 'first' }),
    said({ role: 'system', content: 'a' }, ask),
    said(ask, { role: 'tool', content: 'a' }),
    said({ role: 'user', content: '' }),
    said({ role: 'user', content: [] }),
    said({ role: 'user' }),
    said(user({ type: 'text', text: '' })),
    said(user({ type: 'text' })),
    said(user('text')),
    said(user({ type: 'text', text: 'a', citations: [{}] })),
    said(user(call('a'))),
    said(user(result('a'))),
    said(ask, assistant(call('a')), ask),
    said(ask, assistant(call('a')), user(result('b'))),
    said(ask, assistant(call('a')), user(result('a'), result('a'))),
    said(ask, assistant(call('a'), call('a')), user(result('a'))),
    said(ask, assistant(call('a'))),
    said(ask, assistant(call('a')), { role: 'user', content: 'no result' }),
    said(ask, assistant({ ...call('a'), input: 'text' }), user(result('a'))),
    said(ask, assistant({ ...call('a'), id: 'a b' }), user(result('a'))),
    said(ask, assistant(call('a')), user(result('a', { content: 5 }))),
    said(ask, assistant(call('a')), user(result('a', { is_error: 'yes' }))),
    said(ask, assistant(result('a')), ask),
    said(ask, assistant({ type: 'image', source: {} }), ask),
    said(user(...marked(5))),
    { ...said(user(...marked(4))), cache_control: { type: 'ephemeral' } },
    said(user({ type: 'text', text: 'a', cache_control: {} })),
    said(user({ type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '2h' } })),
    { ...good, cache_control: 'ephemeral' },
    // An unknown type may require blocks that no student can give.
    { ...good, thinking: { type: 'between_tools' } },
    { ...good, thinking: { type: 'enabled' }, max_tokens: 2_000 },
    { ...good, thinking: { type: 'enabled', budget_tokens: 1_023 }, max_tokens: 2_000 },
    { ...good, thinking: { type: 'enabled', budget_tokens: 2_000 }, max_tokens: 2_000 },
    { ...good, thinking: 'on' },
    { ...good, thinking: null },
    { ...good, output_format: 'json' },
    { ...good, output_format: { type: 'text' } },
    { ...good, a_field_of_tomorrow: null },
    JSON.parse(
      '{"__proto__": {"temperature": 0}, "model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}',
    ),
  ];
  it.each(bad)('may be refused by the upstream: %j', (body) => {
    expect(isValidRequest(body, '2023-06-01')).toBe(false);
  });

  it.each(['temperature', 'top_p', 'top_k'])(
    'may be refused by the upstream with %s from 2026-10-21 on',
    (name) => {
      const body = { ...good, [name]: 1 };
      expect(isValidRequest(body, '2023-06-01')).toBe(true);
      expect(isValidRequest(body, '2026-10-21')).toBe(false);
      expect(isValidRequest(good, '2026-10-21')).toBe(true);
    },
  );

  it('is recognized if it contains the beginning of the answer', () => {
    expect(endsWithUser(good)).toBe(true);
    expect(endsWithUser(said(ask, { role: 'assistant', content: 'The' }))).toBe(false);
  });

  it('may be nested 20,000 levels deep', () => {
    let content: unknown = [];
    for (let depth = 0; depth < 20_000; depth++) content = [{ type: 'text', text: 'a', content }];
    expect(isValidRequest(said({ role: 'user', content }), '2023-06-01')).toBe(true);
  });
});

describe('a broken rule', () => {
  it('has a name, so that golden requests can show that the upstream accepts it', () => {
    const breaches = (body: unknown) => findBreaches(body, '2023-06-01');
    expect(breaches(good)).toEqual([]);
    expect(breaches(said(ask, { role: 'system', content: 'Agents: a, b' }))).toEqual(['role system']);
    // Here a message of another role is between a call and its result.
    const between = { role: 'system', content: [{ type: 'text', text: 'a reminder' }] };
    expect(breaches(said(ask, assistant(call('a')), between, user(result('a'))))).toEqual(['role system']);
    expect(breaches(said(ask, assistant(call('a')), between))).toEqual(['results', 'role system']);
    expect(breaches({ ...good, metadata: { user_id: 'u'.repeat(300) }, max_tokens: 0 })).toEqual([
      'max_tokens',
      'metadata',
    ]);
    expect(breaches({ ...good, tomorrow: null })).toEqual(['field tomorrow']);
    expect(breaches(null)).toContain('messages');
  });

  it('has a name of bounded length for any request', () => {
    const fields = Object.fromEntries(
      Array.from({ length: 500 }, (_, i) => [`${i}${'x'.repeat(900)}`, null]),
    );
    const breaches = findBreaches({ ...good, ...fields }, '2023-06-01');
    expect(JSON.stringify(breaches).length).toBeLessThan(3_000);
    expect(breaches.length).toBeGreaterThan(0);
  });
});

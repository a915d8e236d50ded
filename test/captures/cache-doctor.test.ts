/**
 * Each cause of a cache miss, in the wire formats of providers that cache: made-up conversations with the counts that
 * the provider reports.
 */
import { describe, expect, it } from 'vitest';
import { CacheDoctor } from '../../src/captures/cache-doctor.ts';
import { CacheSum } from '../../src/captures/cache-sum.ts';
import type { CacheLook } from '../../src/domain/cache-miss.ts';
import { MadeSource } from './made-run.ts';

const PRICES = { 'claude-x': { input: 10, output: 50, cache_read: 1, cache_write: 12.5 } };
const MARK = { cache_control: { type: 'ephemeral' } };

const tool = (name: string, more: object = {}) => ({
  name,
  description: `The tool ${name}. ${'It reads what is there. '.repeat(40)}`,
  input_schema: { type: 'object', properties: { path: { type: 'string' }, depth: { type: 'integer' } } },
  ...more,
});
const TOOLS = [tool('Read'), tool('Edit'), tool('Bash')];
const SYSTEM = `You mend code. ${'Read before you write. '.repeat(200)}`;
const OPENING = { role: 'user', content: 'Mend the parser.' };
const SAID = { role: 'assistant', content: [{ type: 'text', text: 'I read it first.' }] };
const LONG = {
  role: 'assistant',
  content: [{ type: 'text', text: `I read it. ${'It is long. '.repeat(50)}` }],
};

/**
 * A turn whose request has tools, a system prompt and messages. Its cache points are the system prompt and the last
 * block, unless `marked` is false.
 */
interface MadeTurn {
  run?: string;
  tools?: object[];
  system?: string;
  messages?: object[];
  body?: object;
  model?: string;
  /** [input, read, written] tokens. */
  usage: [number, number, number];
  /** Minutes after the first turn. */
  at?: number;
  marked?: boolean;
  answer?: string;
}

function addTurn(source: MadeSource, turn: MadeTurn): void {
  const { usage, marked = true, messages = [OPENING], model = 'claude-x' } = turn;
  const [input, read, written] = usage;
  const last = messages.at(-1) as { role: string; content: string | object[] };
  const blocks = typeof last.content === 'string' ? [{ type: 'text', text: last.content }] : last.content;
  const end = marked ? [...blocks.slice(0, -1), { ...blocks.at(-1), ...MARK }] : blocks;
  const record = source.add({
    run_id: turn.run ?? 'run-1',
    request: {
      model,
      tools: turn.tools ?? TOOLS,
      system: [{ type: 'text', text: turn.system ?? SYSTEM, ...(marked ? MARK : {}) }],
      messages: [...messages.slice(0, -1), { role: last.role, content: end }],
      ...turn.body,
    },
    response: {
      type: 'message',
      role: 'assistant',
      model,
      content: [{ type: 'text', text: turn.answer ?? 'I read it first.' }],
      stop_reason: 'end_turn',
      usage: {
        input_tokens: input,
        output_tokens: 10,
        cache_read_input_tokens: read,
        cache_creation_input_tokens: written,
      },
    },
  });
  record.started_at = new Date(Date.UTC(2026, 0, 2) + (turn.at ?? record.id / 60) * 60_000).toISOString();
}

/** Two turns of a conversation; the second misses the cache. */
function missAfter(second: Partial<MadeTurn>, first: Partial<MadeTurn> = {}): CacheLook {
  const source = new MadeSource();
  addTurn(source, { usage: [5, 0, 9_000], at: 0, ...first });
  addTurn(source, {
    messages: [OPENING, SAID, { role: 'user', content: 'Go on.' }],
    usage: [5, 0, 9_050],
    at: 1,
    ...second,
  });
  const looks = [...new CacheDoctor(source, PRICES).examineRun('run-1')];
  expect(looks.map(({ verdict }) => verdict)).toEqual(['first', 'miss']);
  return looks[1]!;
}

describe('a turn that reads less from the cache than it could', () => {
  it('names the first tool that moved if the order of tools changed', () => {
    const look = missAfter({ tools: [TOOLS[1]!, TOOLS[0]!, TOOLS[2]!] });
    expect(look).toMatchObject({ cause: 'tools_reordered', lost_tokens: 9_000, expected_tokens: 9_000 });
    expect(look.difference).toMatchObject({ place: 'tool 1 (Edit)', offset: 9 });
    // 9,000 tokens written for $12.50 a million instead of read for $1.
    expect(look.cost_usd).toBeCloseTo((9_000 * 11.5) / 1e6, 9);
  });

  it.each<[string, Partial<MadeTurn>, string, string, Partial<MadeTurn>?]>([
    ['a tool more', { tools: [...TOOLS, tool('Grep')] }, 'tools_changed', 'tool 4 (Grep)'],
    ['a tool less', { tools: TOOLS.slice(0, 2) }, 'tools_changed', 'system'],
    [
      'another declaration',
      { tools: [tool('Read', { description: 'New.' }), ...TOOLS.slice(1)] },
      'tool_changed',
      'tool 1 (Read)',
    ],
    [
      'the keys of a schema in another order',
      {
        tools: [
          tool('Read', {
            input_schema: {
              properties: { path: { type: 'string' }, depth: { type: 'integer' } },
              type: 'object',
            },
          }),
          ...TOOLS.slice(1),
        ],
      },
      'keys_reordered',
      'tool 1 (Read)',
    ],
    ['another system prompt', { system: SYSTEM.replace('mend', 'write') }, 'system_changed', 'system'],
    ['a setting', { body: { tool_choice: { type: 'any' } } }, 'setting_changed', 'the setting tool_choice'],
    [
      'an earlier message that was edited',
      {
        usage: [5, 3_000, 6_050],
        messages: [{ role: 'user', content: 'Mend it.' }, LONG, { role: 'user', content: 'Go on.' }],
      },
      'history_changed',
      'message 1',
      {
        messages: [{ role: 'user', content: 'Mend the parser.' }, LONG, { role: 'user', content: 'Begin.' }],
      },
    ],
  ])('%s', (_case, second, cause, place, first) => {
    const look = missAfter(second, first);
    expect(look.cause).toBe(cause);
    expect(look.difference?.place).toBe(place);
  });

  it.each([
    ['an ISO date', 'Today is 2026-01-02.', 'Today is 2026-01-03.', 'time_in_prompt'],
    ['a day in words', 'It is Friday, January 2.', 'It is Saturday, January 3.', 'time_in_prompt'],
    ['the day of a month', 'It is 2 January 2026.', 'It is 3 January 2026.', 'time_in_prompt'],
    ['a time', 'Started at 09:59.', 'Started at 10:04.', 'time_in_prompt'],
    ['seconds since the epoch', 'now=1767312000', 'now=1767312060', 'time_in_prompt'],
    [
      'a UUID',
      'id 0b5c3a52-7d0e-4d5a-9a3f-0c1d2e3f4a5b',
      'id 7b5c3a52-7d0e-4d5a-9a3f-0c1d2e3f4a5b',
      'id_in_prompt',
    ],
    ['a random word', 'trace 9f8e7d6c5b4a3', 'trace 1a2b3c4d5e6f7', 'id_in_prompt'],
    ['an amount', 'Spend at most 20 dollars.', 'Spend at most 30 dollars.', 'system_changed'],
  ])('has as its cause the change of %s in the system prompt', (_case, before, after, cause) => {
    const look = missAfter({ system: `${after} ${SYSTEM}` }, { system: `${before} ${SYSTEM}` });
    expect(look.cause).toBe(cause);
    expect(look.difference?.before.startsWith(before)).toBe(true);
    expect(look.difference?.after.startsWith(after)).toBe(true);
  });

  it('has another model as its cause, with both names', () => {
    expect(missAfter({ model: 'claude-y' })).toMatchObject({
      cause: 'model_changed',
      words: expect.stringContaining('claude-x, then claude-y'),
      cost_usd: null,
    });
  });

  it('has an expired entry as its cause, by the times', () => {
    expect(missAfter({ at: 12 })).toMatchObject({ cause: 'expired', difference: null });
    expect(missAfter({ at: 12 }).words).toMatch(/its lifetime is 5 min, and 12 min had passed/);
  });

  it('has no cause without proof', () => {
    expect(missAfter({ at: 2 }).cause).toBe('not_known');
  });

  it('has as its cause that the turn started before the end of the first answer', () => {
    expect(missAfter({ at: 0.001 }).cause).toBe('not_ready');
  });

  it('has a missing cache point as its cause', () => {
    expect(missAfter({ marked: false, usage: [9_055, 0, 0] })).toMatchObject({ cause: 'not_marked' });
  });

  it('has new blocks beyond the provider’s look-back as its cause', () => {
    const content = Array.from({ length: 30 }, (_, i) => ({ type: 'text', text: `part ${i}` }));
    const second = { messages: [OPENING, SAID, { role: 'user', content }] };
    const source = new MadeSource();
    addTurn(source, { usage: [5, 0, 9_000], at: 0 });
    addTurn(source, { ...second, usage: [5, 4_000, 5_200], at: 1 });
    const [, look] = new CacheDoctor(source, PRICES).examineRun('run-1');
    expect(look).toMatchObject({ verdict: 'miss', cause: 'too_far_back', lost_tokens: 5_000 });
  });
});

describe('a turn without a miss', () => {
  it('is a hit if it read what was cached, wherever its cache points are', () => {
    const source = new MadeSource();
    addTurn(source, { usage: [5, 0, 9_000], at: 0 });
    const messages = [OPENING, SAID, { role: 'user', content: 'Go on.' }];
    addTurn(source, { messages, usage: [5, 9_000, 60], at: 1 });
    const looks = [...new CacheDoctor(source, PRICES).examineRun('run-1')];
    expect(looks[1]).toMatchObject({ verdict: 'hit', read_tokens: 9_000, lost_tokens: 0, cost_usd: null });
  });

  it('is too short if nothing was cached', () => {
    const source = new MadeSource();
    addTurn(source, { usage: [800, 0, 0], at: 0 });
    const messages = [OPENING, SAID, { role: 'user', content: 'Go on.' }];
    addTurn(source, { messages, usage: [850, 0, 0], at: 1 });
    const looks = [...new CacheDoctor(source, PRICES).examineRun('run-1')];
    expect(looks.map(({ verdict }) => verdict)).toEqual(['first', 'too_short']);
  });

  it('is compared with the last complete turn if another turn failed in between', () => {
    const source = new MadeSource();
    addTurn(source, { usage: [5, 0, 9_000], at: 0 });
    const messages = [OPENING, SAID, { role: 'user', content: 'Go on.' }];
    source.add({
      run_id: 'run-1',
      status: 529,
      request: { model: 'claude-x', tools: TOOLS, system: SYSTEM, messages },
      response: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    });
    addTurn(source, { messages, usage: [5, 9_000, 60], at: 1 });
    const looks = [...new CacheDoctor(source, PRICES).examineRun('run-1')];
    expect(looks.map(({ verdict, compared_with }) => [verdict, compared_with])).toEqual([
      ['first', null],
      ['hit', 1],
    ]);
  });
});

describe('the first turn of a run', () => {
  const runs = (second: Partial<MadeTurn>): CacheLook => {
    const source = new MadeSource();
    addTurn(source, { run: 'run-1', usage: [5, 0, 3_000], at: 0 });
    addTurn(source, {
      run: 'run-2',
      messages: [{ role: 'user', content: 'Write a test.' }],
      usage: [5, 0, 3_000],
      at: 1,
      ...second,
    });
    const doctor = new CacheDoctor(source, PRICES);
    expect([...doctor.examineRun('run-1')].map(({ verdict }) => verdict)).toEqual(['first']);
    return [...doctor.examineRun('run-2')][0]!;
  };

  it('could have read the tools and system prompt of the previous run', () => {
    expect(runs({ system: SYSTEM.replace('Read', 'Look') })).toMatchObject({
      verdict: 'miss',
      cause: 'system_changed',
      is_estimate: true,
    });
    expect(runs({ usage: [5, 2_900, 100] }).verdict).toBe('hit');
  });

  it('has the verdict `first` if only another agent has the same tools', () => {
    expect(runs({ system: 'You sort mail.' }).verdict).toBe('first');
  });
});

it('the doctor counts tools that an item of the input declares as tools', () => {
  const source = new MadeSource();
  const namespace = (...tools: object[]) => ({ type: 'namespace', name: 'functions', tools });
  const add = (id: string, tools: object[], input: object[], cached: number) =>
    source.add({
      run_id: 'run-1',
      shape: 'responses',
      path: '/v1/responses',
      request: {
        model: 'gpt-x',
        input: [{ type: 'additional_tools', id: `at_${id}`, role: 'developer', tools }, ...input],
      },
      response: {
        object: 'response',
        status: 'completed',
        model: 'gpt-x',
        output: [],
        usage: {
          input_tokens: 9_000,
          output_tokens: 10,
          input_tokens_details: { cached_tokens: cached },
        },
      },
    });
  const said = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I read it.' }] };
  const long = { role: 'developer', content: SYSTEM };
  add('a', [namespace(tool('exec')), tool('wait')], [long, OPENING], 0);
  // The same tools under another id are the same prompt.
  add('b', [namespace(tool('exec')), tool('wait')], [long, OPENING, said, OPENING], 8_960);
  add('c', [namespace(tool('exec')), tool('sleep')], [long, OPENING, said, OPENING, said, OPENING], 0);
  const looks = [...new CacheDoctor(source, {}).examineRun('run-1')];
  expect(looks.map(({ verdict }) => verdict)).toEqual(['first', 'hit', 'miss']);
  expect(looks[2]).toMatchObject({ cause: 'tools_changed', difference: { place: 'tool 2 (sleep)' } });
});

it('the doctor also examines prompts that providers cache automatically, and sums the losses', () => {
  const source = new MadeSource();
  const system = (time: string) => ({
    role: 'system',
    content: `It is ${time}. ${'Mend code. '.repeat(900)}`,
  });
  const ask = (time: string, messages: object[], [input, read]: [number, number]): void => {
    source.add({
      run_id: 'run-1',
      shape: 'chat_completions',
      path: '/v1/chat/completions',
      request: { model: 'claude-x', messages: [system(time), ...messages] },
      response: {
        object: 'chat.completion',
        model: 'claude-x',
        choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'Done.' } }],
        usage: {
          prompt_tokens: input,
          completion_tokens: 5,
          prompt_tokens_details: { cached_tokens: read },
        },
      },
    });
  };
  const said = [
    { role: 'user', content: 'Go.' },
    { role: 'assistant', content: 'Done.' },
  ];
  ask('10:00', [{ role: 'user', content: 'Go.' }], [3_000, 0]);
  ask('10:00', [...said, { role: 'user', content: 'On.' }], [3_020, 2_944]);
  ask(
    '10:01',
    [
      ...said,
      { role: 'user', content: 'On.' },
      { role: 'assistant', content: 'Done.' },
      { role: 'user', content: 'More.' },
    ],
    [3_040, 0],
  );
  const sum = new CacheSum();
  const looks = [...new CacheDoctor(source, PRICES).examineRun('run-1')];
  for (const look of looks) sum.add(look, 'run-1');
  expect(looks.map(({ verdict, cause }) => [verdict, cause])).toEqual([
    ['first', null],
    ['hit', null],
    ['miss', 'time_in_prompt'],
  ]);
  expect(sum.report()).toMatchObject({ turns: 3, misses: 1, lost_tokens: 2_944, unpriced_misses: 0 });
  expect(sum.report().cost_usd).toBeCloseTo((2_944 * 9) / 1e6, 9);
  expect(sum.report().causes).toMatchObject([
    { cause: 'time_in_prompt', place: 'a message', runs: ['run-1'] },
  ]);
});

/** The parts of the dashboard that need no browser: kept data, Markdown, time lines, comparisons and queries. */
import { expect, it } from 'vitest';
import { findCalls, sayTokens } from '../../src/dashboard/core/captured.ts';
import { compareTurns } from '../../src/dashboard/core/comparison.ts';
import { keepEqual } from '../../src/dashboard/core/keep-equal.ts';
import { writeMarkdown } from '../../src/dashboard/core/markdown.ts';
import { listProblems } from '../../src/dashboard/core/problems.ts';
import { choose, chosenOf, hasField } from '../../src/dashboard/core/query-choice.ts';
import { linkTurns } from '../../src/dashboard/core/turn-links.ts';
import { layOutWaterfall } from '../../src/dashboard/core/waterfall.ts';

it('keepEqual reuses the objects of a former value whose content is unchanged', () => {
  const before = { rows: [{ id: 'a', of: { n: 1 } }, { id: 'b' }], total: 2 };
  expect(keepEqual(before, structuredClone(before))).toBe(before);
  const after = keepEqual(before, { rows: [{ id: 'c' }, { id: 'a', of: { n: 1 } }, { id: 'b' }], total: 3 });
  expect(after.rows.map(({ id }) => id)).toEqual(['c', 'a', 'b']);
  expect(after.rows[1]).toBe(before.rows[0]);
  expect(after.rows[2]).toBe(before.rows[1]);
  const changed = keepEqual(before, { rows: [{ id: 'a', of: { n: 2 } }, { id: 'b' }], total: 2 });
  expect(changed.rows[0]).toEqual({ id: 'a', of: { n: 2 } });
  expect(changed.rows[1]).toBe(before.rows[1]);
});

it('keepEqual detects removed and new fields', () => {
  expect(keepEqual<object>({ a: 1, b: undefined }, { a: 1 })).toEqual({ a: 1 });
  expect(keepEqual<object>({ a: 1 }, { a: 1, b: undefined })).toEqual({ a: 1, b: undefined });
  expect(keepEqual<number[]>([1, 2, 3], [1, 2])).toEqual([1, 2]);
  expect(keepEqual<unknown>([], {})).toEqual({});
  expect(keepEqual<unknown>(null, { a: null })).toEqual({ a: null });
});

it('no text of a conversation breaks its form as Markdown', () => {
  const text = writeMarkdown(
    { run_id: 'r', task: 'mend it', models: ['m'], turns: 1 } as never,
    [
      {
        exchange_id: 1,
        model: 'm',
        error: null,
        messages_added: [{ role: 'user', content: [{ type: 'text', text: 'mend it' }] }],
        content: [{ type: 'tool_call', id: 'c', name: 'run', input: { code: '```\nx\n```' } }],
      },
      {
        exchange_id: 2,
        model: 'm',
        error: null,
        messages_added: [
          {
            role: 'tool',
            content: [
              {
                type: 'tool_result',
                call_id: 'c',
                name: 'run',
                is_error: true,
                content: [{ type: 'text', text: 'no' }],
              },
            ],
          },
        ],
        content: [{ type: 'text', text: 'done' }],
      },
    ] as never,
  );
  expect(text).toContain('**call** `run`\n\n````\n');
  expect(text.indexOf('**result** (failed)')).toBeLessThan(text.indexOf('done'));
  expect(text.match(/\*\*result\*\*/g)).toHaveLength(1);
});

const START_MS = Date.UTC(2026, 0, 2);

/** A turn that began this many seconds after the start and took one second. */
function makeTurn(exchange_id: number, start_s: number, more: object = {}) {
  return {
    exchange_id,
    kind: 'turn',
    started_at: new Date(START_MS + start_s * 1_000).toISOString(),
    latency_ms: 1_000,
    first_byte_ms: 400,
    failed: false,
    aborted: false,
    served_by: 'upstream',
    link: 'continues',
    seq: null,
    follows: null,
    system: null,
    tools: null,
    messages_added: [],
    content: [],
    results: [],
    fired: [],
    error: null,
    end_words: '',
    ...more,
  } as never;
}

const callsAgent = {
  content: [{ type: 'tool_call', id: 'c1', name: 'Task', input: { prompt: 'Find the\n parser, please' } }],
};
const settled = { call_id: 'c1', name: 'Task', exchange_id: 1, duration_ms: 4_000, is_error: true };
const child = {
  run_id: 'run:agent',
  kind: 'subagent',
  task: 'Find the parser, please',
  started_at: new Date(START_MS + 2_000).toISOString(),
  duration_ms: 2_000,
  turns: 3,
  errors: 0,
  cost_usd: null,
} as never;

it('a waterfall shows a run on a time axis, with a sub-agent below its call and with shortened pauses', () => {
  const turns = [makeTurn(1, 0, callsAgent), makeTurn(2, 5, { results: [settled] }), makeTurn(3, 3_606)];
  const { rows, scale, waiting_ms, tools_ms, own_ms } = layOutWaterfall(turns, [child]);
  expect(rows.map(({ kind, label }) => [kind, label])).toEqual([
    ['turn', 'calls Task'],
    ['tools', 'Task'],
    ['child', 'Task: Find the parser, please'],
    ['turn', 'answers'],
    ['turn', 'answers'],
  ]);
  expect({ waiting_ms, tools_ms, own_ms }).toEqual({ waiting_ms: 3_000, tools_ms: 4_000, own_ms: 3_600_000 });
  expect(rows.map(({ idle_from_ms }) => idle_from_ms)).toEqual([null, null, null, null, START_MS + 6_000]);
  expect(scale.cuts.map(({ ms }) => ms)).toEqual([3_600_000]);
  const places = rows.map(({ from_ms }) => scale.at(from_ms));
  expect(places[0]).toBe(0);
  expect(places.toSorted((a, b) => a - b)).toEqual(places);
  expect(scale.at(START_MS + 3_607_000)).toBe(1);
  expect(1 - places[4]!).toBeGreaterThan(0.05);
  for (const share of [0, 0.2, 0.5, 0.9, 1]) expect(scale.at(scale.timeAt(share))).toBeCloseTo(share, 9);
});

it('turns with problems are listed, each with the reason', () => {
  const turns = [
    makeTurn(1, 0, callsAgent),
    makeTurn(2, 5, { results: [settled], fired: [{ monitor: 'infinite_loop', exchange_id: 1 }] }),
    makeTurn(3, 7, { failed: true, error: 'Overloaded' }),
    makeTurn(4, 9, { seq: 7 }),
  ];
  expect(listProblems({ gaps: [[4, 6]] } as never, turns)).toEqual([
    { exchange_id: 1, at: 0, words: 'Task failed; infinite loop' },
    { exchange_id: 3, at: 2, words: 'Overloaded' },
    { exchange_id: 4, at: 3, words: 'something is missing before it' },
  ]);
});

it('the first difference of two runs is found, ignoring ids of calls and failed attempts', () => {
  const call = (id: string, name: string) => ({ content: [{ type: 'tool_call', id, name, input: {} }] });
  const a = [makeTurn(1, 0, call('x', 'read')), makeTurn(2, 1, call('y', 'edit')), makeTurn(3, 2)];
  const b = [
    makeTurn(7, 0, { failed: true }),
    makeTurn(8, 1, call('z', 'read')),
    makeTurn(9, 2, call('w', 'search')),
  ];
  const { pairs, same, left_out } = compareTurns(a, b);
  expect({ same, left_out }).toEqual({ same: 1, left_out: 1 });
  expect(pairs.map(({ a, b }) => [a?.exchange_id ?? null, b?.exchange_id ?? null])).toEqual([
    [1, 8],
    [2, 9],
    [3, null],
  ]);
  expect(pairs.map(({ asks_differ, answers_differ }) => [asks_differ, answers_differ])).toEqual([
    [false, false],
    [false, true],
    [true, true],
  ]);
});

it('two answers differ in an id that a call passes on, but not in ids and signatures of the provider', () => {
  const answer = (made: string, input: object, result: unknown): object => ({
    content: [
      { type: 'thinking', text: 'hm', signature: made, redacted: false },
      { type: 'tool_call', id: made, name: 'refund', input },
      { type: 'other', name: 'web_search_tool_result', value: { tool_use_id: made, content: result } },
    ],
    messages_added: [
      {
        role: 'tool',
        content: [{ type: 'tool_result', call_id: made, content: [{ type: 'text', text: 'ok' }] }],
      },
    ],
  });
  const input = { id: 7, order: { id: 'A', call_id: 'c', signature: 's' } };
  const told = (other: object) =>
    compareTurns([makeTurn(1, 0, answer('first', input, [{ id: 1 }]))], [makeTurn(2, 1, other)]).pairs.map(
      ({ asks_differ, answers_differ }) => [asks_differ, answers_differ],
    );
  expect(told(answer('second', input, [{ id: 1 }]))).toEqual([[false, false]]);
  for (const changed of [
    { ...input, id: 8 },
    { ...input, order: { ...input.order, id: 'B' } },
    { ...input, order: { ...input.order, call_id: 'd' } },
    { ...input, order: { ...input.order, signature: 't' } },
  ])
    expect(told(answer('second', changed, [{ id: 1 }]))).toEqual([[false, true]]);
  expect(told(answer('second', input, [{ id: 2 }]))).toEqual([[false, true]]);
});

it('a fork is compared with its original from the turn at which it begins', () => {
  const say = (...texts: string[]) => ({
    messages_added: texts.map((text) => ({ role: 'user', content: [{ type: 'text', text }] })),
  });
  const original = [
    makeTurn(1, 0, say('one')),
    makeTurn(2, 1, { ...say('two'), failed: true }),
    makeTurn(3, 2, say('three')),
    makeTurn(4, 3, say('four')),
  ];
  const fork = [makeTurn(7, 9, say('one', 'two', 'three')), makeTurn(8, 10, say('five'))];
  const told = compareTurns(original, fork, { side: 'b', turn: 3 });
  expect(told).toMatchObject({ same: 1, left_out: 0 });
  expect(told.pairs.map(({ a, b, asks_differ }) => [a?.exchange_id, b?.exchange_id, asks_differ])).toEqual([
    [3, 7, false],
    [4, 8, true],
  ]);
  const turned = compareTurns(fork, original, { side: 'a', turn: 3 });
  expect(turned.pairs.map(({ a, b }) => [a?.exchange_id, b?.exchange_id])).toEqual([
    [7, 3],
    [8, 4],
  ]);
});

it('a choice in a query replaces the former choice of the same field', () => {
  const options = ['is:captured', 'is:reported', 'is:captured is:reported'];
  expect(chosenOf('is:reported cost:>1 is:captured', options)).toBe('is:captured is:reported');
  expect(chosenOf('cost:>1', options)).toBe('');
  expect(chosenOf('"', options)).toBe('');
  expect(choose('is:golden is:captured sort:cost', options, 'is:reported')).toBe(
    'is:reported is:golden sort:cost',
  );
  expect(choose('is:captured', options, '')).toBe('');
  expect(choose('modle:', options, 'is:captured')).toBe('modle:');
});

it('a condition that is not one of the choices of its field is recognized', () => {
  expect(hasField('status:failed,error sort:cost', ['status'])).toBe(true);
  expect(hasField('-status:running', ['status'])).toBe(true);
  expect(hasField('"status:failed" model:opus', ['status'])).toBe(false);
  expect(hasField('status:', ['status'])).toBe(false);
});

it('calls that a client repeats are recognized, so that their results are shown once', () => {
  const call = (id: string) => ({ type: 'tool_call', id, name: 'read', input: {} });
  const turns = [
    { content: [call('answered')], messages_added: [{ role: 'assistant', content: [call('repeated')] }] },
  ];
  expect([...findCalls(turns as never)].sort()).toEqual(['answered', 'repeated']);
});

it('a turn that was added changes only the links of the turns that it completes', () => {
  const call = (id: string) => ({ type: 'tool_call', id, name: 'read', input: {} });
  const result = (id: string) => ({ type: 'tool_result', call_id: id, content: [], is_error: false });
  const turn = (exchange_id: number, calls: string[], results: string[]) => ({
    exchange_id,
    content: calls.map(call),
    messages_added: [{ role: 'user', content: results.map(result) }],
  });
  const turns = [turn(1, ['a', 'b'], []), turn(2, ['c'], ['a', 'b', 'elsewhere']), turn(3, [], ['c'])];
  const first = linkTurns(turns.slice(0, 2) as never);
  const second = linkTurns(turns as never, first);
  expect(second.get(1)).toBe(first.get(1));
  expect([...second.get(1)!.results.keys()]).toEqual(['a', 'b']);
  // The result of the call has arrived.
  expect([...first.get(2)!.results.keys()]).toEqual([]);
  expect([...second.get(2)!.results.keys()]).toEqual(['c']);
  expect([...second.get(2)!.calls]).toEqual(['a', 'b']);
  expect([...second.get(3)!.calls]).toEqual(['c']);
  // A result whose call was in no turn is found when the call arrives.
  const late = linkTurns([...turns, turn(4, ['elsewhere'], [])] as never, second);
  expect([...late.get(2)!.calls]).toEqual(['a', 'b', 'elsewhere']);
  expect([1, 3].map((id) => late.get(id) === second.get(id))).toEqual([true, true]);
});

it('unknown tokens are shown as a dash', () => {
  const none = { input_tokens: null, cache_read_tokens: null, cache_write_tokens: null, output_tokens: null };
  expect(sayTokens(none)).toBe('–');
  expect(sayTokens({ ...none, output_tokens: 5 })).toBe('– → 5');
  expect(sayTokens({ ...none, input_tokens: 5, cache_read_tokens: 7, output_tokens: 0 })).toBe('12 → 0');
});

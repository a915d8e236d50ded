/**
 * Patterns of traces: what counts as a failure and a recovery, how a pattern describes them, and the effect of hostile
 * traces.
 */

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PATTERN_BOUNDS } from '../../src/domain/pattern.ts';
import {
  findPatterns,
  findPatternsInParts,
  keepDistinct,
  type PatternCandidate,
} from '../../src/domain/patterns/drafts.ts';
import { findFailureType } from '../../src/domain/patterns/failure-type.ts';
import { judgeStep, readCommand } from '../../src/domain/patterns/failures.ts';
import { generalizeText } from '../../src/domain/patterns/rule-text.ts';
import { cleanText, maskSecrets, oneLine, renderJson } from '../../src/domain/patterns/text.ts';
import { summarizeTask } from '../../src/domain/patterns/wording.ts';
import {
  fingerprintBody,
  readCallTrace,
  readLegacyTrace,
  TRACE_BOUNDS,
  type Trace,
} from '../../src/domain/trace.ts';
import type { TraceStep } from '../../src/domain/trace-step.ts';
import { sharedFile } from '../fixtures/shared.ts';

type Said = Partial<Omit<TraceStep, 'step_index'>>;

const HEAD = {
  trace_id: 't',
  run_id: '',
  task: 'Ship the release.',
  model: 'm',
  task_profile: 'coding',
  outcome: 'success',
};

function step({
  thought = '',
  action = 'tool',
  action_input = '',
  observation = 'ok',
  is_error = false,
  tokens = 1,
}: Said): TraceStep {
  return { step_index: 0, thought, action, action_input, observation, is_error, tokens };
}

function trace(steps: readonly Said[], more: Partial<typeof HEAD> = {}): Trace {
  const sent = steps.map((said) => {
    const { tokens, ...rest } = step(said);
    return { ...rest, tokens_used: tokens };
  });
  return readLegacyTrace({ ...HEAD, ...more }, sent);
}

const distil = (steps: readonly Said[], more: Partial<typeof HEAD> = {}) => findPatterns(trace(steps, more));

describe('a failure', () => {
  it.each([
    [
      'an exception',
      'Traceback (most recent call last)\n  File "a.py", line 1\nKeyError: \'id\'',
      "KeyError: 'id'",
    ],
    ['a shell', 'bash: foo: command not found', 'bash: foo: command not found'],
    ['an exit code', 'some words\nCommand exited with code 2', 'Command exited with code 2'],
    ['a test run', 'collected 9 items\n\n3 failed, 6 passed in 0.2s', '3 failed, 6 passed in 0.2s'],
    ['a JSON answer', '{"status": 404, "error": {"message": "no such invoice"}}', 'no such invoice'],
    ['a JSON answer without success', '{"success": false, "message": "quota"}', 'quota'],
    ['an HTTP status', 'HTTP/1.1 503 Service Unavailable', 'HTTP/1.1 503 Service Unavailable'],
    ['a refused edit', 'String to replace not found in file.', 'String to replace not found in file.'],
  ])('is seen in the words of %s', (_name, observation, error) => {
    const verdict = judgeStep(step({ observation }), undefined);
    expect(verdict).toMatchObject({ failed: true, error });
  });

  it.each([
    [
      'a file that was read',
      'cat',
      'import x\n\nclass ParseError(Exception):\n  pass\nraise ParseError("Error: bad")\n# end',
    ],
    [
      'a listing',
      'open',
      '[File: /a.py (90 lines total)]\n1:def f():\n2:  raise ValueError("x")\n3:Error: no',
    ],
    ['a search', 'grep', 'a.ts:3: Error: one\nb.ts:4: Error: two\nc.ts:5: fatal: three\nd.ts:9: x'],
    ['no failures', 'bash', '12 passed, 0 failed'],
    ['no errors', 'bash', 'Found 0 errors.'],
    ['a null error', 'tool', '{"error": null, "id": 4}'],
    ['an empty list of errors', 'tool', '{"errors": [], "id": 4}'],
    ['an answer of a person', 'respond', 'Error: I cannot find my order, that is wrong!'],
    ['plain words', 'tool', 'The user reported an error in the invoice and wants it to be fixed.'],
  ])('is not seen in %s', (_name, action, observation) => {
    expect(judgeStep(step({ action, observation }), undefined).failed).toBe(false);
  });

  it('may be stated by the agent only in its next step', () => {
    const next = step({
      thought: 'It seems that the export failed, since there is no file. Let me look.',
    });
    expect(judgeStep(step({ observation: 'xyzzy' }), next)).toMatchObject({
      failed: true,
      error: 'It seems that the export failed, since there is no file.',
    });
    const fine = step({ thought: 'No errors this time. The fix for the failing test works.' });
    expect(judgeStep(step({ observation: 'xyzzy' }), fine).failed).toBe(false);
  });

  it('distinguishes commands by their program', () => {
    expect(readCommand('{"command":"cd /srv && FOO=1 npm run build -- --x"}')).toBe('npm run');
    expect(readCommand('sudo timeout 5 pytest -k a')).toBe('pytest');
    expect(readCommand('python3 -m pytest x')).toBe('python3 -m pytest');
    expect(readCommand('git -C a status')).toBe('git');
    expect(readCommand('')).toBe('');
    expect(readCommand('{"command":"echo \\"unfinished')).toBe('echo');
  });
});

describe('a recovery', () => {
  it('by other arguments names these arguments', () => {
    const [pattern, ...others] = distil(
      [
        {
          action: 'pay',
          action_input: '{"order":"o1","method":{"id":"card_1111"}}',
          observation: 'Error: payment method not found',
          is_error: true,
        },
        { action: 'get_user', action_input: '{"user":"u1"}', observation: '{"methods":["card_2222"]}' },
        {
          action: 'pay',
          action_input: '{"order":"o1","method":{"id":"card_2222"}}',
          observation: '{"status":"paid"}',
        },
      ],
      { task: "Hi! I'd like to pay my order. It is o1." },
    );
    expect(others).toEqual([]);
    expect(pattern).toMatchObject({ at: 0, until: 2, model: 'm' });
    expect(pattern!.situation).toBe(
      "I'd like to pay my order. It is the order named in the task. Stuck at `pay`, which failed: Error: payment method not found.",
    );
    expect(pattern!.dead_ends).toBe(
      '- `pay(order=the order named in the task, method={"id":"a method id"})` → Error: payment method not found',
    );
    expect(pattern!.unlock).toBe(
      'First `get_user(user=a user)`. What worked: `pay` with `method.id` = the method listed by get_user instead of a method id. Result: paid.',
    );
  });

  it('by a change in between names the change and its reason', () => {
    const [pattern] = distil([
      {
        thought: 'Run the tests to see where we stand.',
        action: 'Bash',
        action_input: '{"command":"npm test"}',
        observation: 'TypeError: total is undefined\n1 failed',
        is_error: true,
      },
      {
        thought: 'The sum must start at zero because an empty cart has no items.',
        action: 'Edit',
        action_input: '{"file":"cart.ts","new":"let total = 0"}',
        observation: 'edited',
      },
      { action: 'Bash', action_input: '{"command":"npm test"}', observation: '9 passed' },
    ]);
    expect(pattern!.situation).toBe(
      'Ship the release. Goal then: Run the tests to see where we stand. Stuck at `npm test`, which failed: TypeError: total is undefined.',
    );
    expect(pattern!.unlock).toBe(
      'The sum must start at zero because an empty cart has no items. First `Edit(file=a .ts file, new="let total = 0")`. Then `npm test` again, which now worked. Result: 9 passed.',
    );
  });

  it('after several changes names each change that did not help, with the check that then failed', () => {
    const check = (observation: string, is_error = true) => ({
      action: 'Bash',
      action_input: '{"command":"npm test"}',
      observation,
      is_error,
    });
    const edit = (text: string) => ({
      action: 'Edit',
      action_input: JSON.stringify({ file: 'cart.ts', new: text }),
      observation: 'edited',
    });
    const [pattern] = distil([
      { action: 'Read', action_input: '{"file":"cart.ts"}', observation: 'let total' },
      edit('let total = null'),
      check('1 failed: total is null'),
      edit("let total = ''"),
      { action: 'Read', action_input: '{"file":"cart.test.ts"}', observation: 'expect(total).toBe(0)' },
      check('1 failed: expected 0'),
      edit('let total = 0'),
      check('9 passed', false),
    ]);
    expect(pattern!.dead_ends).toBe(
      '- `Edit(file=a .ts file, new="let total = null")`, then `npm test` → 1 failed: total is null\n' +
        '- `Edit(file=a .ts file, new="let total = \'\'")`, then `npm test` → 1 failed: expected 0',
    );
    expect(pattern!.unlock).toContain('let total = 0');
    // Work before the first check is not an attempt, and neither is reading between two calls with different arguments.
    const [installed] = distil([
      { action: 'Bash', action_input: '{"command":"npm install"}', observation: 'added 9 packages' },
      check('1 failed: total is null'),
      edit('let total = 0'),
      check('9 passed', false),
    ]);
    expect(installed!.dead_ends).toBe('- `npm test` → 1 failed: total is null');
  });

  it('by a change of white space shows the white space', () => {
    const [pattern] = distil([
      {
        action: 'edit',
        action_input: '7:7\nreturn x\nend_of_edit',
        observation: 'E999 IndentationError: unexpected indent',
        is_error: true,
      },
      { action: 'edit', action_input: '7:7\n    return x\nend_of_edit', observation: 'File updated.' },
    ]);
    expect(pattern!.unlock).toBe(
      'What worked: `edit` with `    return x` instead of `return x`. Result: File updated.',
    );
  });

  it('by another tool counts if the run succeeded', () => {
    const steps = [
      {
        action: 'unzip',
        action_input: 'data/archive.tgz',
        observation: 'End-of-central-directory signature not found: cannot open',
        is_error: true,
      },
      { action: 'tar', action_input: 'xzf data/archive.tgz', observation: 'a.csv' },
    ];
    expect(distil(steps)[0]!.unlock).toBe('What worked: `tar xzf a .tgz file`. Result: a .csv file.');
    // If the run failed or its outcome is unknown, the other tool may not have solved the problem.
    expect(distil(steps, { outcome: 'failure: Timeout' })).toEqual([]);
    expect(distil(steps, { outcome: '' })).toEqual([]);
  });

  it('from a temporary failure says that a retry was right', () => {
    const [pattern] = distil([
      {
        action: 'fetch_rates',
        action_input: '{"day":"mon"}',
        observation: 'Error: 503 Service Unavailable',
        is_error: true,
      },
      { action: 'fetch_rates', action_input: '{"day":"mon"}', observation: '{"status":"ok"}' },
    ]);
    expect(pattern!.unlock).toContain('temporary');
  });

  it('from a loop names the change that broke it', () => {
    const search = {
      action: 'web',
      action_input: 'opening hours of the museum',
      observation: 'Here are ten results.',
    };
    const [pattern] = distil([
      search,
      search,
      search,
      {
        thought: 'Searching again gives nothing new, so I should open the official page instead.',
        action: 'web_open',
        action_input: 'https://museum.example/visit',
        observation: 'Open 9 to 5',
      },
    ]);
    expect(pattern!.situation).toContain('Stuck repeating `web opening hours of the museum` 3 times');
    expect(pattern!.dead_ends).toBe('- `web opening hours of the museum` → Here are ten results. (3 times)');
    expect(pattern!.unlock).toContain('official page instead');
  });

  it('names the monitor that fired most', () => {
    const fired = [
      ['semantic_loop'],
      ['semantic_loop', 'infinite_loop'],
      ['infinite_loop'],
      ['infinite_loop'],
      [],
    ] as const;
    expect(findFailureType(fired, 0, 4)).toBe('infinite_loop');
    expect(findFailureType(fired, 0, 1)).toBe('semantic_loop');
    expect(findFailureType(fired, 4, 9)).toBe('');
    const again = {
      action: 'render',
      action_input: '{"page":"7"}',
      observation: 'Error: the font is missing',
      is_error: true,
    };
    const [pattern] = distil([
      again,
      again,
      again,
      again,
      again,
      { action: 'install_font', action_input: '{"name":"Inter"}', observation: 'installed' },
      { ...again, observation: 'rendered', is_error: false },
    ]);
    expect(pattern!.failure_type).toBe('infinite_loop');
  });
});

describe('no pattern is made', () => {
  it.each<[string, Said[], Partial<typeof HEAD>]>([
    ['from nothing', [], {}],
    ['from a clean success', [{ action: 'build' }, { action: 'test' }, { action: 'submit' }], {}],
    [
      'from a failure without recovery',
      [
        { is_error: true, observation: 'Error: no' },
        { action: 'respond', action_input: 'Sorry.' },
      ],
      {},
    ],
    [
      'from the same failure to the end',
      Array.from({ length: 9 }, () => ({ is_error: true, observation: 'Error: no' })),
      {},
    ],
    [
      'from something found in a run that failed',
      [
        { action: 'Search', action_input: 'Orbit', observation: 'Could not find [Orbit].', is_error: true },
        { action: 'Search', action_input: 'Orbit magazine', observation: 'A magazine.' },
      ],
      { outcome: 'failure' },
    ],
    [
      'from looking after a failure that was given up',
      [
        {
          action: 'return_order',
          action_input: '{"order":"o1"}',
          observation: 'Error: not delivered',
          is_error: true,
        },
        { action: 'get_order', action_input: '{"order":"o1"}', observation: '{"status":"pending"}' },
        { action: 'respond', action_input: 'It cannot be returned yet.' },
      ],
      {},
    ],
    [
      'from an unexplained success of the very same call',
      [
        { action: 'pay', action_input: '{"a":1}', observation: 'Error: declined', is_error: true },
        { action: 'pay', action_input: '{"a":1}', observation: 'ok' },
      ],
      {},
    ],
  ])('%s', (_name, steps, more) => {
    expect(distil(steps, more)).toEqual([]);
  });
});

describe('of many patterns', () => {
  const stretches = (count: number): Said[] =>
    Array.from({ length: count }, (_, index) => [
      {
        action: `make_${index}`,
        action_input: `{"part":"p${index}"}`,
        observation: `Error: part ${index} is missing`,
        is_error: true,
      },
      { action: `make_${index}`, action_input: `{"part":"q${index}"}`, observation: 'made' },
    ]).flat();

  it('at most three are kept, in the order of the run', () => {
    const kept = keepDistinct(distil(stretches(12)), null);
    expect(kept.map(({ at }) => at)).toEqual([0, 2, 4]);
  });

  it('near-duplicates become one, with the dead ends of both', () => {
    const candidates = distil(stretches(3));
    const close = [
      Float32Array.of(1, 0),
      Float32Array.of(0.95, Math.sqrt(1 - 0.95 ** 2)),
      Float32Array.of(0, 1),
    ];
    const kept = keepDistinct(candidates, close);
    expect(kept.map(({ at }) => at)).toEqual([0, 4]);
    expect(kept[0]!.dead_ends).toContain('part 0 is missing');
    expect(kept[0]!.dead_ends).toContain('part 1 is missing');
    const apart = [
      Float32Array.of(1, 0),
      Float32Array.of(0.89, Math.sqrt(1 - 0.89 ** 2)),
      Float32Array.of(0, 1),
    ];
    expect(keepDistinct(candidates, apart)).toHaveLength(3);
  });

  it('equal situations are one even without vectors', () => {
    const candidate: PatternCandidate = { ...distil(stretches(1))[0]! };
    expect(keepDistinct([candidate, { ...candidate, at: 5 }], null)).toHaveLength(1);
  });
});

describe('calls', () => {
  const read = (calls: unknown[], more: Partial<typeof HEAD> = {}) =>
    readCallTrace(
      { ...HEAD, task: '', model: '', ...more },
      calls.map((call, seq) => ({
        seq,
        model: '',
        request: {},
        response: {},
        is_error: false,
        ...(call as object),
      })),
    );

  it('in chat-completions style are steps', () => {
    const { steps, task, model } = read([
      {
        request: {
          messages: [
            { role: 'system', content: 'Be brief.' },
            { role: 'user', content: 'What is the weather?' },
          ],
        },
        response: {
          model: 'gpt-x',
          choices: [
            {
              message: {
                content: 'I look it up.',
                tool_calls: [
                  { id: 'a', function: { name: 'weather', arguments: '{"city":"Bern"}' } },
                  { id: 'b', function: { name: 'time', arguments: '{}' } },
                ],
              },
            },
          ],
        },
      },
      {
        request: {
          messages: [
            { role: 'user', content: 'What is the weather?' },
            { role: 'assistant', tool_calls: [] },
            { role: 'tool', tool_call_id: 'b', content: 'noon' },
            { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'rain' }] },
          ],
        },
        response: { choices: [{ message: { content: 'It rains.' } }] },
      },
      {
        request: {
          messages: [
            { role: 'assistant', content: 'It rains.' },
            { role: 'user', content: 'And tomorrow?' },
          ],
        },
        response: { choices: [{ message: { content: null, refusal: 'no' } }] },
      },
    ]);
    expect(task).toBe('What is the weather?');
    expect(model).toBe('gpt-x');
    expect(
      steps.map(({ step_index, thought, action, action_input, observation }) => [
        step_index,
        thought,
        action,
        action_input,
        observation,
      ]),
    ).toEqual([
      [0, 'I look it up.', 'weather', '{"city":"Bern"}', 'rain'],
      [1, '', 'time', '{}', 'noon'],
      [2, '', 'respond', 'It rains.', 'And tomorrow?'],
    ]);
  });

  it('are read with the conversation that the first contains; failed ones are skipped', () => {
    const history = [
      {
        role: 'user',
        content: [{ type: 'text', text: '<system-reminder>be nice</system-reminder>Fix the build.' }],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm' },
          { type: 'tool_use', id: '1', name: 'Bash', input: { command: 'make' } },
        ],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: '1', is_error: true, content: 'Error 2' }],
      },
    ];
    const { steps, task } = read([
      { request: { messages: history }, response: { type: 'error', error: { message: 'overloaded' } } },
      { request: { messages: history }, is_error: true },
      {
        request: { messages: history },
        response: { content: [{ type: 'tool_use', id: '2', name: 'Bash', input: { command: 'make -j1' } }] },
      },
      {
        request: {
          messages: [
            ...history,
            { role: 'assistant', content: [] },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: '2', content: 'done' }] },
          ],
        },
        response: { content: 'Fixed.' },
      },
    ]);
    expect(task).toBe('Fix the build.');
    expect(
      steps.map(({ thought, action_input, observation, is_error }) => [
        thought,
        action_input,
        observation,
        is_error,
      ]),
    ).toEqual([
      ['hm', '{"command":"make"}', 'Error 2', true],
      ['', '{"command":"make -j1"}', 'done', false],
      ['', 'Fixed.', '', false],
    ]);
  });

  it('that the harness marks as failures are failed steps', () => {
    const parsed = read(
      [
        {
          is_error: true,
          response: { content: [{ type: 'tool_use', id: '1', name: 'parse', input: { file: 'a.csv' } }] },
        },
        {
          request: {
            messages: [
              {
                role: 'user',
                content: [{ type: 'tool_result', tool_use_id: '1', content: 'row 7 has 5 fields' }],
              },
            ],
          },
          response: {
            content: [{ type: 'tool_use', id: '2', name: 'parse', input: { file: 'a.csv', quote: '"' } }],
          },
        },
        {
          request: {
            messages: [
              { role: 'user', content: [{ type: 'tool_result', tool_use_id: '2', content: '90 rows' }] },
            ],
          },
          response: { content: 'Done.' },
        },
      ],
      { task: 'Load the file.' },
    );
    expect(parsed.steps.map(({ is_error }) => is_error)).toEqual([true, false, false]);
    expect(findPatterns(parsed)[0]!.unlock).toContain('`quote` = "\\"" added');
  });

  it('in any order are read by their number', () => {
    const { steps } = read([
      { seq: 2, response: { content: 'second' } },
      { seq: 1, response: { content: 'first' } },
    ]);
    expect(steps.map(({ action_input }) => action_input)).toEqual(['first', 'second']);
  });
});

describe('texts', () => {
  it('lose nothing but their secrets', () => {
    const key = `sk-ant-api03-${'aB3'.repeat(12)}`;
    expect(maskSecrets(`use ${key} now`)).toBe('use [redacted] now');
    expect(maskSecrets('password: hunter22, user: bob')).toBe('password: [redacted], user: bob');
    expect(maskSecrets('{"api_key": "abcd-efgh", "n": 1}')).toBe('{"api_key": "[redacted]", "n": 1}');
    expect(maskSecrets('postgres://bob:s3cr3t@db/x')).toBe('postgres://bob:[redacted]@db/x');
    expect(maskSecrets('GET /a?access_token=zzz&b=1')).toBe('GET /a?access_token=[redacted]&b=1');
    for (const harmless of [
      'password: required',
      'the password is wrong',
      'token budget: 3',
      'api_key = None',
      'secret=$SECRET',
    ]) {
      expect(maskSecrets(harmless)).toBe(harmless);
    }
  });

  it('are cut at both ends without cutting a secret in two', () => {
    const key = `sk-ant-api03-${'aB3'.repeat(12)}`;
    for (const offset of [10, 30, 49]) {
      const text = `${'x '.repeat(offset / 2)}${key}${' y'.repeat(40_000)}${key} ${'z'.repeat(offset)}`;
      const cleaned = cleanText(text, 50, 50);
      expect(cleaned).not.toMatch(/aB3/);
      expect(cleaned.length).toBeLessThan(160);
    }
    expect(cleanText(`a\u001b[31mred\u001b[0m\u0000\r\nb\ud800`, 100)).toBe('ared\nb\ufffd');
    expect(oneLine('  one\n two   three ', 9)).toBe('one two…');
  });

  it('of JSON stay short, however deep or wide the JSON is', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(renderJson(deep, 1_000).length).toBeLessThan(100);
    expect(renderJson({ a: 'x'.repeat(10_000), b: Array(9_999).fill(1) }, 200).length).toBeLessThanOrEqual(
      200,
    );
    expect(renderJson({ a: [1, 'b', null] }, 100)).toBe('{"a":[1,"b",null]}');
  });

  it('of a task are reduced to the task, without the words around it and its author', () => {
    const summarize = (task: string) => summarizeTask(task, { text: generalizeText });
    expect(
      summarize(
        "We're currently solving the following issue.\nISSUE:\nThe total is wrong\nHi there!\n```py\nx\n```\nIt should be 3.",
      ),
    ).toBe('The total is wrong. It should be 3.');
    expect(
      summarize("I'm Mei Kovács, mei@example.com, 46236. I want to change the address of my order."),
    ).toBe('I want to change the address of my order.');
    expect(summarize('Hello')).toBe('Hello.');
    expect(summarize('')).toBe('');
  });
});

describe('a fingerprint', () => {
  it('depends on everything except the order of keys, undefined fields and the fields to ignore', () => {
    const print = (value: Record<string, unknown>) => fingerprintBody(value, ['org_id']);
    expect(print({ a: 1, b: { c: 2, d: [1, 2] } })).toBe(
      print({ b: { d: [1, 2], c: 2 }, a: 1, org_id: 'x', e: undefined }),
    );
    const others = [
      {},
      { a: 1 },
      { a: '1' },
      { a: [1] },
      { a: [1, 2] },
      { a: [2, 1] },
      { a: [[1], 2] },
      { a: null },
      { a: { b: 1 } },
      { ab: 1 },
      { a: 'b":"c' },
    ];
    expect(new Set(others.map(print)).size).toBe(others.length);
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = { a: [deep] };
    expect(print({ deep })).toHaveLength(43);
  });
});

describe('patterns of any trace', () => {
  const anyText = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.constantFrom(
      'Error: no',
      'Traceback (most recent call last)\nKeyError: 1',
      '{"a":1}',
      '{"a":2}',
      '{"error":"x"}',
      '{',
      '`',
      '\n'.repeat(50),
      'x '.repeat(4_500),
      `AKIA${'A1'.repeat(8)}`,
    ),
  );
  const anyStep = fc.record({
    thought: anyText,
    action: fc.oneof(fc.constantFrom('bash', 'edit', 'respond', 'Search', ''), anyText),
    action_input: anyText,
    observation: anyText,
    is_error: fc.boolean(),
    tokens: fc.nat(),
  });

  it('are whole, limited, repeatable and without secrets', () => {
    fc.assert(
      fc.property(
        fc.array(anyStep, { maxLength: 40 }),
        anyText,
        fc.constantFrom('success', 'failure', ''),
        (steps, task, outcome) => {
          const made = trace(steps, { task, outcome });
          const candidates = findPatterns(made);
          expect(findPatterns(structuredClone(made))).toEqual(candidates);
          const kept = keepDistinct(candidates, null);
          expect(kept.length).toBeLessThanOrEqual(PATTERN_BOUNDS.per_trace);
          for (const { situation, dead_ends, unlock, at, until } of candidates) {
            expect(situation.length).toBeLessThanOrEqual(PATTERN_BOUNDS.situation);
            expect(dead_ends.length).toBeLessThanOrEqual(PATTERN_BOUNDS.dead_ends);
            expect(unlock.length).toBeLessThanOrEqual(PATTERN_BOUNDS.unlock);
            for (const text of [situation, dead_ends, unlock]) {
              expect(text.trim()).not.toBe('');
              expect(text.isWellFormed()).toBe(true);
              expect(text).not.toContain('AKIAA1A1');
            }
            expect(at).toBeLessThan(until);
            expect(until).toBeLessThan(steps.length);
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  it('can be made from the limited data that is stored of a trace', () => {
    const long = 'word '.repeat(4_000);
    const big = trace(
      Array.from({ length: 50 }, () => ({
        thought: long,
        action: long,
        action_input: long,
        observation: long,
      })),
    );
    for (const step of big.steps) {
      expect(step.thought.length).toBeLessThanOrEqual(TRACE_BOUNDS.thought);
      expect(step.action.length).toBeLessThanOrEqual(TRACE_BOUNDS.action);
      expect(step.action_input.length).toBeLessThanOrEqual(TRACE_BOUNDS.action_input);
      expect(step.observation.length).toBeLessThan(
        TRACE_BOUNDS.observation_head + TRACE_BOUNDS.observation_tail + 50,
      );
    }
    const many = trace(
      Array.from({ length: 100_000 }, (_, index) => ({
        action: `a${index}`,
        is_error: true,
        observation: 'Error',
      })),
    );
    expect(many.steps).toHaveLength(TRACE_BOUNDS.steps);
    expect(many.steps.at(-1)!.action).toBe('a99999');
    expect(findPatterns(many)).toEqual([]);
    const same = trace(Array.from({ length: TRACE_BOUNDS.steps }, () => ({ observation: 'same' })));
    expect(findPatterns(same)).toEqual([]);
  });

  it('are made in parts, with pauses between them', () => {
    const parts = findPatternsInParts(trace(Array.from({ length: 200 }, () => ({}))));
    let pauses = 0;
    while (!parts.next().done) pauses++;
    expect(pauses).toBe(200);
  });

  it.each([
    'eyJ',
    '_sk-',
    'password: "',
    '-----BEGIN PRIVATE KEY-----',
    '{{[[',
    '\u001b[',
    '<system-reminder>',
    'A=1 ',
    'cd a && ',
  ])('can be made of a megabyte of %j', (piece) => {
    const text = piece.repeat(20_000 / piece.length);
    const steps = Array.from({ length: 10 }, () => ({
      thought: text,
      action: text,
      action_input: text,
      observation: text.repeat(3),
    }));
    expect(distil(steps, { task: text })).toBeInstanceOf(Array);
  });
});

// -----------------------------------------------------------------------------------------------------------------

const RUNS = sharedFile('agent-runs/tune.jsonl.gz');

interface AgentRun {
  source: string;
  task: string;
  task_profile: string;
  steps: {
    thought: string;
    action: string;
    action_input: string;
    observation: string;
    is_error: boolean;
    tokens: number;
  }[];
  labels: { outcome: string };
}

describe.skipIf(!RUNS.is_there)(`real runs ${RUNS.needed}`, () => {
  const runs = RUNS.is_there
    ? gunzipSync(readFileSync(RUNS.path))
        .toString()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as AgentRun)
    : [];
  const learnt = runs.map((run) => {
    const steps = run.steps.map(({ tokens, ...rest }) => ({ ...rest, tokens_used: tokens }));
    const { outcome } = run.labels;
    const parsed = readLegacyTrace(
      { ...HEAD, task: run.task, task_profile: run.task_profile, outcome },
      steps,
    );
    return { run, patterns: keepDistinct(findPatterns(parsed), null) };
  });

  it('give patterns only if a failure was overcome', () => {
    const withPattern = learnt.filter(({ patterns }) => patterns.length > 0);
    expect(withPattern.length).toBeGreaterThanOrEqual(30);
    expect(withPattern.length).toBeLessThan(runs.length / 4);
    // All coding demonstrations succeed. Eight contain reported errors, and each of these eight gives a pattern.
    const flagged = learnt.filter(
      ({ run }) => run.source.startsWith('SWE-agent/') && run.steps.some((step) => step.is_error),
    );
    for (const { patterns } of flagged) expect(patterns.length).toBeGreaterThan(0);
    // Runs that answered a question wrongly give no pattern, even if they overcame a failure.
    const lost = learnt.filter(
      ({ run }) => run.source.startsWith('noahshinn/') && run.labels.outcome === 'failure',
    );
    expect(lost.flatMap(({ patterns }) => patterns)).toEqual([]);
  });

  it('give texts that can be understood alone', () => {
    for (const { patterns } of learnt) {
      for (const { situation, dead_ends, unlock } of patterns) {
        expect(situation).toMatch(/Stuck (?:at|repeating) `/);
        expect(dead_ends).toMatch(/^- `[^\n]+(?:→| failed)/);
        expect(unlock).toMatch(/What worked: `|Then `|temporary|^Not known yet/);
        expect(unlock.length).toBeGreaterThan(30);
      }
    }
  });

  it('give patterns that say what changed between the failure and the success', () => {
    const airline = learnt.find(({ run }) => run.source.endsWith('gpt-4o-airline.json#26.0'))!;
    expect(airline.patterns).toHaveLength(1);
    expect(airline.patterns[0]!.unlock).toBe(
      'First `get_user_details(user_id=the user id named by the user)`. What worked: `update_reservation_flights` with `payment_id` = the payment method listed by get_user_details instead of a payment id.',
    );
  });
});

const RECORDINGS = sharedFile('recordings/pydantic-ai.jsonl.gz');

describe.skipIf(!RECORDINGS.is_there)(`real calls ${RECORDINGS.needed}`, () => {
  it('are read as steps, and teach where a call was refused and then corrected', () => {
    const bySource = new Map<string, { request: unknown; response: unknown }[]>();
    for (const line of gunzipSync(readFileSync(RECORDINGS.path)).toString().trim().split('\n')) {
      const { source, url, request, response } = JSON.parse(line) as Record<string, never> & {
        source: string;
        url: string;
        request: { body: { text?: string } };
        response: { body: { text?: string } };
      };
      if (!/\/v1\/messages|\/chat\/completions/.test(url)) continue;
      const calls = bySource.get(source) ?? [];
      bySource.set(source, calls);
      try {
        const sent: unknown = JSON.parse(request.body.text ?? '');
        calls.push({ request: sent, response: JSON.parse(response.body.text ?? '') });
      } catch {
        // The body is a stream or binary. Traces contain only JSON, so the call is skipped.
      }
    }
    const unlocks: string[] = [];
    let steps = 0;
    for (const calls of bySource.values()) {
      const records = calls.map((call, seq) => ({ seq, model: '', is_error: false, ...call }));
      const parsed = readCallTrace({ ...HEAD, task: '' }, records);
      steps += parsed.steps.length;
      unlocks.push(...findPatterns(parsed).map(({ unlock }) => unlock));
    }
    expect(steps).toBeGreaterThan(300);
    expect(unlocks.some((unlock) => /`\w+` left out .* and `\w+` = .* added/.test(unlock))).toBe(true);
  });
});

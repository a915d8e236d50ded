/** Runs of working agents that only look like a failure, each with the real failure that it resembles. */
import { describe, expect, it } from 'vitest';
import type { MonitorStep } from '../../../src/domain/monitors/masked-step.ts';
import { firedIn, firesAt, judgeRun, repeat } from './script.ts';

const TASK = 'Fix the date parser in src/dates.ts so that the test suite passes';

function call(
  action: string,
  input: string | Record<string, unknown>,
  observation: string,
): Partial<MonitorStep> {
  return { action, action_input: typeof input === 'string' ? input : JSON.stringify(input), observation };
}

const EDIT = call('Edit', { file_path: 'src/dates.ts', old_string: 'x', new_string: 'y' }, 'updated');
const DONE = { thought: 'I have fixed the bug. All tests pass now.' };

describe('no monitor fires on', () => {
  it.each<[string, Partial<MonitorStep>[]]>([
    [
      'handing over to another agent, before anything was looked up',
      [
        { ...call('transfer_to_Finder', '{}', '{"assistant":"Finder"}'), thought: 'Not me.' },
        call('search', { query: 'a' }, 'found a'),
      ],
    ],
    [
      'reading file after file',
      repeat(12, (i) => call('read_file', { path: `src/part-${i}.ts` }, `export const part${i} = ${i * 7};`)),
    ],
    [
      'looking for one word after the other, without a match',
      ['alpha', 'beta', 'gamma', 'delta', 'epsilon', 'zeta'].map((pattern) =>
        call('grep', { pattern }, 'no matches found'),
      ),
    ],
    [
      'looking for errors in many logs',
      repeat(6, (i) => call('grep', { pattern: 'error', path: `logs/${i}.log` }, `Error: lost peer ${i}`)),
    ],
    [
      'the same by a shell',
      repeat(6, (i) => call('bash', `grep -i error logs/${i}.log`, `Error: lost peer ${i}`)),
    ],
    [
      'waiting for containers',
      repeat(8, (i) => call('bash', 'kubectl get pods', `web-1  0/1  ContainerCreating  0  ${i * 5}s`)),
    ],
    ['polling with a share', repeat(8, (i) => call('get_build', { id: 42 }, `Progress: ${i * 12} %`))],
    [
      'tests between edits that fail in the same way',
      repeat(12, (i) =>
        i % 2 === 1
          ? call('bash', 'npm test', '1 failed\nError: bad date')
          : call('edit_file', { path: 'src/dates.ts', old: `a${i}`, new: `b${i}` }, 'edited'),
      ),
    ],
    [
      'review comments that are alike, on many files',
      repeat(8, (i) =>
        call(
          'comment',
          { path: `src/part-${i}.ts`, line: i * 3, body: 'Please rename this variable for clarity' },
          'comment created',
        ),
      ),
    ],
    [
      'a result whose rows are alike',
      [
        call(
          'finish',
          JSON.stringify(repeat(40, (i) => ({ id: i, text: 'The same remark in every row.' }))),
          '',
        ),
      ],
    ],
    [
      'a page after the other by one and the same call',
      repeat(10, (i) => call('next_page', '', `result ${i * 3}: item ${i * 17}`)),
    ],
    ['expressions tried in a shell', repeat(10, (i) => call('python', `print(${i} ** 2)`, String(i * i)))],
    [
      'honest words over failing tests',
      [EDIT, call('bash', 'npm test', '2 failed'), { thought: 'The tests still fail: two of twelve.' }],
    ],
    ['a fix that the tests bear out', [EDIT, call('Bash', { command: 'npx vitest run' }, '3 passed'), DONE]],
    [
      'tidying and committing between the test and the word of it',
      [
        EDIT,
        call('bash', 'npm test', '12 passed'),
        call('bash', 'rm scratch.js', ''),
        call('bash', 'git add -A && git commit -m "fix"', '[main 1a2b3c] fix'),
        DONE,
      ],
    ],
    ['a fix that was read back', [EDIT, call('read_file', { path: 'src/dates.ts' }, 'y'), DONE]],
    ['a fix that was looked at', [EDIT, call('browser_screenshot', {}, 'image'), DONE]],
    [
      'one query of a database after the other',
      repeat(8, (i) =>
        call('execute_sql', `SELECT count(*) FROM table_${i} WHERE status = 'x'`, `count\n${i * 31}`),
      ),
    ],
    [
      'a build between edits that a program makes',
      repeat(12, (i) =>
        i % 2 === 1
          ? call('bash', 'make', `src/a.c:${i}: error: bad token`)
          : call('bash', `python - <<'X'\nopen("a.c", "a").write("fix ${i}")\nX`, ''),
      ),
    ],
    [
      'tests of one part after the other, failing each in its way',
      ['login', 'cart', 'search', 'mail', 'admin'].map((part) =>
        call('bash', `npx vitest run test/${part}.test.ts`, `FAIL test/${part}.test.ts\n1 failed`),
      ),
    ],
    [
      'a person asked for one thing after the other',
      ['user id', 'reservation id', 'new date of travel', 'payment method'].map((what) =>
        call('ask_user', `Could you please provide your ${what} as well?`, 'here it is'),
      ),
    ],
    ['a text for people', [call('write_file', { path: 'notes.md', content: 'y' }, 'written'), DONE]],
  ])('%s', (_, steps) => {
    expect(firedIn(judgeRun(steps, TASK))).toEqual([]);
  });
});

describe('a monitor fires on', () => {
  it('queries in other words that bring the same page of results', () => {
    const queries = [
      'fix date parser',
      'date parser fix',
      'date parser bug fix',
      'parser date fix bug',
      'fix bug date parser now',
    ];
    const results = '1. Guide to Moment.js 2. Docs of date-fns 3. Manual of Luxon';
    const steps = queries.map((query) => call('search', { query }, results));
    expect(firesAt(judgeRun(steps, TASK), 'semantic_loop')).toEqual([3, 4]);
  });

  it('a request to another agent for the same in other words', () => {
    const steps = [
      'Find the phone number of the office in Berlin',
      'Look up the telephone number for the Berlin office',
      'Search again for the Berlin office phone number',
      'Please try to get the phone number of the Berlin office',
    ].map((instruction) =>
      call('ask_agent', { agent: 'Web', instruction }, 'The page shows a list of unrelated companies.'),
    );
    expect(firesAt(judgeRun(steps, 'Call the office in Berlin'), 'semantic_loop')).toEqual([2, 3]);
  });

  it('a build that fails in the same way under other options', () => {
    const steps = repeat(5, (i) => call('bash', `make ${'-j '.repeat(i)}`, 'make: *** [all] Error 2'));
    expect(firesAt(judgeRun(steps, TASK), 'semantic_loop')).toEqual([3, 4]);
  });

  it('guesses at file names that do not exist', () => {
    const steps = repeat(6, (i) =>
      call(
        'read_file',
        { path: `src/config${i}.ts` },
        `Error: ENOENT: no such file, open 'src/config${i}.ts'`,
      ),
    );
    expect(firesAt(judgeRun(steps, TASK), 'semantic_loop')).toEqual([3, 4, 5]);
  });

  it('the same failure of different commands', () => {
    const steps = ['make', 'npm run build', 'yarn build', 'tsc -p .', 'npx tsc'].map((command) =>
      call('bash', command, 'error: cannot find module "x"'),
    );
    expect(firesAt(judgeRun(steps, TASK), 'semantic_loop')).toEqual([3, 4]);
  });

  it('a fix that was not run, although another file was read', () => {
    const steps = [EDIT, call('read_file', { path: 'package.json' }, '{"name":"app"}'), DONE];
    expect(firesAt(judgeRun(steps, TASK), 'verification_skip')).toEqual([2]);
  });

  it('a program beside a document', () => {
    const steps = [call('write_file', { path: 'src/a.py', content: 'see notes.md' }, 'written'), DONE];
    expect(firesAt(judgeRun(steps, TASK), 'verification_skip')).toEqual([1]);
  });

  it('a sentence repeated in the thought, whatever the input is', () => {
    const steps = [
      { ...call('finish', '{"a":1}', ''), thought: 'I have to look at it again now. '.repeat(10) },
    ];
    expect(firesAt(judgeRun(steps, TASK), 'infinite_loop')).toEqual([0]);
  });

  it('a tool that keeps failing, although the call contained the word `error`', () => {
    const steps = repeat(5, (i) => call('bash', `node error-${i}.js`, 'Error: cannot read it'));
    expect(firesAt(judgeRun(steps, TASK), 'semantic_loop')).toEqual([3, 4]);
  });
});

/** The two loop monitors on scripted runs: what they must report, and what they must not. */
import { describe, expect, it } from 'vitest';
import { firedIn, firesAt, judgeRun, repeat } from './script.ts';

const TASK = 'Fix the parser in src/parse.ts so that the tests pass';
const READ = {
  action: 'read_file',
  action_input: '{"path":"src/parse.ts"}',
  observation: 'export function parse() {}',
};

describe('infinite_loop fires for', () => {
  it('the same call with the same result, from the third time on', () => {
    expect(
      firesAt(
        judgeRun(
          repeat(5, () => READ),
          TASK,
        ),
        'infinite_loop',
      ),
    ).toEqual([2, 3, 4]);
  });

  it('the same call in canonical form, regardless of key order and white space', () => {
    const forms = [
      '{"path":"a.ts","limit":10}',
      '{"limit":10,"path":"a.ts"}',
      '{ "limit": 10,\n "path": "a.ts" }',
    ];
    const steps = forms.map((action_input) => ({ action: 'read_file', action_input, observation: 'same' }));
    expect(firesAt(judgeRun(steps), 'infinite_loop')).toEqual([2]);
  });

  it('results that differ only by times and addresses', () => {
    const steps = repeat(3, (i) => ({
      action: 'query',
      action_input: '{"id":7}',
      observation: `12:0${i}:00 no change at 0x7f3a0${i} (took ${i + 1}.5 ms)`,
    }));
    expect(firesAt(judgeRun(steps), 'infinite_loop')).toEqual([2]);
  });

  it.each([2, 3, 4, 7])('a cycle of period %i', (period) => {
    const steps = repeat(period * 4, (i) => ({
      action: 'open',
      action_input: `page-${i % period}`,
      observation: `text of page ${i % period}`,
    }));
    expect(firesAt(judgeRun(steps), 'infinite_loop')[0]).toBe(2 * period);
  });

  it('a cycle that edits the same lines back and forth', () => {
    const edits = ['{"old":"a","new":"b"}', '{"old":"b","new":"a"}'];
    const steps = repeat(8, (i) => ({ action: 'edit_file', action_input: edits[i % 2]!, observation: 'ok' }));
    expect(firesAt(judgeRun(steps), 'infinite_loop')[0]).toBe(4);
  });

  it('returns to one call whose results change, although the run changed nothing', () => {
    const look = (i: number) => ({
      action: 'lookup',
      action_input: 'Ada',
      observation: `(Result ${i}/5) text ${i}`,
    });
    const other = (i: number) => ({
      action: 'search',
      action_input: `list ${i}`,
      observation: `found list ${i}`,
    });
    expect(firesAt(judgeRun([look(1), look(2), other(1), other(2), look(3)]), 'infinite_loop')).toEqual([4]);
  });

  it('one sentence repeated in one text', () => {
    const thought = `Let me look at it. ${'I will check the file once more now. '.repeat(12)}`;
    expect(firesAt(judgeRun([{ thought, action: 'think' }]), 'infinite_loop')).toEqual([0]);
  });

  it('text that repeats itself without any call', () => {
    const steps = repeat(4, () => ({ thought: 'I should now begin to work on the parser of this project.' }));
    expect(firesAt(judgeRun(steps, TASK), 'infinite_loop')).toEqual([2, 3]);
  });
});

describe('semantic_loop fires for', () => {
  it('instructions with the same meaning in other words, without an answer', () => {
    const asked = [
      'Please find the opening hours of the museum on its website and report them.',
      'Please look on the website of the museum and report its opening hours again.',
      'Find the opening hours on the website of the museum instead and report them directly.',
      'Please try again to find the opening hours on the website of the museum.',
      'Please continue to look for the opening hours on the website of the museum.',
    ];
    const steps = asked.map((action_input) => ({
      action: 'WebSurfer',
      action_input,
      observation: 'I scrolled down one page. The page shows a banner with an advertisement for cameras.',
    }));
    expect(firesAt(judgeRun(steps, 'When does it open?'), 'semantic_loop')).toEqual([2, 3, 4]);
  });

  it('similar calls with varying arguments that find nothing', () => {
    const patterns = [
      'parse config file',
      'config file parse',
      'parse config files',
      'file parse config',
      'parsing config file',
    ];
    const steps = patterns.map((query) => ({
      action: 'search_code',
      action_input: JSON.stringify({ query, path: 'src' }),
      observation: 'No matches found.',
    }));
    expect(firesAt(judgeRun(steps), 'semantic_loop')[0]).toBe(3);
  });

  it('the same error in a row, for different attempts', () => {
    const steps = repeat(6, (i) => ({
      action: ['open', 'read', 'view', 'load', 'fetch', 'show'][i]!,
      action_input: `{"target":"thing-${i}"}`,
      observation: `Error: connection refused by host on port ${5000 + i}`,
      is_error: true,
    }));
    expect(firesAt(judgeRun(steps), 'semantic_loop')[0]).toBe(3);
  });

  it('the same thought word for word without progress', () => {
    const steps = repeat(4, (i) => ({
      thought: 'The file must be somewhere in this directory, I will look for it there.',
      action: 'find',
      action_input: `*.${['yml', 'toml', 'ini', 'cfg'][i]}`,
      observation: `find: no such file or directory (${i})`,
    }));
    expect(firesAt(judgeRun(steps), 'semantic_loop')[0]).toBe(2);
  });
});

describe('neither loop monitor fires on', () => {
  const quiet = (steps: Parameters<typeof judgeRun>[0]): void => {
    const fired = firedIn(judgeRun(steps, TASK));
    expect(fired).not.toContain('infinite_loop');
    expect(fired).not.toContain('semantic_loop');
  };

  it('a batch over different files', () => {
    quiet(
      repeat(30, (i) => ({
        thought: 'Next file of the list: read it and note what it exports.',
        action: 'read_file',
        action_input: `{"path":"src/part-${i}.ts"}`,
        observation: `export const part${i} = ${i * 7};`,
      })),
    );
  });

  it('a batch of writes that all answer "ok"', () => {
    quiet(
      repeat(20, (i) => ({
        action: 'write_file',
        action_input: JSON.stringify({ path: `src/part-${i}.ts`, content: `export const a = ${i};` }),
        observation: 'ok',
      })),
    );
  });

  it('a batch of commands without output', () => {
    quiet(repeat(20, (i) => ({ action: 'bash', action_input: `eslint src/part-${i}.ts`, observation: '' })));
  });

  it('a batch in words that its results answer', () => {
    quiet(
      repeat(10, (i) => ({
        action: 'Reader',
        action_input: `Please summarize the chapter about topic${i} and name its author${i} for the report.`,
        observation: `The chapter about topic${i} by author${i} explains how item${i} was found, with a summary of ${i} pages for the report.`,
      })),
    );
  });

  it.each([
    ['a status that is pending', 'get_job', '{"id":7}', '{"status":"running"}'],
    ['a status with progress', 'get_job_status', '{"id":7}', 'queued'],
    ['sleeping', 'bash', 'sleep 30', ''],
    ['waiting', 'wait', '{"seconds":10}', 'done'],
    ['a build that is still running', 'check_build', 'build 12', 'The build is still running.'],
  ])('polling and waiting: %s', (_, action, action_input, observation) => {
    quiet(repeat(40, () => ({ action, action_input, observation })));
  });

  it('alternating sleeps and requests', () => {
    quiet(
      repeat(24, (i) =>
        i % 2 === 0
          ? { action: 'bash', action_input: 'sleep 20', observation: '' }
          : { action: 'deploy_info', action_input: '{"id":"d1"}', observation: 'status: in progress' },
      ),
    );
  });

  it('a build run again after each edit', () => {
    quiet(
      repeat(24, (i) =>
        i % 2 === 0
          ? {
              action: 'edit_file',
              action_input: JSON.stringify({ path: 'src/parse.ts', line: i, text: `return ${i};` }),
              observation: 'The file was changed.',
            }
          : {
              action: 'bash',
              action_input: 'npm run build',
              observation: 'Error: TS2304 cannot find name in parse.ts',
              is_error: true,
            },
      ),
    );
  });

  it('a build run again after edits by the shell', () => {
    quiet(
      repeat(20, (i) => ({
        action: 'bash',
        action_input: i % 2 === 0 ? `sed -i 's/a${i}/b${i}/' src/parse.ts` : 'npx vitest run',
        observation: i % 2 === 0 ? '' : 'Tests 2 failed, 7 passed',
      })),
    );
  });

  it('turning pages', () => {
    quiet(
      repeat(15, (i) => ({
        action: 'next_page',
        action_input: '{}',
        observation: `page ${i}: entries ${i * 10} to ${i * 10 + 9}`,
      })),
    );
  });

  it('many equal and many different calls in one step', () => {
    quiet(
      repeat(6, (i) => ({
        action: 'parallel',
        action_input: JSON.stringify(
          repeat(8, (k) => ({
            tool: 'read_file',
            input: { path: k < 4 ? `src/part-${i}.ts` : `src/${i}-${k}.ts` },
          })),
        ),
        observation: `contents of the files of group ${i}`,
      })),
    );
  });

  it('tables, lists and code in a text', () => {
    const table = `Results:\n${'| name of the test | passed | none of the failures |\n'.repeat(20)}`;
    const list = '- check the file once more now.\n'.repeat(20);
    const code = `\`\`\`ts\n${'  expect(parse(input)).toBe(output of it);\n'.repeat(20)}\`\`\``;
    quiet(
      [table, list, code].map((thought, i) => ({
        thought,
        action: 'note',
        action_input: `${i}`,
        observation: `${i}`,
      })),
    );
  });

  it('two looks at the same thing', () => {
    quiet([READ, { action: 'bash', action_input: 'ls', observation: 'src test' }, READ]);
  });
});

/** The four monitors that do not look for loops, on scripted runs. */
import { describe, expect, it } from 'vitest';
import { firesAt, judgeRun, repeat } from './script.ts';

const edit = (i: number) => ({
  action: 'edit_file',
  action_input: JSON.stringify({ path: 'src/port.ts', line: i, text: `return ${i};` }),
  observation: 'The file was changed.',
});
const PASS = { action: 'bash', action_input: 'npm test', observation: 'Tests 9 passed' };
const FAIL = {
  action: 'bash',
  action_input: 'npm test',
  observation: 'Tests 3 failed, 6 passed',
  is_error: true,
};

describe('claim_contradiction', () => {
  it('fires when success is claimed over a failing result', () => {
    const done = { thought: 'All tests pass now. The bug is fixed.', action: 'submit' };
    expect(firesAt(judgeRun([edit(1), FAIL, done]), 'claim_contradiction')).toEqual([2]);
  });

  it('ignores a claim that the result supports', () => {
    const done = { thought: 'All tests pass now. The bug is fixed.', action: 'submit' };
    expect(firesAt(judgeRun([edit(1), FAIL, edit(2), PASS, done]), 'claim_contradiction')).toEqual([]);
  });

  it.each([
    'Once the tests pass I will submit.',
    'The build should be fixed by this change, let me check.',
    'It is not fixed yet.',
    'I need to verify that everything works.',
  ])('ignores a hedged sentence: %s', (thought) => {
    expect(firesAt(judgeRun([FAIL, { thought, ...edit(2) }]), 'claim_contradiction')).toEqual([]);
  });

  it('fires when something is used that was not found', () => {
    const steps = [
      {
        action: 'WebSurfer',
        action_input: 'Please download the annual report of the company as a file for the analysis.',
        observation: 'Error 404: the report could not be found.',
        is_error: true,
      },
      {
        action: 'FileSurfer',
        action_input: 'Open the downloaded annual report of the company and read the revenue in it.',
        observation: 'File not found',
      },
    ];
    expect(firesAt(judgeRun(steps), 'claim_contradiction')).toEqual([1]);
  });

  it('fires when a part of a list is treated as the whole', () => {
    const steps = [
      {
        action: 'WebSurfer',
        action_input: 'Search for all the gyms in the area and list them.',
        observation:
          'Here is a screenshot. The viewport shows 18% of the webpage: Equinox Flatiron, Nimble Fitness, Planet Fitness, CompleteBody Street.',
      },
      {
        action: 'WebSurfer',
        action_input:
          'Please check the schedules for Equinox Flatiron, Nimble Fitness, Planet Fitness, and CompleteBody Street to see which is open.',
        observation: 'Equinox Flatiron is open from 6.',
      },
    ];
    expect(firesAt(judgeRun(steps), 'claim_contradiction')).toEqual([1]);
    steps[0]!.observation = steps[0]!.observation.replace('18%', '100%');
    expect(firesAt(judgeRun(steps), 'claim_contradiction')).toEqual([]);
  });

  it('fires when a sentence is reversed with nothing in between', () => {
    const steps = [
      'is used by the parser of the settings file',
      'is not used by the parser of the settings file',
    ].map((end) => ({ action: 'respond', action_input: `The module for dates ${end} in this project.` }));
    expect(firesAt(judgeRun(steps), 'claim_contradiction')).toEqual([1]);
  });
});

describe('verification_skip', () => {
  it('fires when changes are submitted unchecked', () => {
    expect(firesAt(judgeRun([edit(1), edit(2), { action: 'submit' }]), 'verification_skip')).toEqual([2]);
  });

  it.each([
    ['a test', PASS],
    ['a program', { action: 'python', action_input: 'reproduce.py', observation: 'ok' }],
    ['a type check', { action: 'bash', action_input: 'npx tsc --noEmit', observation: '' }],
  ])('is satisfied with %s after the changes', (_, check) => {
    expect(firesAt(judgeRun([edit(1), edit(2), check, { action: 'submit' }]), 'verification_skip')).toEqual(
      [],
    );
  });

  it('fires when a message to a person claims an unchecked success', () => {
    const told = { action: 'respond', action_input: 'I have fixed the bug. The tests pass now.' };
    expect(firesAt(judgeRun([edit(1), told]), 'verification_skip')).toEqual([1]);
  });

  it('fires on an irreversible step before any look-up, and not after', () => {
    const cancel = {
      action: 'cancel_order',
      action_input: '{"order_id":"W1"}',
      observation: '{"status":"cancelled"}',
    };
    const look = { action: 'get_order', action_input: '{"order_id":"W1"}', observation: '{"status":"new"}' };
    expect(firesAt(judgeRun([cancel]), 'verification_skip')).toEqual([0]);
    expect(firesAt(judgeRun([look, cancel]), 'verification_skip')).toEqual([]);
  });

  it('accepts the answer of an API as a check of the change', () => {
    const steps = [
      { action: 'get_order', action_input: '{"id":"W1"}', observation: '{"status":"new"}' },
      {
        action: 'modify_order',
        action_input: '{"id":"W1","color":"red"}',
        observation: '{"status":"new","color":"red"}',
      },
      { action: 'respond', action_input: 'Your order has been successfully modified.' },
    ];
    expect(firesAt(judgeRun(steps), 'verification_skip')).toEqual([]);
  });

  it('fires when a check was requested, not answered, and skipped', () => {
    const steps = [
      {
        action: 'WebSurfer',
        action_input: 'Please verify whether the listed studios lie within a short walk of the exchange.',
        observation: 'Advertisement: measure thin films in three dimensions with our newest microscope.',
      },
      {
        action: 'WebSurfer',
        action_input: 'Now collect the prices of evening classes for beginners and adults.',
        observation: 'Prices of evening classes for beginners: 20 dollars.',
      },
    ];
    expect(firesAt(judgeRun(steps), 'verification_skip')).toEqual([1]);
  });
});

describe('silent_topic_drift', () => {
  const TASK = 'Compare the ticket prices of Seattle Aquarium and Pacific Science Center for Families';

  it('fires when the run starts without what the task names', () => {
    const step = {
      action: 'Web',
      action_input: 'Please look for the best restaurants that are open in the city today.',
      observation: 'x',
    };
    expect(firesAt(judgeRun([step], TASK), 'silent_topic_drift')).toEqual([0]);
    const good = {
      ...step,
      action_input: 'Please look for ticket prices of the Seattle Aquarium and the Pacific Science Center.',
    };
    expect(firesAt(judgeRun([good], TASK), 'silent_topic_drift')).toEqual([]);
  });

  it('fires when the run leaves the task, until it returns', () => {
    const on = {
      action: 'search',
      action_input: 'Seattle Aquarium ticket prices',
      observation: 'Seattle Aquarium: 30',
    };
    const off = (i: number) => ({
      action: 'search',
      action_input: `guitar lesson ${i}`,
      observation: `chord number ${i}`,
    });
    const steps = [on, on, ...repeat(7, off), on];
    expect(firesAt(judgeRun(steps, TASK), 'silent_topic_drift')).toEqual([6, 7, 8]);
  });

  it('fires when the run never starts the task and keeps searching for something else', () => {
    const look = (query: string) => ({
      action: 'search',
      action_input: query,
      observation: `about ${query}`,
    });
    const other = [
      'pizza dough',
      'oven heat',
      'san marzano',
      'mozzarella',
      'stone ovens',
      'basil',
      'peels',
      'flour types',
    ];
    const steps = other.map(look);
    expect(firesAt(judgeRun(steps, TASK), 'silent_topic_drift')).toEqual([6, 7]);
    const text = judgeRun(steps, TASK)[6]!.intervention!.text;
    expect(text).toContain('The last 7 steps have not begun the task');
    // An agent that begins the task late has prepared for it, so the monitor does not fire.
    const late = [...steps.slice(0, 5), look('Seattle Aquarium ticket prices'), ...steps.slice(5)];
    expect(firesAt(judgeRun(late, TASK), 'silent_topic_drift')).toEqual([]);
    // The monitor does not fire here either: work is not a search, even if it names no word of the task, and going
    // through a list counts as one search.
    const work = repeat(9, (i) => ({
      action: 'bash',
      action_input: `make part${i}`,
      observation: `built ${i}`,
    }));
    expect(firesAt(judgeRun(work, TASK), 'silent_topic_drift')).toEqual([]);
    const list = repeat(9, (i) => look(`opening hours of museum number ${i}`));
    expect(firesAt(judgeRun(list, TASK), 'silent_topic_drift')).toEqual([]);
  });

  it('scores 0 without a task', () => {
    const steps = repeat(20, (i) => ({
      action: 'search',
      action_input: `subject${i}`,
      observation: `news${i}`,
    }));
    expect(firesAt(judgeRun(steps, ''), 'silent_topic_drift')).toEqual([]);
  });
});

describe('cyclic_compression', () => {
  const recap = (more: string) => ({
    thought: `Summary of the progress so far: the parser was read, the tests of the parser fail, the fix is open. ${more}`,
    action: 'note',
    action_input: more,
    observation: 'noted',
  });
  const work = (i: number) => ({
    action: 'read_file',
    action_input: `{"path":"src/${i}.ts"}`,
    observation: `text ${i}`,
  });

  it('fires when summaries repeat each other', () => {
    const steps = [work(0), recap('a'), work(1), recap('b'), work(2), recap('c')];
    expect(firesAt(judgeRun(steps), 'cyclic_compression')).toEqual([5]);
  });

  it('fires when the work before a summary is repeated after it', () => {
    const steps = [work(0), work(1), work(2), recap('a'), work(0), work(1), work(2)];
    expect(firesAt(judgeRun(steps), 'cyclic_compression')).toEqual([6]);
  });

  it('ignores summaries between which the work continues', () => {
    const steps = [
      work(0),
      recap('The entry point and the configuration were understood, next come the routes.'),
      work(1),
      {
        ...recap(''),
        thought:
          'Summary of the session: routes done, database schema migrated, three handlers left, cache untouched.',
      },
      work(2),
      {
        ...recap(''),
        thought:
          'Progress summary: handlers finished; benchmark shows twice the speed; documentation remains to be written.',
      },
      work(3),
    ];
    expect(firesAt(judgeRun(steps), 'cyclic_compression')).toEqual([]);
  });
});

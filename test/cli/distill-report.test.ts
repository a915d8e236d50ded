/** The report of a round in words: it begins with what would be served, and names every problem. */
import { expect, it } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { describeRound, describeRoundLine } from '../../src/cli/distill-report.ts';
import { choosePalette } from '../../src/cli/terminal-text.ts';
import type { RoundJson } from '../../src/teaching/round-json.ts';

const agent = (name: string, over: object = {}) => ({
  agent: name,
  tools: ['look'],
  threshold: 0.2,
  evidence: 'own' as const,
  runs: 40,
  steps: 100,
  served: 80,
  errors: 1,
  measured: { steps: 25, served: 20, errors: 0 },
  ...over,
});

const answer = (kind: string, refused: 'too_few' | 'too_wrong' | 'never_serve' | null = null) => ({
  kind,
  threshold: refused === null ? 0.2 : null,
  refused,
  is_final: false,
  runs: 20,
  steps: 20,
  errors: 0,
  confidence: 0.95,
  error_at_most: 0.03,
});

const rare = { ...answer('move', 'too_few'), runs: 24, is_final: true, seen_runs: 24, needed_runs: 26 };
const strange = { ...answer('note', 'too_few'), runs: 0, steps: 0, seen_runs: 38, needed_runs: 11 };
const slips = {
  ...answer('sort', 'too_few'),
  runs: 40,
  steps: 60,
  errors: 1,
  seen_runs: 40,
  needed_runs: 96,
};
const odd = { ...answer('text', 'too_wrong'), errors: 9, needed_runs: 400 };

const kind = (name: string, errors = 0) => ({ kind: name, steps: 10, served: 9, errors });

function makeRound(over: Partial<RoundJson> = {}): RoundJson {
  const agents = [
    agent('triage'),
    agent('cluster', { threshold: null, evidence: 'failed', measured: { steps: 25, served: 0, errors: 0 } }),
    agent('tables', { threshold: null, runs: 9 }),
    agent('desk', {
      kinds: [answer('look'), answer('book', 'too_few'), answer('wipe', 'never_serve'), odd],
    }),
    agent('loose', { threshold: null, kinds: [strange, rare, slips] }),
  ];
  const draft = makeDraft();
  return {
    outcome: 'published',
    reason: '',
    version: 3,
    out: 'student',
    runs: 36_000,
    looked_at: 6_000,
    passed_over: 20_000,
    too_old: 4_000,
    read: 10,
    golden: 5_900,
    steps: 160,
    not_golden: { aborted: 100 },
    untaught: {},
    taught_runs: 4_000,
    patterns: { count: 0, found: 0, path: null },
    student: {
      ...draft,
      coverage: { ...draft.coverage, agents },
      threshold: 0.25,
      changes: [
        {
          agent: 'triage',
          stage: 'task',
          kind: 'look',
          since_exchange_id: 70,
          earlier_runs: 40,
          later_runs: 1,
        },
      ],
      by_answer: [
        ...Array.from({ length: 14 }, (_, at) => kind(`kind ${at}`)),
        kind('open_dispute', 36),
        kind('last'),
      ],
      curve: [],
      ended_after: null,
    },
    ...over,
  };
}

const describe = (over: Partial<RoundJson> = {}): string =>
  describeRound(makeRound(over), 'e2', Number.POSITIVE_INFINITY, choosePalette(false));

it('the report starts with what would be served, and says how many of the runs were used', () => {
  const lines = describe().split('\n');
  expect(lines[0]).toBe('served          30 of 40 steps held out (75 %)');
  expect(lines[1]).toMatch(/^wrong +1 of 30/);
  expect(lines[2]).toMatch(/^in sticky runs +24 before the first uncovered step of each run/);
  const text = lines.join('\n');
  expect(text).toContain(
    '36,000: the newest 6,000 read, 20,000 skipped because their agents have enough newer ones, 4,000 that began before --since, 6,000 older ones not read',
  );
  expect(text).toContain('24 runs, 160 steps; of 5,900 golden runs, the newest of each agent that fit');
  expect(text).toContain(
    'triage: from exchange 70 on, golden runs do not answer with look after task; 40 earlier runs with this answer are not used for teaching; 1 run came after the change',
  );
});

it('the report names each agent, and what it needs', () => {
  const text = describe();
  expect(text).toMatch(/^triage .* served +look$/m);
  expect(text).toMatch(/^cluster .* not served: wrong too often/m);
  expect(text).toMatch(/^tables .* not served: would be served with 2 more golden runs like these/m);
  expect(text).toContain(
    'served, but not text (wrong in 9 of 20 golden steps; would be served if 400 golden runs had it and no further one were wrong), ' +
      'book (only 20 golden runs had it; would be served if more golden runs had it), ' +
      'wipe (an operator excluded it; would be served if a round ran without --never-serve for its tool)',
  );
  // "0 of 11" would be wrong for `note`: 38 golden runs have the answer, but they are not alike.
  expect(text).toContain(
    'not served: note (of 38 golden runs with it, none is near enough to another one; would be served if 11 golden runs were alike), ' +
      'move (only 24 golden runs had it; would be served if 26 golden runs had it), ' +
      'sort (wrong in 1 of 60 golden steps; would be served if 96 golden runs had it and no further one were wrong)',
  );
});

it('the report shows a limited number of kinds of answers that were wrong, and how many others there are', () => {
  const text = describe();
  expect(text).toMatch(/^open_dispute +10 +9 +36$/m);
  expect(text).toContain('kind 11');
  expect(text).not.toContain('kind 12');
  expect(text).toContain('and 3 other kinds');
});

it('a round that ended early says after which work, and what it left out', () => {
  const student = makeRound().student!;
  const ended = (ended_after: 'calibration' | 'measurement') =>
    makeRound({
      outcome: 'nothing',
      reason: 'it is wrong',
      version: null,
      student: { ...student, ended_after },
    });
  expect(describe(ended('calibration'))).toMatch(
    /^ended early +after the calibration: no kind of answer may be served, so no student was fitted/m,
  );
  expect(describe(ended('measurement'))).toMatch(
    /^ended early +after the measurement: .* was not taught all runs$/m,
  );
  expect(describe()).not.toContain('ended early');
  expect(describeRoundLine(ended('calibration'))).toMatch(
    /^published nothing: it is wrong; the round ended early, after the calibration \(5,900 golden/,
  );
});

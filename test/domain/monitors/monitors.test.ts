/** Rules for every run: streaks and interventions, scores, bounds, and steps with any content. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { digestStep } from '../../../src/domain/monitors/digest.ts';
import { FEATURE_BYTES } from '../../../src/domain/monitors/features.ts';
import { INTERVENTION_CHARACTERS } from '../../../src/domain/monitors/intervention.ts';
import { type MonitorStep, maskStep } from '../../../src/domain/monitors/masked-step.ts';
import { MEMORY_BYTES } from '../../../src/domain/monitors/memory.ts';
import {
  advanceMonitors,
  initialMonitors,
  type MonitorsState,
} from '../../../src/domain/monitors/monitors.ts';
import { MONITOR_NAMES, type MonitorName } from '../../../src/domain/monitors/names.ts';
import { BUILT_IN_PROFILES, findBuiltInProfile, makeProfile } from '../../../src/domain/monitors/profiles.ts';
import { firesAt, judgeRun, makeStep, repeat } from './script.ts';

const CODING = BUILT_IN_PROFILES.coding;
const STUCK = { action: 'read_file', action_input: '{"path":"a.ts"}', observation: 'the same text' };
const other = (i: number) => ({
  action: 'search',
  action_input: `word${i}`,
  observation: `found ${i} and more`,
});

/** Index and level of each intervention of a run. */
function said(steps: Parameters<typeof judgeRun>[0]): [number, string][] {
  return judgeRun(steps).flatMap((outcome, index) =>
    outcome.intervention === null ? [] : [[index, outcome.intervention.level] as [number, string]],
  );
}

describe('a streak', () => {
  it('is reported once, then once more as it escalates, while it fires at every step', () => {
    const steps = repeat(12, () => STUCK);
    expect(firesAt(judgeRun(steps), 'infinite_loop')).toEqual(repeat(10, (i) => i + 2));
    expect(said(steps)).toEqual([
      [2, 'nudge'],
      [5, 'stop'],
    ]);
  });

  it('ends when the agent changes course, and the next streak is reported again', () => {
    const steps = [...repeat(4, () => STUCK), ...repeat(3, other), ...repeat(4, () => STUCK)];
    expect(said(steps)).toEqual([
      [2, 'nudge'],
      [9, 'nudge'],
    ]);
  });

  it('does not count repeats from before a change of course', () => {
    const steps = [
      ...repeat(4, () => STUCK),
      ...repeat(2, other),
      STUCK,
      ...repeat(2, (i) => other(i + 9)),
      STUCK,
    ];
    expect(firesAt(judgeRun(steps), 'infinite_loop')).toEqual([2, 3]);
  });

  it('is not ended by a single different step', () => {
    const steps = [...repeat(4, () => STUCK), other(1), ...repeat(3, () => STUCK)];
    expect(said(steps)).toEqual([
      [2, 'nudge'],
      [6, 'stop'],
    ]);
  });

  it('is reported by one monitor if both loop monitors see it', () => {
    const steps = repeat(10, () => ({
      action: 'open',
      action_input: 'x y z',
      observation: 'Error: no such file',
      is_error: true,
    }));
    expect(firesAt(judgeRun(steps), 'semantic_loop').length).toBeGreaterThan(0);
    expect(said(steps).map(([, level]) => level)).toEqual(['nudge', 'stop']);
  });
});

describe('an intervention', () => {
  it('names the failure, the steps, what was done and what resulted, and says what to do instead', () => {
    const text = judgeRun(repeat(3, () => STUCK))[2]!.intervention!.text;
    expect(text).toContain('infinite_loop');
    expect(text).toContain('steps 0 and 1, then step 2');
    expect(text).toContain("read_file \"{'path':'a.ts'}\"");
    expect(text).toContain('"the same text"');
    expect(text).toContain('Instead: ');
  });

  it('names steps by their index, in order of arrival', () => {
    let state = initialMonitors('');
    let text = '';
    for (const index of [7, 3, 5]) {
      const result = advanceMonitors(state, digestStep(maskStep(makeStep(index, STUCK))), CODING);
      state = result.state;
      text = result.outcome.intervention?.text ?? text;
    }
    expect(text).toContain('steps 7 and 3, then step 5');
  });

  it('names indices beyond 32 bits', () => {
    let state = initialMonitors('');
    let text = '';
    for (const index of [2 ** 53 - 3, 2 ** 53 - 2, 2 ** 53 - 1]) {
      const result = advanceMonitors(state, digestStep(maskStep(makeStep(index, STUCK))), CODING);
      state = result.state;
      text = result.outcome.intervention?.text ?? text;
    }
    expect(text).toContain('steps 9007199254740989 and 9007199254740990, then step 9007199254740991');
  });

  it('quotes no secret, and the journal contains none', () => {
    const secret = `sk-ant-api03-${createHash('sha512').update('a key').digest('hex').slice(0, 93)}AA`;
    const leaking = {
      thought: `I will use ${secret}`,
      action: 'bash',
      action_input: JSON.stringify({ command: `curl -H 'x-api-key: ${secret}' https://api.example.com` }),
      observation: `Error: key ${secret} was refused`,
      is_error: true,
    };
    const digest = digestStep(maskStep(makeStep(0, leaking)));
    expect(JSON.stringify(digest)).not.toContain(secret.slice(13, 40));
    const text = judgeRun(repeat(3, () => leaking))[2]!.intervention!.text;
    expect(text).toContain('curl');
    expect(text).not.toContain(secret.slice(13, 40));
  });

  it('contains no control characters, and at most 1,200 characters, whatever it quotes', () => {
    const dirty = {
      action: `x\u001b[31m\n${'a'.repeat(5000)}`,
      action_input: `\u0000\ud800"${'\u202e'.repeat(900)}`,
      observation: `Error: \u0007\r\n${'y\u2028'.repeat(9000)}`,
      is_error: true,
    };
    for (const outcome of judgeRun(repeat(8, () => dirty))) {
      if (outcome.intervention === null) continue;
      expect(outcome.intervention.text).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202e]/);
      expect(outcome.intervention.text.isWellFormed()).toBe(true);
      expect(outcome.intervention.text.length).toBeLessThanOrEqual(INTERVENTION_CHARACTERS);
    }
    expect(said(repeat(8, () => dirty)).length).toBe(2);
  });
});

describe('profiles', () => {
  it('give the highest weight to the monitors that the documents name', () => {
    const heaviest = (name: string): MonitorName[] => {
      const { weights } = findBuiltInProfile(name)!;
      const most = Math.max(...Object.values(weights));
      return MONITOR_NAMES.filter((monitor) => weights[monitor] === most);
    };
    expect(heaviest('pr_review')).toEqual(['semantic_loop']);
    expect(heaviest('qa')).toEqual(['claim_contradiction', 'silent_topic_drift']);
    expect(findBuiltInProfile('constructor')).toBe(null);
  });

  it('make the total the weighted mean of the scores', () => {
    const last = judgeRun(
      repeat(5, () => STUCK),
      '',
      makeProfile('one', { infinite_loop: 3, semantic_loop: 1 }),
    ).at(-1)!;
    expect(last.total_score).toBeCloseTo((3 * last.scores.infinite_loop + last.scores.semantic_loop) / 4, 2);
    const even = judgeRun(
      repeat(5, () => STUCK),
      '',
      makeProfile('none', {}),
    ).at(-1)!;
    const mean = Object.values(even.scores).reduce((sum, score) => sum + score, 0) / MONITOR_NAMES.length;
    expect(even.total_score).toBeCloseTo(mean, 2);
  });

  it('move thresholds: a score at or above its threshold fires', () => {
    const strict = makeProfile('strict', { infinite_loop: 1 }, { infinite_loop: 0.9 });
    expect(
      firesAt(
        judgeRun(
          repeat(7, () => STUCK),
          '',
          strict,
        ),
        'infinite_loop',
      ),
    ).toEqual([5, 6]);
    const all = judgeRun(
      [other(0)],
      '',
      makeProfile('all', {}, Object.fromEntries(MONITOR_NAMES.map((name) => [name, 0]))),
    );
    expect(all[0]!.fired).toEqual([...MONITOR_NAMES]);
    expect(all[0]!.intervention).toBe(null);
  });
});

/** Ordinary texts, and texts that break careless code. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.constantFrom(
    '',
    '\u0000',
    '\ud800',
    '\udfff\ud800',
    '{"__proto__":{"a":1},"constructor":null}',
    '[[[[[[',
    '{"a":'.repeat(3000),
    `${'['.repeat(20_000)}${']'.repeat(20_000)}`,
    'word '.repeat(40_000),
    'x'.repeat(300_000),
    '\n'.repeat(50_000),
    '| a | b |\n'.repeat(3000),
    'The same sentence comes again. '.repeat(3000),
    "'a', ".repeat(5000),
    'Aa '.repeat(5000),
    'Error: '.repeat(3000),
    '漢字かな'.repeat(2000),
  ),
  fc.lorem({ maxCount: 60 }),
  fc.json(),
);
const step: fc.Arbitrary<MonitorStep> = fc.record({
  step_index: fc.nat(),
  action: text,
  action_input: text,
  thought: text,
  observation: text,
  is_error: fc.boolean(),
  tokens: fc.nat(),
});

function run(steps: readonly MonitorStep[], task: string): MonitorsState {
  return steps.reduce(
    (state, item) => advanceMonitors(state, digestStep(maskStep(item)), CODING).state,
    initialMonitors(task),
  );
}

describe('the monitors on any steps', () => {
  it('return six scores in [0, 1], consistent fired names and limited sizes', () => {
    fc.assert(
      fc.property(text, fc.array(step, { maxLength: 12 }), (task, steps) => {
        let state = initialMonitors(task);
        for (const item of steps) {
          const digest = digestStep(maskStep(item));
          expect(digest.features.length).toBe(FEATURE_BYTES);
          expect(new Packr({ useRecords: false }).pack(digest).length).toBeLessThan(2048);
          const { state: next, outcome } = advanceMonitors(state, digest, CODING);
          expect(Object.keys(outcome.scores).sort()).toEqual([...MONITOR_NAMES].sort());
          for (const score of [...Object.values(outcome.scores), outcome.total_score]) {
            expect(score).toBeGreaterThanOrEqual(0);
            expect(score).toBeLessThanOrEqual(1);
          }
          expect(outcome.fired).toEqual(
            MONITOR_NAMES.filter((name) => outcome.scores[name] >= CODING.thresholds[name]),
          );
          expect(outcome.intervention?.text.length ?? 0).toBeLessThanOrEqual(INTERVENTION_CHARACTERS);
          state = next;
        }
        expect(state.memory.length).toBe(MEMORY_BYTES);
      }),
      { numRuns: 150 },
    );
  });

  it('give the same answers when the journaled digests are replayed, and change no input', () => {
    const packr = new Packr({ useRecords: false });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
        let live = initialMonitors('a task');
        let replayed = initialMonitors('a task');
        for (const item of steps) {
          const digest = digestStep(maskStep(item));
          const before = live.memory.slice();
          const first = advanceMonitors(live, digest, CODING);
          expect(live.memory).toEqual(before);
          // As after reading a journal or a snapshot, the arrays begin at an odd offset of another buffer.
          const stored = packr.unpack(packr.pack({ pad: 1, digest, replayed }));
          const second = advanceMonitors(stored.replayed, stored.digest, CODING);
          expect(second.outcome).toEqual(first.outcome);
          live = first.state;
          replayed = second.state;
        }
        expect(Buffer.from(replayed.memory)).toEqual(Buffer.from(live.memory));
      }),
      { numRuns: 100 },
    );
  });

  it('have one hash for a call, whatever the order of the keys of its JSON', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 2, maxKeys: 8, noNullPrototype: true }),
        (input) => {
          const turned = Object.fromEntries(Object.entries(input).reverse());
          const numbers = (value: unknown): Uint8Array =>
            digestStep(
              maskStep(makeStep(0, { action: 'call', action_input: JSON.stringify(value) })),
            ).features.slice(0, 4);
          expect(numbers(turned)).toEqual(numbers(input));
        },
      ),
    );
  });
});

describe('a long run', () => {
  it('takes the same memory after 5,000 steps as after 50, and fits 100,000 times into a gigabyte', () => {
    const steps = (from: number, count: number): MonitorStep[] =>
      repeat(count, (i) =>
        makeStep(from + i, { ...other(from + i), thought: `thought ${from + i} about the parser` }),
      );
    const after50 = run(steps(0, 50), 'a task');
    const pack = (state: MonitorsState): number => new Packr().pack(state).length;
    const after5000 = run(steps(0, 5000), 'a task');
    expect(pack(after5000)).toBe(pack(after50));
    expect(pack(after5000)).toBeLessThan(6 * 1024);
  });
});

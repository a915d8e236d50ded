/** Difficulty: the documented score, the rules of the state machine, the model of each state, and the soft budget. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  DIFFICULTY_STATES,
  DifficultyMachine,
  type DifficultyState,
  nextState,
} from '../../src/client/difficulty/machine.ts';
import { readModelRouting, routeModel } from '../../src/client/difficulty/model-routing.ts';
import { measureSignals, scoreStep } from '../../src/client/difficulty/step-score.ts';
import { type FsmThresholds, readThresholds } from '../../src/client/difficulty/thresholds.ts';
import { TokenBudget } from '../../src/client/difficulty/token-budget.ts';
import { camelCased, readCases } from './client-cases.ts';

interface ScoreCase {
  name: string;
  text?: string;
  parts?: [text: string, times: number][];
  words: number;
  hedges: number;
  errors: number;
  entities: number;
  score: number;
}

const textOf = ({ text, parts = [] }: ScoreCase) =>
  text ?? parts.map(([part, times]) => part.repeat(times)).join('');

describe('the difficulty score', () => {
  it.each(readCases<ScoreCase[]>('difficulty'))('$name', (given) => {
    const { words, hedges, errors, entities } = given;
    expect(measureSignals(textOf(given))).toEqual(
      words === 0
        ? null
        : {
            hedging: Math.min(1, (20 * hedges) / words),
            length: Math.min(1, words / 500),
            error_language: Math.min(1, (20 * errors) / words),
            entities: Math.min(1, entities / 10),
          },
    );
    expect(Math.abs(scoreStep(textOf(given)) - given.score)).toBeLessThan(1e-9);
  });

  const { hedges, errors } = readCases<{ hedges: string[]; errors: string[] }>('difficulty-words');

  it.each(hedges)('counts "%s" as uncertainty', (word) => {
    expect(measureSignals(word)).toMatchObject({ hedging: 1, error_language: 0 });
  });

  it.each(errors)('counts "%s" as failure', (word) => {
    expect(measureSignals(word)).toMatchObject({ hedging: 0, error_language: 1 });
  });

  it('ignores values that are not text', () => {
    for (const value of [undefined, null, 7, {}, []]) expect(scoreStep(value as never)).toBe(0.5);
  });

  it('is in [0, 1] for any text, and the same each time', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
        const score = scoreStep(text);
        expect(score).toBeGreaterThanOrEqual(0);
        expect(score).toBeLessThanOrEqual(1);
        expect(scoreStep(text)).toBe(score);
      }),
    );
  });

  it('rises with each signal', () => {
    const words = fc.integer({ min: 20, max: 300 });
    fc.assert(
      fc.property(words, fc.constantFrom('maybe', 'failed', 'os.path', '"a b"'), (count, word) => {
        const plain = Array.from({ length: count }, () => 'word');
        expect(scoreStep([word, ...plain.slice(1)].join(' '))).toBeGreaterThan(scoreStep(plain.join(' ')));
      }),
    );
  });
});

const score = fc.double({ min: 0, max: 1, noNaN: true });
const window = fc.integer({ min: 1, max: 6 });
/** Thresholds in the required order. */
const thresholds: fc.Arbitrary<FsmThresholds> = fc
  .tuple(fc.tuple(score, score, score), score, window, window, window)
  .map(([three, hysteresisMargin, fastWindow, slowWindow, skipWindow]) => {
    const [skipThreshold, fastThreshold, slowThreshold] = three.sort((a, b) => a - b) as typeof three;
    return {
      skipThreshold,
      fastThreshold,
      slowThreshold,
      hysteresisMargin,
      fastWindow,
      slowWindow,
      skipWindow,
    };
  });

function follow(given: Partial<FsmThresholds>, scores: readonly number[]): DifficultyState[] {
  const machine = new DifficultyMachine(given);
  return scores.map((score) => machine.observe(score));
}

describe('the difficulty machine', () => {
  interface MachineCase {
    name: string;
    thresholds: Record<string, number>;
    scores: number[];
    states: DifficultyState[];
  }

  it.each(readCases<MachineCase[]>('machine'))('$name', ({ thresholds, scores, states }) => {
    expect(follow(camelCased(thresholds), scores)).toEqual(states);
  });

  it.each(readCases<{ thresholds: Record<string, never>; names: string }[]>('machine-refusals'))(
    'refuses $thresholds',
    ({ thresholds, names }) => {
      const [key] = Object.keys(camelCased({ [names]: 0 }));
      expect(() => new DifficultyMachine(camelCased(thresholds))).toThrow(new RegExp(key!));
    },
  );

  it('reaches a state on equal scores and then stays in it', () => {
    fc.assert(
      fc.property(thresholds, fc.array(score, { maxLength: 12 }), score, (given, before, same) => {
        const states = follow(given, [...before, ...Array<number>(40).fill(same)]);
        expect(new Set(states.slice(-30)).size).toBe(1);
      }),
    );
  });

  it('never moves from SLOW to SKIP, which the diagram in docs/difficulty.md does not connect', () => {
    fc.assert(
      fc.property(thresholds, fc.array(score, { minLength: 2, maxLength: 60 }), (given, scores) => {
        const states = ['FAST', ...follow(given, scores)];
        for (const [index, state] of states.slice(1).entries())
          expect(`${states[index]} ${state}`).not.toBe('SLOW SKIP');
      }),
    );
  });

  it('is SLOW if the last steps are as hard as slowThreshold', () => {
    fc.assert(
      fc.property(thresholds, fc.array(score, { minLength: 1, maxLength: 40 }), (given, scores) => {
        const hard = Array<number>(given.slowWindow).fill(given.slowThreshold);
        expect(follow(given, [...scores, ...hard]).at(-1)).toBe('SLOW');
      }),
    );
  });

  it('depends only on its state and the steps of its largest window', () => {
    fc.assert(
      fc.property(
        thresholds,
        fc.array(score, { minLength: 20, maxLength: 40 }),
        score,
        fc.constantFrom(...DIFFICULTY_STATES),
        (given, scores, last, state) => {
          const read = readThresholds(given);
          const largest = Math.max(given.fastWindow, given.slowWindow, given.skipWindow);
          const all = [...scores, last];
          expect(nextState(state, all, read)).toBe(nextState(state, all.slice(-largest), read));
        },
      ),
    );
  });

  it('needs a larger change to leave a state than to enter it', () => {
    const given = { hysteresisMargin: 0.1, fastWindow: 1, slowWindow: 1, skipWindow: 1 };
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.2001, max: 0.2999, noNaN: true }), { maxLength: 40 }),
        (wobble) => {
          const around = { ...given, skipThreshold: 0.1, fastThreshold: 0.3, slowThreshold: 0.3 };
          expect(new Set(follow(around, [0.3, ...wobble]))).toEqual(new Set(['SLOW']));
        },
      ),
    );
  });
});

describe('the model of a state', () => {
  it('is the one that the routing names, or null', () => {
    const routing = readModelRouting({ FAST: 'small', SLOW: 'large' });
    expect(DIFFICULTY_STATES.map((state) => routeModel(routing, state))).toEqual(['small', 'large', null]);
    expect(routeModel(readModelRouting(), 'FAST')).toBeNull();
  });

  it('is refused for an unknown state and without a name', () => {
    expect(() => readModelRouting({ fast: 'small' } as never)).toThrow(/modelRouting\.fast is unknown/);
    expect(() => readModelRouting({ FAST: '' })).toThrow(/modelRouting\.FAST must be/);
    expect(() => readModelRouting({ SLOW: 7 } as never)).toThrow(/modelRouting\.SLOW must be/);
  });
});

describe('the token budget', () => {
  it('reports once, at the step that reaches it, and stops nothing', () => {
    const told: unknown[] = [];
    const budget = new TokenBudget(100, (reached) => told.push(reached));
    for (const tokens of [60, undefined, -5, Number.NaN, 39, 1, 70]) budget.spend(tokens);
    expect(told).toEqual([{ budget: 100, spent: 100 }]);
    expect([budget.spent, budget.is_reached]).toEqual([170, true]);
  });

  it('counts without a limit, and ignores errors and rejections of the callback', async () => {
    const free = new TokenBudget();
    free.spend(1e9);
    expect([free.spent, free.is_reached]).toEqual([1e9, false]);
    new TokenBudget(1, () => {
      throw new Error('of the caller');
    }).spend(1);
    new TokenBudget(1, () => Promise.reject(new Error('of the caller'))).spend(1);
    await new Promise(setImmediate);
  });

  it.each([0, -1, 1.5, Number.NaN, '5'])('refuses %s', (budget) => {
    expect(() => new TokenBudget(budget as number)).toThrow(/tokenBudget/);
  });
});

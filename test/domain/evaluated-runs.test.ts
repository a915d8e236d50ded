/** Which evaluations of posted steps return an intervention, and how many evaluations are remembered. */
import { describe, expect, it } from 'vitest';
import {
  EVALUATED_RUNS,
  type EvaluatedRuns,
  type EvaluatedSteps,
  handOut,
  keepEntry,
  NO_EVALUATED_RUNS,
} from '../../src/domain/evaluated-runs.ts';

/** The first steps of a run, with one digest for each prefix. */
function stepsOf(run: string, count: number, pending: EvaluatedSteps['pending'] = null): EvaluatedSteps {
  const prefixes = Array.from({ length: count }, (_, at) => `${run} ${at + 1}`);
  return { prefixes, windows: null, window: null, pending };
}

/** Evaluates in order. @returns what was due, and the resulting runs */
function evaluateAll(evaluations: readonly EvaluatedSteps[], from: EvaluatedRuns = NO_EVALUATED_RUNS) {
  let runs = from;
  const due = evaluations.map((steps) => {
    const { due, keys, entry } = handOut(runs, steps);
    runs = keepEntry(runs, keys, entry);
    return due;
  });
  return { due, runs };
}

describe('a run that is evaluated', () => {
  it('gets an intervention once per level of a streak, and again in the next streak', () => {
    const nudge = { level: 1, began: 3 } as const;
    const stop = { level: 2, began: 3 } as const;
    const { due } = evaluateAll([
      stepsOf('a', 2),
      stepsOf('a', 4, nudge),
      stepsOf('a', 5, nudge),
      stepsOf('a', 8, stop),
      stepsOf('a', 12, stop),
      stepsOf('a', 16),
      stepsOf('a', 22, { level: 1, began: 20 }),
    ]);
    expect(due).toEqual([false, true, false, true, false, false, true]);
  });

  it('gets the highest level at once if its streak escalated before the first evaluation', () => {
    const stop = { level: 2, began: 3 } as const;
    expect(evaluateAll([stepsOf('a', 9, stop), stepsOf('a', 10, stop)]).due).toEqual([true, false]);
  });

  it('gets no intervention without steps, and is not remembered', () => {
    expect(handOut(NO_EVALUATED_RUNS, stepsOf('a', 0))).toMatchObject({
      due: false,
      is_repeat: false,
      keys: [],
    });
  });
});

it('a new evaluation replaces only the oldest ones, and leaves all others unchanged', () => {
  const nudge = { level: 1, began: 1 } as const;
  const { entries, parts } = EVALUATED_RUNS;
  const before = evaluateAll([stepsOf('first', 1, nudge)]).runs;
  const many = Array.from({ length: entries - entries / parts }, (_, at) => stepsOf(`run ${at}`, 1, nudge));
  const { runs } = evaluateAll(many, before);
  expect(before.reduce((sum, part) => sum + part.size, 0)).toBe(1);
  expect(runs.reduce((sum, part) => sum + part.size, 0)).toBeLessThanOrEqual(entries);
  expect(handOut(runs, stepsOf(`run ${many.length - 1}`, 1, nudge)).is_repeat).toBe(true);
  const full = evaluateAll(
    [...many.slice(0, entries / parts), ...many.slice(0, entries / parts)].map((steps, at) => ({
      ...steps,
      prefixes: [`more ${at}`],
    })),
    runs,
  ).runs;
  expect(full.reduce((sum, part) => sum + part.size, 0)).toBeLessThanOrEqual(entries);
  expect(handOut(full, stepsOf('first', 1, nudge)).is_repeat).toBe(false);
  expect(handOut(full, stepsOf(`run ${many.length - 1}`, 1, nudge)).is_repeat).toBe(true);
});

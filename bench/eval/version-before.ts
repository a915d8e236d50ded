/**
 * Runs another version of the student, from a checkout, on the same runs, to measure the effect of a change. The
 * checkout's dependencies must be installed. Bench process.
 */

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { answersAgree } from '../../src/student/model/agreement.ts';
import type * as StudentModule from '../../src/student/model/student.ts';
import type * as Calibration from '../../src/teaching/calibration.ts';
import type * as Fit from '../../src/teaching/student-fit.ts';
import type * as Runs from './relegation-runs.ts';
import type { RecordedStep } from './relegation-runs.ts';

/** The functions of the other version that this file calls. */
export interface StudentVersion {
  calibration: typeof Calibration;
  fit: typeof Fit;
  student: typeof StudentModule;
  runs: typeof Runs;
}

export interface VersionPoint {
  target: number;
  served: number;
  errors: number;
  steps: number;
  by_family: Record<string, { served: number; errors: number; steps: number }>;
}

/** Loads another version of the student's code. @param directory of the checkout */
export function loadVersion(directory: string): StudentVersion {
  // The path is known only at run time.
  const require = createRequire(import.meta.url);
  const load = (...paths: string[]): unknown => {
    const candidates = paths.map((path) => resolve(directory, path));
    return require(candidates.find((path) => existsSync(path)) ?? candidates[0]!) as unknown;
  };
  // Versions before November 2026 have these two files in `src/student`.
  return {
    calibration: load(
      'src/teaching/calibration.ts',
      'src/student/model/calibration.ts',
    ) as typeof Calibration,
    fit: load('src/teaching/student-fit.ts', 'src/student/model/student-fit.ts') as typeof Fit,
    student: load('src/student/model/student.ts') as typeof StudentModule,
    runs: load('bench/eval/relegation-runs.ts') as typeof Runs,
  };
}

/**
 * Measures which held-out steps the other version serves at each target, and how many of its answers are wrong. Each
 * version uses its own definition of equivalent answers.
 */
export function measureVersion(
  { calibration, fit, student, runs }: StudentVersion,
  golden: readonly RecordedStep[],
  held: readonly RecordedStep[],
): VersionPoint[] {
  const makeIndex = (dimensions: number) => new ExactIndex(dimensions);
  const readAgain = (steps: readonly RecordedStep[]) =>
    steps.map((learned) => ({ ...learned, step: runs.readStep(learned.request) }));
  const taught = readAgain(golden);
  const asked = readAgain(held);
  const { curve } = calibration.calibrateStudent(taught, { makeIndex });
  const model = fit.fitStudent(taught);
  return curve.map(({ target_error, threshold, agents }) => {
    const limited = new student.Student(fit.limitAgents(model, agents), makeIndex);
    const point: VersionPoint = { target: target_error, served: 0, errors: 0, steps: 0, by_family: {} };
    for (const { family, step, answer } of asked) {
      const counted = point.by_family[family] ?? { served: 0, errors: 0, steps: 0 };
      point.by_family[family] = counted;
      point.steps++;
      counted.steps++;
      const decision = limited.decide(step, threshold);
      if (!decision.covered || decision.answer === null) continue;
      point.served++;
      counted.served++;
      if (decision.agrees?.(answer.content) ?? answersAgree(decision.answer, answer)) continue;
      point.errors++;
      counted.errors++;
    }
    return point;
  });
}

/**
 * Another version of the student, from a checkout of it, on the same runs: what a change to the student is worth. The checkout
 * needs its dependencies. Bench process.
 */

import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { ExactIndex } from '../../src/search/exact-index.ts';
import { answersAgree } from '../../src/student/model/agreement.ts';
import type * as Calibration from '../../src/student/model/calibration.ts';
import type * as StudentModule from '../../src/student/model/student.ts';
import type * as Fit from '../../src/student/model/student-fit.ts';
import type * as Runs from './relegation-runs.ts';
import type { RecordedStep } from './relegation-runs.ts';

/** The parts of a version that are asked. */
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

/** @param directory of the checkout */
export function loadVersion(directory: string): StudentVersion {
  // By a path that is known at run time alone.
  const require = createRequire(import.meta.url);
  const load = (path: string): unknown => require(resolve(directory, path)) as unknown;
  return {
    calibration: load('src/student/model/calibration.ts') as typeof Calibration,
    fit: load('src/student/model/student-fit.ts') as typeof Fit,
    student: load('src/student/model/student.ts') as typeof StudentModule,
    runs: load('bench/eval/relegation-runs.ts') as typeof Runs,
  };
}

/** What that version serves of held-out steps, at each target; whether it is wrong, this version's agreement says. */
export function measureVersion(
  { calibration, fit, student, runs }: StudentVersion,
  golden: readonly RecordedStep[],
  held: readonly RecordedStep[],
): VersionPoint[] {
  const makeIndex = (dimensions: number) => new ExactIndex(dimensions);
  const readAgain = (steps: readonly RecordedStep[]) =>
    steps.map((one) => ({ ...one, step: runs.readStep(one.request) }));
  const taught = readAgain(golden);
  const asked = readAgain(held);
  const { curve } = calibration.calibrateStudent(taught, { makeIndex });
  const model = fit.fitStudent(taught);
  return curve.map(({ target_error, threshold, agents }) => {
    const limited = new student.Student(fit.limitAgents(model, agents), makeIndex);
    const point: VersionPoint = { target: target_error, served: 0, errors: 0, steps: 0, by_family: {} };
    for (const { family, step, answer } of asked) {
      const its = point.by_family[family] ?? { served: 0, errors: 0, steps: 0 };
      point.by_family[family] = its;
      point.steps++;
      its.steps++;
      const decision = limited.decide(step, threshold);
      if (!decision.covered || decision.answer === null) continue;
      point.served++;
      its.served++;
      if (answersAgree(decision.answer, answer)) continue;
      point.errors++;
      its.errors++;
    }
    return point;
  });
}

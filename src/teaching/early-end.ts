/**
 * Finds out whether a round can publish nothing, whatever its student learns. Counting the golden runs shows this
 * early, before the round spends minutes on fitting and measuring, or requests on a service. Pure; the round's own
 * thread.
 */

import { countOf } from '../std/count-of.ts';
import type { StudentKind } from '../student/model/manifest.ts';
import { countRunsNeeded } from './calibration.ts';
import { type GoldenRun, mainScope } from './golden-steps.ts';
import { rotateParts, splitForService, splitRuns } from './held-out.ts';
import type { Gate } from './taught-student.ts';

/** How the round would teach. */
interface Teaching {
  student: StudentKind;
  gate: Gate;
  held_out: number | null;
}

/**
 * Compares the golden runs with what the gate and the evidence for one kind of answer need at least.
 * @returns null when a student might be published
 */
export function describeTooLittle(taught: readonly GoldenRun[], teaching: Teaching): string | null {
  const { evidence, held_out } = divide(taught, teaching);
  const { target_error, served_min } = teaching.gate;
  const needed = countRunsNeeded(target_error);
  const most = evidence.reduce((largest, runs) => Math.max(largest, countOfLargestScope(runs)), 0);
  if (most < needed) {
    const all = countOfLargestScope(taught);
    const use = teaching.student.kind === 'http' ? 'are held out' : 'teach while the others are held out';
    return `it would serve nothing: of the ${all} golden runs of its busiest agent, ${most} ${use}; a kind of answer needs ${needed}`;
  }
  const steps = held_out.reduce((sum, run) => sum + run.steps.length, 0);
  if (steps >= served_min) return null;
  return `the held-out runs have ${countOf(steps, 'step')}; measuring a student's error rate needs ${served_min}`;
}

/**
 * Divides runs as teaching does. Returns the runs that give evidence for each measured student, and all held-out runs.
 */
function divide(
  taught: readonly GoldenRun[],
  { student, held_out: share }: Teaching,
): { evidence: GoldenRun[][]; held_out: GoldenRun[] } {
  if (student.kind === 'http') {
    const { held_out } = splitForService(taught, mainScope, share);
    return { evidence: [held_out], held_out };
  }
  const parts = rotateParts(splitRuns(taught));
  return {
    evidence: parts.map(({ teaching }) => teaching),
    held_out: parts.flatMap(({ held_out }) => held_out),
  };
}

/** Number of runs that have a step of the most common scope. All steps of an agent have one scope. */
function countOfLargestScope(runs: readonly GoldenRun[]): number {
  const counts = new Map<string, number>();
  for (const { steps } of runs)
    for (const scope of new Set(steps.map(({ step }) => step.scope)))
      counts.set(scope, (counts.get(scope) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

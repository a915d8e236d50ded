/**
 * Measures how many steps a student serves for agents whose frontier model varies (varied-worlds.ts), and how many of
 * these answers have a wrong effect. The student acts in the world if it covers a step; otherwise the frontier model
 * acts. Bench process.
 */

import { ExactIndex } from '../../src/search/exact-index.ts';
import { Student, type StudentIndex } from '../../src/student/model/student.ts';
import { calibrateStudent } from '../../src/teaching/calibration.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import { startRun, VARIED_NAMES } from './agent-families.ts';
import type { WireBlock } from './agent-family.ts';
import { readStep, recordRun } from './relegation-runs.ts';

const GOLDEN_RUNS = [40, 150];
const LIVE_RUNS = 40;

const makeIndex = (dimensions: number): StudentIndex => new ExactIndex(dimensions);

/** A student's results in the live runs of one family. */
interface VariedPoint {
  family: string;
  golden_runs: number;
  runs: number;
  steps: number;
  served: number;
  /** Served answers with a wrong effect. */
  wrong: number;
  /**
   * `refused_right`: steps that were not served although the student's answer was right. `reasons`: all steps that were
   * not served, by reason.
   */
  refused_right: number;
  reasons: Record<string, number>;
  /** Runs in which every step was served with a right answer. */
  whole: number;
  round_cpu_ms: number;
}

function measureVaried(family: string, goldenRuns: number, seed: number): VariedPoint {
  const base = seed * 100_000;
  const golden = Array.from({ length: goldenRuns }, (_, i) => recordRun(family, base + i)).flatMap(
    ({ steps }) => steps,
  );
  const before = process.cpuUsage();
  const calibration = calibrateStudent(golden, { makeIndex });
  const student = new Student(limitAgents(fitStudent(golden), calibration.agents), makeIndex);
  const { user, system } = process.cpuUsage(before);
  const point: VariedPoint = {
    family,
    golden_runs: goldenRuns,
    runs: LIVE_RUNS,
    steps: 0,
    served: 0,
    wrong: 0,
    refused_right: 0,
    reasons: {},
    whole: 0,
    round_cpu_ms: Math.round((user + system) / 1_000),
  };
  for (let i = 0; i < LIVE_RUNS; i++) {
    const run = startRun(family, base + 50_000 + i);
    let isWhole = true;
    for (let request = run.nextRequest(); request !== null; request = run.nextRequest()) {
      const oracle = run.askOracle();
      const step = readStep(request);
      const decision = student.decide(step, calibration.threshold);
      point.steps++;
      if (decision.covered && decision.answer !== null) {
        const content = decision.answer.content as unknown as WireBlock[];
        const wire = toWire(content, point.steps);
        point.served++;
        if (!run.isRight(wire)) {
          point.wrong++;
          isWhole = false;
          // The run continues with the right answer, so that an error is counted once.
          run.takeAnswer(oracle);
        } else run.takeAnswer({ content: wire, stop_reason: decision.answer.stop_reason });
        continue;
      }
      isWhole = false;
      const reason = decision.covered ? 'none' : decision.reason;
      point.reasons[reason] = (point.reasons[reason] ?? 0) + 1;
      const proposal = student.propose(step);
      if (
        proposal.answer !== null &&
        run.isRight(toWire(proposal.answer.content as unknown as WireBlock[], 0))
      )
        point.refused_right++;
      run.takeAnswer(oracle);
    }
    if (isWhole) point.whole++;
  }
  return point;
}

function toWire(content: readonly WireBlock[], step: number): WireBlock[] {
  return content.map((block, i) => {
    const { type, ...rest } = block as unknown as {
      type: string;
      name: string;
      input: Record<string, unknown>;
    };
    return type === 'tool_call'
      ? {
          type: 'tool_use',
          id: `toolu_${step}_${i}`,
          name: rest.name,
          input: JSON.parse(JSON.stringify(rest.input)) as Record<string, unknown>,
        }
      : block;
  });
}

/** Prints and returns the points of the varied families. */
export function evaluateVaried(seeds: readonly number[]): VariedPoint[] {
  const all: VariedPoint[] = [];
  for (const runs of GOLDEN_RUNS) {
    const points = seeds.flatMap((seed) => VARIED_NAMES.map((family) => measureVaried(family, runs, seed)));
    for (const family of VARIED_NAMES)
      console.log(
        describe(
          points.filter((point) => point.family === family),
          family,
          runs,
        ),
      );
    console.log(describe(points, 'all', runs));
    all.push(...points);
  }
  return all;
}

function describe(points: readonly VariedPoint[], name: string, goldenRuns: number): string {
  const sum = (of: (point: VariedPoint) => number): number =>
    points.reduce((all, point) => all + of(point), 0);
  const steps = sum(({ steps }) => steps);
  const share = (count: number, all: number): string => `${((100 * count) / Math.max(1, all)).toFixed(1)} %`;
  const served = sum((point) => point.served);
  return [
    name.padEnd(14),
    `${goldenRuns} golden`,
    `served ${share(served, steps)}`,
    `wrong ${share(
      sum(({ wrong }) => wrong),
      served,
    )} (${sum(({ wrong }) => wrong)})`,
    `whole ${share(
      sum(({ whole }) => whole),
      sum(({ runs }) => runs),
    )}`,
    `refused though right ${share(
      sum((point) => point.refused_right),
      steps,
    )}`,
    `round ${(sum((point) => point.round_cpu_ms) / 1_000).toFixed(1)} s`,
  ].join('  ');
}

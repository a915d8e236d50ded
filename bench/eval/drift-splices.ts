/**
 * Measures how often silent_topic_drift finds a drift. It makes runs that certainly drift: each begins like one
 * labelled run and continues with the steps of another run that has another task. So they need no annotation. Inserted
 * steps that talk to a person are left out, because they belong to a different person. Part of the monitors'
 * evaluation.
 */
import { digestStep } from '../../src/domain/monitors/digest.ts';
import { maskStep } from '../../src/domain/monitors/masked-step.ts';
import { advanceMonitors, initialMonitors } from '../../src/domain/monitors/monitors.ts';
import { BUILT_IN_PROFILES } from '../../src/domain/monitors/profiles.ts';
import { type AgentRun, DATA_SETS, type DataSet, dataSetOf } from './agent-runs.ts';

/** Number of steps before the other run begins, and of steps from the other run. */
const OWN_STEPS = 4;
const OTHER_STEPS = 10;
/** Runs with fewer steps than this are not inserted. */
const OTHER_STEPS_MIN = 6;
/**
 * The inserted run is this number of places after the other run in the data set, or a multiple of this number, because
 * neighbours are almost equal.
 */
const STRIDE = 7;

interface SpliceRow {
  from: DataSet;
  to: DataSet;
  runs: number;
  told: number;
}

function isTold(task: string, steps: AgentRun['steps'], from: number): boolean {
  let state = initialMonitors(task);
  return steps.some((step, at) => {
    const result = advanceMonitors(
      state,
      digestStep(maskStep({ ...step, step_index: at })),
      BUILT_IN_PROFILES.qa,
    );
    state = result.state;
    return at > from && result.outcome.fired.includes('silent_topic_drift');
  });
}

function findOther(others: readonly AgentRun[], at: number, task: string): AgentRun | undefined {
  for (let ahead = 1; ahead < others.length; ahead++) {
    const other = others[(at + ahead * STRIDE) % others.length]!;
    if (other.task !== task && other.steps.length >= OTHER_STEPS_MIN) return other;
  }
  return undefined;
}

/** Counts the drifting runs of each pair of data sets, and how many of them the monitor reports. */
export function measureSplices(runs: readonly AgentRun[]): SpliceRow[] {
  const bySet = new Map(DATA_SETS.map((set) => [set, runs.filter((run) => dataSetOf(run) === set)]));
  return DATA_SETS.flatMap((from) =>
    DATA_SETS.map((to): SpliceRow => {
      const row = { from, to, runs: 0, told: 0 };
      bySet.get(from)!.forEach((run, at) => {
        const own = Math.min(OWN_STEPS, run.steps.length >> 1);
        const other = findOther(bySet.get(to)!, at, run.task);
        if (own < 2 || other === undefined) return;
        const put = other.steps.filter((step) => step.action !== 'respond').slice(0, OTHER_STEPS);
        row.runs += 1;
        if (isTold(run.task, [...run.steps.slice(0, own), ...put], own)) row.told += 1;
      });
      return row;
    }),
  );
}

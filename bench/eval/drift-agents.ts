/**
 * Measures silent changes with real students. A student that has learnt a synthetic agent is asked about runs from
 * before and after a change (agent-changes.ts), and the product's own watch audits and suspends. The student is asked
 * about each run once; then many watches, each with its own audits, go through the runs. Bench process.
 */

import { ExactIndex } from '../../src/search/exact-index.ts';
import { createPrng } from '../../src/std/prng.ts';
import { kindOfAnswer } from '../../src/student/model/answer-kind.ts';
import { DriftWatch } from '../../src/student/model/drift-watch.ts';
import { Student } from '../../src/student/model/student.ts';
import { calibrateStudent } from '../../src/teaching/calibration.ts';
import { fitStudent, limitAgents } from '../../src/teaching/student-fit.ts';
import { AGENT_CHANGES, type AgentChange } from './agent-changes.ts';
import { canChange } from './agent-families.ts';
import { recordRun } from './relegation-runs.ts';

const FAMILIES = ['stock_release', 'expense_check', 'invoice_check', 'review_links'] as const;
const GOLDEN_RUNS = 150;
/** Runs of each agent before and after the change; the watches draw from them again and again. */
const POOL_RUNS = 60;
const WATCHES = 100;
const BEFORE_RUNS = 500;
const AFTER_RUNS = 3_000;
const CALM_RUNS = 10_000;
const TARGET = 0.05;
const AUDIT_SHARE = 0.05;

/** A covered step: the kind of the student's answer, and whether that answer is wrong. */
interface Covered {
  kind: string;
  is_wrong: boolean;
}
/** The steps of one run that the student covers. */
interface AskedRun {
  steps: number;
  covered: Covered[];
}

interface DriftRow {
  family: string;
  change: string;
  /**
   * Share of the steps that the student covers, and share of the covered steps that is wrong. No watch takes part in
   * these figures.
   */
  covered: number;
  wrong: number;
  /** Wrong answers that a watch lets pass, over all watches; null: no covered step was wrong. */
  wrong_served: { median: number; p90: number } | null;
  runs_until_suspended: number | null;
  never_suspended: number;
}

/** Prints the table. @returns what a result file keeps */
export function evaluateAgentDrift(seed: number) {
  const rows: DriftRow[] = [];
  const calm: { family: string; suspended: number; watches: number; runs: number }[] = [];
  const base = seed * 10_000_000;
  for (const family of FAMILIES) {
    const student = learn(family, base);
    const before = askRuns(student, family, base + 3_000_000, null);
    calm.push({ family, suspended: countFalse(before), watches: WATCHES, runs: CALM_RUNS });
    for (const [name, change] of Object.entries(AGENT_CHANGES)) {
      if (!canChange(family, change)) continue;
      rows.push(meetChange(family, name, before, askRuns(student, family, base + 5_000_000, change)));
    }
  }
  print(rows, calm);
  return { golden_runs: GOLDEN_RUNS, watches: WATCHES, audit_share: AUDIT_SHARE, rows, calm };
}

interface Learned {
  student: Student;
  threshold: number;
}

function learn(family: string, base: number): Learned {
  const golden = Array.from({ length: GOLDEN_RUNS }, (_, i) => recordRun(family, base + i)).flatMap(
    ({ steps }) => steps,
  );
  const makeIndex = (dimensions: number) => new ExactIndex(dimensions);
  const { agents, threshold } = calibrateStudent(golden, { makeIndex, target_error: TARGET });
  return { student: new Student(limitAgents(fitStudent(golden), agents), makeIndex), threshold };
}

function askRuns(
  { student, threshold }: Learned,
  family: string,
  first: number,
  change: AgentChange | null,
): AskedRun[] {
  return Array.from({ length: POOL_RUNS }, (_, i): AskedRun => {
    const { steps } = recordRun(family, first + i, false, change);
    const covered = steps.flatMap(({ step, answer }): Covered[] => {
      const decision = student.decide(step, threshold);
      if (!decision.covered || decision.answer === null) return [];
      const is_wrong = decision.agrees?.(answer.content) !== true;
      return [{ kind: kindOfAnswer(decision.answer.content), is_wrong }];
    });
    return { steps: steps.length, covered };
  });
}

/** Plays one run. @returns how many wrong answers were served, and whether anything is suspended */
function play(watch: DriftWatch, { covered }: AskedRun): { wrong: number; is_suspended: boolean } {
  let wrong = 0;
  let isSuspended = false;
  for (const { kind, is_wrong } of covered) {
    const verdict = watch.judge('agent', kind);
    if (verdict === 'suspended') isSuspended = true;
    else if (verdict === 'audit') isSuspended = watch.note('agent', kind, !is_wrong) !== null || isSuspended;
    else if (is_wrong) wrong++;
  }
  return { wrong, is_suspended: isSuspended };
}

function makeWatch(seed: number): { watch: DriftWatch; draw: (runs: readonly AskedRun[]) => AskedRun } {
  const prng = createPrng(seed);
  const terms = { version: 1, made_at_ms: 0, promise: TARGET, valid_until_ms: null };
  return {
    watch: new DriftWatch(
      terms,
      AUDIT_SHARE,
      () => prng.float(),
      () => 1,
    ),
    draw: (runs) => runs[prng.below(runs.length)]!,
  };
}

function countFalse(runs: readonly AskedRun[]): number {
  let suspended = 0;
  for (let seed = 1; seed <= WATCHES; seed++) {
    const { watch, draw } = makeWatch(seed);
    for (let run = 0; run < CALM_RUNS; run++) {
      if (!play(watch, draw(runs)).is_suspended) continue;
      suspended++;
      break;
    }
  }
  return suspended;
}

/**
 * Plays AFTER_RUNS runs after the change with each watch. Counts the wrong answers that are served in these runs, and
 * the runs until the watch suspends something for the first time.
 */
function meetChange(
  family: string,
  change: string,
  before: readonly AskedRun[],
  after: readonly AskedRun[],
): DriftRow {
  const covered = after.flatMap((run) => run.covered);
  const wrongOnes = covered.filter(({ is_wrong }) => is_wrong).length;
  const steps = after.reduce((sum, run) => sum + run.steps, 0);
  const row: DriftRow = {
    family,
    change,
    covered: covered.length / steps,
    wrong: covered.length === 0 ? 0 : wrongOnes / covered.length,
    wrong_served: null,
    runs_until_suspended: null,
    never_suspended: 0,
  };
  if (wrongOnes === 0) return row;
  const counts: number[] = [];
  const lengths: number[] = [];
  for (let seed = 1; seed <= WATCHES; seed++) {
    const { watch, draw } = makeWatch(1_000 + seed);
    for (let run = 0; run < BEFORE_RUNS; run++) play(watch, draw(before));
    let wrong = 0;
    let first = 0;
    for (let run = 1; run <= AFTER_RUNS; run++) {
      const played = play(watch, draw(after));
      wrong += played.wrong;
      if (played.is_suspended && first === 0) first = run;
    }
    if (first === 0) row.never_suspended++;
    counts.push(wrong);
    lengths.push(first === 0 ? AFTER_RUNS : first);
  }
  row.wrong_served = { median: quantile(counts, 0.5), p90: quantile(counts, 0.9) };
  row.runs_until_suspended = quantile(lengths, 0.5);
  return row;
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;
}

function print(
  rows: readonly DriftRow[],
  calm: readonly { family: string; suspended: number; watches: number; runs: number }[],
): void {
  console.log(`\nstudents that meet a silent change: ${WATCHES} watches each, ${BEFORE_RUNS} runs before it`);
  for (const { family, suspended, watches, runs } of calm)
    console.log(`  ${family}, no change: ${suspended} of ${watches} suspended anything within ${runs} runs`);
  for (const {
    family,
    change,
    covered,
    wrong,
    wrong_served: w,
    runs_until_suspended,
    never_suspended,
  } of rows) {
    const met =
      w === null
        ? 'nothing covered was wrong'
        : `wrong answers served in ${AFTER_RUNS} runs: median ${w.median}, p90 ${w.p90}; ` +
          `first suspended after ${runs_until_suspended} runs, never: ${never_suspended}`;
    console.log(
      `  ${family}, ${change}: ${(100 * covered).toFixed(0)} % covered, ${(100 * wrong).toFixed(1)} % of those wrong; ${met}`,
    );
  }
}

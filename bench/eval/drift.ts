/**
 * Measures how many wrong answers pass the watch over a student (src/student/model/drift-watch.ts), for agents whose
 * upstream changes silently and for agents whose upstream does not change. The watch is the product's own. Whether an
 * answer is wrong is drawn at random, so that ten thousand runs take a second. Bench process.
 */

import { createPrng, type Prng } from '../../src/std/prng.ts';
import { DriftWatch } from '../../src/student/model/drift-watch.ts';

const PROMISE = 0.05;
const AUDIT_SHARE = 0.05;
/** Steps of a run, each a different kind of answer. */
const KINDS = ['find', 'read', 'check', 'write', 'text'] as const;
const CALM_RUNS = 10_000;
const CALM_AGENTS = 1_000;
const DRIFT_AGENTS = 400;
/** Number of runs before the upstream changes, and maximum number of runs after it. */
const BEFORE_RUNS = 1_000;
const AFTER_RUNS = 20_000;

/** For each kind, the share of its answers that are wrong after the change. */
type Change = Partial<Record<(typeof KINDS)[number], number>>;

const CHANGES: Readonly<Record<string, Change>> = {
  'an answer changes: the first call is another one': { find: 1 },
  'the wording of the last answer changes': { text: 1 },
  'a tool result gains a field: a third of one decision falls the other way': { check: 0.33 },
  'a threshold moves: a fifth of one decision falls the other way': { check: 0.2 },
  'everything changes': { find: 1, read: 1, check: 1, write: 1, text: 1 },
};

interface Agent {
  watch: DriftWatch;
  prng: Prng;
}

function makeAgent(seed: number): Agent {
  const prng = createPrng(seed);
  const terms = { version: 1, made_at_ms: 0, promise: PROMISE, valid_until_ms: null };
  return {
    watch: new DriftWatch(
      terms,
      AUDIT_SHARE,
      () => prng.float(),
      () => 1,
    ),
    prng,
  };
}

/** Plays one run. @returns how many answers were served, how many of them were wrong, and whether any is suspended */
function playRun({ watch, prng }: Agent, error: number, change: Change) {
  let served = 0;
  let wrong = 0;
  let isSuspended = false;
  for (const kind of KINDS) {
    const isWrong = prng.float() < (change[kind] ?? error);
    const verdict = watch.judge('agent', kind);
    if (verdict === 'suspended') isSuspended = true;
    else if (verdict === 'audit') isSuspended = watch.note('agent', kind, !isWrong) !== null || isSuspended;
    else {
      served++;
      if (isWrong) wrong++;
    }
  }
  return { served, wrong, isSuspended };
}

/** Measures agents whose upstream does not change. @param error share of the student's answers that is wrong */
function stayCalm(error: number) {
  let suspended = 0;
  let served = 0;
  for (let seed = 1; seed <= CALM_AGENTS; seed++) {
    const agent = makeAgent(seed);
    for (let run = 0; run < CALM_RUNS; run++) {
      const played = playRun(agent, error, {});
      served += played.served;
      if (!played.isSuspended) continue;
      suspended++;
      break;
    }
  }
  return {
    error,
    agents: CALM_AGENTS,
    runs: CALM_RUNS,
    falsely_suspended: suspended / CALM_AGENTS,
    served: served / (CALM_AGENTS * CALM_RUNS * KINDS.length),
  };
}

function drift(name: string, change: Change, before: number) {
  const wrong: number[] = [];
  const runs: number[] = [];
  let missed = 0;
  for (let seed = 1; seed <= DRIFT_AGENTS; seed++) {
    const agent = makeAgent(seed);
    for (let run = 0; run < before; run++) playRun(agent, 0.02, {});
    let count = 0;
    let run = 0;
    for (; run < AFTER_RUNS; run++) {
      const played = playRun(agent, 0.02, change);
      count += played.wrong;
      if (played.isSuspended) break;
    }
    if (run === AFTER_RUNS) missed++;
    wrong.push(count);
    runs.push(run + 1);
  }
  const at = (list: number[], share: number) =>
    list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))]!;
  return {
    change: name,
    before_runs: before,
    agents: DRIFT_AGENTS,
    wrong_served: { median: at(wrong, 0.5), p90: at(wrong, 0.9), most: at(wrong, 1) },
    runs_until_suspended: { median: at(runs, 0.5), p90: at(runs, 0.9) },
    never_suspended: missed,
  };
}

/** Prints the tables. @returns what a result file keeps, and the goals */
export function evaluateDrift() {
  const calm = [0.02, PROMISE].map(stayCalm);
  const changes = Object.entries(CHANGES).flatMap(([name, change]) =>
    [0, BEFORE_RUNS].map((before) => drift(name, change, before)),
  );
  console.log(
    `\nThe watch: promise ${PROMISE}, ${AUDIT_SHARE} of covered steps audited, ${KINDS.length} kinds`,
  );
  for (const { error, falsely_suspended, served } of calm)
    console.log(
      `  no change, ${(100 * error).toFixed(0)} % wrong: ${(100 * falsely_suspended).toFixed(2)} % of ${CALM_AGENTS} ` +
        `agents suspended within ${CALM_RUNS} runs; ${(100 * served).toFixed(1)} % of covered steps served`,
    );
  for (const { change, before_runs, wrong_served: w, runs_until_suspended: r, never_suspended } of changes)
    console.log(
      `  ${change}, after ${before_runs} runs: wrong answers served, median ${w.median}, p90 ${w.p90}, most ${w.most}; ` +
        `suspended after ${r.median} runs (p90 ${r.p90}), never: ${never_suspended}`,
    );
  return {
    calm,
    changes,
    goals: {
      'less than 1 % of agents that keep the promise are suspended within 10,000 runs': calm.every(
        ({ falsely_suspended }) => falsely_suspended < 0.01,
      ),
      'at most 40 wrong answers are served after a silent change (median of agents, each change)':
        changes.every(({ wrong_served }) => wrong_served.median <= 40),
    },
  };
}

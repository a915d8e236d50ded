/**
 * The six monitors over one run, step by step: `advanceMonitors` computes the state and the scores after a
 * step from the state before it and the step's digest. The state has a fixed size, the cost of a step is bounded, and
 * replay gives the same result. Pure; any thread.
 *
 * The monitors judge steps in the order of arrival; `step_index` only names them in quotes. A late step
 * counts as the run's latest action.
 */

import { LOOP_MONITORS, MONITORS } from './definitions.ts';
import type { StepDigest } from './digest.ts';
import { FLAG, StepFeatures } from './features.ts';
import { type Intervention, type InterventionLevel, writeIntervention } from './intervention.ts';
import { COUNTER, makeMemory, RunMemory, type Streak } from './memory.ts';
import { MONITOR_NAMES, type MonitorName, type MonitorScores } from './names.ts';
import type { MonitorProfile } from './profiles.ts';

/** The stored state of a run: plain data that msgpack can encode, of the same size at every step. */
export interface MonitorsState {
  /** Numbers in the layout of `memory.ts`. Never modified: each step creates a new array. */
  memory: Uint8Array;
}

export interface StepOutcome {
  scores: MonitorScores;
  /** Weighted mean of the scores under the profile. */
  total_score: number;
  /** Monitors at or above their threshold, in the order of MONITOR_NAMES. */
  fired: MonitorName[];
  /** Set once per streak, and again when it escalates; otherwise null. */
  intervention: Intervention | null;
}

/**
 * Successive steps without firing that end a streak, because the agent has changed course. A single quiet step does
 * not.
 */
const CALM_STEPS = 2;
/** From this step of a streak on, the nudge counts as having had no effect. */
const STOP_STEPS = 4;

const LEVELS: readonly (InterventionLevel | null)[] = [null, 'nudge', 'stop'];

/** Makes the state of a run before its first step. */
export function initialMonitors(task: string): MonitorsState {
  return { memory: makeMemory(task) };
}

/**
 * Limits a score to the range from 0 to 1 and rounds it to three decimals: precise enough for a threshold, and the same
 * bytes on every machine.
 */
function roundScore(score: number): number {
  return Math.round(Math.min(1, Math.max(0, score)) * 1000) / 1000;
}

/** The monitors' judges, in the order of MONITOR_NAMES. */
const JUDGES = MONITOR_NAMES.map((name) => MONITORS[name].judge);

/** Computes the weighted mean of the scores; the plain mean when all weights are zero. */
function weighScores(scores: MonitorScores, profile: MonitorProfile): number {
  let sum = 0;
  let weights = 0;
  for (const name of MONITOR_NAMES) weights += profile.weights[name];
  for (const name of MONITOR_NAMES)
    sum += scores[name] * (weights > 0 ? profile.weights[name] / weights : 1 / MONITOR_NAMES.length);
  return sum;
}

/** Updates a streak. @param fires whether the monitor fires at this step */
function advanceStreak(streak: Streak, fires: boolean): Streak {
  if (fires) return { ...streak, length: streak.length + 1, calm: 0 };
  if (streak.length === 0) return streak;
  const calm = streak.calm + 1;
  return calm >= CALM_STEPS ? { length: 0, level: 0, calm: 0 } : { ...streak, calm };
}

/**
 * Updates the streaks and selects the monitor that intervenes at this step; null if no monitor has something new to
 * say.
 */
function advanceStreaks(
  memory: RunMemory,
  scores: MonitorScores,
  fired: readonly MonitorName[],
  profile: MonitorProfile,
): { monitor: MonitorName; level: number } | null {
  // At most steps no streak begins, continues or ends.
  if (fired.length === 0 && memory.isQuiet) return null;
  const streaks = {} as Record<MonitorName, Streak>;
  const wasLooping = LOOP_MONITORS.some((name) => memory.streak(name).length > 0);
  for (const name of MONITOR_NAMES) streaks[name] = advanceStreak(memory.streak(name), fired.includes(name));
  // The two loop monitors share the level already reached.
  const said = Math.max(...LOOP_MONITORS.map((name) => streaks[name].level));
  const length = Math.max(...LOOP_MONITORS.map((name) => streaks[name].length));
  for (const name of LOOP_MONITORS)
    if (streaks[name].length > 0) streaks[name] = { ...streaks[name], level: said, length };

  let speaks: { monitor: MonitorName; level: number } | null = null;
  let loudest = -1;
  for (const name of fired) {
    const streak = streaks[name];
    const due = streak.length >= STOP_STEPS ? 2 : 1;
    // If the threshold is 0, a monitor also fires without a finding.
    if (due <= streak.level || scores[name] === 0) continue;
    // A stop never comes without a nudge before it.
    const level = Math.min(due, streak.level + 1);
    const loudness = level * 10 + scores[name] * (profile.weights[name] > 0 ? profile.weights[name] : 0.01);
    if (loudness > loudest) {
      loudest = loudness;
      speaks = { monitor: name, level };
    }
  }
  if (speaks !== null) {
    const { level } = speaks;
    // One text per step. The other firing monitors count as having intervened too.
    for (const name of fired)
      streaks[name] = { ...streaks[name], level: Math.max(streaks[name].level, level) };
    for (const name of LOOP_MONITORS)
      if (streaks[name].length > 0 && LOOP_MONITORS.includes(speaks.monitor))
        streaks[name] = { ...streaks[name], level: Math.max(streaks[name].level, level) };
  }
  for (const name of MONITOR_NAMES) memory.setStreak(name, streaks[name]);
  // The agent has changed course, so earlier repeats no longer count.
  if (wasLooping && LOOP_MONITORS.every((name) => streaks[name].length === 0))
    memory.counters[COUNTER.course] = Math.max(0, memory.steps - CALM_STEPS + 1);
  return speaks;
}

/** Memory views of the current step's run; reused for every step. */
const memory = new RunMemory();
const step = new StepFeatures();

/** Judges one step. The same state, digest and profile always give the same result. */
export function advanceMonitors(
  state: MonitorsState,
  digest: StepDigest,
  profile: MonitorProfile,
): { state: MonitorsState; outcome: StepOutcome } {
  memory.load(state.memory);
  step.load(digest.features);
  const findings = JUDGES.map((judge) => judge(step, memory));

  const scores = {} as MonitorScores;
  const fired: MonitorName[] = [];
  for (let at = 0; at < MONITOR_NAMES.length; at++) {
    const name = MONITOR_NAMES[at]!;
    scores[name] = roundScore(findings[at]!.score);
    if (scores[name] >= profile.thresholds[name]) fired.push(name);
  }
  const speaks = advanceStreaks(memory, scores, fired, profile);
  const level = speaks === null ? null : LEVELS[speaks.level]!;
  const intervention: Intervention | null =
    speaks === null || level === null
      ? null
      : writeIntervention(
          speaks.monitor,
          level,
          findings[MONITOR_NAMES.indexOf(speaks.monitor)]!,
          digest,
          !step.has(FLAG.result_unknown),
        );
  memory.remember(step);
  return {
    state: { memory: new Uint8Array(memory.bytes) },
    outcome: { scores, total_score: roundScore(weighScores(scores, profile)), fired, intervention },
  };
}

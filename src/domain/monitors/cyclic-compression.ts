/**
 * cyclic_compression: the agent summarizes its work, loses what the summary omits, repeats that work, and
 * summarizes again.
 *
 * Evidence: steps that are summaries (a summarising tool, or words such as "summary of the progress", "conversation
 * compacted", "continuing from the summary"), sketches of the summaries, and the calls before and after them.
 *
 * Rules
 *  - `restated`: a summary is nearly the same as the previous one, so there was no progress in between.
 *  - `redone`: after a summary, most calls repeat calls that the run had made before it.
 *
 * Pure; any thread.
 */

import { FLAG, type StepFeatures } from './features.ts';
import { chooseFinding, type Finding, NO_FINDING, orderEvidence, scoreCount } from './finding.ts';
import { CALLS, COUNTER, type RunMemory } from './memory.ts';
import type { Monitor } from './monitor.ts';
import { cosineOf } from './words.ts';

/** Two summaries are the same if their cosine is at least this. */
const SAME_SUMMARY_COSINE = 0.85;
/** Score by the number of successive summaries without anything new. */
const RESTATED_SCORES = [0, 0.4, 0.65, 0.8, 0.9] as const;
/** Score by the number of calls repeated since the last summary. */
const REDONE_SCORES = [0, 0.1, 0.3, 0.55, 0.65, 0.75, 0.85] as const;
/** Minimum share of repeated calls among the calls since the summary. */
const REDONE_SHARE = 0.6;

/** Finds a call among the remembered calls before the last summary: the newest one's `step_index`; −1 without one. */
function findBefore(memory: RunMemory, call: number, sinceSummary: number): number {
  if (call === 0) return -1;
  for (let ago = sinceSummary + 1; ago <= memory.callCount; ago++)
    if (memory.callHash(ago) === call) return memory.call(ago).step_index;
  return -1;
}

/** Judges the current step, which `memory` does not contain yet, and stores the last summary. */
function judge(step: StepFeatures, memory: RunMemory): Finding {
  const { counters } = memory;
  if (step.has(FLAG.recaps)) {
    const sketch = step.has(FLAG.thinks) ? step.thoughtSketch : step.inputSketch;
    const restated =
      counters[COUNTER.recaps]! > 0 && cosineOf(sketch, memory.recapSketch) >= SAME_SUMMARY_COSINE;
    counters[COUNTER.empty_recaps] = restated ? counters[COUNTER.empty_recaps]! + 1 : 0;
    counters[COUNTER.recaps]! += 1;
    counters[COUNTER.recap_at] = memory.steps;
    memory.recapSketch.set(sketch);
    const count = counters[COUNTER.empty_recaps]!;
    return { score: scoreCount(RESTATED_SCORES, count), kind: 'restated', steps: [], count };
  }
  if (counters[COUNTER.recaps] === 0 || step.call === 0 || step.has(FLAG.waits | FLAG.pending))
    return NO_FINDING;

  const sinceSummary = memory.steps - counters[COUNTER.recap_at]!;
  if (sinceSummary >= CALLS) return NO_FINDING;
  const evidence: number[] = [];
  const own = findBefore(memory, step.call, sinceSummary);
  if (own < 0) return NO_FINDING;
  evidence.push(own);
  let made = 1;
  // The summary itself is at `sinceSummary`.
  for (let ago = 1; ago < sinceSummary; ago++) {
    made += 1;
    const before = findBefore(memory, memory.callHash(ago), sinceSummary);
    if (before >= 0) evidence.push(before);
  }
  if (evidence.length / made < REDONE_SHARE) return NO_FINDING;
  return chooseFinding(NO_FINDING, {
    score: scoreCount(REDONE_SCORES, evidence.length),
    kind: 'redone',
    steps: orderEvidence(evidence),
    count: evidence.length,
  });
}

export const CYCLIC_COMPRESSION: Monitor = {
  weights: { coding: 0.6, pr_review: 0.5, qa: 0.5 },
  failure: 'standstill',
  judge,
  texts: {
    restated: {
      what: 'Your summary says what the one before it said: nothing was added between the two',
      instead:
        'Do not summarise again. Take the first open point of the summary and finish it. Keep exact results (names, paths, numbers, error messages) in the next summary, so that they need not be found again.',
      stop: 'Stop summarising. Finish one open point now, or end with the answer you have.',
    },
    redone: {
      what: 'Since your last summary you have done again what you had done before it ({n} calls)',
      instead:
        'The summary lost those results. Write them down exactly now (names, paths, numbers, decisions), mark those steps as done, and go on with the first step that is really open.',
      stop: 'Do not repeat earlier work. Go on with the first open step, or end with the answer you have.',
    },
  },
};

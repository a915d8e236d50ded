/**
 * cyclic_compression: the agent sums up its work, loses what the summary left out, does it again, and sums up again.
 *
 * Evidence: steps that are summaries (a summarising tool, or words such as "summary of the progress", "conversation
 * compacted", "continuing from the summary"), sketches of the summaries, and the calls before and after them.
 *
 * Rules
 *  - `restated`: a summary that says nearly what the one before said: no progress lies between the two.
 *  - `redone`: after a summary, most of the calls are ones that the run had made before it.
 * Pure; any thread.
 */

import { FLAG, type StepFeatures } from './features.ts';
import { chooseFinding, type Finding, NO_FINDING, orderEvidence, scoreCount } from './finding.ts';
import { CALLS, COUNTER, type RunMemory } from './memory.ts';
import { cosineOf } from './words.ts';

/** Two summaries say the same from this cosine on. */
const SAME_SUMMARY_COSINE = 0.85;
/** By summaries in a row that say nothing new. */
const RESTATED_SCORES = [0, 0.4, 0.65, 0.8, 0.9] as const;
/** By calls made again since the last summary. */
const REDONE_SCORES = [0, 0.1, 0.3, 0.55, 0.65, 0.75, 0.85] as const;
/** Of the calls since the summary, this share. */
const REDONE_SHARE = 0.6;

/** Whether the call was made before the last summary, as far back as calls are remembered. */
function findBefore(memory: RunMemory, call: number, sinceSummary: number): number {
  for (let ago = sinceSummary + 1; ago <= memory.callCount; ago++)
    if (memory.callHash(ago) === call) return memory.call(ago).step_index;
  return -1;
}

/** Judges the step at hand, which `memory` does not hold yet, and keeps the last summary. */
export function judgeCyclicCompression(step: StepFeatures, memory: RunMemory): Finding {
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
  // The summary itself lies at `sinceSummary`.
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

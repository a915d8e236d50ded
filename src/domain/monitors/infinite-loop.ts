/**
 * infinite_loop: the run repeats the same action without effect.
 *
 * Evidence: hashes of action and input (JSON by value, whatever the order of keys) and of the result (without
 * times and addresses) of the last 32 steps, and repeated sentences within one text.
 *
 * Rules
 *  - `repeat`: the same call with the same result for the third time within 20 steps, consecutive or not
 *    (A-A-A, A-B-A-B-A, and longer periods). Older repeats, up to 32 steps back, count if the steps before
 *    them are equal, too: a cycle with a long period.
 *  - `return`: the same call with changing results for the third time within 8 steps, with other calls in
 *    between. A call that changes something does not count.
 *  - `stutter`: a sentence repeated many times within the agent's own text, apart from tables, lists and
 *    code.
 *
 * An earlier call without arguments counts only if it is directly before the current call, or if the steps before both
 * calls were equal, too. The reason is that an agent that returns to a list between the list's entries makes the same
 * call with the same result. A call with an unknown input or result is not a repetition.
 *
 * Not a loop: the third build after an edit (a new change lies in between); consecutive equal calls with new
 * results (the next page, the next match); waiting and polling (the call waits, or the result reports work in
 * progress); several equal calls in one step (which counts as one call). Pure; any thread.
 */

import { FLAG, type StepFeatures } from './features.ts';
import { chooseFinding, type Finding, NO_FINDING, orderEvidence, scoreCount } from './finding.ts';
import { COUNTER, type RunMemory } from './memory.ts';
import type { Monitor } from './monitor.ts';

/** A repeat within this many steps need not be part of a cycle. An older repeat counts only as part of one. */
const NEAR_STEPS = 20;
/** Returns to a call with changing results count within this many steps. */
const DENSE_STEPS = 8;

/** Score by how often the window contains the call, including the current one. */
const REPEAT_SCORES = [0, 0, 0.3, 0.6, 0.75, 0.85, 0.95] as const;
const RETURN_SCORES = [0, 0, 0.2, 0.5, 0.6, 0.65, 0.7] as const;
const STUTTER_SCORE = 0.8;

/**
 * Whether the step at `ago` made a change that the run made only once; what follows such a change is a new attempt. A
 * call with an unknown input may have made one, unless it only reads.
 */
function isNewChange(memory: RunMemory, ago: number): boolean {
  const { call, flags } = memory.call(ago);
  if ((flags & FLAG.input_unknown) !== 0) return (flags & FLAG.mutates) !== 0 || (flags & FLAG.reads) === 0;
  if ((flags & FLAG.mutates) === 0) return false;
  for (let other = 1; other <= memory.callCount; other++)
    if (other !== ago && memory.callHash(other) === call) return false;
  return true;
}

/** Whether the step before the current one and the step before the one at `ago` made the same call. */
function isSameCycle(memory: RunMemory, ago: number): boolean {
  const before = memory.callHash(1);
  return before !== 0 && ago + 1 <= memory.callCount && before === memory.callHash(ago + 1);
}

/** Judges the current step, which `memory` does not contain yet. */
function judge(step: StepFeatures, memory: RunMemory): Finding {
  const stutter: Finding = step.has(FLAG.stutters)
    ? { score: STUTTER_SCORE, kind: 'stutter', steps: [], count: 0 }
    : NO_FINDING;
  if (step.call === 0 || step.has(FLAG.waits | FLAG.pending)) return stutter;

  const reach = Math.min(memory.callCount, memory.steps - memory.counters[COUNTER.course]!);
  let same = 1;
  let dense = 1;
  let left = false;
  let gap = false;
  const isBare = step.wordCount === 0;
  let changed = false;
  const evidence: number[] = [];
  for (let ago = 1; ago <= reach; ago++) {
    const isSame = memory.callHash(ago) === step.call;
    if (!isSame) {
      if (isNewChange(memory, ago)) break;
      gap = true;
      continue;
    }
    if (gap && ago <= DENSE_STEPS) left = true;
    // The meaning of a call without arguments (back, list, screenshot) depends on the step before it.
    if (isBare && ago > 1 && !isSameCycle(memory, ago)) continue;
    const record = memory.call(ago);
    // An unknown result is neither equal to another result nor different from it.
    if (record.outcome === 0 || step.outcome === 0) continue;
    if (ago <= DENSE_STEPS) dense += 1;
    if (record.outcome !== step.outcome) {
      changed = true;
      if (ago <= DENSE_STEPS) evidence.push(record.step_index);
      continue;
    }
    if (ago <= NEAR_STEPS || isSameCycle(memory, ago)) {
      same += 1;
      evidence.push(record.step_index);
    }
  }
  const repeat: Finding = {
    score: scoreCount(REPEAT_SCORES, same),
    kind: 'repeat',
    steps: orderEvidence(evidence),
    count: same,
  };
  // Successive calls with a new result each time turn pages.
  const comeback: Finding =
    changed && left && !step.has(FLAG.mutates)
      ? { score: scoreCount(RETURN_SCORES, dense), kind: 'return', steps: repeat.steps, count: dense }
      : NO_FINDING;
  return chooseFinding(chooseFinding(repeat, comeback), stutter);
}

export const INFINITE_LOOP: Monitor = {
  weights: { coding: 1, pr_review: 0.7, qa: 0.7 },
  failure: 'loop',
  judge,
  texts: {
    repeat: {
      what: 'You have made the same call {n} times and the result is the same each time',
      instead:
        'Do not make this call again: it will give the same result. Use what it already told you. If that is not enough, change something first (other arguments, another tool, another source, or the cause of the failure), and say in one sentence what will be different this time.',
      stop: 'Do not make this call again in this run. Work with what you have, or end the task and report what blocks it.',
    },
    return: {
      what: 'You keep coming back to the same call: {n} times in the last steps',
      instead:
        'Write down what the earlier results of this call said, then decide from them. Call it again only after you have changed something that it depends on.',
      stop: 'Stop coming back to this call. Decide from the results you have, or end the task and report what blocks it.',
    },
    stutter: {
      what: 'Your own text says the same sentence over and over',
      instead: 'Stop writing. Say once what you know, then take one concrete next step, or give the answer.',
      stop: 'Give your answer now in a few sentences, without repeating any of them.',
    },
  },
};

/**
 * silent_topic_drift: the agent works on something other than the task without saying so.
 *
 * Evidence: the words of the task, its names (capitalised words, numbers) and the sources that it asks for, compared
 * with the texts of the steps and their results. A thought counts: an agent that explains a step is not silent.
 *
 * Rules
 *  - `opening`: the run's first two instructions leave out most names of the task and most of its words: the agent has
 *    started another task. The task must have at least NAMES_MIN names. After the first instruction, the rule fires
 *    only if this instruction contains no word of the task at all, because an instruction may be only a part of the
 *    task.
 *  - `source`: the task names the source to use, and the first two instructions do not use it. After the first
 *    instruction, the rule fires only if this instruction covers the body of the task without the source.
 *  - `strayed`: after steps on the task, several consecutive steps share no word with it, neither in thought and input
 *    nor, beyond chance, in the result.
 *  - `unbegun`: the run has not worked on the task yet, and consecutive searches for different things share no word
 *    with it. This rule needs two more steps than `strayed`.
 *
 * No topic drift: steps that do not indicate a subject (ids, numbers, sums), and what a person asks for during the run,
 * because that may be something new. A missing task, or one of fewer than four words, is not enough to judge: the score
 * is 0. Pure; any thread.
 */

import { FLAG, type StepFeatures } from './features.ts';
import { chooseFinding, type Finding, NO_FINDING, orderEvidence, scoreCount } from './finding.ts';
import { COUNTER, isTaskWord, type RunMemory } from './memory.ts';
import type { Monitor } from './monitor.ts';
import { holdsWord, overlapOf } from './words.ts';

/** Minimum number of words of a task that is judged, and of its names for the rule `opening`. */
const TASK_WORDS_MIN = 4;
const NAMES_MIN = 3;
/** Number of instructions within which the names should appear. */
const OPENING_INSTRUCTIONS = 2;
/** Minimum share of the task's names, and of all its words, that these instructions should contain. */
const NAMES_SHARE = 0.34;
const WORDS_SHARE = 0.15;
/** An instruction with this share of the task's words covers the whole task, not a first part. */
const BODY_SHARE = 0.34;
/** Thought and input of at most this many words are about the current step. */
const SHORT_WORDS = 60;
const OPENING_SCORE = 0.6;
const SOURCE_SCORE = 0.55;

/** Scores by number of consecutive steps without a word of the task. */
const STRAY_SCORES = [0, 0, 0.1, 0.25, 0.4, 0.55, 0.65, 0.75, 0.85] as const;
/**
 * Additional steps required if the agent recently sent a message to a person. The person sees what the agent does, and
 * may have asked for it.
 */
const TALK_STEPS = 3;
/**
 * Minimum number of steps on the task before the run can stray from it. With fewer steps, the run has not begun the
 * task.
 */
const ON_TASK_STEPS = 2;
/** Additional steps required if the run has not begun the task: it may still be preparing it. */
const UNBEGUN_STEPS = 2;
/** A step with one of these flags does something for the task, or may do so. */
const NO_SEARCH =
  FLAG.mutates | FLAG.edits | FLAG.runs | FLAG.checks | FLAG.final | FLAG.speaks | FLAG.irreversible;
/** Two searches with at least this overlap of words are the same search with a different name. */
const SAME_SEARCH_OVERLAP = 0.5;
/** A step with fewer words that indicate a subject is not judged by `strayed`. */
const PLAIN_WORDS_MIN = 2;
/**
 * Words of the task in a result count only if they exceed the filter's expected false matches by this many standard
 * deviations.
 */
const CHANCE_DEVIATIONS = 3;
/** A step is on the task if at least this many of its words, or this share of them, are words of the task. */
const OWN_WORDS = 2;
const OWN_SHARE = 0.25;

function countBits(bits: number): number {
  let count = 0;
  for (let left = bits; left !== 0; left &= left - 1) count += 1;
  return count;
}

/** Counts the words of the task in the step's own input. */
function countTaskWords(step: StepFeatures, memory: RunMemory): number {
  let count = 0;
  for (let i = 0; i < step.wordCount; i++) if (isTaskWord(memory, step.words[i]!)) count += 1;
  return count;
}

/** Whether the filter's false matches cannot explain this many words of the task. */
function isBeyondChance(found: number, words: number, load: number): boolean {
  return found > words * load + CHANCE_DEVIATIONS * Math.sqrt(words * load * (1 - load));
}

/** Whether this many words of the task are enough, given the length of the step. */
function isEnough(words: number, step: StepFeatures): boolean {
  return words >= OWN_WORDS || (words > 0 && words >= OWN_SHARE * step.plainWords);
}

/** Whether the step's thought and input mention the task. */
function speaksOfTask(step: StepFeatures, memory: RunMemory, shared: number): boolean {
  if (isEnough(shared, step)) return true;
  const words = memory.taskWordCount;
  let found = 0;
  for (let i = 0; i < words; i++) if (step.thinksOf(memory.taskWords[i]!)) found += 1;
  if (found === 0 || !isBeyondChance(found, words, loadOf(step.thoughtFilter))) return false;
  return isEnough(shared + found, step);
}

/**
 * Whether the result mentions the task. A long result fills the filter, which then matches some of any words by chance.
 */
function answersTask(step: StepFeatures, memory: RunMemory): boolean {
  const words = memory.taskWordCount;
  let found = 0;
  for (let i = 0; i < words; i++) if (step.mentions(memory.taskWords[i]!)) found += 1;
  return isBeyondChance(found, words, loadOf(step.filter));
}

/** Computes the share of a filter's bits that are set. */
function loadOf(filter: Uint8Array): number {
  let set = 0;
  for (let i = 0; i < filter.length; i++) set += BITS[filter[i]!]!;
  return set / (filter.length * 8);
}

/** Bits in a byte. */
const BITS = Uint8Array.from({ length: 256 }, (_, byte) => countBits(byte));

/** Whether the task asks for sources and none of them has been named. */
function missesSources(memory: RunMemory, seen: number): boolean {
  const sources = memory.counters[COUNTER.source_names]!;
  return sources !== 0 && (sources & seen) === 0;
}

function judgeOpening(step: StepFeatures, memory: RunMemory, shared: number): Finding {
  const { counters, nameCount, names } = memory;
  if (counters[COUNTER.instructions]! >= OPENING_INSTRUCTIONS) return NO_FINDING;
  let seen = counters[COUNTER.names_seen]!;
  // A plan that recites the task contains all its names. A short thought is about the step itself.
  const thinks = step.plainWords <= SHORT_WORDS;
  for (let i = 0; i < nameCount; i++)
    if (holdsWord(step.words, step.wordCount, names[i]!) || (thinks && step.thinksOf(names[i]!)))
      seen |= 1 << i;
  counters[COUNTER.names_seen] = seen;
  if (!step.has(FLAG.prose) || step.has(FLAG.speaks)) return NO_FINDING;
  counters[COUNTER.instructions]! += 1;
  counters[COUNTER.instructed]! += shared;
  const missing = missesSources(memory, seen);
  const source: Finding = { score: SOURCE_SCORE, kind: 'source', steps: [], count: 0 };
  const spoken = countBits(seen);
  if (counters[COUNTER.instructions]! < OPENING_INSTRUCTIONS) {
    if (missing && shared / memory.taskWordCount >= BODY_SHARE) return source;
    if (shared > 0 || spoken > 0 || nameCount < NAMES_MIN) return NO_FINDING;
    return { score: OPENING_SCORE, kind: 'opening', steps: [], count: nameCount };
  }
  if (
    nameCount >= NAMES_MIN &&
    spoken / nameCount < NAMES_SHARE &&
    counters[COUNTER.instructed]! / memory.taskWordCount < WORDS_SHARE
  )
    return { score: OPENING_SCORE, kind: 'opening', steps: [], count: nameCount - spoken };
  return missing ? source : NO_FINDING;
}

/** Whether the agent recently sent a message to a person. */
function isTalking(memory: RunMemory): boolean {
  for (let ago = 1; ago <= memory.slotCount; ago++) if (memory.slot(ago).has(FLAG.speaks)) return true;
  return false;
}

/**
 * Whether the step searches for something other than the step before. Only such steps count for `unbegun`. Steps that
 * are not searches, and steps through a list (one city, file or table after the other), can belong to a task without
 * containing a word of it.
 */
function searchesAnew(step: StepFeatures, memory: RunMemory): boolean {
  if (!step.has(FLAG.reads) || step.has(NO_SEARCH) || step.plainWords === 0) return false;
  if (memory.slotCount === 0) return true;
  const before = memory.slot(1);
  return overlapOf(step.words, step.wordCount, before.words, before.wordCount) < SAME_SEARCH_OVERLAP;
}

function judgeStrayed(step: StepFeatures, memory: RunMemory, shared: number): Finding {
  const { counters } = memory;
  const onTask = speaksOfTask(step, memory, shared) || answersTask(step, memory);
  if (onTask) counters[COUNTER.on_task]! += 1;
  // The person addressed may have asked for something else.
  if (onTask || step.has(FLAG.speaks)) {
    counters[COUNTER.strays] = 0;
    return NO_FINDING;
  }
  const isBegun = counters[COUNTER.on_task]! >= ON_TASK_STEPS;
  if (step.has(FLAG.waits | FLAG.pending | FLAG.input_unknown | FLAG.result_unknown)) return NO_FINDING;
  if (isBegun ? step.plainWords < PLAIN_WORDS_MIN : !searchesAnew(step, memory)) {
    if (!isBegun) counters[COUNTER.strays] = 0;
    return NO_FINDING;
  }
  counters[COUNTER.strays]! += 1;
  const strays = counters[COUNTER.strays]!;
  const evidence: number[] = [];
  for (let ago = 1; ago < strays && ago <= memory.slotCount; ago++)
    evidence.push(memory.slot(ago).step_index);
  return {
    score: scoreCount(
      STRAY_SCORES,
      strays - (isTalking(memory) ? TALK_STEPS : 0) - (isBegun ? 0 : UNBEGUN_STEPS),
    ),
    kind: isBegun ? 'strayed' : 'unbegun',
    steps: orderEvidence(evidence),
    count: strays,
  };
}

/** Judges the current step, which `memory` does not contain yet, and updates the counts of what the run mentions. */
function judge(step: StepFeatures, memory: RunMemory): Finding {
  if (memory.taskWordCount < TASK_WORDS_MIN) return NO_FINDING;
  const shared = countTaskWords(step, memory);
  return chooseFinding(judgeOpening(step, memory, shared), judgeStrayed(step, memory, shared));
}

export const SILENT_TOPIC_DRIFT: Monitor = {
  weights: { coding: 0.5, pr_review: 0.6, qa: 1 },
  failure: 'fault',
  judge,
  texts: {
    opening: {
      what: 'Your first steps leave out most of what the task names',
      instead:
        'Read the task again and write down what it names (who, what, where, which source). Put those names into your next step word for word.',
      stop: 'Go back to the task as it was given and do its first part, with its own names, now.',
    },
    source: {
      what: 'The task says which source to use, and none of your steps has used or named it',
      instead:
        'Read the task again, name the source that it asks for, and go to that source now. If you need another one first, say what for. If the source cannot be reached, say so in your answer.',
      stop: 'Go to the source that the task names now, or state in your answer that it is based on other sources.',
    },
    unbegun: {
      what: 'The last {n} steps have not begun the task: their texts and results contain hardly a word of it',
      instead:
        'Read the task again and say in one sentence which part of it comes first. Do that part now. If you need these steps for it, say what for.',
      stop: 'Leave this line of work. Do the first part of the task now, or report that you cannot begin it and why.',
    },
    strayed: {
      what: 'The last {n} steps have left the task: their texts and results contain hardly a word of it',
      instead:
        'Say in one sentence how the present step serves the task. If it does not, leave it and go back to the last step that did. If the goal has changed, say so openly.',
      stop: 'Leave this line of work. Return to the task now, or report that you have left it and why.',
    },
  },
};

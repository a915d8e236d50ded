/**
 * semantic_loop: the run repeats nearly the same action in other words or with other arguments, without
 * learning anything.
 *
 * Evidence from the last 12 steps: word sketches of the instructions (compared by cosine, so that a
 * paraphrase is near its original), the first words of the results, whether a result mentions what was asked
 * for, and words that announce another attempt.
 *
 * Rules
 *  - `paraphrase`: for instructions in words. A logistic of three averages (half-life of one step) and one density:
 *      repetition   similarity of the instruction to the most similar one of the last 12
 *      answered     share of the instruction's own words (not the task's) that its result mentions
 *      retry        density of words such as again, instead, another, try (of this step alone)
 *      sameness     similarity of the result's beginning to the most similar one of the last 12
 *    An instruction whose new words are in its result is the next item of a batch. The weights come from the
 *    labelled runs (docs/monitors.md). A loop requires at least LIKE_STEPS similar instructions.
 *  - `variation`: for commands and arguments. The same action with nearly the same input, each time without
 *    success: not found, failed, or the same result as an earlier query.
 *  - `failures`: the same failure (the line that names it, without numbers) several times in a row, whatever the
 *    calls.
 *  - `words`: the same long thought repeatedly, without anything new in the results.
 *  - `unmoved`: different instructions in words, each with exactly the same, long enough result.
 *  - `talk`: the same message to a person repeatedly, without an action in between.
 *
 * Not a loop: a batch over different files (its results are not failures), waiting and polling, builds
 * between edits (only consecutive failures count), many calls in one step. Pure; any thread.
 */

import { FLAG, type StepFeatures } from './features.ts';
import { chooseFinding, type Finding, NO_FINDING, orderEvidence, scoreCount } from './finding.ts';
import { AVERAGE, COUNTER, isTaskWord, type RunMemory } from './memory.ts';
import type { Monitor } from './monitor.ts';
import { cosineOf, cosineTo, holdsWord, overlapOf, squareOf } from './words.ts';

/** Weight of the new value in a moving average. */
const AVERAGE_SHARE = 0.5;
/**
 * In an instruction of up to this many words, one retry word gives the highest value of `retry`, 1. In a longer
 * instruction, the value is the number of retry words per this many words, at most 1.
 */
const RETRY_WORDS_PER = 20;

/** The inputs of the logistic. */
interface ParaphraseMeasure {
  repetition: number;
  answered: number;
  retry: number;
  sameness: number;
}

/** The logistic: fitted once on the labelled runs (bench/eval/cross-validation.ts), the same for every profile. */
const PARAPHRASE_WEIGHTS: Readonly<ParaphraseMeasure & { bias: number }> = {
  bias: -1.59,
  repetition: 2.32,
  answered: -4.46,
  retry: 2.16,
  sameness: 2.18,
};

/** Two instructions are similar if their cosine is at least this. */
const LIKE_COSINE = 0.5;
/** Minimum number of earlier steps that are similar to the current one. To say something twice is not a loop. */
export const LIKE_STEPS = 2;
/** If the result mentions this share of an instruction's new words, the instruction got what it asked for. */
const BATCH_SHARE = 0.75;
/** Inputs of one action are nearly the same from this overlap of words, or this cosine. */
const NEAR_OVERLAP = 0.5;
const NEAR_COSINE = 0.8;
const NEAR_STEPS = 8;
/** Two results of at least this many words are not equal by chance. */
const SAME_RESULT_WORDS = 8;
/** Two messages say the same from this overlap of words, if they have at least this many words. */
const TALK_OVERLAP = 0.6;
const TALK_WORDS = 4;

const VARIATION_SCORES = [0, 0, 0.3, 0.45, 0.6, 0.75, 0.85] as const;
const FAILURE_SCORES = [0, 0, 0.2, 0.4, 0.55, 0.7, 0.85] as const;
const WORDS_SCORES = [0, 0, 0.3, 0.6, 0.75, 0.85] as const;

/**
 * Updates the averages with the step, and returns them with the indexes of the earlier similar steps, newest first.
 * Returns null if the rule `paraphrase` does not apply to the step; the averages are updated even then.
 */
export function measureParaphrase(
  step: StepFeatures,
  memory: RunMemory,
): { measure: ParaphraseMeasure; like: number[] } | null {
  const { averages, slotCount } = memory;
  let likeness = 0;
  let headLikeness = 0;
  const like: number[] = [];
  const square = squareOf(step.inputSketch);
  for (let ago = 1; ago <= slotCount; ago++) {
    const past = memory.slot(ago);
    const cosine = cosineTo(step.inputSketch, square, past.inputSketch);
    likeness = Math.max(likeness, cosine);
    if (cosine >= LIKE_COSINE) like.push(past.step_index);
    headLikeness = Math.max(headLikeness, overlapOf(step.head, step.headCount, past.head, past.headCount));
  }
  let own = 0;
  let answered = 0;
  for (let i = 0; i < step.wordCount; i++) {
    if (isTaskWord(memory, step.words[i]!)) continue;
    own += 1;
    answered += step.answered[i]!;
  }
  const isKnown = !step.has(FLAG.result_unknown);
  const average = (place: number, value: number): number => {
    const next = averages[place]! * (1 - AVERAGE_SHARE) + value * AVERAGE_SHARE;
    averages[place] = next;
    return next;
  };
  const measure: ParaphraseMeasure = {
    repetition: average(AVERAGE.repetition, likeness),
    sameness: isKnown ? average(AVERAGE.sameness, headLikeness) : averages[AVERAGE.sameness]!,
    // A person answers in other words, which does not show whether the step achieved anything.
    answered:
      step.has(FLAG.speaks) || !isKnown
        ? averages[AVERAGE.answered]!
        : average(AVERAGE.answered, own === 0 ? averages[AVERAGE.answered]! : answered / own),
    retry: Math.min(1, (step.retryWords * RETRY_WORDS_PER) / Math.max(RETRY_WORDS_PER, step.inputLength)),
  };
  // Comments and notes to different places are a batch, however similar they are.
  const writes = step.has(FLAG.mutates) && !step.has(FLAG.speaks) && !cameToNothing(step.flags);
  const speaksOf = isKnown && step.has(FLAG.prose) && !step.has(FLAG.waits | FLAG.pending) && !writes;
  return speaksOf ? { measure, like } : null;
}

/**
 * Whether the step is one of a batch: its input has words that neither the task nor a remembered step contains, and its
 * result mentions at least BATCH_SHARE of them. A step that came to nothing is not such a step.
 */
function isNextOfBatch(step: StepFeatures, memory: RunMemory): boolean {
  if (cameToNothing(step.flags)) return false;
  let fresh = 0;
  let answered = 0;
  for (let i = 0; i < step.wordCount; i++) {
    const word = step.words[i]!;
    if (isTaskWord(memory, word) || isSpokenOf(word, memory)) continue;
    fresh += 1;
    answered += step.answered[i]!;
  }
  return fresh > 0 && answered / fresh >= BATCH_SHARE;
}

/** Whether one of the last instructions contains the word. */
function isSpokenOf(word: number, memory: RunMemory): boolean {
  for (let ago = 1; ago <= memory.slotCount; ago++) {
    const past = memory.slot(ago);
    if (holdsWord(past.words, past.wordCount, word)) return true;
  }
  return false;
}

function judgeParaphrase(step: StepFeatures, memory: RunMemory): Finding {
  const measured = measureParaphrase(step, memory);
  if (measured === null || measured.like.length < LIKE_STEPS) return NO_FINDING;
  const { measure, like } = measured;
  const sum =
    PARAPHRASE_WEIGHTS.bias +
    PARAPHRASE_WEIGHTS.repetition * measure.repetition +
    PARAPHRASE_WEIGHTS.answered * measure.answered +
    PARAPHRASE_WEIGHTS.retry * measure.retry +
    PARAPHRASE_WEIGHTS.sameness * measure.sameness;
  // Checked last because it costs more than everything else.
  if (sum >= 0 && isNextOfBatch(step, memory)) return NO_FINDING;
  return {
    score: 1 / (1 + Math.exp(-sum)),
    kind: 'paraphrase',
    steps: orderEvidence(like),
    count: like.length + 1,
  };
}

/** Whether a step achieved nothing. */
function cameToNothing(flags: number): boolean {
  return (flags & (FLAG.failed | FLAG.denies)) !== 0;
}

function judgeVariation(step: StepFeatures, memory: RunMemory, reach: number): Finding {
  // Testing each part in turn may fail every time without being a loop.
  if (step.has(FLAG.prose | FLAG.waits | FLAG.pending | FLAG.checks)) return NO_FINDING;
  const nothing = cameToNothing(step.flags);
  // If another query returns the same page of results, it shows nothing new.
  const tells =
    step.has(FLAG.reads) && !step.has(FLAG.mutates) && step.observationLength >= SAME_RESULT_WORDS;
  if (!nothing && !tells) return NO_FINDING;
  const evidence: number[] = [];
  for (let ago = 1; ago <= Math.min(reach, NEAR_STEPS); ago++) {
    const past = memory.slot(ago);
    // After a change, the same call is a new attempt.
    if (past.has(FLAG.mutates) && !past.has(FLAG.failed)) break;
    if (past.action !== step.action) continue;
    const isSame = step.hasSameOutcome(past);
    if (!isSame && !(nothing && cameToNothing(past.flags))) continue;
    const near =
      step.hasSameCall(past) ||
      // Inputs of numbers alone, such as a position on the screen, are never similar by their words.
      (step.plainWords === 0 && isSame) ||
      overlapOf(step.words, step.wordCount, past.words, past.wordCount) >= NEAR_OVERLAP ||
      cosineOf(step.inputSketch, past.inputSketch) >= NEAR_COSINE;
    if (near) evidence.push(past.step_index);
  }
  return tellRepeats(VARIATION_SCORES, 'variation', evidence);
}

function judgeFailures(step: StepFeatures, memory: RunMemory, reach: number): Finding {
  if (step.failure === 0 || !step.has(FLAG.failed)) return NO_FINDING;
  const evidence: number[] = [];
  for (let ago = 1; ago <= reach; ago++) {
    const past = memory.slot(ago);
    if (past.failure !== step.failure) break;
    evidence.push(past.step_index);
  }
  return tellRepeats(FAILURE_SCORES, 'failures', evidence);
}

function judgeWords(step: StepFeatures, memory: RunMemory, reach: number): Finding {
  if (!step.has(FLAG.thinks) || step.has(FLAG.waits | FLAG.pending)) return NO_FINDING;
  const evidence: number[] = [];
  for (let ago = 1; ago <= reach; ago++) {
    const past = memory.slot(ago);
    // The same thought with different calls is a batch, unless the calls achieve nothing or have the same results.
    if (past.thought !== step.thought) continue;
    if (step.hasSameOutcome(past) || (cameToNothing(past.flags) && cameToNothing(step.flags)))
      if (step.hasSameCall(past) || cameToNothing(step.flags) || !step.has(FLAG.acts))
        evidence.push(past.step_index);
  }
  return tellRepeats(WORDS_SCORES, 'words', evidence);
}

/** Judges rule `unmoved`: different instructions in prose that return exactly the same page. */
function judgeUnmoved(step: StepFeatures, memory: RunMemory, reach: number): Finding {
  if (!step.has(FLAG.prose) || step.has(FLAG.speaks | FLAG.mutates | FLAG.waits | FLAG.pending | FLAG.checks))
    return NO_FINDING;
  if (step.observationLength < SAME_RESULT_WORDS) return NO_FINDING;
  const evidence: number[] = [];
  for (let ago = 1; ago <= Math.min(reach, NEAR_STEPS); ago++) {
    const past = memory.slot(ago);
    if (past.has(FLAG.mutates) && !past.has(FLAG.failed)) break;
    if (step.hasSameOutcome(past) && past.action === step.action) evidence.push(past.step_index);
  }
  return tellRepeats(VARIATION_SCORES, 'unmoved', evidence);
}

/** Judges rule `talk`: the same message to a person several times in a row, with nothing done in between. */
function judgeTalk(step: StepFeatures, memory: RunMemory, reach: number): Finding {
  if (!step.has(FLAG.speaks) || step.wordCount < TALK_WORDS) return NO_FINDING;
  const evidence: number[] = [];
  for (let ago = 1; ago <= Math.min(reach, NEAR_STEPS); ago++) {
    const past = memory.slot(ago);
    if (!past.has(FLAG.speaks)) break;
    if (overlapOf(step.words, step.wordCount, past.words, past.wordCount) >= TALK_OVERLAP)
      evidence.push(past.step_index);
  }
  return tellRepeats(VARIATION_SCORES, 'talk', evidence);
}

/** Judges the current step, which `memory` does not contain yet, and updates the averages. */
function judge(step: StepFeatures, memory: RunMemory): Finding {
  const reach = Math.min(memory.slotCount, memory.steps - memory.counters[COUNTER.course]!);
  return [
    judgeVariation(step, memory, reach),
    judgeFailures(step, memory, reach),
    judgeWords(step, memory, reach),
    judgeUnmoved(step, memory, reach),
    judgeTalk(step, memory, reach),
  ].reduce(chooseFinding, judgeParaphrase(step, memory));
}

/** Makes the finding for a repetition. It counts the current step and the earlier steps in `evidence`. */
function tellRepeats(scores: readonly number[], kind: string, evidence: readonly number[]): Finding {
  const count = evidence.length + 1;
  return { score: scoreCount(scores, count), kind, steps: orderEvidence(evidence), count };
}

const SOURCES_STOP =
  'Do not make this kind of step again. Report what you know, what you could not find out, and why; or ask for what is missing.';

export const SEMANTIC_LOOP: Monitor = {
  weights: { coding: 0.9, pr_review: 1, qa: 0.7 },
  failure: 'loop',
  judge,
  texts: {
    paraphrase: {
      what: 'Your last steps ask for nearly the same thing in other words, and the results bring nothing new',
      instead:
        'Do not rephrase the request again. List in two lines what the earlier results did establish and what is still missing. Then take a different way to the missing part: another source or tool, a smaller question, or a direct address instead of a search. If two different ways fail, say so and go on with what you have.',
      stop: SOURCES_STOP,
    },
    variation: {
      what: 'You have tried {n} slightly different versions of the same call and each came to nothing',
      instead:
        'Small changes to the arguments will not help. Find out first what is there (list, search more broadly, read the error), then make one call that follows from it, or use another tool.',
      stop: SOURCES_STOP,
    },
    unmoved: {
      what: 'You have asked for {n} different things and got the very same result each time',
      instead:
        'What you do there has no effect. Say what the result shows, then go to another address, tool or source, or report that it is not available there.',
      stop: SOURCES_STOP,
    },
    talk: {
      what: 'You have said the same thing {n} times in a row and done nothing in between',
      instead:
        'Do not repeat it. Do what you announced, with a tool, and then report the result. If you cannot do it, say so plainly and say what the other side can do.',
      stop: 'Stop repeating the message. Act, hand the matter over, or say plainly that it cannot be done.',
    },
    failures: {
      what: 'The last {n} steps all failed in the same way',
      instead:
        'Read the failure once more and name its cause. Fix the cause, or do the part of the task that does not depend on it. Do not try another variant before you can say why it would not fail in the same way.',
      stop: 'Stop trying. Report the failure, its likely cause and what would be needed to get past it.',
    },
    words: {
      what: 'You have had the same thought {n} times, word for word, and the results did not change',
      instead:
        'The plan in that thought does not work. Say what it assumes, check that assumption, and make a different plan.',
      stop: SOURCES_STOP,
    },
  },
};

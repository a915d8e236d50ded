/**
 * Makes patterns from a trace, without a language model: finds the stretches in which the run failed and recovered,
 * describes each in words, and keeps the best three with different situations. The same trace gives the same patterns.
 * Pure; actor threads and the command line.
 */

import type { MonitorName } from '../monitors/names.ts';
import { PATTERN_BOUNDS, SAME_LESSON_COSINE, SAME_SITUATION_COSINE } from '../pattern.ts';
import type { Trace } from '../trace.ts';
import { findFailureType, isLooping } from './failure-type.ts';
import { judgeStep, type StepVerdict } from './failures.ts';
import { TraceMonitor } from './monitor-trace.ts';
import { generalizeText, NO_RUN, type RunWords } from './rule-text.ts';
import { RunValues } from './run-values.ts';
import { findStretches } from './stretches.ts';
import { boundText } from './text.ts';
import { NO_UNLOCK, wordStretch } from './wording.ts';

/** A pattern in the form that the store takes. */
export interface PatternDraft {
  situation: string;
  dead_ends: string;
  unlock: string;
  model: string;
  /** A monitor's name or ''. */
  failure_type: string;
}

/** A possible pattern, with its position in the run and an estimate of its value. */
export interface PatternCandidate extends PatternDraft {
  /**
   * The steps at which the stretch begins and ends: its first failure, and the recovery or, in a failed run, the last
   * attempt.
   */
  at: number;
  until: number;
  worth: number;
}

/** Maximum number of candidates to compare. At most three of them become patterns. */
const CANDIDATES = 8;
/** A candidate of lower value is dropped. */
const LEAST_WORTH = 2;

/**
 * Finds the patterns of a trace.
 * @returns candidates, best first; those of a failed run contain only dead ends
 */
export function findPatterns(trace: Trace): PatternCandidate[] {
  const parts = findPatternsInParts(trace);
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value;
  }
}

/**
 * Finds the patterns of a trace like `findPatterns`, but yields undefined after each step, so that the caller can let
 * other work run.
 */
export function* findPatternsInParts(trace: Trace): Generator<undefined, PatternCandidate[]> {
  const { steps } = trace;
  const monitor = new TraceMonitor(trace);
  const verdicts: StepVerdict[] = [];
  const fired: (readonly MonitorName[])[] = [];
  const looping: boolean[] = [];
  for (const [at, step] of steps.entries()) {
    verdicts.push(judgeStep(step, steps[at + 1]));
    fired.push(monitor.judge(step));
    looping.push(isLooping(fired[at]));
    yield;
  }
  const candidates: PatternCandidate[] = [];
  const stretches = findStretches(steps, verdicts, looping, trace.outcome);
  if (stretches.length === 0) return [];
  const values = new RunValues(trace);
  for (const [at, step] of steps.entries()) {
    values.readStep(step, verdicts[at]!);
    yield;
  }
  for (const stretch of stretches) {
    const wording = wordStretch(trace, stretch, verdicts, values);
    if (wording === null) continue;
    const { insight } = wording;
    const { situation, dead_ends, unlock } = generalizePattern(wording, values);
    const at = stretch.failures[0]!;
    const proof = stretch.way === 'retry' ? 2 : 1;
    const named = stretch.failures.some((failure) => verdicts[failure]!.error.length >= 12) ? 1 : 0;
    const worth = proof + named + insight + Math.min(2, stretch.failures.length - 1) * 0.5;
    if (worth < LEAST_WORTH + (insight === 0 && unlock !== NO_UNLOCK ? 1 : 0)) continue;
    const failure_type = findFailureType(fired, at, stretch.failures.at(-1)!);
    const until = stretch.end;
    candidates.push({ situation, dead_ends, unlock, model: trace.model, failure_type, at, until, worth });
  }
  candidates.sort((a, b) => b.worth - a.worth || a.at - b.at);
  return candidates.slice(0, CANDIDATES);
}

/**
 * Keeps candidates with different situations. Of candidates with the same situation it keeps the better one, and adds
 * the other's dead ends. So a trace supports a pattern once, however often the run met the situation.
 * @param candidates best first
 * @param vectors of their situations, of length 1; null: there is no embedder, so only equal texts are the same
 * @returns at most three, in the order of the run
 */
export function keepDistinct(
  candidates: readonly PatternCandidate[],
  vectors: readonly Float32Array[] | null,
): PatternCandidate[] {
  const kept: { candidate: PatternCandidate; vector: Float32Array | null }[] = [];
  for (const [index, candidate] of candidates.entries()) {
    const vector = vectors?.[index] ?? null;
    const same = kept.find((other) => isSameSituation(other.candidate, other.vector, candidate, vector));
    if (same !== undefined) {
      same.candidate = {
        ...same.candidate,
        dead_ends: joinDeadEnds(same.candidate.dead_ends, candidate.dead_ends),
      };
    } else if (kept.length < PATTERN_BOUNDS.per_trace) kept.push({ candidate, vector });
  }
  return kept.map(({ candidate }) => candidate).sort((a, b) => a.at - b.at);
}

/**
 * Whether two patterns have the same or nearly the same situation (contract document 4, "v1").
 * @param vectorA of the situation of `a`, of length 1; null: there is no vector, so only equal texts are the same
 */
function isSameSituation(
  a: { situation: string },
  vectorA: Float32Array | null,
  b: { situation: string },
  vectorB: Float32Array | null,
): boolean {
  if (a.situation === b.situation) return true;
  return vectorA !== null && vectorB !== null && cosine(vectorA, vectorB) >= SAME_SITUATION_COSINE;
}

/**
 * Removes the values of single runs from the texts of a pattern. A text that becomes longer is cut to its bound, or to
 * its former length if that is greater.
 */
export function generalizePattern<Texts extends Pick<PatternDraft, 'situation' | 'dead_ends' | 'unlock'>>(
  texts: Texts,
  run: RunWords = NO_RUN,
): Texts {
  const { situation, dead_ends, unlock } = PATTERN_BOUNDS;
  return {
    ...texts,
    situation: boundText(generalizeText(texts.situation, run), Math.max(situation, texts.situation.length)),
    dead_ends: boundText(generalizeText(texts.dead_ends, run), Math.max(dead_ends, texts.dead_ends.length)),
    unlock: boundText(generalizeText(texts.unlock, run), Math.max(unlock, texts.unlock.length)),
  };
}

/** Reads a whole run and collects its values, for {@link generalizePattern}. */
export function readRunValues(trace: Trace): RunWords {
  const values = new RunValues(trace);
  for (const [at, step] of trace.steps.entries()) values.readStep(step, judgeStep(step, trace.steps[at + 1]));
  return values;
}

/** Whether the pattern maker wrote these texts, so that they may contain a run's values. */
export function isDistilled({
  situation,
  dead_ends,
}: Pick<PatternDraft, 'situation' | 'dead_ends'>): boolean {
  return /\bStuck (?:at|repeating) `/.test(situation) && /^- `/.test(dead_ends);
}

type Texts = Pick<PatternDraft, 'situation' | 'dead_ends' | 'unlock'>;

/**
 * Whether two patterns of the pattern maker teach the same. They do if their situations are the same. They also do if
 * their situations are similar and their solutions are equal, or, if one of them has no solution, their dead ends are
 * equal.
 * @param similarity cosine of their situations
 */
export function areEquivalent(a: Texts, b: Texts, similarity: number): boolean {
  if (similarity >= SAME_SITUATION_COSINE) return true;
  return similarity >= SAME_LESSON_COSINE && isSameLesson(a, b);
}

/** Minimum length of a text that is not equal to another one by chance. */
const LESSON_CHARACTERS = 40;

function isSameLesson(a: Texts, b: Texts): boolean {
  const isOpen = a.unlock === NO_UNLOCK || b.unlock === NO_UNLOCK;
  const [kept, added] = isOpen ? [a.dead_ends, b.dead_ends] : [a.unlock, b.unlock];
  return kept.length >= LESSON_CHARACTERS && kept.toLowerCase() === added.toLowerCase();
}

/**
 * Joins the texts of two patterns with the same lesson: the first pattern's texts, and the dead ends that only the
 * second contains, as far as they fit. If the first has no solution, the second's solution is taken.
 */
export function joinPatterns<Pattern extends Texts>(kept: Pattern, added: Texts): Pattern {
  return {
    ...kept,
    dead_ends: joinDeadEnds(kept.dead_ends, added.dead_ends),
    unlock: kept.unlock === NO_UNLOCK ? added.unlock : kept.unlock,
  };
}

/** Returns the part of a candidate that the store takes. */
export function toPattern(candidate: PatternCandidate): PatternDraft {
  const { situation, dead_ends, unlock, model, failure_type } = candidate;
  return { situation, dead_ends, unlock, model, failure_type };
}

/** Adds the dead ends of a second pattern that the first one lacks, as far as they fit. */
function joinDeadEnds(kept: string, added: string): string {
  const lines = new Set(kept.split('\n'));
  let joined = kept;
  for (const line of added.split('\n')) {
    if (lines.has(line) || joined.length + line.length + 1 > PATTERN_BOUNDS.dead_ends) continue;
    lines.add(line);
    joined += `\n${line}`;
  }
  return joined;
}

/** Computes the cosine of two unit vectors. */
function cosine(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

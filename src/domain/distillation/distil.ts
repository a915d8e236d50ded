/**
 * From a trace to the patterns that it teaches, without a model: find the stretches in which the run failed and
 * recovered, put each into words, keep the best three that are not about the same situation. The same trace gives the
 * same patterns. Pure; actor threads.
 */

import { PATTERN_BOUNDS, SAME_SITUATION_COSINE } from '../../limits.ts';
import type { MonitorName } from '../monitors/names.ts';
import type { Trace } from '../trace.ts';
import { findFailureType, isLooping } from './failure-type.ts';
import { judgeStep, type StepVerdict } from './failures.ts';
import { TraceMonitor } from './monitor-trace.ts';
import { findStretches } from './stretches.ts';
import { wordStretch } from './wording.ts';

/** A pattern as the store takes it. */
export interface DistilledPattern {
  situation: string;
  dead_ends: string;
  unlock: string;
  model: string;
  /** A monitor's name or ''. */
  failure_type: string;
}

/** A pattern on its way: where in the run it stood and how much it seems to be worth. */
export interface PatternCandidate extends DistilledPattern {
  /** Positions of its first failure and of what worked. */
  at: number;
  until: number;
  worth: number;
}

/** Candidates that go on to be compared; three of them at most become patterns. */
const CANDIDATES = 8;
/** Less than this says too little to be kept. */
const LEAST_WORTH = 2;

/**
 * Distils a trace.
 * @returns candidates, the best first; none for a run without a recovery, which teaches nothing that would help
 */
export function distilTrace(trace: Trace): PatternCandidate[] {
  const parts = distilInParts(trace);
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value;
  }
}

/** The same with a pause after each step, in which the caller may let others have their turn. */
export function* distilInParts(trace: Trace): Generator<undefined, PatternCandidate[]> {
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
  for (const stretch of findStretches(steps, verdicts, looping, trace.outcome)) {
    const wording = wordStretch(trace, stretch, verdicts);
    if (wording === null) continue;
    const { insight, situation, dead_ends, unlock } = wording;
    const at = stretch.failures[0]!;
    const proof = stretch.way === 'retry' ? 2 : 1;
    const named = stretch.failures.some((failure) => verdicts[failure]!.error.length >= 12) ? 1 : 0;
    const worth = proof + named + insight + Math.min(2, stretch.failures.length - 1) * 0.5;
    if (worth < LEAST_WORTH + (insight === 0 ? 1 : 0)) continue;
    const failure_type = findFailureType(fired, at, stretch.failures.at(-1)!);
    const until = stretch.recovery;
    candidates.push({ situation, dead_ends, unlock, model: trace.model, failure_type, at, until, worth });
  }
  candidates.sort((a, b) => b.worth - a.worth || a.at - b.at);
  return candidates.slice(0, CANDIDATES);
}

/**
 * Keeps what differs: of candidates with the same situation the better one, which takes the other's dead ends along.
 * One trace supports a pattern once, however often it ran into it.
 * @param candidates the best first
 * @param vectors of their situations, of length 1; null when nothing can embed: then equal texts alone are the same
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
 * Whether two patterns are about the same situation, or nearly (decisions, v1).
 * @param vectorA of the situation of `a`, of length 1; null when there is none: then equal texts alone are the same
 */
export function isSameSituation(
  a: { situation: string },
  vectorA: Float32Array | null,
  b: { situation: string },
  vectorB: Float32Array | null,
): boolean {
  if (a.situation === b.situation) return true;
  return vectorA !== null && vectorB !== null && cosine(vectorA, vectorB) >= SAME_SITUATION_COSINE;
}

/** What the store takes of a candidate. */
export function toPattern(candidate: PatternCandidate): DistilledPattern {
  const { situation, dead_ends, unlock, model, failure_type } = candidate;
  return { situation, dead_ends, unlock, model, failure_type };
}

function joinDeadEnds(mine: string, theirs: string): string {
  const lines = new Set(mine.split('\n'));
  let joined = mine;
  for (const line of theirs.split('\n')) {
    if (lines.has(line) || joined.length + line.length + 1 > PATTERN_BOUNDS.dead_ends) continue;
    lines.add(line);
    joined += `\n${line}`;
  }
  return joined;
}

function cosine(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

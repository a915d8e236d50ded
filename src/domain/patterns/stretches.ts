/**
 * Finds where a run got stuck and recovered. A stretch begins with a failure and ends with the step that worked: the
 * same call, repeated successfully, or another way to the same goal. A failure that the run gave up on is not a
 * stretch. If the run failed, no step is known to have worked, so its stretches contain only failures. If the outcome
 * is unknown, only a successful repetition proves a solution. Pure; actor threads and the command line.
 */

import { classifyOutcome } from '../run-summary.ts';
import type { TraceStep } from '../trace-step.ts';
import type { StepVerdict } from './failures.ts';

export interface Stretch {
  /** The failed steps, in order; at least one. */
  failures: number[];
  /** The step that worked; null in a run that failed. */
  recovery: number | null;
  /** The last step of the stretch. */
  end: number;
  /**
   * `retry`: the same call worked; `detour`: another call worked; `loop`: the agent left a loop; `dead_end`: the run
   * failed.
   */
  way: 'retry' | 'detour' | 'loop' | 'dead_end';
}

/** Maximum number of steps between a failure and its recovery. */
const REACH = 40;
/** Maximum number of steps between the last failure and the start of a detour. */
const DETOUR_REACH = 6;
/** Maximum number of stretches of a run. */
const STRETCHES = 16;
/** Maximum number of pairs of steps compared in one run. So a hostile run costs no more than a long one. */
const COMPARISONS = 50_000;
/** Number of equal calls with equal answers that make a loop. */
const SAME_CALLS = 3;

/**
 * Finds the stretches of a run.
 * @param verdicts one per step
 * @param looping one per step: whether a loop monitor fired there
 */
export function findStretches(
  steps: readonly TraceStep[],
  verdicts: readonly StepVerdict[],
  looping: readonly boolean[],
  outcome: string,
): Stretch[] {
  return new StretchFinder(steps, verdicts, looping, classifyTraceOutcome(outcome)).find();
}

/** Outcomes other than `failure…` that mean failure. */
const FAILED =
  /^(?:fail|error|crash|abort|cancel|timed?[ _-]?out|time[ _-]?limit|max[ _-]|limit|exhaust|gave[ _-]?up|give[ _-]?up|abandon|incorrect|wrong|unresolved|unsolved|not[ _-]|lost|stuck|reject|exception|false$|no$|0(?:\.0+)?$|reward[ :=]*0)/i;
/** Outcomes other than `success` that mean success. */
const SUCCEEDED =
  /^(?:succe|pass|solved|resolved|complete|correct|done$|ok$|true$|yes$|1(?:\.0+)?$|reward[ :=]*1)/i;

/** Whether a trace with this outcome counts as a success, as a failure or as neither. */
function classifyTraceOutcome(outcome: string): 'success' | 'failure' | 'unknown' {
  const known = classifyOutcome(outcome);
  if (known !== 'other') return known;
  const text = outcome.trim();
  if (FAILED.test(text)) return 'failure';
  return SUCCEEDED.test(text) ? 'success' : 'unknown';
}

class StretchFinder {
  readonly #steps: readonly TraceStep[];
  readonly #verdicts: readonly StepVerdict[];
  readonly #looping: readonly boolean[];
  readonly #outcome: 'success' | 'failure' | 'unknown';
  readonly #words = new Map<number, Set<string>>();
  #comparisons = COMPARISONS;

  constructor(
    steps: readonly TraceStep[],
    verdicts: readonly StepVerdict[],
    looping: readonly boolean[],
    outcome: 'success' | 'failure' | 'unknown',
  ) {
    this.#steps = steps;
    this.#verdicts = verdicts;
    this.#looping = looping;
    this.#outcome = outcome;
  }

  find(): Stretch[] {
    const found: Stretch[] = [];
    let at = 0;
    while (at < this.#steps.length && found.length < STRETCHES && this.#comparisons > 0) {
      let stretch: Stretch | null;
      let next = at + 1;
      if (this.#verdicts[at]!.failed)
        stretch =
          this.#outcome === 'failure' ? this.#findDeadEnd(at) : (this.#findRetry(at) ?? this.#findDetour(at));
      else {
        const end = this.#findLoop(at);
        stretch = end === null ? null : this.#findLoopEnd(at, end);
        // Continue after an endless loop instead of examining it again from each of its steps.
        if (end !== null) next = end + 1;
      }
      if (stretch !== null) {
        found.push(stretch);
        next = stretch.end + 1;
      }
      at = next;
    }
    return found;
  }

  /** Finds a success of the same call within REACH steps; null without one. */
  #findRetry(start: number): Stretch | null {
    const { key, is_talk } = this.#verdicts[start]!;
    if (is_talk) return null;
    const failures = [start];
    const tries = [start];
    const end = Math.min(this.#steps.length, start + REACH);
    for (let at = start + 1; at < end; at++) {
      const verdict = this.#verdicts[at]!;
      if (verdict.is_talk) continue;
      const isTry = verdict.key === key && this.#isRelated(tries, at);
      if (verdict.failed) {
        failures.push(at);
        if (isTry) tries.push(at);
      } else if (isTry) {
        return { failures: this.#onlyOnTheWay(failures, tries), recovery: at, end: at, way: 'retry' };
      }
    }
    return null;
  }

  /**
   * For a run that failed: finds a call that failed and was tried again, whether that helped or not; null if the call
   * was not tried again. A single failure is not a dead end. Neither is a step that only looks, because an empty search
   * result proves nothing.
   */
  #findDeadEnd(start: number): Stretch | null {
    const { key, is_talk, is_look } = this.#verdicts[start]!;
    if (is_talk || is_look) return null;
    const failures = [start];
    let last = start;
    for (let at = start + 1; at < Math.min(this.#steps.length, start + REACH); at++) {
      const verdict = this.#verdicts[at]!;
      if (verdict.is_talk || verdict.key !== key || !this.#isRelated(failures, at)) continue;
      last = at;
      if (!verdict.failed) break;
      failures.push(at);
    }
    return last === start ? null : { failures, recovery: null, end: last, way: 'dead_end' };
  }

  /** Keeps the failures up to the last repeated try. Keeps all of them if there was only one try. */
  #onlyOnTheWay(failures: readonly number[], tries: readonly number[]): number[] {
    const last = tries.at(-1)!;
    return failures.filter((at) => at <= last || tries.length === 1);
  }

  /** Finds another call that reached the same goal; null without such a call, or if the run did not succeed. */
  #findDetour(start: number): Stretch | null {
    if (this.#outcome !== 'success') return null;
    const first = this.#verdicts[start]!;
    if (first.is_talk) return null;
    const failures = [start];
    let end = Math.min(this.#steps.length, start + 1 + DETOUR_REACH);
    for (let at = start + 1; at < end; at++) {
      const verdict = this.#verdicts[at]!;
      if (verdict.is_talk) continue;
      if (verdict.failed) {
        failures.push(at);
        end = Math.min(this.#steps.length, at + 1 + DETOUR_REACH, start + REACH);
        continue;
      }
      // Reading after a failure starts a detour; it does not end one.
      if (verdict.is_look && !first.is_look) continue;
      if (verdict.key !== first.key && this.#share(start, at) >= 0.34) {
        return { failures, recovery: at, end: at, way: 'detour' };
      }
    }
    return null;
  }

  /** Finds the last step of the loop that begins at `start`; null without a loop, or if the run did not succeed. */
  #findLoop(start: number): number | null {
    if (this.#outcome !== 'success' || this.#verdicts[start]!.is_talk) return null;
    const same = this.#endOfSameCalls(start);
    if (same - start + 1 >= SAME_CALLS) return same;
    if (!this.#looping[start]) return null;
    let end = start;
    while (end + 1 < this.#steps.length && this.#looping[end + 1]) end++;
    return end === start ? null : end;
  }

  /**
   * Makes the stretch in which the agent repeated itself from `start` to `end` and then did something else; null if no
   * other step soon succeeded.
   */
  #findLoopEnd(start: number, end: number): Stretch | null {
    const failures: number[] = [];
    for (let at = start; at <= end; at++) failures.push(at);
    for (let at = end + 1; at < Math.min(this.#steps.length, end + 1 + DETOUR_REACH); at++) {
      const verdict = this.#verdicts[at]!;
      if (verdict.is_talk || verdict.failed || this.#looping[at]) continue;
      if (this.#steps[at]!.observation.trim() === '') continue;
      return { failures, recovery: at, end: at, way: 'loop' };
    }
    return null;
  }

  /** Finds the last of the consecutive steps from `start` on that have the same call and the same answer. */
  #endOfSameCalls(start: number): number {
    const first = this.#steps[start]!;
    let end = start;
    while (end + 1 < this.#steps.length) {
      const next = this.#steps[end + 1]!;
      if (next.action !== first.action || next.action_input !== first.action_input) break;
      if (next.observation !== first.observation) break;
      end++;
    }
    return end;
  }

  /** Whether a step with the same key concerns the same object as an earlier try, or directly follows it. */
  #isRelated(tries: readonly number[], at: number): boolean {
    const last = tries.at(-1)!;
    if (at - last <= 2) return true;
    return this.#share(last, at) >= 0.3 || (tries.length > 1 && this.#share(tries[0]!, at) >= 0.3);
  }

  /**
   * Computes the share of the shorter input's words that the other input contains; 1 if one of them has no words, and 0
   * after COMPARISONS calls.
   */
  #share(a: number, b: number): number {
    if (--this.#comparisons < 0) return 0;
    const [wordsOfA, wordsOfB] = [this.#wordsOf(a), this.#wordsOf(b)];
    const [small, large] = wordsOfA.size <= wordsOfB.size ? [wordsOfA, wordsOfB] : [wordsOfB, wordsOfA];
    if (small.size === 0) return 1;
    let common = 0;
    for (const word of small) if (large.has(word)) common++;
    return common / small.size;
  }

  #wordsOf(at: number): Set<string> {
    let words = this.#words.get(at);
    if (words === undefined) {
      const text = this.#steps[at]!.action_input.slice(0, 600).toLowerCase();
      words = new Set(text.match(/[\p{L}\p{N}_./#@-]{3,80}/gu)?.slice(0, 60) ?? []);
      this.#words.set(at, words);
    }
    return words;
  }
}

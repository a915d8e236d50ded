/**
 * Where a run got stuck and got out again. A stretch begins with a failure and ends with the step that worked: the same
 * thing tried again successfully, or another way to the same end. What the run gave up, or what never worked, is no stretch:
 * it teaches nothing that would help. Pure; actor threads.
 */

import { classifyOutcome } from '../run-summary.ts';
import type { TraceStep } from '../trace-step.ts';
import type { StepVerdict } from './failures.ts';

export interface Stretch {
  /** What failed, in order; at least one. */
  failures: number[];
  /** What worked. */
  recovery: number;
  /** `retry`: the same thing worked; `detour`: another thing did; `loop`: the agent left a loop. */
  way: 'retry' | 'detour' | 'loop';
}

/** How far after a failure its recovery is looked for, in steps. */
const REACH = 40;
/** A detour begins soon after the last failure, or it is something else. */
const DETOUR_REACH = 6;
/** Stretches of a run; the best of them are kept. */
const STRETCHES = 16;
/** Pairs of steps compared in one run, so that a hostile one costs no more than a long one. */
const COMPARISONS = 50_000;
/** Equal calls with equal answers from which on it is a loop. */
const SAME_CALLS = 3;

/**
 * @param verdicts one a step
 * @param looping one a step: a loop monitor fired there
 */
export function findStretches(
  steps: readonly TraceStep[],
  verdicts: readonly StepVerdict[],
  looping: readonly boolean[],
  outcome: string,
): Stretch[] {
  const finder = new StretchFinder(steps, verdicts, looping, classifyOutcome(outcome) === 'failure');
  return finder.find();
}

class StretchFinder {
  readonly #steps: readonly TraceStep[];
  readonly #verdicts: readonly StepVerdict[];
  readonly #looping: readonly boolean[];
  /** The run failed: then only the same thing tried again proves anything. */
  readonly #isLost: boolean;
  readonly #words = new Map<number, Set<string>>();
  #comparisons = COMPARISONS;

  constructor(
    steps: readonly TraceStep[],
    verdicts: readonly StepVerdict[],
    looping: readonly boolean[],
    isLost: boolean,
  ) {
    this.#steps = steps;
    this.#verdicts = verdicts;
    this.#looping = looping;
    this.#isLost = isLost;
  }

  find(): Stretch[] {
    const found: Stretch[] = [];
    let at = 0;
    while (at < this.#steps.length && found.length < STRETCHES && this.#comparisons > 0) {
      let stretch: Stretch | null;
      let next = at + 1;
      if (this.#verdicts[at]!.failed) stretch = this.#findRetry(at) ?? this.#findDetour(at);
      else {
        const end = this.#findLoop(at);
        stretch = end === null ? null : this.#findLoopEnd(at, end);
        // A loop that nothing ended is not looked at again from each of its steps.
        if (end !== null) next = end + 1;
      }
      if (stretch !== null) {
        found.push(stretch);
        next = stretch.recovery + 1;
      }
      at = next;
    }
    return found;
  }

  /** The same thing worked later. */
  #findRetry(start: number): Stretch | null {
    const { key, is_talk, is_look } = this.#verdicts[start]!;
    // That something was found proves nothing in a run that then failed: it may well have been the wrong thing.
    if (is_talk || (is_look && this.#isLost)) return null;
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
        return { failures: this.#onlyOnTheWay(failures, tries), recovery: at, way: 'retry' };
      }
    }
    return null;
  }

  /** Failures of other things count from the first try to the last one and what was tried in between. */
  #onlyOnTheWay(failures: readonly number[], tries: readonly number[]): number[] {
    const last = tries.at(-1)!;
    return failures.filter((at) => at <= last || tries.length === 1);
  }

  /** Another thing worked for the same end. */
  #findDetour(start: number): Stretch | null {
    if (this.#isLost) return null;
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
      // To look at something after a failure is how a detour begins, not how it ends.
      if (verdict.is_look && !first.is_look) continue;
      if (verdict.key !== first.key && this.#share(start, at) >= 0.34) {
        return { failures, recovery: at, way: 'detour' };
      }
    }
    return null;
  }

  /** The last step of the loop that begins here, or null when none does. */
  #findLoop(start: number): number | null {
    if (this.#isLost || this.#verdicts[start]!.is_talk) return null;
    const same = this.#endOfSameCalls(start);
    if (same - start + 1 >= SAME_CALLS) return same;
    if (!this.#looping[start]) return null;
    let end = start;
    while (end + 1 < this.#steps.length && this.#looping[end + 1]) end++;
    return end === start ? null : end;
  }

  /** The agent turned in circles from `start` to `end`, and then it did something else. */
  #findLoopEnd(start: number, end: number): Stretch | null {
    const failures: number[] = [];
    for (let at = start; at <= end; at++) failures.push(at);
    for (let at = end + 1; at < Math.min(this.#steps.length, end + 1 + DETOUR_REACH); at++) {
      const verdict = this.#verdicts[at]!;
      if (verdict.is_talk || verdict.failed || this.#looping[at]) continue;
      if (this.#steps[at]!.observation.trim() === '') continue;
      return { failures, recovery: at, way: 'loop' };
    }
    return null;
  }

  /** The last of the steps from `start` on that are the same call with the same answer. */
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

  /** Whether a step of the same key is about the same thing as an earlier try, or comes right after it. */
  #isRelated(tries: readonly number[], at: number): boolean {
    const last = tries.at(-1)!;
    if (at - last <= 2) return true;
    return this.#share(last, at) >= 0.3 || (tries.length > 1 && this.#share(tries[0]!, at) >= 0.3);
  }

  /** Words that two inputs share, as a share of the shorter one's; 1 where one has none to compare. */
  #share(a: number, b: number): number {
    if (--this.#comparisons < 0) return 0;
    const [mine, theirs] = [this.#wordsOf(a), this.#wordsOf(b)];
    const [small, large] = mine.size <= theirs.size ? [mine, theirs] : [theirs, mine];
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

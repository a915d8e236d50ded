/**
 * The values in the wording of a prompt: the words that prompt-sentences.ts levels (numbers, days, months). A value
 * that all golden runs share (a limit, a date, an account) is part of their agent's rule, so a prompt with another
 * value in its place belongs to another agent. Pure; teaching and the student's thread.
 */

import { hashString, mixNumber } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { codesNear } from './prompt-dates.ts';
import { type Sentence, sentencesOf } from './prompt-sentences.ts';

/**
 * Numbers per value in {@link PromptValues.values}: its place, the value, and whether it names the day of the request.
 */
const VALUE_PARTS = 3;

/** The place of a value; for explanations. */
export interface PlacedValue {
  place: number;
  from: 'the system prompt' | 'the task';
  /** The value as written; several words when a bound combined them. */
  word: string;
  sentence: string;
}

/** Collects the values of one request's prompt, in order. */
export class PromptValues {
  /** The collected values, {@link VALUE_PARTS} numbers for each. */
  readonly values: number[] = [];
  readonly #near: ReadonlySet<number> | null;
  readonly #sentences = new Map<number, number>();
  readonly #tell: ((value: PlacedValue) => void) | null;
  /** Everything beyond the bound, combined. */
  #more = 0;

  /** @param at_ms time of the request; null when unknown */
  constructor(at_ms: number | null, tell: ((value: PlacedValue) => void) | null = null) {
    this.#near = at_ms === null ? null : codesNear(at_ms);
    this.#tell = tell;
  }

  /** Adds a sentence of the system prompt. */
  addSystem(sentence: Sentence, text: string): void {
    this.#add(SYSTEM, sentence, text, STUDENT_CORE.system_values);
  }

  /** Adds the beginning and the end of the task. The middle is usually a document and contains no rule. */
  addTask(task: string): void {
    const { beginning, end } = STUDENT_CORE.task_wording;
    const most = this.values.length / VALUE_PARTS + STUDENT_CORE.task_values;
    const isLong = task.length > beginning + end;
    for (const text of isLong ? [task.slice(0, beginning), task.slice(-end)] : [task])
      for (const sentence of sentencesOf(text)) this.#add(TASK, sentence, text, most);
  }

  /** Adds one value for all values of the system prompt beyond the bound. Call it after the last sentence. */
  close(): void {
    if (this.#more !== 0) this.values.push(hashString('more values'), this.#more, 0);
    this.#more = 0;
  }

  #add(source: number, { hash, start, end, values }: Sentence, text: string, most: number): void {
    if (values.length === 0) return;
    // Sentences that differ only in their values are distinguished by their order.
    const id = mixNumber(hash ^ source);
    const count = this.#sentences.get(id) ?? 0;
    this.#sentences.set(id, count + 1);
    for (const [at, value] of values.entries()) {
      const place = mixNumber(Math.imul(id, 31) + 64 * count + at);
      if (this.values.length >= VALUE_PARTS * most) {
        if (source === SYSTEM) this.#more = mixNumber(Math.imul(this.#more, 31) + (place ^ value.hash));
        continue;
      }
      const near = this.#near;
      const isToday = near !== null && value.date?.some((code) => near.has(code)) === true;
      this.values.push(place, value.hash, isToday ? 1 : 0);
      this.#tell?.({
        place,
        from: source === SYSTEM ? 'the system prompt' : 'the task',
        word: text.slice(value.start, value.end),
        sentence: text.slice(start, end),
      });
    }
  }
}

const SYSTEM = 0x51;
const TASK = 0x7a;

/** The golden values of one place. */
interface SeenValue {
  value: number;
  isSame: boolean;
  isToday: boolean;
  runs: Set<string>;
  steps: number;
}

/**
 * Learns which values are part of the agent's rule: the values at places where all golden runs have the same value. At
 * least STUDENT_CORE.fixed_value_runs runs must have the place, or two runs if 98 % of the steps have it. At most
 * STUDENT_CORE.fixed_values values are learned.
 * @returns {@link VALUE_PARTS} numbers for each value
 */
export function learnFixedValues(steps: readonly { run_id: string; values: readonly number[] }[]): number[] {
  const places = new Map<number, SeenValue>();
  for (const { run_id, values } of steps) {
    for (let at = 0; at < values.length; at += VALUE_PARTS) {
      const [place, value, today] = [values[at]!, values[at + 1]!, values[at + 2]!];
      const seen = places.get(place);
      if (seen === undefined) {
        places.set(place, { value, isSame: true, isToday: today === 1, runs: new Set([run_id]), steps: 1 });
        continue;
      }
      seen.steps++;
      if (seen.value !== value) seen.isSame = false;
      if (today !== 1) seen.isToday = false;
      if (seen.runs.size < STUDENT_CORE.fixed_value_runs) seen.runs.add(run_id);
    }
  }
  const fixed: number[] = [];
  for (const [place, { value, isSame, isToday, runs, steps: count }] of places) {
    if (fixed.length >= VALUE_PARTS * STUDENT_CORE.fixed_values) break;
    const isAlwaysThere = count >= 0.98 * steps.length && runs.size > 1;
    if (isSame && (isAlwaysThere || runs.size >= STUDENT_CORE.fixed_value_runs))
      fixed.push(place, value, isToday ? 1 : 0);
  }
  return fixed;
}

/** Checks whether a step's values are those that its agent's golden runs shared. */
export class FixedValues {
  readonly #fixed = new Map<number, { value: number; isToday: boolean }>();

  /** @param fixed as made by {@link learnFixedValues} */
  constructor(fixed: readonly number[]) {
    for (let at = 0; at < fixed.length; at += VALUE_PARTS)
      this.#fixed.set(fixed[at]!, { value: fixed[at + 1]!, isToday: fixed[at + 2] === 1 });
  }

  /**
   * Finds the places where a step's values differ.
   * @returns places with a different value; empty when all are equal
   */
  findOthers(values: readonly number[]): number[] {
    const changed: number[] = [];
    if (this.#fixed.size === 0) return changed;
    for (let at = 0; at < values.length; at += VALUE_PARTS) {
      const golden = this.#fixed.get(values[at]!);
      if (golden === undefined || golden.value === values[at + 1]) continue;
      // The prompt of each golden run names the day of that run, so the value is the current date.
      if (golden.isToday && values[at + 2] === 1) continue;
      changed.push(values[at]!);
    }
    return changed;
  }
}

/**
 * A run's memory: one byte array of fixed size, read and written through views. Steps are stored in the order in
 * which they arrive; `step_index` only names them. Pure; any thread.
 */

import { filterBit, OBSERVATION_FILTER_BITS, SLOT_BYTES, type StepFeatures, StepSlot } from './features.ts';
import { CALENDAR_WORDS, FUNCTION_WORDS, SOURCE } from './lexicon.ts';
import { MONITOR_NAMES, type MonitorName } from './names.ts';
import { holdsWord, readWords, SKETCH_DIMENSIONS, shortHash, WordSet } from './words.ts';

/** Number of last steps stored with their words. */
const SLOTS = 12;
/** Number of last steps of which the call and the outcome are stored. */
export const CALLS = 32;
/** Maximum number of words of the task that are kept. */
const TASK_WORDS = 64;
/** Maximum number of names (capitalized words) and words with digits of the task that are kept. */
const TASK_NAMES = 24;
/** Maximum number of characters of the task that are read. */
const TASK_CHARACTERS = 8192;

const COUNTERS = 20;
const AVERAGES = 8;
const CALL_WORDS = 5;
const STREAK_BYTES = 4;

const AVERAGES_AT = COUNTERS * 4;
const STREAKS_AT = AVERAGES_AT + AVERAGES * 4;
const CALLS_AT = STREAKS_AT + MONITOR_NAMES.length * STREAK_BYTES;
const TASK_AT = CALLS_AT + CALLS * CALL_WORDS * 4;
const NAMES_AT = TASK_AT + TASK_WORDS * 2;
const RECAP_AT = NAMES_AT + TASK_NAMES * 2;
const FILTER_AT = RECAP_AT + SKETCH_DIMENSIONS;
const SLOTS_AT = FILTER_AT + OBSERVATION_FILTER_BITS / 8;
/** Size of every run's memory, the same throughout the run. */
export const MEMORY_BYTES = SLOTS_AT + SLOTS * SLOT_BYTES;

/** Indexes of a run's counters. */
export const COUNTER = {
  /** Steps stored so far, which is the ordinal of the current step. */
  steps: 0,
  /** Words of the task, and names in it. */
  task_words: 1,
  task_names: 2,
  /** Names of the task that the run has mentioned, one bit each. */
  names_seen: 3,
  /** Repeats before this ordinal no longer count, because the agent has changed course since. */
  course: 4,
  /**
   * Edits since the last check. Edits of documents do not count, nor do edits whose result is unknown or shows the new
   * state.
   */
  unchecked: 5,
  /**
   * Changes in total, and steps that looked something up: lookups, checks, instructions, and calls with unknown inputs.
   */
  changes: 6,
  reads: 7,
  /** Number of steps that summarize the work so far, and the ordinal of the last one. */
  recaps: 8,
  recap_at: 9,
  /** Number of successive failing steps with the same signature. */
  same_failures: 10,
  /** Number of summaries in a row, up to the last one, each of which is nearly the same as the previous summary. */
  empty_recaps: 11,
  /** Successive steps unrelated to the task, and steps related to it. */
  strays: 12,
  on_task: 13,
  /** Ordinal + 1 of a step whose request for a check was not answered; otherwise 0. */
  open_check: 14,
  /** Calls that may have changed something; `looks` counts calls that only look. */
  works: 15,
  /** Names of the task that are part of a source which the task asks for, one bit each. */
  source_names: 16,
  /** Instructions in prose so far, and the task's words in them. */
  instructions: 17,
  instructed: 18,
  looks: 19,
} as const;

/** Indexes of a run's moving averages. */
export const AVERAGE = {
  /** Similarity of the instructions to earlier ones. */
  repetition: 0,
  /** Similarity of the beginnings of the results to earlier ones. */
  sameness: 1,
  /** Share of the words asked for that appear in the results. */
  answered: 2,
} as const;

/** A streak of one monitor. The loop monitors share `length` and `level`. */
export interface Streak {
  /** Number of steps at which the monitor fired; stored up to 255. */
  length: number;
  /** 0: no intervention; 1: nudge; 2: stop. */
  level: number;
  /** Number of successive last steps at which the monitor did not fire. */
  calm: number;
}

/** A call in the form that stays stored when the step no longer has a slot. */
interface CallRecord {
  call: number;
  outcome: number;
  step_index: number;
  flags: number;
}

/**
 * Views on a run's memory. Creating them costs as much as judging a step, so a thread reuses them for one run after
 * the other.
 */
export class RunMemory {
  readonly bytes: Uint8Array;
  readonly counters: Uint32Array;
  readonly averages: Float32Array;
  readonly recapSketch: Int8Array;
  /** Words of the last observation. */
  readonly lastFilter: Uint8Array;
  readonly #streaks: Uint8Array;
  readonly #calls: Uint32Array;
  readonly #task: Uint16Array;
  readonly #names: Uint16Array;

  readonly #slots: StepSlot[];

  /** @param bytes memory at offset 0 of a separate buffer; written to */
  constructor(bytes: Uint8Array = new Uint8Array(MEMORY_BYTES)) {
    const { buffer } = bytes;
    this.bytes = bytes;
    this.counters = new Uint32Array(buffer, 0, COUNTERS);
    this.averages = new Float32Array(buffer, AVERAGES_AT, AVERAGES);
    this.#streaks = new Uint8Array(buffer, STREAKS_AT, MONITOR_NAMES.length * STREAK_BYTES);
    this.#calls = new Uint32Array(buffer, CALLS_AT, CALLS * CALL_WORDS);
    this.#task = new Uint16Array(buffer, TASK_AT, TASK_WORDS);
    this.#names = new Uint16Array(buffer, NAMES_AT, TASK_NAMES);
    this.lastFilter = new Uint8Array(buffer, FILTER_AT, OBSERVATION_FILTER_BITS / 8);
    this.recapSketch = new Int8Array(buffer, RECAP_AT, SKETCH_DIMENSIONS);
    this.#slots = Array.from({ length: SLOTS }, (_, at) => new StepSlot(buffer, SLOTS_AT + at * SLOT_BYTES));
  }

  /**
   * Loads a run's memory as it was before the current step.
   * @throws RangeError unless it has MEMORY_BYTES bytes
   */
  load(bytes: Uint8Array): void {
    if (bytes.length !== MEMORY_BYTES) throw new RangeError(`${bytes.length} bytes of memory`);
    this.bytes.set(bytes);
  }

  /** Steps before the current one. */
  get steps(): number {
    return this.counters[COUNTER.steps]!;
  }

  /** Number of steps that are still stored with their words. */
  get slotCount(): number {
    return Math.min(this.steps, SLOTS);
  }

  /**
   * Returns the step at this distance before the current one, from 1 to `slotCount`. The object is valid until the next
   * step or run is loaded.
   */
  slot(ago: number): StepSlot {
    return this.#slots[(this.steps - ago) % SLOTS]!;
  }

  /** Number of stored calls. */
  get callCount(): number {
    return Math.min(this.steps, CALLS);
  }

  /** Returns the call at this distance before the current one, from 1 to `callCount`. */
  call(ago: number): CallRecord {
    const at = ((this.steps - ago) % CALLS) * CALL_WORDS;
    return {
      call: this.#calls[at]!,
      outcome: this.#calls[at + 1]!,
      step_index: this.#calls[at + 4]! * 2 ** 32 + this.#calls[at + 2]!,
      flags: this.#calls[at + 3]!,
    };
  }

  /** Returns only the hash of a call. Unlike `call`, it creates no object. */
  callHash(ago: number): number {
    return this.#calls[((this.steps - ago) % CALLS) * CALL_WORDS]!;
  }

  get taskWordCount(): number {
    return this.counters[COUNTER.task_words]!;
  }
  get taskWords(): Uint16Array {
    return this.#task;
  }
  get nameCount(): number {
    return this.counters[COUNTER.task_names]!;
  }
  get names(): Uint16Array {
    return this.#names;
  }

  /** Whether no monitor is in a streak. */
  get isQuiet(): boolean {
    for (let at = 0; at < this.#streaks.length; at += STREAK_BYTES) if (this.#streaks[at] !== 0) return false;
    return true;
  }

  streak(monitor: MonitorName): Streak {
    const at = MONITOR_NAMES.indexOf(monitor) * STREAK_BYTES;
    return { length: this.#streaks[at]!, level: this.#streaks[at + 1]!, calm: this.#streaks[at + 2]! };
  }

  setStreak(monitor: MonitorName, streak: Streak): void {
    const at = MONITOR_NAMES.indexOf(monitor) * STREAK_BYTES;
    this.#streaks[at] = Math.min(streak.length, 255);
    this.#streaks[at + 1] = streak.level;
    this.#streaks[at + 2] = Math.min(streak.calm, 255);
  }

  /** Whether the last observation contains the word; sometimes true for a word that it lacks. */
  lastMentions(short: number): boolean {
    const bit = filterBit(short);
    return (this.lastFilter[bit >>> 3]! & (1 << (bit & 7))) !== 0;
  }

  /** Adds the step, which becomes the previous one. */
  remember(step: StepFeatures): void {
    const { steps } = this;
    this.bytes.set(step.slotBytes, SLOTS_AT + (steps % SLOTS) * SLOT_BYTES);
    this.lastFilter.set(step.filter);
    const at = (steps % CALLS) * CALL_WORDS;
    this.#calls[at] = step.call;
    this.#calls[at + 1] = step.outcome;
    this.#calls[at + 2] = step.numbers[4]!;
    this.#calls[at + 3] = step.flags;
    this.#calls[at + 4] = step.numbers[8]!;
    this.counters[COUNTER.steps] = steps + 1;
  }
}

/**
 * Reads the memory from a snapshot, which may come from a version with fewer monitors. Newer monitors come
 * last and start without a streak.
 * @returns a copy in its own buffer
 * @throws RangeError if the size matches no version
 */
export function restoreMemory(stored: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(MEMORY_BYTES);
  const missing = MEMORY_BYTES - stored.length;
  if (missing < 0 || missing >= MONITOR_NAMES.length * STREAK_BYTES || missing % STREAK_BYTES !== 0)
    throw new RangeError(`${stored.length} bytes of memory`);
  bytes.set(stored.subarray(0, CALLS_AT - missing));
  bytes.set(stored.subarray(CALLS_AT - missing), CALLS_AT);
  return bytes;
}

/** Makes the memory of a run before its first step, from the run's task. */
export function makeMemory(task: string): Uint8Array {
  const bytes = new Uint8Array(MEMORY_BYTES);
  const memory = new RunMemory(bytes);
  const words = new WordSet(TASK_WORDS);
  const names: number[] = [];
  const text = task.slice(0, TASK_CHARACTERS);
  let first = true;
  readWords(text, (whole, stem, capital, digits, length) => {
    if (FUNCTION_WORDS.has(whole)) return;
    words.add(stem);
    const short = shortHash(stem);
    // The capital of a task's first word says nothing, because nearly every task begins with one.
    if (
      ((capital && !first && length > 2) || digits > 0) &&
      names.length < TASK_NAMES &&
      !names.includes(short)
    )
      names.push(short);
    first = false;
  });
  memory.counters[COUNTER.task_words] = words.seal(memory.taskWords);
  memory.counters[COUNTER.task_names] = names.length;
  memory.names.set(names);
  markSources(memory, text, names);
  memory.averages[AVERAGE.answered] = 1;
  return bytes;
}

/** Marks the names of the task that are part of a source which the task asks for. */
function markSources(memory: RunMemory, text: string, names: readonly number[]): void {
  for (const match of text.matchAll(SOURCE)) {
    readWords(match[1] ?? match[2] ?? '', (whole, stem) => {
      const at = names.indexOf(shortHash(stem));
      if (at < 0 || FUNCTION_WORDS.has(whole) || CALENDAR_WORDS.has(whole)) return;
      memory.counters[COUNTER.source_names]! |= 1 << at;
    });
  }
}

/** Whether the task has the word. */
export function isTaskWord(memory: RunMemory, short: number): boolean {
  return holdsWord(memory.taskWords, memory.taskWordCount, short);
}

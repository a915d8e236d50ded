/**
 * The layout of a step's features: numbers at fixed places in one byte array, so that a digest is journaled and a step
 * remembered without objects around each number. Little-endian by way of typed arrays, as every machine we run on is.
 *
 * Pure; any thread.
 */

import { SKETCH_DIMENSIONS } from './words.ts';

/** Words of an action input that are kept. */
export const INPUT_WORDS = 40;
/** Words of an observation's beginning that are kept. */
export const HEAD_WORDS = 20;
/** Bits of the filter that tells whether a word stands in the observation. */
export const OBSERVATION_FILTER_BITS = 2048;
/** Bits of the filter that tells whether a word stands in the thought. */
const THOUGHT_FILTER_BITS = 512;

const NUMBERS = 9;
const WORDS_AT = NUMBERS * 4;
const HEAD_AT = WORDS_AT + 2 * INPUT_WORDS;
const INPUT_SKETCH_AT = HEAD_AT + 2 * HEAD_WORDS;
const THOUGHT_SKETCH_AT = INPUT_SKETCH_AT + SKETCH_DIMENSIONS;
/** The part that a run remembers of its last steps. */
export const SLOT_BYTES = THOUGHT_SKETCH_AT + SKETCH_DIMENSIONS;
const ANSWERED_AT = SLOT_BYTES;
const SCALARS_AT = ANSWERED_AT + INPUT_WORDS;
const FILTER_AT = SCALARS_AT + 8;
const THOUGHT_FILTER_AT = FILTER_AT + OBSERVATION_FILTER_BITS / 8;
/** All of a digest's features: the slot, and what only the step itself is judged by. */
export const FEATURE_BYTES = THOUGHT_FILTER_AT + THOUGHT_FILTER_BITS / 8;

/** What is true of a step, a bit each. */
export const FLAG = {
  /** The step failed: `is_error`, or its observation reads like a failure. */
  failed: 1,
  /** It changes something: an edit, a booking, an installation. */
  mutates: 1 << 1,
  /** It waits or asks how far something is. */
  waits: 1 << 2,
  /** Its result says that something is still going on. */
  pending: 1 << 3,
  /** It tests, builds, reads back or compares. */
  checks: 1 << 4,
  /** It hands in a result or ends the task. */
  final: 1 << 5,
  /** It says that something worked. */
  claims_success: 1 << 6,
  /** It speaks of something as already at hand. */
  presupposes: 1 << 7,
  /** Its result says that there is nothing: not found, no results, an empty page. */
  denies: 1 << 8,
  /** Its result says that it is a part of more. */
  partial: 1 << 9,
  /** Its input names three things or more in a row. */
  enumerates: 1 << 10,
  /** It sums up the work so far, or carries on from such a summary. */
  recaps: 1 << 11,
  /** Its own words hold a negation. */
  negates: 1 << 12,
  /** Its input is an instruction or a message in words, not a command or arguments. */
  prose: 1 << 13,
  /** Its input asks to verify or confirm something. */
  asks_check: 1 << 14,
  /** Its own text says the same sentence over and over. */
  stutters: 1 << 15,
  /** Its result has enough words to carry news. */
  substantial: 1 << 16,
  /** It has a call: an action or an input. */
  acts: 1 << 17,
  /** Its thought is long enough that saying it again is no coincidence. */
  thinks: 1 << 18,
  /** It reads or looks something up. */
  reads: 1 << 19,
  /** It changes something and its result shows the new state, as an API's answer does. */
  shows_state: 1 << 20,
  /** It changes something that is hard to change back. */
  irreversible: 1 << 21,
  /** It had no result at all. */
  silent: 1 << 22,
  /** It speaks to a person. */
  speaks: 1 << 23,
  /** It changes files: only running or reading shows whether that was right. */
  edits: 1 << 24,
  /** It runs a program, and not only such as look around or tidy up. */
  runs: 1 << 25,
  /** It tells, in words or in handing in, that the agent has changed something. */
  claims_change: 1 << 26,
  /** It failed, and what it was about is a placeholder: an invented path or name. */
  invents: 1 << 27,
  /** Its input is unknown: the sender left it out. The call then equals no other call. */
  input_unknown: 1 << 28,
  /** Its result is unknown: the sender left it out. The result then equals no other result. */
  result_unknown: 1 << 29,
} as const;

/** One step as the run remembers it: views on SLOT_BYTES of a buffer. */
export class StepSlot {
  /**
   * [call, outcome, failure, thought, step_index, flags, counts, action, step_index above 32 bits]; `counts`: input
   * words | head words << 8.
   */
  readonly numbers: Uint32Array;
  readonly words: Uint16Array;
  readonly head: Uint16Array;
  readonly inputSketch: Int8Array;
  readonly thoughtSketch: Int8Array;

  /** @param at a multiple of 4 */
  constructor(buffer: ArrayBufferLike, at: number) {
    this.numbers = new Uint32Array(buffer, at, NUMBERS);
    this.words = new Uint16Array(buffer, at + WORDS_AT, INPUT_WORDS);
    this.head = new Uint16Array(buffer, at + HEAD_AT, HEAD_WORDS);
    this.inputSketch = new Int8Array(buffer, at + INPUT_SKETCH_AT, SKETCH_DIMENSIONS);
    this.thoughtSketch = new Int8Array(buffer, at + THOUGHT_SKETCH_AT, SKETCH_DIMENSIONS);
  }

  /** Action and input in canonical form; 0: no call, or one whose input is unknown. */
  get call(): number {
    return this.numbers[0]!;
  }
  /** The observation without times, durations and addresses; 0: unknown. */
  get outcome(): number {
    return this.numbers[1]!;
  }
  /** The first line that speaks of the failure, without numbers; 0: the step did not fail, or the line is unknown. */
  get failure(): number {
    return this.numbers[2]!;
  }
  get thought(): number {
    return this.numbers[3]!;
  }
  get step_index(): number {
    return this.numbers[8]! * 2 ** 32 + this.numbers[4]!;
  }
  get flags(): number {
    return this.numbers[5]!;
  }
  get wordCount(): number {
    return this.numbers[6]! & 0xff;
  }
  get headCount(): number {
    return (this.numbers[6]! >>> 8) & 0xff;
  }
  get action(): number {
    return this.numbers[7]!;
  }
  has(flag: number): boolean {
    return (this.numbers[5]! & flag) !== 0;
  }
  /** Whether both results are known and the same. */
  hasSameOutcome(other: { outcome: number }): boolean {
    return this.outcome !== 0 && this.outcome === other.outcome;
  }
  /** Whether both calls are known and the same. */
  hasSameCall(other: { call: number }): boolean {
    return this.call !== 0 && this.call === other.call;
  }
}

/** All features of the step at hand. */
export class StepFeatures extends StepSlot {
  /** For each of `words`: 1 when the observation has it too. */
  readonly answered: Uint8Array;
  /**
   * [words of the input that mark another try, all words of the input, words of the observation, words of thought and
   * input that say what the step is about], capped.
   */
  readonly scalars: Uint16Array;
  readonly filter: Uint8Array;
  /** Words of the thought, in the same way. */
  readonly thoughtFilter: Uint8Array;

  /** All of it. */
  readonly bytes: Uint8Array;

  /**
   * Its views are made once, which costs as much as judging a step: a caller that reads one step after the other keeps
   * one of these and loads them.
   * @param features of a digest; without them, none
   */
  constructor(features?: Uint8Array) {
    const bytes = new Uint8Array(FEATURE_BYTES);
    super(bytes.buffer, 0);
    this.bytes = bytes;
    this.answered = bytes.subarray(ANSWERED_AT, ANSWERED_AT + INPUT_WORDS);
    this.scalars = new Uint16Array(bytes.buffer, SCALARS_AT, 4);
    this.filter = bytes.subarray(FILTER_AT, THOUGHT_FILTER_AT);
    this.thoughtFilter = bytes.subarray(THOUGHT_FILTER_AT, FEATURE_BYTES);
    if (features !== undefined) this.load(features);
  }

  /** @param features of a digest, FEATURE_BYTES */
  load(features: Uint8Array): void {
    if (features.length !== FEATURE_BYTES) throw new RangeError(`${features.length} bytes of features`);
    this.bytes.set(features);
  }

  /** Forgets the step. */
  clear(): void {
    this.bytes.fill(0);
  }

  /** A copy of the features. */
  copy(): Uint8Array {
    return this.bytes.slice();
  }

  /** The same into memory that is there. */
  copyTo(features: Uint8Array): void {
    features.set(this.bytes);
  }

  /** The part of them that a run remembers. */
  get slotBytes(): Uint8Array {
    this.#slotBytes ??= this.bytes.subarray(0, SLOT_BYTES);
    return this.#slotBytes;
  }

  #slotBytes: Uint8Array | undefined;

  get retryWords(): number {
    return this.scalars[0]!;
  }
  get inputLength(): number {
    return this.scalars[1]!;
  }
  get observationLength(): number {
    return this.scalars[2]!;
  }
  get plainWords(): number {
    return this.scalars[3]!;
  }

  /** Whether the observation has the word; now and then yes for one that it has not. */
  mentions(short: number): boolean {
    const bit = filterBit(short);
    return (this.filter[bit >>> 3]! & (1 << (bit & 7))) !== 0;
  }

  /** Whether the thought has the word, in the same way. */
  thinksOf(short: number): boolean {
    const bit = thoughtBit(short);
    return (this.thoughtFilter[bit >>> 3]! & (1 << (bit & 7))) !== 0;
  }
}

const FILTER_SHIFT = 32 - Math.log2(OBSERVATION_FILTER_BITS);

/** Where a word's bit stands in the filter. */
export function filterBit(short: number): number {
  return Math.imul(short, 0x9e3779b1) >>> FILTER_SHIFT;
}

const THOUGHT_SHIFT = 32 - Math.log2(THOUGHT_FILTER_BITS);

/** Where a word's bit stands in the thought's filter. */
export function thoughtBit(short: number): number {
  return Math.imul(short, 0x9e3779b1) >>> THOUGHT_SHIFT;
}

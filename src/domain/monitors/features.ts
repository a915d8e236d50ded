/**
 * The layout of a step's features: numbers at fixed places in one byte array. So digests are journaled, and steps
 * stored, without an object for each number. The numbers are little-endian, as typed arrays write them on all supported
 * machines. Pure; any thread.
 */

import { SKETCH_DIMENSIONS } from './words.ts';

/** Maximum number of words of an action's input that are kept. */
export const INPUT_WORDS = 40;
/** Maximum number of words of an observation's beginning that are kept. */
export const HEAD_WORDS = 20;
/** Bits of the filter that shows whether the observation contains a word. */
export const OBSERVATION_FILTER_BITS = 2048;
/** Bits of the filter that shows whether the thought contains a word. */
const THOUGHT_FILTER_BITS = 512;

const NUMBERS = 9;
const WORDS_AT = NUMBERS * 4;
const HEAD_AT = WORDS_AT + 2 * INPUT_WORDS;
const INPUT_SKETCH_AT = HEAD_AT + 2 * HEAD_WORDS;
const THOUGHT_SKETCH_AT = INPUT_SKETCH_AT + SKETCH_DIMENSIONS;
/** Size of a step's slot: the part of the features that a run keeps for each of its last steps. */
export const SLOT_BYTES = THOUGHT_SKETCH_AT + SKETCH_DIMENSIONS;
const ANSWERED_AT = SLOT_BYTES;
const SCALARS_AT = ANSWERED_AT + INPUT_WORDS;
const FILTER_AT = SCALARS_AT + 8;
const THOUGHT_FILTER_AT = FILTER_AT + OBSERVATION_FILTER_BITS / 8;
/** Size of all features of a digest: the slot, and the features that are needed only to judge the step itself. */
export const FEATURE_BYTES = THOUGHT_FILTER_AT + THOUGHT_FILTER_BITS / 8;
/**
 * Size of the features that follow the numbers. `native/texts/counts.h` has the same layout. The native code fills in
 * all of them except the scalars.
 */
export const MEASURED_BYTES = FEATURE_BYTES - WORDS_AT;

/** Properties of a step, one bit each. */
export const FLAG = {
  /** The step failed: `is_error`, or its observation reads like a failure. */
  failed: 1,
  /** It changes something: an edit, a booking, an installation. */
  mutates: 1 << 1,
  /** It waits or asks for progress. */
  waits: 1 << 2,
  /** Its result says that something is still in progress. */
  pending: 1 << 3,
  /** It tests, builds, reads back or compares. */
  checks: 1 << 4,
  /** It submits a result or ends the task. */
  final: 1 << 5,
  /** It says that something worked. */
  claims_success: 1 << 6,
  /** It refers to something as already available. */
  presupposes: 1 << 7,
  /** Its result says that there is nothing: not found, no results, an empty page. */
  denies: 1 << 8,
  /** Its result says that it is only a part. */
  partial: 1 << 9,
  /** Its input names at least three things in a row. */
  enumerates: 1 << 10,
  /** It summarizes the work so far, or continues from such a summary. */
  recaps: 1 << 11,
  /** Its own words contain an odd number of negations. */
  negates: 1 << 12,
  /** Its input is an instruction or a message in prose, not a command or arguments. */
  prose: 1 << 13,
  /** Its input asks to verify or confirm something. */
  asks_check: 1 << 14,
  /** Its own text repeats the same sentence many times. */
  stutters: 1 << 15,
  /** Its result has enough words to contain something new. */
  substantial: 1 << 16,
  /** It has a call: an action or an input. */
  acts: 1 << 17,
  /** Its thought is so long that a repetition is not a coincidence. */
  thinks: 1 << 18,
  /** It reads or looks something up. */
  reads: 1 << 19,
  /** It changes something and its result shows the new state, as an API's answer does. */
  shows_state: 1 << 20,
  /** It changes something that is hard to undo. */
  irreversible: 1 << 21,
  /** Its result is known to be empty. */
  silent: 1 << 22,
  /** It sends a message to a person. */
  speaks: 1 << 23,
  /** It changes files; only running or reading them shows whether the change was right. */
  edits: 1 << 24,
  /** It runs a program that does more than look around or clean up. */
  runs: 1 << 25,
  /** It says, to a person, in a submitted result or without a call, that the agent has changed something. */
  claims_change: 1 << 26,
  /** It failed or found nothing, and it names a placeholder: an invented path or name. */
  invents: 1 << 27,
  /** Its input is unknown because the sender left it out. The call then equals no other call. */
  input_unknown: 1 << 28,
  /** Its result is unknown because the sender left it out. The result then equals no other result. */
  result_unknown: 1 << 29,
} as const;

/** One step in a run's memory: views on SLOT_BYTES of a buffer. */
export class StepSlot {
  /**
   * By index: 0 call, 1 outcome, 2 failure, 3 thought, 4 and 8 the lower 32 bits and the other bits of step_index, 5
   * flags, 6 the number of input words in the lowest eight bits and the number of head words in the next eight, 7
   * action.
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

  /** Hash of action and input or, without a call, of the thought; 0: the input is unknown, or there is neither. */
  get call(): number {
    return this.numbers[0]!;
  }
  /** Hash of the observation, see `hashOutcome`; 0: unknown. */
  get outcome(): number {
    return this.numbers[1]!;
  }
  /**
   * Hash of the line that names the failure or says that there is nothing, without numbers; 0: the result says neither,
   * or is unknown.
   */
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
  /** Whether both results are known and equal. */
  hasSameOutcome(other: { outcome: number }): boolean {
    return this.outcome !== 0 && this.outcome === other.outcome;
  }
  /** Whether both calls are known and equal. */
  hasSameCall(other: { call: number }): boolean {
    return this.call !== 0 && this.call === other.call;
  }
}

/** All features of the current step. */
export class StepFeatures extends StepSlot {
  /** For each of `words`: 1 if the observation contains it too. */
  readonly answered: Uint8Array;
  /**
   * Numbers of words, each capped: words of the input that announce a retry, all words of the input, words of the
   * observation, words of thought and input that indicate the subject.
   */
  readonly scalars: Uint16Array;
  readonly filter: Uint8Array;
  /** A filter like `filter`, for the words of the thought. */
  readonly thoughtFilter: Uint8Array;

  /** All bytes. */
  readonly bytes: Uint8Array;
  /** A view of the last MEASURED_BYTES of `bytes`. */
  readonly measured: Uint8Array;

  /**
   * Creating the views costs as much as judging a step, so a caller that reads many steps creates one object and
   * loads each step into it.
   * @param features of a digest; empty if left out
   */
  constructor(features?: Uint8Array) {
    const bytes = new Uint8Array(FEATURE_BYTES);
    super(bytes.buffer, 0);
    this.bytes = bytes;
    this.measured = bytes.subarray(WORDS_AT);
    this.answered = bytes.subarray(ANSWERED_AT, ANSWERED_AT + INPUT_WORDS);
    this.scalars = new Uint16Array(bytes.buffer, SCALARS_AT, 4);
    this.filter = bytes.subarray(FILTER_AT, THOUGHT_FILTER_AT);
    this.thoughtFilter = bytes.subarray(THOUGHT_FILTER_AT, FEATURE_BYTES);
    if (features !== undefined) this.load(features);
  }

  /**
   * Loads a step's features.
   * @param features of a digest
   * @throws RangeError unless they have FEATURE_BYTES bytes
   */
  load(features: Uint8Array): void {
    if (features.length !== FEATURE_BYTES) throw new RangeError(`${features.length} bytes of features`);
    this.bytes.set(features);
  }

  /** Forgets the step. */
  clear(): void {
    this.bytes.fill(0);
  }

  /** Copies the features. */
  copy(): Uint8Array {
    return this.bytes.slice();
  }

  /** The part of the features that a run keeps. */
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

  /** Whether the observation contains the word; sometimes true for a word that it does not contain. */
  mentions(short: number): boolean {
    const bit = filterBit(short);
    return (this.filter[bit >>> 3]! & (1 << (bit & 7))) !== 0;
  }

  /** Whether the thought contains the word; sometimes true for a word that it does not contain. */
  thinksOf(short: number): boolean {
    const bit = thoughtBit(short);
    return (this.thoughtFilter[bit >>> 3]! & (1 << (bit & 7))) !== 0;
  }
}

const FILTER_SHIFT = 32 - Math.log2(OBSERVATION_FILTER_BITS);

/** Computes the position of a word's bit in the observation's filter. */
export function filterBit(short: number): number {
  return Math.imul(short, 0x9e3779b1) >>> FILTER_SHIFT;
}

const THOUGHT_SHIFT = 32 - Math.log2(THOUGHT_FILTER_BITS);

/** Computes the position of a word's bit in the thought's filter. */
export function thoughtBit(short: number): number {
  return Math.imul(short, 0x9e3779b1) >>> THOUGHT_SHIFT;
}

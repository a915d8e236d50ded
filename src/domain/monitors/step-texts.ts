/**
 * Measures the texts of a step: words, sketches and sums, and which patterns may match. If the addon was compiled, one
 * call of the addon does this. The fallback in this file leads to the same digests, and documents how texts are
 * measured. It does not search for triggers, so every pattern may match. Pure; any thread.
 */
import { loadTextAddon, type TextEngine } from '../../../native/text-engine.ts';
import { hashLoosely, mayChange } from './canonical.ts';
import { filterBit, HEAD_WORDS, INPUT_WORDS, MEASURED_BYTES, StepFeatures, thoughtBit } from './features.ts';
import { FUNCTION_WORDS, NEGATIONS, RETRY_WORDS } from './lexicon.ts';
import { ALL_TRIGGERS, packTriggers, TRIGGER_WORDS } from './triggers.ts';
import { type Lexicon, Sketch, shortHash, WordList, WordMarks, WordSet } from './words.ts';

/** Maximum number of characters that are read from the beginning of each text. Half as many are read from its end. */
export const READ_CHARACTERS = 4096;
/** The head of a result: the words within this many characters from its beginning. */
const HEAD_CHARACTERS = 160;

/** Index of each count. */
export const COUNT = {
  /** Number of words of the observation's head that are kept. */
  head: 0,
  observation_words: 1,
  input_words: 2,
  /** Counts of the input. */
  function_words: 3,
  retries: 4,
  /** Counts over input and thought together: negations, and words that indicate the subject. */
  negations: 5,
  subject: 6,
  /** Number of words of the input that are kept. */
  kept_words: 7,
  /** Hash that distinguishes the observation from others; 0: `hashOutcome` must compute it. */
  outcome: 8,
  /** Hash of the thought in lower case; 0 if it is not ASCII. */
  thought: 9,
  /** Bits of TRIGGER: in thought and input, in the input, and in the observation's beginning and end. */
  own_triggers: 10,
  input_triggers: 11,
  sign_triggers: 12,
} as const;
const COUNTS = Object.keys(COUNT).length;

/** Properties of a word in the lexicon, one bit each. */
const WORD = { function: 1, negation: 2, retry: 4 } as const;

/**
 * Makes a hash table of the lexicons: [mask, then for each slot a hash and the word's properties]. A hash is in its own
 * slot or in the next free one.
 */
function packLexicon(kinds: readonly (readonly [Lexicon, number])[]): Uint32Array {
  const words = new Map<number, number>();
  for (const [lexicon, bit] of kinds)
    for (const hash of lexicon.hashes) words.set(hash, (words.get(hash) ?? 0) | bit);
  const mask = 2 ** Math.ceil(Math.log2(words.size * 4 + 1)) - 1;
  const table = new Uint32Array(1 + 2 * (mask + 1));
  table[0] = mask;
  for (const [hash, bits] of words) {
    let at = hash & mask;
    while (table[1 + 2 * at] !== 0) at = (at + 1) & mask;
    table[1 + 2 * at] = hash;
    table[2 + 2 * at] = bits;
  }
  return table;
}

const LEXICON = packLexicon([
  [FUNCTION_WORDS, WORD.function],
  [NEGATIONS, WORD.negation],
  [RETRY_WORDS, WORD.retry],
]);
const TRIGGERS = packTriggers(TRIGGER_WORDS);

/** Buffer in which the current step's words are collected; reused for every step. */
const words = new WordList();
const seen = new WordMarks();
const headWords = new WordSet(HEAD_WORDS);
const inputWords = new WordSet(INPUT_WORDS);
const sketch = new Sketch();
const own = new StepFeatures();

export const textFallback: TextEngine = {
  kind: 'typescript',

  measureTexts(input, thought, observation, _lexicon, _triggers, features, counts) {
    if (features.length !== MEASURED_BYTES || counts.length < COUNTS)
      throw new RangeError('a table of another size');
    counts.fill(0);
    own.clear();

    headWords.begin();
    words.read(observation.slice(0, HEAD_CHARACTERS));
    for (let i = 0; i < words.count; i++)
      if (!FUNCTION_WORDS.has(words.wholes[i]!)) headWords.add(words.stems[i]!);
    counts[COUNT.head] = headWords.seal(own.head);
    seen.begin();
    words.read(observation);
    for (let i = 0; i < words.count; i++) {
      const short = shortHash(words.stems[i]!);
      if (seen.has(short) || FUNCTION_WORDS.has(words.wholes[i]!)) continue;
      seen.add(short);
      setBit(own.filter, filterBit(short));
    }
    counts[COUNT.observation_words] = words.count;
    counts[COUNT.outcome] = mayChange(observation) ? 0 : hashLoosely(observation);

    let subject = 0;
    let negations = 0;
    inputWords.begin();
    sketch.begin();
    words.read(input);
    counts[COUNT.input_words] = words.count;
    for (let i = 0; i < words.count; i++) {
      const whole = words.wholes[i]!;
      if (RETRY_WORDS.has(whole)) counts[COUNT.retries]!++;
      if (NEGATIONS.has(whole)) negations++;
      if (FUNCTION_WORDS.has(whole)) {
        counts[COUNT.function_words]!++;
        continue;
      }
      const stem = words.stems[i]!;
      subject += words.subjects[i]!;
      inputWords.add(stem);
      sketch.add(stem, 1);
    }
    const kept = inputWords.seal(own.words);
    counts[COUNT.kept_words] = kept;
    sketch.seal(own.inputSketch);
    for (let i = 0; i < kept; i++) if (seen.has(own.words[i]!)) own.answered[i] = 1;

    sketch.begin();
    words.read(thought);
    for (let i = 0; i < words.count; i++) {
      const whole = words.wholes[i]!;
      if (NEGATIONS.has(whole)) negations++;
      if (FUNCTION_WORDS.has(whole)) continue;
      const stem = words.stems[i]!;
      subject += words.subjects[i]!;
      sketch.add(stem, 1);
      setBit(own.thoughtFilter, thoughtBit(shortHash(stem)));
    }
    sketch.seal(own.thoughtSketch);
    counts[COUNT.subject] = subject;
    counts[COUNT.negations] = negations;
    if (/^[\0-\x7f]*$/.test(thought)) counts[COUNT.thought] = hashLoosely(thought.toLowerCase());

    counts[COUNT.own_triggers] = ALL_TRIGGERS;
    counts[COUNT.input_triggers] = ALL_TRIGGERS;
    counts[COUNT.sign_triggers] = ALL_TRIGGERS;
    features.set(own.measured);
  },
};

function setBit(filter: Uint8Array, bit: number): void {
  filter[bit >>> 3]! |= 1 << (bit & 7);
}

const native = loadTextAddon();
/** The implementation in use. */
const engine = native ?? textFallback;

/** Measures the texts of one step after the other. */
export class StepTexts {
  readonly counts = new Uint32Array(COUNTS);
  readonly #engine: TextEngine;

  constructor(use: TextEngine = engine) {
    this.#engine = use;
  }

  /**
   * Measures the texts of one step.
   * @param features receives the words' part of a step's features; the rest is cleared
   * @param input the ends of the text, by READ_CHARACTERS, like the other texts
   */
  measure(input: string, thought: string, observation: string, features: StepFeatures): void {
    features.numbers.fill(0);
    this.#engine.measureTexts(input, thought, observation, LEXICON, TRIGGERS, features.measured, this.counts);
  }
}

/**
 * Decides when two answers to one step are equivalent. Rounds, audits and explanations use this definition.
 * equivalence.ts adds to agreement.ts what golden runs have shown to be interchangeable: wordings of the same values,
 * in texts and in arguments whose wording has no effect (`free`). Pure; teaching and the student's thread.
 *
 * Everything else is compared as in agreement.ts: tools, their order, and every other argument. So amounts,
 * recipients, ids and code must be equal.
 *
 * Two wordings are equivalent if both deny or neither does, if their outcomes do not contradict each other, and if
 * neither replaces a value, or a word with content, by another one. A value that only one of the two wordings has must
 * occur in the step, or a proven rule must compute the value from the step. A word that golden texts took from their
 * steps (`grounded`) must occur in the present step. A wording that no golden run had must also consist mostly of words
 * that golden runs used for this answer, and have no word that they used only for other answers.
 */

import { RecentMap } from '../../std/recent-map.ts';
import {
  answersAgree,
  type FactKind,
  hasFact,
  haveOtherOutcomes,
  readFacts,
  stemWord,
  type TextFacts,
  textsAgree,
} from './agreement.ts';
import type { StudentBlock } from './decision.ts';
import { canonicalText, hashString, isObject, isPrimitive, textOfPrimitive } from './json-values.ts';
import { differInOptions, isLookCall, NO_READ_TOOLS, nameOfUse, type ReadTools } from './look-calls.ts';
import { isWiderLook } from './shell-commands.ts';
import type { StepDigest } from './step.ts';

/** The content of golden texts with one label at one place. Plain JSON. */
export interface Wording {
  label: number;
  /** '' for an answer that is only text, otherwise the argument's name from {@link placeOfArgument}. */
  place: string;
  /** Hashes of the stems of all words in the golden texts. */
  words: number[];
  /**
   * Hashes of values and names that several runs shared although most of their steps lacked them: part of the wording.
   */
  constants: number[];
  /**
   * Hashes of words that occurred in the step, outside the system prompt, nearly whenever a golden text used them, and not
   * in nearly all other steps.
   */
  grounded: number[];
  /** Hashes of stems whose use does not depend on the step: a matter of style. */
  style: number[];
  /**
   * Hashes of stems that are a matter of style in this label's situations: nothing in the situation explains them, or
   * nearly all its texts have them. Absent in older models.
   */
  situated?: number[];
  /**
   * Hashes of stems that golden texts affirm, at places where texts report what was done. Absent at places where texts
   * answer a question, and in older models.
   */
  affirmed?: number[];
  /** Set if several golden runs with this label had a text here, and several had none. */
  optional?: true;
}

/** Read-only tools that golden runs sometimes call beside an answer with this label. */
export type LooksBeside = readonly [label: number, tools: readonly string[]];

/**
 * Tools of the lookups in which golden answers differ from the answer with this label: they look up something besides,
 * first, later, or with another tool.
 */
export type OtherLooks = LooksBeside;

/** Arguments whose wording has no effect, by tool. A call may leave out an argument marked `optional`. */
export type FreeArguments = readonly (readonly [tool: string, key: string, may?: 'optional'])[];

/** An answer, divided into what must be equal and texts that may be worded differently. */
export interface WordedAnswer {
  /** Tools and all arguments that are not free. */
  fixed: string;
  texts: { place: string; facts: TextFacts }[];
}

/** Name of an argument's place. */
export function placeOfArgument(tool: string, key: string): string {
  return `${tool}\n${key}`;
}

/**
 * Divides an answer into what must be equal and its texts. If the answer has calls, its texts are their free arguments,
 * and its own text is left out.
 * @returns null for an answer without calls whose text is empty or begins like JSON or a block of code: it has no
 *   wordings
 */
export function readWording(content: readonly StudentBlock[], free: FreeArguments): WordedAnswer | null {
  let fixed = '';
  let text = '';
  const texts: WordedAnswer['texts'] = [];
  for (const block of content) {
    if (block.type === 'text') {
      text += `${block.text}\n`;
      continue;
    }
    if (!isObject(block.input)) {
      fixed += `${JSON.stringify(block.name)}${canonicalText(block.input)}\n`;
      continue;
    }
    const rest: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(block.input)) {
      if (typeof value === 'string' && free.some(([tool, name]) => tool === block.name && name === key)) {
        texts.push({ place: placeOfArgument(block.name, key), facts: readFacts(value) });
      } else rest[key] = value;
    }
    fixed += `${JSON.stringify(block.name)}${canonicalText(rest)}\n`;
  }
  if (fixed !== '') return { fixed, texts };
  const trimmed = text.trim();
  if (trimmed === '' || trimmed.startsWith('{') || trimmed.startsWith('[') || trimmed.startsWith('```'))
    return null;
  return { fixed, texts: [{ place: '', facts: readFacts(text) }] };
}

type WordedText = WordedAnswer['texts'][number];

/**
 * Pairs the texts of two answers that stand at the same place. A text that only one answer has is left out if its place
 * is optional.
 * @returns null when only one of the answers has a text at a place that is not optional
 */
export function pairTexts(
  a: WordedAnswer,
  b: WordedAnswer,
  isOptional: (place: string) => boolean,
): [WordedText, WordedText][] | null {
  const pairs: [WordedText, WordedText][] = [];
  const left = [...b.texts];
  for (const text of a.texts) {
    const at = left.findIndex(({ place }) => place === text.place);
    if (at >= 0) pairs.push([text, left.splice(at, 1)[0]!]);
    else if (!isOptional(text.place)) return null;
  }
  return left.every(({ place }) => isOptional(place)) ? pairs : null;
}

/** The values that a step holds. */
export class Ground {
  readonly #step: Pick<StepDigest, 'sources'>;
  #read: { own: HeldValues; prompt: HeldValues } | null = null;
  #base: Ground | null = null;
  #computed: ReadonlySet<string> = new Set();

  constructor(step: Pick<StepDigest, 'sources'>) {
    this.#step = step;
  }

  /** A ground that also holds values that proven rules compute from the step, such as a count of its calls. */
  with(computed: readonly string[]): Ground {
    if (computed.length === 0) return this;
    const ground = new Ground(this.#step);
    ground.#base = this;
    ground.#computed = new Set(computed.map((value) => value.toLowerCase()));
    return ground;
  }

  /** Whether the step holds a value, as it is written or as a plain number. */
  holds(value: string): boolean {
    if (this.#base !== null) return this.#computed.has(value.toLowerCase()) || this.#base.holds(value);
    const { own, prompt } = this.#values();
    return own.holds(value) || prompt.holds(value);
  }

  /** Whether the step holds a word outside the system prompt, which lists words for every outcome. */
  holdsOutsidePrompt(word: string): boolean {
    if (this.#base !== null)
      return this.#computed.has(word.toLowerCase()) || this.#base.holdsOutsidePrompt(word);
    return this.#values().own.holds(word);
  }

  #values(): { own: HeldValues; prompt: HeldValues } {
    if (this.#read === null) {
      const [own, prompt]: [string[], string[]] = [[], []];
      for (const { name, value } of this.#step.sources)
        if (name !== 'progress') collectValues(value, name === 'system' ? prompt : own);
      this.#read = { own: new HeldValues(own), prompt: new HeldValues(prompt) };
    }
    return this.#read;
  }
}

/** Values that are searched for words. */
class HeldValues {
  readonly #text: string;
  readonly #values: readonly string[];
  /**
   * The words of each value. null: until now so few values were looked up that scanning the text each time costs less.
   */
  #words: ReadonlySet<string>[] | null = null;
  #scans = 0;

  constructor(values: readonly string[]) {
    this.#values = values;
    this.#text = values.join('\n').toLowerCase();
  }

  holds(value: string): boolean {
    const written = value.toLowerCase();
    if (this.#has(written)) return true;
    const plain = written.replaceAll(',', '');
    return /^\d+\.\d+$/.test(plain) ? this.#has(plain.replace(/\.?0+$/, '')) : this.#has(plain);
  }

  #has(value: string): boolean {
    // The value consists only of commas.
    if (value === '' || this.#text === '') return false;
    const text = this.#text;
    if (this.#scans++ >= SCANS) {
      this.#words ??= this.#values.map(listWords);
      const parts = value.match(WORDS) ?? [];
      if (!parts.every((part) => this.#words!.some((words) => words.has(part)))) return false;
      if (parts[0] === value) return true;
    }
    for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1))
      if (!isWordCharacter(text[at - 1]) && !isWordCharacter(text[at + value.length])) return true;
    return false;
  }
}

/** Number of searches through the text after which its words are listed. */
const SCANS = 24;
/** Words, by the same rule as `isWordCharacter`: characters of two UTF-16 units divide words. */
const WORDS = /[[\p{L}\p{N}]&&[\u0000-\uffff]]+/gv;
/** The words of longer values are cached, because the steps of an agent usually share these values. */
const SHARED_CHARACTERS = 1_000;
const sharedWords = new RecentMap<string, ReadonlySet<string>>(16);

/** The words of a value, in lower case. */
function listWords(value: string): ReadonlySet<string> {
  if (value.length < SHARED_CHARACTERS) return new Set(value.toLowerCase().match(WORDS));
  let words = sharedWords.get(value);
  if (words === undefined) {
    words = new Set(value.toLowerCase().match(WORDS));
    sharedWords.set(value, words);
  }
  return words;
}

/** Searches only values, because the name of a field says nothing about this step. */
function collectValues(value: unknown, values: string[]): void {
  if (Array.isArray(value)) for (const item of value) collectValues(item, values);
  else if (isObject(value)) for (const key of Object.keys(value)) collectValues(value[key], values);
  else if (isPrimitive(value)) values.push(textOfPrimitive(value));
}

function isWordCharacter(char: string | undefined): boolean {
  return char !== undefined && /[\p{L}\p{N}]/u.test(char);
}

const NO_CONSTANTS: ReadonlySet<number> = new Set();

/**
 * Whether two texts have no contradicting outcomes, denials and values, and the step holds each value that only one of
 * them has. If one text enumerates values (ENUMERATED), the other text must have each of them.
 * @param constants hashes of values that are part of the wording
 * @param affirmed see {@link Wording}
 */
export function valuesMatch(
  a: TextFacts,
  b: TextFacts,
  ground: Ground,
  constants: ReadonlySet<number> = NO_CONSTANTS,
  affirmed?: ReadonlySet<number>,
): boolean {
  if (haveOtherOutcomes(a, b)) return false;
  if (a.denials > 0 !== b.denials > 0 && !denyNothingSaid(a, b, affirmed)) return false;
  const onlyA = listOthers(a, b, constants);
  const onlyB = listOthers(b, a, constants);
  if (leavesOut(a, onlyA) || leavesOut(b, onlyB)) return false;
  for (const kind of onlyA.keys()) if (onlyB.has(kind)) return false;
  return [...onlyA.values(), ...onlyB.values()].every((values) =>
    values.every((value) => ground.holds(value)),
  );
}

/**
 * For two texts of which only one denies something: whether its denials are only a way of wording (`no action`,
 * `does not answer`). Two conditions must hold: neither the other text nor a golden text at this place affirms the
 * denied words, and the other text names no outcome that the denying text does not name (`cancelled` against
 * `not possible`).
 */
function denyNothingSaid(a: TextFacts, b: TextFacts, affirmed: ReadonlySet<number> | undefined): boolean {
  const [denying, other] = a.denials > 0 ? [a, b] : [b, a];
  if (affirmed === undefined || denying.is_refusal || denying.denied.size === 0) return false;
  if ([...other.outcomes].some((outcome) => !denying.named.has(outcome))) return false;
  return [...denying.denied].every((stem) => !other.words.has(stem) && !affirmed.has(hashString(stem)));
}

/** A text that has at least this many values of the same form enumerates them. */
const ENUMERATED = 3;

/**
 * Whether a value that only this text has belongs to an enumeration.
 * @param only the values that the other text lacks, by kind
 */
function leavesOut(text: TextFacts, only: ReadonlyMap<string, readonly string[]>): boolean {
  const missing = new Set([...only.values()].flat().map(shapeOfValue));
  if (missing.size === 0) return false;
  const counts = new Map<string, number>();
  for (const { kind, text: value } of text.facts.values()) {
    const shape = kind === 'quote' ? '' : shapeOfValue(value);
    if (missing.has(shape)) counts.set(shape, (counts.get(shape) ?? 0) + 1);
  }
  return [...counts.values()].some((count) => count >= ENUMERATED);
}

/** How a value is written, without its digits and letters: dates are alike, and so are times. */
function shapeOfValue(value: string): string {
  const level = value.replaceAll(/\d+/g, '#').replaceAll(/\p{L}+/gu, 'a');
  return /^[#.,]+$/.test(level) ? '#' : level;
}

/**
 * Values of a text that another text lacks, by kind. Dates and times are separate kinds, because neither can replace
 * the other.
 */
function listOthers(a: TextFacts, b: TextFacts, constants: ReadonlySet<number>): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const add = (kind: FactKind | 'name' | 'code', value: string): void => {
    const form = kind === 'id' ? shapeOfValue(value) : '';
    const name = form === DATE || form === TIME ? form : kind;
    const list = found.get(name);
    if (list === undefined) found.set(name, [value]);
    else list.push(value);
  };
  for (const [key, fact] of a.facts)
    if (!hasFact(b, key, fact) && !constants.has(hashString(key))) add(fact.kind, fact.text);
  for (const name of a.names)
    if (!b.said.has(name) && !constants.has(hashString(name))) add(a.codes.has(name) ? 'code' : 'name', name);
  return found;
}

/** Forms of `2026-05-01` and `09:30`. */
const DATE = '#-#-#';
const TIME = '#:#';

/** Minimum share of a new wording's words that golden runs used for the same answer. */
const KNOWN_WORDS = 0.6;

interface KnownWording {
  style: Set<number>;
  situated: Set<number>;
  affirmed: Set<number> | undefined;
  words: Set<number>;
  constants: Set<number>;
  grounded: Set<number>;
  isOptional: boolean;
  /** Words that only texts with other labels have. */
  others: Set<number>;
}

/**
 * Whether the step contains, outside its prompt, each word that golden texts take from their steps and that only one of
 * two texts has.
 */
export function areGrounded(
  a: TextFacts,
  b: TextFacts,
  ground: Ground,
  grounded: ReadonlySet<number>,
): boolean {
  return (
    [...a.plain].every((word) => b.plain.has(word) || isHeld(word, ground, grounded)) &&
    [...b.plain].every((word) => a.plain.has(word) || isHeld(word, ground, grounded))
  );
}

function isHeld(word: string, ground: Ground, grounded: ReadonlySet<number>): boolean {
  return !grounded.has(hashString(word)) || ground.holdsOutsidePrompt(word);
}

/**
 * Whether two texts may report different reasons or results: each has a word (not a name) that the other text lacks and
 * that is not in `style`, and at least one text has such a word outside `situated`.
 * @param situated words that are a matter of style in this situation
 */
export function haveOtherMeanings(
  a: TextFacts,
  b: TextFacts,
  style: ReadonlySet<number>,
  situated: ReadonlySet<number>,
): boolean {
  const hasOwn = (text: TextFacts, other: TextFacts, free: ReadonlySet<number>): boolean =>
    [...text.plain].some((word) => {
      const stem = stemWord(word);
      const isSaid = text.names.has(word) || other.words.has(stem);
      return !isSaid && !free.has(hashString(stem)) && !free.has(hashString(word));
    });
  if (!hasOwn(a, b, style) || !hasOwn(b, a, style)) return false;
  return hasOwn(a, b, situated) || hasOwn(b, a, situated);
}

/** Whether an answer has an equal call. */
function isAmong(
  call: Extract<StudentBlock, { type: 'tool_call' }>,
  given: readonly StudentBlock[],
): boolean {
  return given.some((block) => answersAgree({ content: [block] }, { content: [call] }));
}

/**
 * Compares two answers that may make different lookups.
 * @returns the tools (of a shell also the program) of the calls that only one answer has; empty if both answers make
 *   the same lookups, in any order. null in these cases: an answer has no calls; a call that only one answer has is no
 *   lookup; both answers have the same calls, and one of the calls is no lookup; both answers use the same tool for
 *   different calls. The last case has an exception: one of two shell commands may name all operands of the other
 */
export function differInLooks(
  given: readonly StudentBlock[],
  other: readonly StudentBlock[],
  reads: ReadTools = NO_READ_TOOLS,
): readonly string[] | null {
  const [own, others] = [callsIn(given), callsIn(other)];
  if (own.length === 0 || others.length === 0) return null;
  const missing = own.filter((call) => !isAmong(call, others));
  const added = others.filter((call) => !isAmong(call, own));
  const isRead = (call: (typeof added)[number]): boolean => isLookCall(call, reads);
  if (![...missing, ...added].every(isRead)) return null;
  // Other calls may depend on the order.
  if (missing.length + added.length === 0) return own.every(isRead) ? [] : null;
  const isOther = (call: (typeof added)[number]): boolean =>
    missing.every((each) => nameOfUse(each) !== nameOfUse(call) || isWiderLook(each, call));
  if (!added.every(isOther)) return null;
  return [...new Set([...missing, ...added].map(nameOfUse))];
}

/**
 * Whether an answer makes some of the lookups that the other answer makes, and no other calls. Calls of one answer do
 * not depend on each other, so the rest can follow.
 */
export function makesSomeLooksOf(
  other: readonly StudentBlock[],
  given: readonly StudentBlock[],
  reads: ReadTools = NO_READ_TOOLS,
): boolean {
  const [own, others] = [callsIn(given), callsIn(other)];
  return own.length > 0 && own.every((call) => isLookCall(call, reads) && isAmong(call, others));
}

/**
 * Whether two answers make the same lookups, and differ only in options that set how much a lookup shows. False if the
 * step contains the number of such an option, because the step may ask for that number.
 */
export function differInUntoldOptions(
  given: readonly StudentBlock[],
  other: readonly StudentBlock[],
  ground: Ground,
): boolean {
  const values = differInOptions(given, other);
  return values?.every((value) => typeof value === 'boolean' || !ground.holds(String(value))) === true;
}

function callsIn(content: readonly StudentBlock[]): Extract<StudentBlock, { type: 'tool_call' }>[] {
  return content.filter((block) => block.type === 'tool_call');
}

/** The golden wordings of one stage, ready for queries. */
export class KnownWordings {
  readonly #free: FreeArguments;
  readonly #known = new Map<string, KnownWording>();
  readonly #looks: ReadonlyMap<number, readonly string[]>;
  readonly #otherLooks: ReadonlyMap<number, readonly string[]>;
  readonly reads: ReadTools;

  constructor(
    wordings: readonly Wording[],
    free: FreeArguments,
    looks: readonly LooksBeside[] = [],
    otherLooks: readonly OtherLooks[] = [],
    reads: ReadTools = NO_READ_TOOLS,
  ) {
    this.#free = free;
    this.#looks = new Map(looks);
    this.#otherLooks = new Map(otherLooks);
    this.reads = reads;
    for (const wording of wordings) {
      const { label, place, words, constants, grounded, style, situated, affirmed, optional } = wording;
      const own = new Set(words);
      const others = new Set(
        wordings
          .filter((other) => other.place === place && other.label !== label)
          .flatMap((other) => other.words.filter((word) => !own.has(word))),
      );
      this.#known.set(`${label} ${place}`, {
        words: own,
        constants: new Set(constants),
        grounded: new Set(grounded),
        style: new Set(style),
        situated: new Set([...(situated ?? []), ...grounded]),
        affirmed: affirmed === undefined ? undefined : new Set(affirmed),
        isOptional: optional === true,
        others,
      });
    }
  }

  /** Whether `other` is equivalent to the student's answer with this label. */
  isSame(
    label: number,
    given: readonly StudentBlock[],
    other: readonly StudentBlock[],
    ground: Ground,
  ): boolean {
    return (
      differInUntoldOptions(given, other, ground) ||
      this.#compare(label, given, other, (place, a, b) => this.#isWording(label, place, a, b, ground))
    );
  }

  /** Whether two answers with this label have the same values, in whatever words. */
  haveSameValues(
    label: number,
    given: readonly StudentBlock[],
    other: readonly StudentBlock[],
    ground: Ground,
  ): boolean {
    if (differInUntoldOptions(given, other, ground)) return true;
    return this.#compare(label, given, other, (place, a, b) => {
      const known = this.#known.get(`${label} ${place}`);
      return known === undefined
        ? textsAgree(a, b)
        : valuesMatch(a, b, ground, known.constants, known.affirmed);
    });
  }

  #compare(
    label: number,
    given: readonly StudentBlock[],
    other: readonly StudentBlock[],
    isText: (place: string, a: TextFacts, b: TextFacts) => boolean,
  ): boolean {
    const content = (blocks: readonly StudentBlock[]) => ({ content: blocks as StudentBlock[] });
    if (answersAgree(content(given), content(other))) return true;
    const otherLooks = this.#otherLooks.get(label) ?? [];
    if (differInLooks(given, other, this.reads)?.every((name) => otherLooks.includes(name))) return true;
    const looks = this.#looks.get(label) ?? [];
    const called = other.filter(
      (block) => block.type === 'text' || !looks.includes(block.name) || isAmong(block, given),
    );
    if (called.length < other.length) return this.#compare(label, given, called, isText);
    const a = readWording(given, this.#free);
    const b = readWording(other, this.#free);
    if (a === null || b === null || a.fixed !== b.fixed) return false;
    const isOptional = (place: string) => this.#known.get(`${label} ${place}`)?.isOptional === true;
    const pairs = pairTexts(a, b, isOptional);
    return pairs?.every(([text, others]) => isText(text.place, text.facts, others.facts)) === true;
  }

  #isWording(label: number, place: string, given: TextFacts, other: TextFacts, ground: Ground): boolean {
    const known = this.#known.get(`${label} ${place}`);
    if (known !== undefined && !areGrounded(given, other, ground, known.grounded)) return false;
    if (textsAgree(given, other)) return true;
    if (known === undefined) return false;
    if (!valuesMatch(given, other, ground, known.constants, known.affirmed)) return false;
    if (haveOtherMeanings(given, other, known.style, known.situated)) return false;
    let familiar = 0;
    for (const word of other.plain) {
      const key = hashString(stemWord(word));
      if (known.words.has(key) || known.situated.has(key)) familiar++;
      else if (ground.holds(word)) familiar++;
      else if (known.others.has(key)) return false;
    }
    return familiar >= KNOWN_WORDS * other.plain.size;
  }

  /**
   * Whether the step contains, outside its prompt, those words of the answer that answers with this label take from
   * steps.
   */
  isGrounded(label: number, content: readonly StudentBlock[], ground: Ground): boolean {
    const worded = readWording(content, this.#free);
    return (worded?.texts ?? []).every(({ place, facts }) => {
      const grounded = this.#known.get(`${label} ${place}`)?.grounded;
      return grounded === undefined || [...facts.plain].every((word) => isHeld(word, ground, grounded));
    });
  }
}

/**
 * What an agent's golden prompts have in common: their sentences, in order, and the places where values changed. A
 * prompt that does not fit belongs to another agent. This file has the plain data of a template and the check of a live
 * prompt. Pure; teaching and the student's thread. `prompt-template-fit.ts` makes a template.
 */

import { forbidsSomething, isCommonWord, isCompanyWord } from './common-words.ts';
import { hashString } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { codesNear } from './prompt-dates.ts';
import { hashesOf, type PromptText } from './prompt-text.ts';
import { type PromptToken, splitTokens, type WordForm } from './prompt-tokens.ts';

/** A place in a sentence where golden prompts had different values. */
export interface PromptSpan {
  /** Forms of the words of each golden value; a live value must have one of these forms. */
  forms: WordForm[][];
  /** Everyday and joining words in golden values. A live value may contain no other everyday or joining words. */
  words: number[];
  /** Characters of the longest word. */
  longest: number;
  /**
   * Set at a place where golden prompts had the day of the request: the hash of that date in one of them. A live prompt
   * must have the same date there, or the day on which the live request arrives. Absent: the place has other values.
   */
  today?: number;
}

/** Part of a sentence: a word that all golden prompts had, by its hash, or a value's place. */
export type PatternPart = number | PromptSpan;

/** One sentence of a template. */
export interface TemplateSentence {
  /** Hash of a sentence without values; absent: `parts` has its words and the places of its values. */
  hash?: number;
  parts?: PatternPart[];
  /** Index among the sentences that nearly every golden prompt had once, in one order; absent: another sentence. */
  anchor?: number;
  /** For a sentence without `anchor`: the possible numbers of anchors before it. */
  gaps?: number[];
  /** Set if nearly every golden prompt had the sentence. A prompt of the agent must have it. */
  needed?: true;
  /** Maximum number of occurrences in one prompt. */
  most: number;
}

/** The prompts of one agent. Plain JSON. */
export interface PromptTemplate {
  sentences: TemplateSentence[];
  /** Words of the fixed sentences, by hash; no name contains one. Empty when no name may change. */
  words: number[];
}

/** Why a live prompt does not fit. */
interface PromptMisfit {
  /** Sentences that no golden prompt had at that position: index of the block, index of the sentence in it. */
  unknown: [block: number, sentence: number][];
  /** Number of sentences that every prompt of the agent must have, and that this prompt lacks. */
  missing: number;
}

/** A prompt that was checked. */
interface KnownPrompt {
  prompt: PromptText;
  /** The day of the request; null when unknown. */
  day: number | null;
  misfit: PromptMisfit | null;
}

const DAY_MS = 86_400_000;

/** Whether all blocks of two prompts come from the same texts. */
function isCutAlike(first: PromptText, second: PromptText): boolean {
  return first.length === second.length && first.every((block, b) => block === second[b]);
}

/** Checks prompts against one template. Caches tables; one thread. */
export class PromptMatcher {
  readonly #template: PromptTemplate;
  readonly #exact = new Map<number, TemplateSentence>();
  /** Sentences with values, by the hash of the first word; 0 for a sentence that begins with a value. */
  readonly #patterns = new Map<number, TemplateSentence[]>();
  readonly #words: ReadonlySet<number>;
  readonly #anchors: number;
  /** Results for recent prompts, by their first block: most steps have the prompt of the previous step. */
  readonly #known = new WeakMap<readonly string[], KnownPrompt>();

  constructor(template: PromptTemplate) {
    this.#template = template;
    this.#words = new Set(template.words);
    let anchors = 0;
    for (const sentence of template.sentences) {
      if (sentence.anchor !== undefined) anchors = Math.max(anchors, sentence.anchor + 1);
      if (sentence.hash !== undefined) this.#exact.set(sentence.hash, sentence);
      const [first] = sentence.parts ?? [];
      if (first === undefined) continue;
      const key = typeof first === 'number' ? first : 0;
      const list = this.#patterns.get(key);
      if (list === undefined) this.#patterns.set(key, [sentence]);
      else list.push(sentence);
    }
    this.#anchors = anchors;
  }

  /**
   * Checks a live prompt.
   * @param at_ms time of the request; null when unknown
   * @returns null for a prompt of this agent
   */
  findMisfit(prompt: PromptText, at_ms: number | null): PromptMisfit | null {
    const [first] = prompt;
    const day = at_ms === null ? null : Math.floor(at_ms / DAY_MS);
    const known = first === undefined ? undefined : this.#known.get(first);
    if (known !== undefined && known.day === day && isCutAlike(known.prompt, prompt)) return known.misfit;
    const misfit = this.#match(prompt, at_ms);
    if (first !== undefined) this.#known.set(first, { prompt, day, misfit });
    return misfit;
  }

  #match(prompt: PromptText, at_ms: number | null): PromptMisfit | null {
    const unknown: [number, number][] = [];
    const counts = new Map<TemplateSentence, number>();
    let missing = 0;
    let behind = 0;
    for (const [b, block] of prompt.entries()) {
      const hashes = hashesOf(block);
      for (const [s, text] of block.entries()) {
        const found = this.#find(hashes[s]!, text, at_ms, behind, counts);
        if (found === null) {
          unknown.push([b, s]);
          continue;
        }
        counts.set(found, (counts.get(found) ?? 0) + 1);
        if (found.anchor === undefined) continue;
        missing += found.anchor - behind;
        behind = found.anchor + 1;
      }
    }
    missing += this.#anchors - behind;
    for (const sentence of this.#template.sentences)
      if (sentence.needed === true && sentence.anchor === undefined && !counts.has(sentence)) missing++;
    return unknown.length === 0 && missing === 0 ? null : { unknown, missing };
  }

  /** The template's sentence that matches a live one at its position, or null. */
  #find(
    hash: number,
    text: string,
    at_ms: number | null,
    behind: number,
    counts: ReadonlyMap<TemplateSentence, number>,
  ): TemplateSentence | null {
    const mayStand = (sentence: TemplateSentence): boolean =>
      (counts.get(sentence) ?? 0) < sentence.most &&
      (sentence.anchor === undefined ? sentence.gaps?.includes(behind) === true : sentence.anchor >= behind);
    const exact = this.#exact.get(hash);
    if (exact !== undefined) return mayStand(exact) ? exact : null;
    if (this.#patterns.size === 0 || text.length > STUDENT_CORE.pattern_characters) return null;
    const tokens = splitTokens(text);
    if (tokens.length === 0 || tokens.length > STUDENT_CORE.pattern_words) return null;
    for (const key of [tokens[0]!.hash, 0])
      for (const sentence of this.#patterns.get(key) ?? [])
        if (mayStand(sentence) && fitsPattern(sentence.parts!, tokens, this.#words, at_ms)) return sentence;
    return null;
  }
}

/** Whether a sentence matches the pattern. Its values may differ from golden ones, but must be of the same kinds. */
export function fitsPattern(
  parts: readonly PatternPart[],
  tokens: readonly PromptToken[],
  words: ReadonlySet<number>,
  at_ms: number | null,
): boolean {
  const failed = new Set<number>();
  const fits = (part: number, at: number): boolean => {
    if (part === parts.length) return at === tokens.length;
    const pattern = parts[part]!;
    if (typeof pattern === 'number')
      return at < tokens.length && tokens[at]!.hash === pattern && fits(part + 1, at + 1);
    const key = part * (STUDENT_CORE.pattern_words + 1) + at;
    if (failed.has(key)) return false;
    for (const length of lengthsOf(pattern)) {
      if (at + length > tokens.length) continue;
      const value = tokens.slice(at, at + length);
      if (isValueOf(pattern, value, words, at_ms) && fits(part + 1, at + length)) return true;
    }
    failed.add(key);
    return false;
  };
  return fits(0, 0);
}

function lengthsOf({ forms, today }: PromptSpan): number[] {
  return today === undefined ? [...new Set(forms.map(({ length }) => length))] : [1];
}

function isValueOf(
  span: PromptSpan,
  value: readonly PromptToken[],
  words: ReadonlySet<number>,
  at_ms: number | null,
): boolean {
  if (span.today !== undefined) {
    const [{ hash, date }] = value as [PromptToken];
    if (hash === span.today) return true;
    return at_ms !== null && date?.some((code) => codesNear(at_ms).has(code)) === true;
  }
  if (!span.forms.some((form) => hasForm(value, form))) return false;
  const isProper = (text: string): boolean =>
    !isCommonWord(text) && !words.has(hashString(text.toLowerCase()));
  const hasName = value.some(({ form, text }) => 'NCM'.includes(form) && isProper(text));
  return value.every((token) => {
    if (token.text.length > LENGTHS.times * span.longest + LENGTHS.more) return false;
    if (span.words.includes(token.hash)) return true;
    switch (token.form) {
      case 'N':
      case 'C':
      case 'M':
        return isProper(token.text) || (hasName && isCompanyWord(token.text));
      case 'l':
        // Within a name, only the joining words (`of`, `van`) that golden names had are allowed.
        return value.length === 1 && isProper(token.text);
      case 's':
      case 'p':
      case 'i':
        return !forbidsSomething(token.text);
      default:
        return token.form !== 'x';
    }
  });
}

function hasForm(value: readonly PromptToken[], form: readonly WordForm[]): boolean {
  return value.length === form.length && value.every((token, at) => isOfForm(token, form[at]!));
}

/**
 * Whether a word has a golden form. A number or a time also counts as an id, because an id may happen to have no
 * letter, and a short acronym counts as a name.
 */
function isOfForm({ form, text }: PromptToken, golden: WordForm): boolean {
  if (form === golden) return true;
  if (golden === 'i') return form === 'n' || form === 't';
  return golden === 'N' && form === 'C' && text.length <= SHORT_NAME;
}

const SHORT_NAME = 4;
const LENGTHS = { times: 3, more: 32 } as const;

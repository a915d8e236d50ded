/**
 * The common pattern of sentences that differ only in values: their fixed words, and the places of the values, each
 * with the kind of its values. Pure; teaching.
 */

import { forbidsSomething, isCommonWord } from './common-words.ts';
import { STUDENT_CORE } from './limits.ts';
import type { PatternPart, PromptSpan } from './prompt-template.ts';
import { hashesOf, type PromptText } from './prompt-text.ts';
import { isNameLike, isPlainValue, isWord, type PromptToken, splitTokens } from './prompt-tokens.ts';

/**
 * If a group has at least twice as many sentences, only every second, third, … of them is compared word by word to find
 * what the group has in common.
 */
const COMPARED = 100;
/** A value with more words is prose. */
const VALUE_WORDS = 8;
/** A place whose values have more different forms is not the place of a value. */
const VALUE_FORMS = 32;
/**
 * Minimum number of different values that establish what a live value at their place must look like. Fewer different
 * names may be a closed set of choices.
 */
const VALUES_MIN = { plain: 2, names: 3 } as const;
/** Largest share of values that may consist of everyday words alone. */
const EVERYDAY_MOST = 0.2;
/**
 * Two sentences are alike if two conditions hold: at least `share` of their words, and at least `words` words, are
 * equal; and each value has at most `value` words.
 */
const ALIKE = { share: 0.5, words: 2, value: 4 } as const;

/** A key that is equal for sentences that differ only in values with a recognisable form. */
export function looseKey(tokens: readonly PromptToken[]): string {
  const key: string[] = [];
  for (const [at, { form, text }] of tokens.entries()) {
    const isName = 'NCM'.includes(form) && !(at === 0 && isCommonWord(text));
    const part = isName
      ? 'N'
      : 'dntiW'.includes(form)
        ? '0'
        : 'pe'.includes(form)
          ? '/'
          : form === 's'
            ? 's'
            : ` ${text}`;
    if (part !== 'N' || key.at(-1) !== 'N') key.push(part);
  }
  return key.join('\n');
}

/** Whether two sentences differ only in words that may be names or other values, and share enough words (ALIKE). */
export function isAlike(a: readonly PromptToken[], b: readonly PromptToken[]): boolean {
  if (Math.abs(a.length - b.length) > ALIKE.value) return false;
  const common = commonOf(textsOf(a), textsOf(b));
  if (common.length < ALIKE.share * Math.max(a.length, b.length)) return false;
  const words = a.filter(({ form, text }) => isWord(form) && common.includes(text)).length;
  if (words < ALIKE.words) return false;
  const regions = [cutRegions(common, a), cutRegions(common, b)];
  return common.concat('').every((_, at) => {
    const [a, b] = [regions[0]?.[at] ?? [], regions[1]?.[at] ?? []];
    if (a.length === 0 && b.length === 0) return true;
    const isValue = (tokens: readonly PromptToken[]): boolean =>
      tokens.length > 0 &&
      tokens.length <= ALIKE.value &&
      tokens.every((token) => !isWord(token.form) || isPlainValue(token.form) || isNameLike(token));
    return isValue(a) && isValue(b);
  });
}

/**
 * The share of sentences of two prompts that are equal, or differ only in values; 0 if it is certainly below a half,
 * and 1 if there are no sentences. Sentences longer than STUDENT_CORE.pattern_characters are left out. Of the sentences
 * that only one prompt has, the first ALIKE_SENTENCES of each prompt are compared.
 */
export function shareOfAlike(first: PromptText, second: PromptText): number {
  const [a, b] = [sentencesOf(first), sentencesOf(second)];
  const both = [...a.keys()].filter((hash) => b.has(hash)).length;
  const onlyA = [...a].filter(([hash]) => !b.has(hash));
  const onlyB = [...b].filter(([hash]) => !a.has(hash));
  const all = a.size + b.size - both;
  // The share stays below a half even if every remaining sentence is alike.
  if (all === 0 || both + Math.min(onlyA.length, onlyB.length) < all / 3) return all === 0 ? 1 : 0;
  const left = onlyB.slice(0, ALIKE_SENTENCES).map(([, text]) => splitTokens(text));
  let alike = 0;
  for (const [, text] of onlyA.slice(0, ALIKE_SENTENCES)) {
    const tokens = splitTokens(text);
    const at = left.findIndex(
      (candidate) => looseKey(candidate) === looseKey(tokens) || isAlike(candidate, tokens),
    );
    if (at < 0) continue;
    left.splice(at, 1);
    alike++;
  }
  return (both + alike) / (all - alike);
}

/** Maximum number of sentences of each of two prompts that are compared word by word. */
const ALIKE_SENTENCES = 40;

function sentencesOf(prompt: PromptText): Map<number, string> {
  const found = new Map<number, string>();
  for (const block of prompt) {
    const hashes = hashesOf(block);
    for (const [s, text] of block.entries())
      if (text.length <= STUDENT_CORE.pattern_characters) found.set(hashes[s]!, text);
  }
  return found;
}

/** The words that all sentences have, in order. */
export function findCommon(sentences: readonly (readonly PromptToken[])[]): string[] {
  const step = Math.max(1, Math.floor(sentences.length / COMPARED));
  let common = textsOf(sentences[0]!);
  for (let at = step; at < sentences.length; at += step) common = commonOf(common, textsOf(sentences[at]!));
  return common;
}

/** A pattern, or what separates the sentences. */
interface CutPattern {
  /** null: at some place, the values do not establish what a live value must look like. */
  parts: PatternPart[] | null;
  /** Whether some of the fixed parts are words. */
  hasWords: boolean;
  /** For each sentence: its words at places without a value. */
  closed: string[];
}

/**
 * Makes the pattern of sentences.
 * @param common the words that all sentences have
 */
export function cutPattern(
  common: readonly string[],
  sentences: readonly (readonly PromptToken[])[],
): CutPattern {
  const regions = sentences.map((tokens) => cutRegions(common, tokens));
  const fixed = new Map(sentences[0]!.map((token) => [token.text, token]));
  const closed = sentences.map((_, i) => (regions[i] === null ? '\n' : ''));
  const parts: PatternPart[] = [];
  let isClosed = false;
  for (let at = 0; at <= common.length; at++) {
    const values = regions.map((region) => region?.[at] ?? []);
    if (values.some((value) => value.length > 0)) {
      const span = inferSpan(values.filter((_, i) => regions[i] !== null));
      if (span !== null) parts.push(span);
      else {
        isClosed = true;
        for (const [i, value] of values.entries()) closed[i] += `${at} ${textsOf(value).join(' ')}\n`;
      }
    }
    if (at < common.length) parts.push(fixed.get(common[at]!)!.hash);
  }
  const hasWords = common.some((text) => isWord(fixed.get(text)!.form));
  return { parts: isClosed ? null : parts, hasWords, closed };
}

/** The words before, between and after the common words; null when the sentence lacks some of the common words. */
function cutRegions(common: readonly string[], tokens: readonly PromptToken[]): PromptToken[][] | null {
  let head = 0;
  while (head < common.length && common[head] === tokens[head]?.text) head++;
  let tail = 0;
  while (
    tail < common.length - head &&
    common[common.length - 1 - tail] === tokens[tokens.length - 1 - tail]?.text
  )
    tail++;
  if (tokens.length < head + tail) return null;
  const regions: PromptToken[][] = common.map(() => []);
  regions.push([]);
  let at = head;
  let region = head;
  for (; at < tokens.length - tail; at++) {
    if (region < common.length - tail && tokens[at]!.text === common[region]) region++;
    else regions[region]!.push(tokens[at]!);
  }
  return region === common.length - tail ? regions : null;
}

/**
 * Derives from the golden values of a place what a live value there must look like. Returns null if they do not
 * establish this: a value is empty, too long or prose, there are too few different values or too many forms, or too
 * many values consist of everyday words.
 */
function inferSpan(values: readonly (readonly PromptToken[])[]): PromptSpan | null {
  if (values.some((value) => value.length === 0 || value.length > VALUE_WORDS)) return null;
  const hasNames = values.some((value) => value.some(({ form }) => 'NCMsl'.includes(form)));
  const distinct = new Set(values.map((value) => textsOf(value).join(' ')));
  if (distinct.size < (hasNames ? VALUES_MIN.names : VALUES_MIN.plain)) return null;
  if (!values.every(isValue)) return null;
  const everyday = values.filter((value) =>
    value.every(({ form, text }) => !isWord(form) || isEveryday(form, text)),
  );
  if (everyday.length > EVERYDAY_MOST * values.length) return null;
  const forms = new Set(values.map((value) => value.map(({ form }) => form).join('\u0000')));
  if (forms.size > VALUE_FORMS) return null;
  const words = new Set<number>();
  let longest = 0;
  for (const value of values)
    for (const { form, text, hash } of value) {
      longest = Math.max(longest, text.length);
      const isJoining = form === 'l' && value.length > 1;
      if (isJoining || isEveryday(form, text) || ('sip'.includes(form) && forbidsSomething(text)))
        words.add(hash);
    }
  return { forms: [...forms].map((form) => form.split('\u0000')), words: [...words], longest };
}

function isEveryday(form: string, text: string): boolean {
  return 'NCMl'.includes(form) && isCommonWord(text);
}

/** Whether the words may be one value: no prose, and no script whose words cannot be separated. */
function isValue(value: readonly PromptToken[]): boolean {
  if (value.some(({ form }) => form === 'x') || !value.some(({ form }) => isWord(form))) return false;
  const isAlone = value.length === 1;
  return value.every(({ form, text }, at) => {
    if (form !== 'l') return true;
    if (isAlone) return !isCommonWord(text);
    // Joining words such as `of` and `van` stand between two names.
    return at > 0 && at < value.length - 1 && text.length <= JOINING;
  });
}

const JOINING = 4;

function textsOf(tokens: readonly PromptToken[]): string[] {
  return tokens.map(({ text }) => text);
}

/** The longest common subsequence of words. */
function commonOf(left: readonly string[], right: readonly string[]): string[] {
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head++;
  let tail = 0;
  while (
    tail < left.length - head &&
    tail < right.length - head &&
    left[left.length - 1 - tail] === right[right.length - 1 - tail]
  )
    tail++;
  const [a, b] = [left.slice(head, left.length - tail), right.slice(head, right.length - tail)];
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] =
        a[i] === b[j]
          ? best[(i + 1) * width + j + 1]! + 1
          : Math.max(best[(i + 1) * width + j]!, best[i * width + j + 1]!);
  const middle: string[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      middle.push(a[i]!);
      i++;
      j++;
    } else if (best[(i + 1) * width + j]! >= best[i * width + j + 1]!) i++;
    else j++;
  }
  return [...left.slice(0, head), ...middle, ...left.slice(left.length - tail)];
}

/**
 * Decides when two answers say the same thing. All code that counts a student's errors uses this definition. Pure; any
 * thread.
 *
 * - Calls: the same tools in the same order, with inputs that are equal JSON regardless of key order. Text beside calls
 *   does not count, because the agent acts on the calls.
 * - Text that is JSON, fenced or not: equal JSON. Programs read it, so every key and value counts.
 * - Other text alone: the same facts, and similar wording. Facts are words with a digit or an underscore, addresses and
 *   paths, text in quotes or backticks, a number's sign and currency, names (capitalised words inside a sentence), and
 *   whether the text denies something (no, not, cannot, unable, failed, …). The texts must not each name an outcome
 *   (approved, declined) that the other does not name. Wording is similar when the words that carry meaning have a Dice
 *   overlap of at least {@link CLOSE_WORDING}.
 *
 * These rules need no evidence. equivalence.ts adds what golden runs show to be interchangeable.
 */

import { canonicalNumber, parseExact } from '../../std/exact-json.ts';
import type { StudentAnswer } from './decision.ts';
import { canonicalText } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { isOccasional, readTokens, type TextToken } from './text-tokens.ts';

/**
 * Paraphrases of one message by the same model reach this overlap. Messages with the same values about different
 * subjects do not.
 */
const CLOSE_WORDING = 0.5;

export const FUNCTION_WORDS: ReadonlySet<string> = new Set(
  (
    'a an the and or but so if then than that this these those there here of to in on at by for from with as is are ' +
    'was were be been being am has have had do does did will would can could may might should shall must it its i you ' +
    "he she we they them your my our their me us his her i'm i've i'll we've we'll you're you'll it's that's up out " +
    'please just now also any all let know anything else more'
  ).split(' '),
);
const DENIALS = new Set(
  (
    'no not cannot never none nothing unable without neither nor failed fails fail unfortunately declined denied ' +
    "rejected refused can't couldn't don't doesn't didn't isn't aren't wasn't weren't won't wouldn't hasn't haven't"
  ).split(' '),
);

/**
 * Words that say how something ended, a group of synonyms on each line. Two texts differ if each names an outcome that
 * the other does not name, whatever else they have in common.
 */
const OUTCOMES: ReadonlyMap<string, number> = new Map(
  `approve approved approves accept accepted grant granted authorize authorized authorise authorised permitted
  reject rejected decline declined deny denied refuse refused disapproved
  escalate escalated forwarded transferred reassigned
  cancel cancelled canceled revoked voided aborted
  refund refunded refunds reimburse reimbursed
  ship shipped dispatched
  deliver delivered arrived
  replace replaced exchanged
  fail failed fails failing broken
  pass passed passes succeeded successful successfully
  enabled activated unlocked
  disabled deactivated locked blocked suspended
  increased raised
  decreased lowered reduced
  paid settled
  unpaid overdue outstanding
  valid correct
  invalid incorrect wrong
  duplicate duplicated
  deleted removed
  restored
  paged
  silenced muted snoozed
  merged
  reverted`
    .split('\n')
    .flatMap((line, group) =>
      line
        .trim()
        .split(' ')
        .map((word) => [word, group] as const),
    ),
);

/** The first word of each group. */
const OUTCOME_NAMES = new Map<number, string>();
for (const [word, group] of OUTCOMES) if (!OUTCOME_NAMES.has(group)) OUTCOME_NAMES.set(group, word);

/** The outcomes that a text names, and whether it denies something; '': neither. */
export function nameOutcomes({ outcomes, denials }: TextFacts): string {
  const names = [...outcomes].map((group) => OUTCOME_NAMES.get(group)!).sort();
  return [...names, ...(denials > 0 ? ['a denial'] : [])].join(', ');
}

/** The parts of an answer that agreement compares. */
interface Comparable {
  calls: string;
  /** null: the answer has calls, or the text is JSON, which is compared as calls are. */
  text: TextFacts | null;
}

/** The content of a text, apart from its wording. */
export interface TextFacts {
  /** Values with their kind and their spelling: `45.2` is a number, written `45.20`. */
  facts: Map<string, Fact>;
  /** Numbers with a currency, however it is written: `€45.2` for `45.20 EUR`. */
  amounts: Set<string>;
  /** Capitalised words inside a sentence (`names`), and all words, among which the other text's names are looked up. */
  names: Set<string>;
  said: Set<string>;
  /** Names written only in capitals: currencies, countries, codes. */
  codes: Set<string>;
  /** Stems of words that carry meaning, with their counts, and the sum of the counts. */
  words: Map<string, number>;
  size: number;
  /** The words themselves. */
  plain: Set<string>;
  denials: number;
  /** Stems that a `no` or `not` denies, up to the next punctuation mark, and stems that are not denied. */
  denied: Set<string>;
  affirmed: Set<string>;
  /** Whether a word that denies by itself (failed, declined) occurs. */
  is_refusal: boolean;
  /** Groups of {@link OUTCOMES} from which the text has a word: without denied ones, and all. */
  outcomes: Set<number>;
  named: Set<number>;
}

/** A value in a text. */
interface Fact {
  kind: FactKind;
  text: string;
  /** The number with its currency, as {@link TextFacts.amounts} has it. */
  amount?: string;
}

/** The kind of a value in a text. */
export type FactKind = 'number' | 'id' | 'address' | 'quote';

export function answersAgree(a: Pick<StudentAnswer, 'content'>, b: Pick<StudentAnswer, 'content'>): boolean {
  return comparablesAgree(readComparable(a), readComparable(b));
}

/** Prepares an answer that is compared with many others. */
export function readComparable(answer: Pick<StudentAnswer, 'content'>): Comparable {
  let calls = '';
  let text = '';
  for (const block of answer.content) {
    if (block.type === 'tool_call') calls += `${JSON.stringify(block.name)}${canonicalText(block.input)}\n`;
    else text += `${block.text}\n`;
  }
  if (calls !== '') return { calls, text: null };
  const json = readJsonText(text);
  return json === null ? { calls, text: readFacts(text) } : { calls: json, text: null };
}

/**
 * Reads a text as JSON.
 * @returns the JSON object or list that the text holds, in canonical form; null for any other text
 */
function readJsonText(text: string): string | null {
  if (text.length > 2 * STUDENT_CORE.answer) return null;
  let inner = text.trim();
  if (inner.startsWith('```') && inner.endsWith('```') && inner.length > 6) {
    const begin = inner.indexOf('\n');
    inner = inner.slice(begin < 0 ? 3 : begin + 1, -3).trim();
  }
  if (!inner.startsWith('{') && !inner.startsWith('[')) return null;
  try {
    return canonicalText(parseExact(inner));
  } catch {
    return null;
  }
}

export function comparablesAgree(a: Comparable, b: Comparable): boolean {
  if (a.calls !== b.calls || a.text === null || b.text === null) return a.calls === b.calls && a.calls !== '';
  return textsAgree(a.text, b.text);
}

/** Whether two texts have the same facts in close wording. */
export function textsAgree(a: TextFacts, b: TextFacts): boolean {
  if (haveOtherOutcomes(a, b)) return false;
  if (a.denials > 0 !== b.denials > 0) return false;
  if (a.facts.size !== b.facts.size) return false;
  for (const [key, fact] of a.facts) if (!hasFact(b, key, fact)) return false;
  for (const name of a.names) if (!b.said.has(name)) return false;
  for (const name of b.names) if (!a.said.has(name)) return false;
  if (a.size + b.size === 0) return true;
  let common = 0;
  for (const [word, count] of a.words) common += Math.min(count, b.words.get(word) ?? 0);
  return (2 * common) / (a.size + b.size) >= CLOSE_WORDING;
}

/** Whether each of two texts names an outcome that the other text does not name. */
export function haveOtherOutcomes(a: TextFacts, b: TextFacts): boolean {
  return (
    [...a.outcomes].some((outcome) => !b.outcomes.has(outcome)) &&
    [...b.outcomes].some((outcome) => !a.outcomes.has(outcome))
  );
}

/** Whether a text has another text's value. An amount may have its currency as a sign, a code or a word. */
export function hasFact({ facts, amounts }: TextFacts, key: string, { amount }: Fact): boolean {
  return facts.has(key) || (amount !== undefined && amounts.has(amount));
}

/** Reads the facts of a text. */
export function readFacts(whole: string): TextFacts {
  const text = whole.slice(0, 2 * STUDENT_CORE.answer);
  const facts: TextFacts['facts'] = new Map();
  const words = new Map<string, number>();
  const names = new Set<string>();
  const codes = new Set<string>();
  const plain = new Set<string>();
  const allWords = new Set<string>();
  let isInside = false;
  let size = 0;
  const denying = new DenialReader();
  const amounts = new Set<string>();
  const tokens = readTokens(text, STUDENT_CORE.answer);
  const currencies = findCurrencies(text, tokens);
  let quote = -1;
  const ends = new OutcomeReader();
  for (const [at, token] of tokens.entries()) {
    const raw = text.slice(token.start, token.end);
    if (token.kind === 'sign') {
      if (CLAUSE_ENDS.has(raw)) denying.endClause();
      if (raw === '"' || raw === '`' || raw === '“' || raw === '”') {
        if (quote >= 0 && raw !== '“') {
          const quoted = text.slice(quote, token.start).trim().toLowerCase();
          if (token.start - quote <= 200) facts.set(quoted, { kind: 'quote', text: quoted });
          quote = -1;
        } else quote = token.end;
      }
      if (SENTENCE_ENDS.has(raw)) isInside = false;
      if (STATEMENT_ENDS.has(raw)) ends.closeStatement();
      continue;
    }
    if (token.kind === 'break') {
      quote = -1;
      isInside = false;
      denying.endClause();
      ends.closeStatement();
      continue;
    }
    const wasInside = isInside;
    isInside = true;
    if (isOccasional(token) || token.kind === 'path' || raw.includes('_')) {
      const { key, fact } = readFact(text, token, currencies.get(at));
      facts.set(key, fact);
      if (fact.amount !== undefined) amounts.add(fact.amount);
      // A text with a currency's sign names the currency.
      for (const [name, sign] of CURRENCY_NAMES) if (fact.amount?.includes(sign)) allWords.add(name);
      allWords.add(raw.toLowerCase());
      continue;
    }
    const word = token.key.replaceAll('’', "'");
    allWords.add(word);
    ends.read(word);
    if (wasInside && raw.length > 2 && raw[0] !== raw[0]!.toLowerCase() && !FUNCTION_WORDS.has(word)) {
      names.add(word);
      if (raw === raw.toUpperCase()) codes.add(word);
    }
    if (DENIALS.has(word)) {
      ends.deny();
      denying.deny(word);
    } else if (!FUNCTION_WORDS.has(word) && !currencies.has(at)) {
      plain.add(word);
      const stem = stemWord(word);
      words.set(stem, (words.get(stem) ?? 0) + 1);
      denying.read(stem);
      size++;
    }
  }
  ends.closeStatement();
  return {
    facts,
    amounts,
    names,
    codes,
    said: allWords,
    words,
    size,
    plain,
    ...ends.facts,
    ...denying.facts,
  };
}

/**
 * Reads the value of a token.
 * @param currency sign of the currency that stands beside a number as a name
 */
function readFact(text: string, token: TextToken, currency?: string): { key: string; fact: Fact } {
  const raw = text.slice(token.start, token.end);
  if (token.kind !== 'number') {
    const isAddress = token.kind === 'email' || token.kind === 'path';
    return { key: raw.toLowerCase(), fact: { kind: isAddress ? 'address' : 'id', text: raw } };
  }
  const [unit, level] = [unitOf(text, token), levelNumber(raw)];
  const fact: Fact = { kind: 'number', text: raw };
  if (currency !== undefined) fact.amount = unit + currency + level;
  else if (CURRENCY_SIGNS.some((sign) => unit.endsWith(sign))) fact.amount = unit + level;
  return { key: unit + level, fact };
}

/** Reads which outcomes a text names. */
class OutcomeReader {
  readonly facts = { outcomes: new Set<number>(), named: new Set<number>() };
  readonly #stated = new Set<number>();
  #isDenied = false;

  read(word: string): void {
    const outcome = OUTCOMES.get(word);
    if (outcome === undefined) return;
    this.#stated.add(outcome);
    this.facts.named.add(outcome);
  }

  deny(): void {
    this.#isDenied = true;
  }

  /** Ends a statement. An outcome that it denies does not count. */
  closeStatement(): void {
    if (!this.#isDenied) for (const outcome of this.#stated) this.facts.outcomes.add(outcome);
    this.#stated.clear();
    this.#isDenied = false;
  }
}

/** Reads what a text denies. */
class DenialReader {
  readonly facts = {
    denials: 0,
    denied: new Set<string>(),
    affirmed: new Set<string>(),
    is_refusal: false,
  };
  #isNegated = false;

  endClause(): void {
    this.#isNegated = false;
  }

  /**
   * Notes a word that denies something.
   * @param word of {@link DENIALS}
   */
  deny(word: string): void {
    this.facts.denials++;
    if (NEGATIONS.test(word)) this.#isNegated = true;
    else this.facts.is_refusal = true;
  }

  /**
   * Notes another word, which a word before it may deny.
   * @param stem of the word
   */
  read(stem: string): void {
    (this.#isNegated ? this.facts.denied : this.facts.affirmed).add(stem);
  }
}

/** Words that negate the words after them. */
const NEGATIONS = /^(?:no|not|never|nothing|none|cannot|without|neither|nor)$|n't$/;
const CLAUSE_ENDS = new Set(['.', '!', '?', ',', ';', ':']);
const STATEMENT_ENDS = new Set(['.', '!', '?']);
const SENTENCE_ENDS = new Set(['.', '!', '?', ':', '"', '“', '*', '#', '-', '(']);
const CURRENCIES = '$€£¥';
/**
 * Codes and words that mean the same as a currency's sign. The codes of the dollar and the yen are missing: several
 * currencies have these signs, so a code says more than the sign.
 */
const CURRENCY_NAMES: ReadonlyMap<string, string> = new Map([
  ['eur', '€'],
  ['euro', '€'],
  ['euros', '€'],
  ['gbp', '£'],
  ['dollar', '$'],
  ['dollars', '$'],
]);
const CURRENCY_SIGNS = [...new Set(CURRENCY_NAMES.values())];

/**
 * Finds the numbers with a currency's name beside them.
 * @returns the currency's sign, once under the index of the number's token and once under that of the name's token
 */
function findCurrencies(text: string, tokens: readonly TextToken[]): Map<number, string> {
  const found = new Map<number, string>();
  for (const [at, { kind, key, start, end }] of tokens.entries()) {
    const sign = kind === 'word' ? CURRENCY_NAMES.get(key) : undefined;
    if (sign === undefined) continue;
    const isBeside = (other: number): boolean => {
      const token = tokens[other];
      if (token?.kind !== 'number' || found.has(other)) return false;
      const between = token.start < start ? text.slice(token.end, start) : text.slice(end, token.start);
      return between === ' ' || between === '';
    };
    // `45 EUR` is more usual than `EUR 45`.
    const number = isBeside(at - 1) ? at - 1 : isBeside(at + 1) ? at + 1 : -1;
    if (number >= 0) found.set(number, sign).set(at, sign);
  }
  return found;
}

const WORD = /[\p{L}\p{N}]/u;

/** A number's minus sign, currency and `%`, on whichever side of the number they are written. */
function unitOf(text: string, { start, end }: { start: number; end: number }): string {
  let sign = '';
  let currency = '';
  for (let at = start - 1; at >= 0 && at > start - 4; at--) {
    const char = text[at]!;
    if (CURRENCIES.includes(char)) currency = char;
    else if (char === '-' || char === '−') {
      // The dash of a range or of a hyphenated word is not a minus sign.
      if (at === 0 || !WORD.test(text[at - 1]!)) sign = '-';
    } else break;
  }
  const after = text[end] ?? '';
  if (after === '%') sign += '%';
  else if (CURRENCIES.includes(after) && after !== '' && currency === '') currency = after;
  return sign + currency;
}

/** Writes a number in one way, without rounding: `1,204.50` becomes `1204.5`. */
function levelNumber(text: string): string {
  return canonicalNumber(text.replaceAll(',', ''));
}

/** The stem by which {@link TextFacts.words} knows a word. */
export function stemWord(word: string): string {
  for (const ending of ['ing', 'ed', 'es', 's'])
    if (word.length - ending.length >= 4 && word.endsWith(ending)) return word.slice(0, -ending.length);
  return word;
}

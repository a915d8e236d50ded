/**
 * Learns the template of an agent's golden prompts (prompt-template.ts): the sentences that prompts share, their order,
 * and the places where values change. Pure; teaching.
 *
 * Sentences missing from some prompts are grouped by their words without values. The parts that all sentences of a
 * group share are fixed. A difference is the place of a value if the golden values have a recognizable kind: numbers,
 * paths, names. Without such a kind (`red`, `blue`), each sentence remains separate.
 */

import { hashString } from '../student/model/json-values.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import { codesNear, findDates } from '../student/model/prompt-dates.ts';
import { cutPattern, findCommon, isAlike, looseKey } from '../student/model/prompt-pattern.ts';
import {
  fitsPattern,
  type PatternPart,
  type PromptTemplate,
  type TemplateSentence,
} from '../student/model/prompt-template.ts';
import { hashesOf, isSamePrompt, type PromptText } from '../student/model/prompt-text.ts';
import { type PromptToken, splitTokens } from '../student/model/prompt-tokens.ts';

/** A golden prompt of one run. */
interface GoldenPrompt {
  run_id: string;
  prompt: PromptText;
  /** Time of the request; null when unknown. */
  at_ms: number | null;
}

/**
 * Share of prompts that must contain a sentence before it is required. One unusual prompt among fifty does not make it
 * optional.
 */
const NEARLY_ALL = 0.98;
/** If there are more groups of sentences, none are merged. */
const MERGED_GROUPS = 200;

/** A sentence of golden prompts. */
interface SeenSentence {
  hash: number;
  text: string;
  /** Indexes of the units that contain the sentence. */
  units: number[];
  /** At most two of the runs whose prompts contain the sentence. */
  runs: Set<string>;
  /** The last unit counted. */
  latest: number;
  /** Hashes of the sentence's dates that are the day of the request, in every prompt that contains the sentence. */
  today: ReadonlySet<number>;
}

/** One run with one prompt. */
interface Unit {
  hashes: number[];
  at_ms: number | null;
}

/** A sentence of the template before its position is known. */
interface DraftSentence {
  /** Hash of a sentence that is compared as a whole; absent: the sentence has `parts`, with places for values. */
  hash?: number;
  parts?: PatternPart[];
  /** Whether any fixed part contains words. */
  hasWords: boolean;
  /** Hashes of the golden sentences that it represents. */
  members: number[];
}

/** Learns a template. The same prompts in the same order always give the same template. */
export function learnTemplate(prompts: readonly GoldenPrompt[]): PromptTemplate {
  const { units, seen } = countSentences(prompts);
  const drafts: DraftSentence[] = [];
  const changing: SeenSentence[] = [];
  for (const sentence of seen.values()) {
    const isFixed = sentence.units.length >= NEARLY_ALL * units.length;
    const parts = isFixed && sentence.today.size > 0 ? partFixed(sentence) : null;
    if (parts !== null) drafts.push({ parts, hasWords: true, members: [sentence.hash] });
    else if (isFixed) drafts.push({ hash: sentence.hash, hasWords: true, members: [sentence.hash] });
    else changing.push(sentence);
  }
  drafts.push(...draftPatterns(changing));
  const sentences = placeSentences(units, drafts);
  const hasNames = sentences.some(({ parts }) => parts?.some(isNamePlace) === true);
  return { sentences, words: hasNames ? listFixedWords(sentences, seen) : [] };
}

function countSentences(prompts: readonly GoldenPrompt[]): {
  units: Unit[];
  seen: Map<number, SeenSentence>;
} {
  const units: Unit[] = [];
  const seen = new Map<number, SeenSentence>();
  const known = new Set<string>();
  // Steps of one run have the same prompt, mostly as the same array.
  let latest: PromptText | null = null;
  let run = '';
  for (const { run_id, prompt, at_ms } of prompts) {
    if (run === run_id && latest !== null && isSamePrompt(prompt, latest)) continue;
    [latest, run] = [prompt, run_id];
    const hashes = prompt.flatMap((block) => [...hashesOf(block)]);
    const key = `${run_id} ${hashes.join(' ')}`;
    if (known.has(key)) continue;
    known.add(key);
    const unit = units.length;
    units.push({ hashes, at_ms });
    for (const block of prompt)
      for (const [s, text] of block.entries())
        noteSentence(seen, hashesOf(block)[s]!, text, unit, run_id, at_ms);
  }
  return { units, seen };
}

function noteSentence(
  seen: Map<number, SeenSentence>,
  hash: number,
  text: string,
  unit: number,
  run_id: string,
  at_ms: number | null,
): void {
  let sentence = seen.get(hash);
  if (sentence?.latest === unit) return;
  if (sentence === undefined) {
    sentence = { hash, text, units: [], runs: new Set(), latest: -1, today: findToday(text, at_ms) };
    seen.set(hash, sentence);
  } else if (sentence.today.size > 0) {
    const today = findToday(text, at_ms);
    sentence.today = new Set([...sentence.today].filter((date) => today.has(date)));
  }
  sentence.latest = unit;
  sentence.units.push(unit);
  if (sentence.runs.size < 2) sentence.runs.add(run_id);
}

/** Dates in a sentence that are the day of the request. */
function findToday(text: string, at_ms: number | null): ReadonlySet<number> {
  if (at_ms === null || text.length > STUDENT_CORE.pattern_characters) return NO_DATES;
  const near = codesNear(at_ms);
  const dates = findDates(text).filter(({ codes }) => codes.some((code) => near.has(code)));
  return new Set(dates.map(({ start, end }) => hashString(text.slice(start, end))));
}

const NO_DATES: ReadonlySet<number> = new Set();

/** Makes the parts of a sentence in which only the current day changes; null for a sentence with too many words. */
function partFixed({ text, today }: SeenSentence): PatternPart[] | null {
  const tokens = splitTokens(text);
  return tokens.length > STUDENT_CORE.pattern_words
    ? null
    : openToday(
        tokens.map(({ hash }) => hash),
        today,
      );
}

/**
 * Makes places for the current day.
 * @param today dates that the day of the request may replace
 */
function openToday(parts: readonly PatternPart[], today: ReadonlySet<number>): PatternPart[] {
  return parts.map((part) =>
    typeof part === 'number' && today.has(part) ? { forms: [], words: [], longest: 0, today: part } : part,
  );
}

/** A changing sentence with its words. */
interface ReadSentence extends SeenSentence {
  tokens: PromptToken[];
}

function draftPatterns(changing: readonly SeenSentence[]): DraftSentence[] {
  const drafts: DraftSentence[] = [];
  const groups = new Map<string, ReadSentence[]>();
  const addAlone = ({ hash, runs }: SeenSentence): void => {
    if (runs.size > 1) drafts.push({ hash, hasWords: true, members: [hash] });
  };
  for (const sentence of changing) {
    const tokens = sentence.text.length <= STUDENT_CORE.pattern_characters ? splitTokens(sentence.text) : [];
    if (tokens.length === 0 || tokens.length > STUDENT_CORE.pattern_words) {
      addAlone(sentence);
      continue;
    }
    const key = looseKey(tokens);
    const list = groups.get(key);
    if (list === undefined) groups.set(key, [{ ...sentence, tokens }]);
    else list.push({ ...sentence, tokens });
  }
  for (const group of mergeGroups([...groups.values()])) draftGroup(group, drafts, addAlone);
  return drafts;
}

/**
 * Merges groups whose first sentences differ only in values without a recognisable form (`acme`, `globex`). More than
 * MERGED_GROUPS groups are not merged.
 */
function mergeGroups(groups: readonly ReadSentence[][]): ReadSentence[][] {
  if (groups.length > MERGED_GROUPS) return [...groups];
  const merged: ReadSentence[][] = [];
  for (const group of groups) {
    const target = merged.find((candidate) => isAlike(candidate[0]!.tokens, group[0]!.tokens));
    if (target === undefined) merged.push([...group]);
    else target.push(...group);
  }
  return merged;
}

function draftGroup(
  group: readonly ReadSentence[],
  drafts: DraftSentence[],
  addAlone: (sentence: SeenSentence) => void,
): void {
  const runs = new Set(group.flatMap((sentence) => [...sentence.runs]));
  const tokens = group.map((sentence) => sentence.tokens);
  const cut = group.length === 1 || runs.size < 2 ? null : cutPattern(findCommon(tokens), tokens);
  if (cut === null) for (const sentence of group) addAlone(sentence);
  else if (cut.parts === null) {
    // A difference without a recognizable kind is not the place of a value: such sentences are distinct.
    const parts = Map.groupBy(group, (_, i) => cut.closed[i]!);
    if (parts.size === 1) for (const sentence of group) addAlone(sentence);
    else for (const part of parts.values()) draftGroup(part, drafts, addAlone);
  } else {
    const { hasWords } = cut;
    const today = [...group[0]!.today].filter((date) => group.every((sentence) => sentence.today.has(date)));
    const parts = openToday(cut.parts, new Set(today));
    const none = new Set<number>();
    const isFit = group.map((sentence) => fitsPattern(parts, sentence.tokens, none, null));
    drafts.push({ parts, hasWords, members: group.filter((_, i) => isFit[i]).map(({ hash }) => hash) });
    for (const sentence of group.filter((_, i) => !isFit[i])) addAlone(sentence);
  }
}

/** Finds the position of each sentence, and how often it may occur. */
function placeSentences(units: readonly Unit[], drafts: readonly DraftSentence[]): TemplateSentence[] {
  const draftOf = new Map<number, number>();
  for (const [d, { members }] of drafts.entries()) for (const hash of members) draftOf.set(hash, d);
  const sequences = units.map(({ hashes }) =>
    hashes.map((hash) => draftOf.get(hash)).filter((d) => d !== undefined),
  );
  const counts = drafts.map(() => ({ units: 0, most: 0 }));
  for (const sequence of sequences) {
    const occurrences = new Map<number, number>();
    for (const d of sequence) occurrences.set(d, (occurrences.get(d) ?? 0) + 1);
    for (const [d, count] of occurrences) {
      counts[d]!.units++;
      counts[d]!.most = Math.max(counts[d]!.most, count);
    }
  }
  const isNeeded = (d: number): boolean => counts[d]!.units >= NEARLY_ALL * units.length;
  const anchors = orderAnchors(sequences, (d) => isNeeded(d) && counts[d]!.most === 1);
  const gaps = drafts.map(() => new Set<number>());
  for (const sequence of sequences) {
    let behind = 0;
    for (const d of sequence) {
      const anchor = anchors.get(d);
      if (anchor === undefined) gaps[d]!.add(behind);
      else behind = anchor + 1;
    }
  }
  return drafts.flatMap((draft, d): TemplateSentence[] => {
    const anchor = anchors.get(d);
    const { most } = counts[d]!;
    const place = anchor === undefined ? { gaps: [...gaps[d]!].sort((a, b) => a - b) } : { anchor };
    const needed = isNeeded(d) ? { needed: true as const } : {};
    return most === 0 ? [] : finishSentence(draft, { ...place, ...needed, most });
  });
}

function finishSentence(
  { hash, parts, hasWords, members }: DraftSentence,
  place: Omit<TemplateSentence, 'hash' | 'parts'>,
): TemplateSentence[] {
  if (parts === undefined) return [{ hash: hash!, ...place }];
  const { most, needed } = place;
  // A sentence that consists of a name alone is identified by its position, so every prompt must contain it exactly
  // once.
  if (hasWords || !parts.some(isNamePlace) || (needed === true && most === 1))
    return [{ parts, ...place, most: most > LIST_LENGTH ? 2 * most : most }];
  const { needed: _all, ...optional } = place;
  return members.map((member) => ({ hash: member, ...optional }));
}

/** A sentence that occurs more often than this in one prompt is an item of a list, and the list may grow. */
const LIST_LENGTH = 2;

/**
 * Finds the anchors: sentences that nearly every prompt has, none more than once, and all in the same order.
 * @param isAnchor whether nearly every prompt has a sentence, and none has it twice
 * @returns the index of each anchor among the anchors
 */
function orderAnchors(
  sequences: readonly (readonly number[])[],
  isAnchor: (d: number) => boolean,
): Map<number, number> {
  let order = sequences.length === 0 ? [] : longest(sequences).filter(isAnchor);
  for (const sequence of sequences) {
    const at = new Map(sequence.map((d, place) => [d, place]));
    const places = order.map((d) => at.get(d));
    if (isAscending(places)) continue;
    const kept = new Set(ascendingPart(order.filter((d) => at.has(d)).map((d) => at.get(d)!)));
    order = order.filter((d) => !at.has(d) || kept.has(at.get(d)!));
  }
  return new Map(order.map((d, anchor) => [d, anchor]));
}

function longest(sequences: readonly (readonly number[])[]): readonly number[] {
  return sequences.reduce((most, sequence) => (sequence.length > most.length ? sequence : most));
}

function isAscending(places: readonly (number | undefined)[]): boolean {
  let last = -1;
  for (const place of places) {
    if (place === undefined) continue;
    if (place < last) return false;
    last = place;
  }
  return true;
}

/** The longest ascending subsequence. */
function ascendingPart(values: readonly number[]): number[] {
  const ends: number[] = [];
  const before = new Array<number>(values.length).fill(-1);
  for (const [at, value] of values.entries()) {
    let place = ends.findIndex((end) => values[end]! > value);
    if (place < 0) place = ends.length;
    before[at] = place === 0 ? -1 : ends[place - 1]!;
    ends[place] = at;
  }
  const part: number[] = [];
  for (let at = ends.at(-1) ?? -1; at >= 0; at = before[at]!) part.unshift(values[at]!);
  return part;
}

function isNamePlace(part: PatternPart): boolean {
  return typeof part !== 'number' && part.forms.some((form) => form.some((word) => 'NCMl'.includes(word)));
}

/** Words of the unchanging sentences; values do not contain them. */
function listFixedWords(
  sentences: readonly TemplateSentence[],
  seen: ReadonlyMap<number, SeenSentence>,
): number[] {
  const words = new Set<number>();
  for (const { hash } of sentences) {
    const text = hash === undefined ? '' : (seen.get(hash)?.text ?? '');
    for (const [word] of text.matchAll(/\p{L}[\p{L}'’]*/gu)) {
      if (words.size >= STUDENT_CORE.fixed_words) return [...words];
      words.add(hashString(word.toLowerCase()));
    }
  }
  return [...words];
}

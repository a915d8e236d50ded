/**
 * Divides golden texts into situations. If a mark or a number of the step predicts words of the texts, it divides a
 * situation into two. Within a situation, nothing in the step explains the choice of words. So a word is a matter of
 * style, if there are enough texts to show that. Fewer texts are enough for a word that no mark and no number comes near
 * to explaining. Pure; teaching.
 */

import { CHANCE, type MarkColumn } from '../student/model/relevance.ts';
import { type NumberColumn, splitNumbers } from './number-splits.ts';

/** A golden text. */
export interface SituatedText {
  /** Index of the step that the text answers, as in the columns of marks and numbers. */
  step: number;
  /** Stems of the words of the text. */
  words: ReadonlySet<string>;
}

/** Texts that nothing in their steps tells apart. */
export interface Situation {
  texts: readonly SituatedText[];
  /** Stems whose use nothing in the step explains, although enough texts would show it. */
  style: ReadonlySet<string>;
  /** Stems that nearly all of the texts have. */
  common: ReadonlySet<string>;
}

/** Minimum number of texts on each side of a division. */
const TESTED = 5;
/** Maximum depth of divisions. In a situation at this depth, no word counts as a matter of style. */
const DEPTH = 6;
/**
 * Nothing explains a word if at least `texts` texts have it, at least `texts` lack it, and every mark and number
 * explains less than `share` of the difference between these texts.
 */
const UNEXPLAINED = { texts: 3, share: 0.4 } as const;
/** Maximum number of stems of one situation that are compared with the step: the stems that divide the texts best. */
const STEMS = 60;
/** Factor by which the largest possible gain must exceed the gain by chance. */
const POWER = 1.25;
/** Minimum share of the texts of a situation that have a common stem. */
const COMMON = 0.8;

/**
 * Divides texts into situations.
 * @param columns of all steps
 */
export function findSituations(
  texts: readonly SituatedText[],
  columns: readonly MarkColumn[],
  numbers: readonly NumberColumn[],
  depth = 0,
): Situation[] {
  const stems = countStems(texts);
  const telling = keepTelling(texts, columns);
  const least = CHANCE + 2 * Math.log(Math.max(1, telling.length));
  const tested = [...stems]
    .filter(([, count]) => Math.min(count, texts.length - count) >= TESTED)
    .filter(([, count]) => gainOf(texts.length, count) >= POWER * least)
    .map(([stem]) => stem);
  const marked = telling.map(({ has }) => [...texts.keys()].filter((at) => has[texts[at]!.step] === 1));
  const divided =
    depth < DEPTH ? divide(texts, tested.slice(0, STEMS), { telling, marked }, least, numbers) : null;
  if (divided !== null) return divided.flatMap((part) => findSituations(part, telling, numbers, depth + 1));
  const common = [...stems].filter(([, count]) => count >= COMMON * texts.length).map(([stem]) => stem);
  // If not even half of the texts could be told apart, the situation may be several.
  const isTold = gainOf(texts.length, texts.length >> 1) >= POWER * least;
  const others = isTold
    ? [...stems.keys()].filter((stem) => isUnexplained(stem, texts, marked, numbers))
    : [];
  return [{ texts, style: new Set(depth < DEPTH ? [...tested, ...others] : []), common: new Set(common) }];
}

/**
 * Whether no mark and no number of the steps comes near to telling which of the texts use a stem. Then few texts are
 * enough: a mark that decided about the word would tell all of them.
 * @param marked for each mark, the indexes of the texts whose step has it
 */
function isUnexplained(
  stem: string,
  texts: readonly SituatedText[],
  marked: readonly (readonly number[])[],
  numbers: readonly NumberColumn[],
): boolean {
  const uses = texts.map(({ words }) => words.has(stem));
  const count = uses.filter(Boolean).length;
  if (Math.min(count, texts.length - count) < UNEXPLAINED.texts) return false;
  const most = UNEXPLAINED.share * gainOf(texts.length, count);
  if (marked.some((having) => gainBetween(uses, count, having) >= most)) return false;
  const usesAt = new Map(texts.map(({ step }, at) => [step, uses[at]!]));
  return !numbers.some((column) => thresholdGain(column, usesAt, count) >= most);
}

/**
 * The gain of the best threshold in a number.
 * @param usesAt by step, whether its text uses a stem
 * @param count number of texts that use it
 */
function thresholdGain(
  { values }: NumberColumn,
  usesAt: ReadonlyMap<number, boolean>,
  count: number,
): number {
  const own = values.filter(([, step]) => usesAt.has(step));
  let best = 0;
  let both = 0;
  for (let v = own.length - 1; v > 0; v--) {
    if (usesAt.get(own[v]![1]) === true) both++;
    const above = own.length - v;
    if (own[v]![0] !== own[v - 1]![0]) best = Math.max(best, gainOfParts(usesAt.size, count, above, both));
  }
  return best;
}

/** Counts in how many texts each stem occurs. Stems that occur in about half of the texts come first. */
function countStems(texts: readonly SituatedText[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { words } of texts) for (const stem of words) counts.set(stem, (counts.get(stem) ?? 0) + 1);
  const unevenness = (count: number): number => Math.abs(2 * count - texts.length);
  return new Map(
    [...counts].sort(([a, of], [b, other]) => unevenness(of) - unevenness(other) || (a < b ? -1 : 1)),
  );
}

/**
 * Selects the columns that can divide these texts: those that hold for at least two texts and do not hold for at least two
 * others. Of columns that divide the texts in the same way, only the first is kept.
 */
function keepTelling(texts: readonly SituatedText[], columns: readonly MarkColumn[]): MarkColumn[] {
  const kept = new Map<string, MarkColumn>();
  for (const column of columns) {
    let count = 0;
    for (const { step } of texts) count += column.has[step]!;
    if (count < 2 || count > texts.length - 2) continue;
    const flip = column.has[texts[0]!.step]!;
    let pattern = '';
    for (const { step } of texts) pattern += column.has[step]! === flip ? '1' : '0';
    if (!kept.has(pattern)) kept.set(pattern, column);
  }
  return [...kept.values()];
}

/**
 * Divides texts by the column that explains most of their words or, if no column explains more than chance, by a number
 * that explains a word; null if no number does so either.
 * @param marked for each telling column, the indexes of the texts whose step has its mark
 */
function divide(
  texts: readonly SituatedText[],
  stems: readonly string[],
  { telling, marked }: { telling: readonly MarkColumn[]; marked: readonly (readonly number[])[] },
  least: number,
  numbers: readonly NumberColumn[],
): [SituatedText[], SituatedText[]] | null {
  const used = stems.map((stem) => texts.map(({ words }) => words.has(stem)));
  const counts = used.map((uses) => uses.filter(Boolean).length);
  let best: Uint8Array | null = null;
  let bestGain = 0;
  for (const [column, { has }] of telling.entries()) {
    let sum = 0;
    let most = 0;
    for (const [at, uses] of used.entries()) {
      const gain = gainBetween(uses, counts[at]!, marked[column]!);
      if (gain <= least) continue;
      sum += gain;
      most = Math.max(most, gain);
    }
    if (most > least && sum > bestGain) [best, bestGain] = [has, sum];
  }
  best ??= findNumber(texts, used, numbers);
  if (best === null) return null;
  const chosen = best;
  return [texts.filter(({ step }) => chosen[step] === 1), texts.filter(({ step }) => chosen[step] !== 1)];
}

/**
 * Finds a number of the steps with a threshold that explains the use of a stem.
 * @returns for each step 1 if its number is above the threshold; null if no number explains a stem
 */
function findNumber(
  texts: readonly SituatedText[],
  used: readonly (readonly boolean[])[],
  numbers: readonly NumberColumn[],
): Uint8Array | null {
  const own = new Set(texts.map(({ step }) => step));
  const columns = numbers.map((column) => ({
    ...column,
    values: column.values.filter(([, i]) => own.has(i)),
  }));
  const steps = Math.max(-1, ...own) + 1;
  for (const uses of used) {
    const targets = new Uint16Array(steps);
    for (const [at, { step }] of texts.entries()) targets[step] = uses[at]! ? 1 : 0;
    const [first] = splitNumbers(columns, targets, 2);
    if (first === undefined) continue;
    const above = texts.filter(({ step }) => first.has[step] === 1).length;
    if (above > 0 && above < texts.length) return first.has;
  }
  return null;
}

/** The largest gain that a mark could explain, for a word that this many texts use. */
function gainOf(all: number, count: number): number {
  return 2 * (xLogX(all) - xLogX(count) - xLogX(all - count));
}

/**
 * Computes how much a mark explains of the use of a word.
 * @param uses for each text, whether it uses the word; `used` of them do
 * @param having indexes of the texts whose step has the mark
 */
function gainBetween(uses: readonly boolean[], used: number, having: readonly number[]): number {
  let both = 0;
  for (const at of having) if (uses[at]!) both++;
  return gainOfParts(uses.length, used, having.length, both);
}

/**
 * Computes how much a mark explains of the use of a word (G statistic).
 * @param n number of texts
 * @param used of these, texts that use a word
 * @param having texts whose step has a mark
 * @param both texts that use the word and whose step has the mark
 */
function gainOfParts(n: number, used: number, having: number, both: number): number {
  const whole = xLogX(n) - xLogX(used) - xLogX(n - used);
  const neither = n - used - having + both;
  const parts =
    xLogX(having) -
    xLogX(both) -
    xLogX(having - both) +
    (xLogX(n - having) - xLogX(used - both) - xLogX(neither));
  return 2 * (whole - parts);
}

function xLogX(x: number): number {
  return x > 1 ? x * Math.log(x) : 0;
}

/**
 * Makes a template of a single golden text, for texts that differ so much in their wording that hardly two are alike.
 * The other texts with similar words show where the text's values come from: a rule must find a value that these texts
 * have at the same place. So the words are those of one text, but the rules for its values are proven by many texts.
 * Pure; teaching.
 */

import { FUNCTION_WORDS } from '../student/model/agreement.ts';
import { fillTemplate, makeConstant, type TemplateNode } from '../student/model/answer-template.ts';
import {
  applyRule,
  type ExtractionRule,
  type ProvenRule,
  proposeRules,
  rankRule,
  type StepContext,
  standsIn,
} from '../student/model/extraction.ts';
import { isPrimitive, textOfPrimitive } from '../student/model/json-values.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import {
  alignPieces,
  joinPieces,
  likeness,
  ONE_WORDING,
  type Piece,
  readPieces,
} from '../student/model/text-alignment.ts';
import { proposeDerivedRules } from './derived-rules.ts';
import { listStepTokens } from './step-tokens.ts';

/** A golden text with the step that it answers. */
export interface LooseText {
  run_id: string;
  context: StepContext;
  text: string;
}

interface LooseClass {
  node: TemplateNode;
  /** Indexes of the texts. */
  members: number[];
}

/** Minimum number of runs whose texts show a rule. */
export const LOOSE_RUNS = 5;
/** Minimum number of different values that a derived rule finds. */
const DERIVED_VALUES = 3;
/** Maximum number of times that similar texts are divided. */
const DIVISIONS = 4;
/** Minimum share of the texts in whose steps the rules of a word must find something. */
const FOUND_SHARE = 0.9;
/** Maximum share of the texts that have something else where a rule finds a value: the place may be misjudged. */
const ELSE_SHARE = 0.1;
/**
 * Maximum number of groups of similar texts, of texts of a group that are compared, and of texts of a group that are
 * tried as the template.
 */
const GROUPS = 8;
const COMPARED = 40;
const TRIED = 3;
/** Texts by which a rule is judged first, and the share of these in which it must find the value. */
const FIRST = { texts: 8, share: 0.25 } as const;
/**
 * A word counts as taken from the steps under three conditions: of the texts with the word, at least the share `share`
 * have it in their steps; of all texts, at most the share `most` have it; of all steps, less than the share `most` have
 * it.
 */
const TAKEN = { share: 0.9, most: 0.7 } as const;
/** Maximum number of pieces of a value. */
const VALUE_PIECES = 8;
/**
 * `most`: a text with more values is a list or a table. `differ`: texts are lists if their numbers of values differ by
 * more than this. The share `extremes` of the texts with the fewest values, and the same share of those with the most,
 * are not compared.
 */
const VALUES = { most: 12, differ: 4, extremes: 0.1 } as const;

/** Templates for texts that have no wording in common. */
export function solveLooseTexts(texts: readonly LooseText[]): LooseClass[] {
  const read = texts.flatMap((each, at) => {
    const pieces = readPieces(each.text);
    return pieces === null || pieces.length < 2 ? [] : [{ ...each, at, pieces: pieces.slice(0, -1) }];
  });
  return groupTexts(read).flatMap((group) => solveGroup(group, DIVISIONS));
}

/**
 * Makes templates for similar texts. Texts whose steps cannot fill a template are solved again, for another template.
 * Texts with a word that no rule finds in their steps, although they take it from there, are solved apart from the
 * others. At most `divisions` times, texts are solved again or apart.
 */
function solveGroup(group: readonly ReadText[], divisions: number): LooseClass[] {
  if (countRuns(group) < LOOSE_RUNS || areLists(group)) return [];
  const compared = sample(group, COMPARED);
  let best: { node: TemplateNode; members: ReadText[] } | null = null;
  for (const central of listCentral(compared)) {
    const found = new TextSolver(central, compared).solve();
    if (found === null) continue;
    if (typeof found === 'string') {
      if (best !== null || divisions === 0) continue;
      const [saying, others] = divide(group, found);
      return [...solveGroup(saying, divisions - 1), ...solveGroup(others, divisions - 1)];
    }
    const members = group.filter((text) => isFilled(found, text));
    if (countRuns(members) < LOOSE_RUNS || members.length <= (best?.members.length ?? 0)) continue;
    best = { node: found, members };
    if (members.length === group.length) break;
  }
  if (best === null) return [];
  const { node, members } = best;
  const left = divisions === 0 ? [] : group.filter((text) => !members.includes(text));
  return [{ node, members: members.map(({ at }) => at) }, ...solveGroup(left, divisions - 1)];
}

/** The texts with a word, and those without it. */
function divide(group: readonly ReadText[], word: string): [ReadText[], ReadText[]] {
  const isSaying = ({ pieces }: ReadText): boolean => pieces.some(({ key }) => key === word);
  return [group.filter(isSaying), group.filter((text) => !isSaying(text))];
}

/** Whether a text's step has all values of a template. */
function isFilled(node: TemplateNode, { context }: LooseText): boolean {
  return typeof fillTemplate({ calls: [], text: node }, context) !== 'string';
}

interface ReadText extends LooseText {
  at: number;
  pieces: Piece[];
}

function countRuns(texts: readonly { run_id: string }[]): number {
  return new Set(texts.map(({ run_id }) => run_id)).size;
}

/** Whether the texts have so different numbers of values that they enumerate something. */
function areLists(texts: readonly ReadText[]): boolean {
  const counts = texts.map(({ pieces }) => pieces.filter(({ isOccasional }) => isOccasional).length);
  counts.sort((a, b) => a - b);
  const extremes = Math.floor(VALUES.extremes * counts.length);
  return counts[counts.length - 1 - extremes]! - counts[extremes]! > VALUES.differ;
}

/** Groups texts: the texts of a group are similar to its first one. Texts beyond GROUPS groups are left out. */
function groupTexts(texts: readonly ReadText[]): ReadText[][] {
  const groups: { keys: string[]; texts: ReadText[] }[] = [];
  for (const text of texts) {
    const keys = text.pieces.map(({ key }) => key);
    const group = groups.find((each) => likeness(each.keys, keys) >= ONE_WORDING);
    if (group !== undefined) group.texts.push(text);
    else if (groups.length < GROUPS) groups.push({ keys, texts: [text] });
  }
  return groups.map((group) => group.texts);
}

/** The TRIED texts that are most similar to a sample of all texts, the most similar first. */
function listCentral(texts: readonly ReadText[]): ReadText[] {
  const keys = texts.map(({ pieces }) => pieces.map(({ key }) => key));
  const scored = texts.map((text, at) => {
    const others = sample(keys, FIRST.texts * 2);
    return { text, likeness: others.reduce((sum, other) => sum + likeness(keys[at]!, other), 0) };
  });
  return scored
    .sort((a, b) => b.likeness - a.likeness || a.text.at - b.text.at)
    .slice(0, TRIED)
    .map(({ text }) => text);
}

function sample<T>(all: readonly T[], most: number): readonly T[] {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, i) => all[Math.floor((i * all.length) / most)]!);
}

/** Pieces of a text that may be a value: those from index `from` up to index `to`, which is not included. */
interface ValueSpan {
  from: number;
  to: number;
  text: string;
  isOccasional: boolean;
  /** The texts take this word from their steps. */
  isTaken: boolean;
}

class TextSolver {
  readonly #central: ReadText;
  readonly #others: readonly ReadText[];
  /** For each other text, the index of the piece that equals each piece of the central text; −1 without one. */
  readonly #aligned: Int16Array[];
  readonly #spans: ValueSpan[];

  constructor(central: ReadText, others: readonly ReadText[]) {
    this.#central = central;
    this.#others = others;
    this.#spans = findSpans(central, findTakenWords(central, others));
    this.#aligned = others.map(({ pieces }) => {
      const places = new Int16Array(central.pieces.length).fill(-1);
      for (const [i, j] of alignPieces(central.pieces, pieces)) places[i] = j;
      return places;
    });
  }

  /**
   * Makes the template of the central text.
   * @returns null when the source of a value is unknown, or the text has too many values; a word that only some texts take
   * from their steps, when no rule finds it there
   */
  solve(): TemplateNode | string | null {
    if (this.#spans.length > VALUES.most) return null;
    const { pieces } = this.#central;
    const parts: TemplateNode[] = [];
    let constant = '';
    let at = 0;
    for (const span of this.#spans) {
      const rules = this.#findRules(span);
      if (span.isTaken && !this.#findMost(rules)) return pieces[span.from]!.key;
      if (rules.length === 0 && span.isOccasional && !this.#isFixed(span)) return null;
      if (rules.length === 0) continue;
      constant += joinPieces(pieces.slice(at, span.from), false) + (pieces[span.from]?.space ?? '');
      if (constant !== '') parts.push(makeConstant(constant));
      constant = '';
      parts.push({ is: 'slot', rules });
      at = span.to;
    }
    constant += joinPieces(pieces.slice(at), false);
    if (constant !== '') parts.push(makeConstant(constant));
    return parts.some(({ is }) => is === 'slot') || this.#spans.length === 0 ? { is: 'text', parts } : null;
  }

  /** Whether a value that no step has is the same in nearly all texts, such as a limit of days. */
  #isFixed({ text }: ValueSpan): boolean {
    const having = this.#others.filter((other) => holdsPieces(other.pieces, text));
    return (
      having.length >= (1 - ELSE_SHARE) * this.#others.length &&
      !this.#others.some(({ context }) => standsIn(text, context))
    );
  }

  /** Whether the rules find something for nearly all texts. */
  #findMost(rules: readonly ProvenRule[]): boolean {
    const found = this.#others.filter(({ context }) =>
      rules.some(({ rule }) => applyRule(rule, context) !== undefined),
    );
    return found.length >= FOUND_SHARE * this.#others.length;
  }

  #findRules(span: ValueSpan): ProvenRule[] {
    const { context } = this.#central;
    const rules = [
      { least: 1, propose: () => proposeRules(span.text, context, []) },
      { least: DERIVED_VALUES, propose: () => proposeDerivedRules(span.text, context) },
    ];
    for (const { least, propose } of rules) {
      const proven = propose().flatMap((rule) => {
        const shown = this.#judge(rule, span, least);
        return shown === null ? [] : [{ rule, ...shown, rank: rankRule(rule) }];
      });
      proven.sort((a, b) => b.runs - a.runs || a.rank - b.rank);
      const [best] = proven;
      if (best === undefined) continue;
      const agreeing = proven.filter(({ found }) =>
        found.every((value, o) => value === null || best.found[o] === null || value === best.found[o]),
      );
      return agreeing.slice(0, STUDENT_CORE.rules).map(({ rule, runs }) => ({ rule, runs }));
    }
    return [];
  }

  /**
   * Counts the runs that show a rule.
   * @param least minimum number of different values
   * @returns the number of runs that show the rule, and what it finds for each text; null when the runs are too few, or
   * too many texts have something else
   */
  #judge(
    rule: ExtractionRule,
    span: ValueSpan,
    least: number,
  ): { runs: number; found: (string | null)[] } | null {
    const runs = new Set<string>();
    const values = new Set<string>();
    const all: (string | null)[] = [];
    let same = 0;
    let others = 0;
    for (const [o, other] of this.#others.entries()) {
      if (o === FIRST.texts && same < FIRST.share * o) return null;
      const found = applyRule(rule, other.context);
      const value =
        found === undefined || !isPrimitive(found) || found === null ? null : textOfPrimitive(found);
      all.push(value);
      if (value === null) continue;
      const verdict = this.#compare(o, span, value);
      if (verdict === null) continue;
      if (!verdict) {
        others++;
        continue;
      }
      same++;
      runs.add(other.run_id);
      values.add(value);
    }
    if (runs.size < LOOSE_RUNS || values.size < least) return null;
    return others <= ELSE_SHARE * (same + others) ? { runs: runs.size, found: all } : null;
  }

  /**
   * Compares a value with the value that another text has at the place of a span.
   * @param o index of the other text
   * @returns true if the other text has this value there, and false if it has another value there; null if it has no
   *   value there, or has this value elsewhere
   */
  #compare(o: number, span: ValueSpan, value: string): boolean | null {
    const places = this.#aligned[o]!;
    const { pieces } = this.#others[o]!;
    let left = span.from - 1;
    while (left >= 0 && (places[left]! < 0 || this.#isInSpan(left))) left--;
    let right = span.to;
    while (right < places.length && (places[right]! < 0 || this.#isInSpan(right))) right++;
    const from = left < 0 ? 0 : places[left]! + 1;
    const to = right >= places.length ? pieces.length : places[right]!;
    const between = pieces.slice(from, to);
    if (holdsPieces(between, value)) return true;
    // The text may name the value elsewhere.
    if (holdsPieces(pieces, value)) return null;
    const shape = shapeOf(this.#central.pieces.slice(span.from, span.to));
    const hasOther =
      shape === null ? between.length > 0 : between.some((piece) => shapeOf([piece]) === shape);
    return hasOther ? false : null;
  }

  #isInSpan(piece: number): boolean {
    return this.#spans.some(({ from, to }) => piece >= from && piece < to);
  }
}

/** How the first piece that looks generated is written, without its letters and digits; null without such a piece. */
function shapeOf(pieces: readonly Piece[]): string | null {
  const generated = pieces.find(({ isOccasional }) => isOccasional);
  if (generated === undefined) return null;
  return /^[#.,]+$/.test(generated.key) ? '#' : generated.key.replaceAll(/\p{L}+/gu, 'a');
}

/** Whether pieces contain a value, as whole pieces. */
function holdsPieces(pieces: readonly Piece[], value: string): boolean {
  const wanted = readPieces(value);
  if (wanted === null || wanted.length < 2) return false;
  const count = wanted.length - 1;
  for (let at = 0; at + count <= pieces.length; at++) {
    let i = 0;
    while (i < count && pieces[at + i]!.text.toLowerCase() === wanted[i]!.text.toLowerCase()) i++;
    if (i === count) return true;
  }
  return false;
}

/**
 * Finds the words of a text that texts take from their steps (TAKEN): nearly all texts with the word have it in their
 * steps, and not nearly all texts and steps have it.
 */
function findTakenWords({ pieces, context }: ReadText, others: readonly ReadText[]): Set<string> {
  const own = new Set(listStepTokens(context.step));
  const words = new Set(pieces.map(({ key }) => key));
  const held = [...words].filter((word) => own.has(word) && /^\p{L}{3,}/u.test(word));
  const steps = others.map(({ context: { step }, pieces: ofText }) => ({
    has: new Set(listStepTokens(step)),
    says: new Set(ofText.map(({ key }) => key)),
  }));
  const most = TAKEN.most * steps.length;
  const taken = held.filter((word) => {
    if (FUNCTION_WORDS.has(word)) return false;
    const saying = steps.filter(({ says }) => says.has(word));
    if (saying.length > most || steps.filter(({ has }) => has.has(word)).length >= most) return false;
    return saying.filter(({ has }) => has.has(word)).length >= TAKEN.share * saying.length;
  });
  return new Set(taken);
}

/** The parts of a text that may be values: those that look generated, those that are values of the step, and names. */
function findSpans({ pieces, context }: ReadText, taken: ReadonlySet<string>): ValueSpan[] {
  const leaves = listLeaves(context);
  const spans: ValueSpan[] = [];
  for (let from = 0; from < pieces.length; ) {
    const span = findSpan(pieces, from, leaves, taken);
    if (span !== null) spans.push(span);
    from = span?.to ?? from + 1;
  }
  return spans;
}

function findSpan(
  pieces: readonly Piece[],
  from: number,
  leaves: ReadonlySet<string>,
  taken: ReadonlySet<string>,
): ValueSpan | null {
  for (let to = Math.min(pieces.length, from + VALUE_PIECES); to > from; to--) {
    const text = joinPieces(pieces.slice(from, to), true);
    if (text.length < 3 || !leaves.has(text)) continue;
    if (to === from + 1 && text.length < 4 && !pieces[from]!.isOccasional) continue;
    const isOccasional = pieces.slice(from, to).some((piece) => piece.isOccasional);
    return { from, to, text, isOccasional, isTaken: false };
  }
  const piece = pieces[from]!;
  if (piece.isOccasional) return { from, to: from + 1, text: piece.text, isOccasional: true, isTaken: false };
  if (taken.has(piece.key))
    return { from, to: from + 1, text: piece.text, isOccasional: false, isTaken: true };
  let to = from;
  while (to < pieces.length && isName(pieces, to)) to++;
  if (to === from) return null;
  return { from, to, text: joinPieces(pieces.slice(from, to), true), isOccasional: false, isTaken: false };
}

/** Whether a piece is a capitalised word inside a sentence. */
function isName(pieces: readonly Piece[], at: number): boolean {
  const { text } = pieces[at]!;
  const before = pieces[at - 1];
  if (text.length < 3 || before === undefined || /^[.!?:\n]$/.test(before.text)) return false;
  return text[0] !== text[0]!.toLowerCase();
}

/** The texts and numbers of a step's values. */
function listLeaves({ step }: StepContext): Set<string> {
  const leaves = new Set<string>();
  const visit = (value: unknown): void => {
    if (isPrimitive(value)) {
      if (value !== null && typeof value !== 'boolean') leaves.add(textOfPrimitive(value));
    } else for (const item of Object.values(value as object)) visit(item);
  };
  for (const { name, value } of step.sources) if (name !== 'progress' && name !== 'system') visit(value);
  return leaves;
}

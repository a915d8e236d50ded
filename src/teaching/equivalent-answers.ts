/**
 * Finds which golden answers of one stage are equivalent (src/student/model/equivalence.ts): classes that golden runs use
 * interchangeably get one label. Pure; teaching.
 *
 * Two classes with the same tools are interchangeable if their answers agree on each other's steps (agreement.ts). If
 * they are only equal apart from the wording, a second condition must hold: no mark and no number of a step tells which
 * of the two classes follows.
 *
 * Classes with different calls get one label if they are ways to the same result: calls in either order, lookups that
 * some runs leave out, and other ways of few runs. Two conditions must hold. The way that the student takes calls no
 * final tool. And nothing in the step tells which way follows; this is not required if only the options of a lookup
 * differ.
 */

import { comparablesAgree, readComparable, stemWord } from '../student/model/agreement.ts';
import { type AnswerTemplate, fillTemplate } from '../student/model/answer-template.ts';
import type { StudentBlock } from '../student/model/decision.ts';
import {
  areGrounded,
  differInUntoldOptions,
  type FreeArguments,
  Ground,
  haveOtherMeanings,
  KnownWordings,
  type LooksBeside,
  pairTexts,
  placeOfArgument,
  readWording,
  valuesMatch,
  type WordedAnswer,
  type Wording,
} from '../student/model/equivalence.ts';
import { chanceOfMore } from '../student/model/exact-test.ts';
import type { StepContext } from '../student/model/extraction.ts';
import { canonicalText, hashString, isObject } from '../student/model/json-values.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import { isLook, READS, type ReadTools } from '../student/model/look-calls.ts';
import type { MarkColumn } from '../student/model/relevance.ts';
import { spellAnswer } from '../student/model/spelled-answer.ts';
import type { StepDigest } from '../student/model/step.ts';
import type { AnswerClass, AnswerExample } from './answer-synthesis.ts';
import { canonicalCall, readLaterTools } from './later-calls.ts';
import { isSplit, type NumberColumn } from './number-splits.ts';
import { findKeyArgument, findSameRecords, type OtherSearch } from './other-keys.ts';
import { isSeparated, isTested } from './separation.ts';
import { listStepTokens } from './step-tokens.ts';
import { findSituations, type SituatedText, type Situation } from './text-situations.ts';

/** Golden steps of one stage with their answers. */
interface StageAnswers {
  /** What the steps respond to; see `StepDigest`. */
  stage: string;
  examples: readonly AnswerExample[];
  classes: readonly AnswerClass[];
  free: FreeArguments;
  /** Marks that may tell which answer follows. */
  columns: readonly MarkColumn[];
  numbers: readonly NumberColumn[];
  /** Calls that the run makes after a step, in canonical form; `step` is the index of the example. */
  later(step: number): ReadonlySet<string>;
  /** The next step of the run, which has the results of the step's calls; undefined: the run has none. */
  next(step: number): StepDigest | undefined;
  /** Tools whose calls no lookup follows. */
  final: ReadonlySet<string>;
  /** Tools that only read according to their descriptions. */
  reads: ReadTools;
}

/** The labels of the classes, the class of each step (−1: none), and what may differ between answers of a label. */
interface LabelledAnswers {
  labels: number[];
  /** A number per class. Classes of one label have different numbers if they are different ways to the same result. */
  paths: number[];
  ofStep: Int16Array;
  wordings: Wording[];
  looks: LooksBeside[];
}

/** Number of members of a class whose answers are compared, and share of these members that must agree. */
const COMPARED = 8;
const SAME_LABEL = 0.85;
/** Minimum share of these members for which the other class has an answer, too. */
const ANSWERED = 0.25;
/** Minimum number of runs of each of two paths, and minimum ratio of these runs to the steps of both paths. */
const PATH_RUNS = 4;
const PATH_SHARE = 0.12;
/**
 * PATH_LATER: minimum share of the steps of one path whose runs make the calls of the other path later. If there are
 * several other paths, PATH_LATER is the minimum for all of them together, and PATH_SEEN is the minimum for each.
 */
const PATH_LATER = 0.8;
const PATH_SEEN = 0.05;
/** Of the steps of another way: minimum share whose runs make the main calls at once or later. */
const OTHER_WAY = 0.9;
/** Minimum number of runs that go another way. */
const OTHER_RUNS = 2;
/** Maximum number of words and constants kept for one label and place. */
const WORDS_KEPT = 600;
/**
 * Maximum number of affirmed words. It is larger than texts need, because a word beyond it would count as never
 * affirmed.
 */
const AFFIRMED_KEPT = 5_000;
/** Texts take a word from steps if the step contains it in at least this share of its uses. */
const GROUNDED = 0.9;
/** Maximum number of steps whose texts lack a word that are searched for it. */
const OTHERS = 40;
/**
 * ALIKE: minimum number of other steps after the same calls for the test whether chance explains that steps have a
 * word. BY_CHANCE: chance explains it if its probability is larger than this.
 */
const ALIKE = 10;
const BY_CHANCE = 0.02;
const NO_WORDS: ReadonlySet<number> = new Set();
/** A value that no step contains is part of the wording if at least this many runs share it. */
const CONSTANT_RUNS = 3;

/** A value of texts at one place. */
interface SharedValue {
  place: string;
  /** A hash of the value. */
  key: number;
  isNumber: boolean;
  /** Runs whose texts have the value. */
  runs: Set<string>;
  /** Number of texts with the value, and how many of these have it in their steps. */
  count: number;
  held: number;
}

/** Whether two different values are at the same place, and no run has both. */
function replaces(other: SharedValue, value: SharedValue): boolean {
  if (other === value || other.place !== value.place) return false;
  return Array.from(other.runs).every((run) => !value.runs.has(run));
}

/** Prepares an answer for comparisons. Edits are compared by their effect. */
function readSpelled(content: readonly StudentBlock[], { step }: StepContext) {
  return readComparable({ content: [...spellAnswer(content, step)] });
}

/** Labels the classes, and assigns the answer of each step to a class, if one fits. */
export function labelAnswers(stage: StageAnswers): LabelledAnswers {
  return new Labelling(stage).label();
}

class Labelling {
  readonly #stage: StageAnswers;
  readonly #answers: ReturnType<typeof readComparable>[];
  readonly #worded: (WordedAnswer | null)[];
  readonly #grounds: Ground[];
  /** The names of each step's sources, which tell which tools were called. */
  readonly #sources: string[];
  readonly #filled = new Map<string, StudentBlock[] | null>();
  /** Values that the rules of a class find at a step. */
  readonly #computed = new Map<string, readonly string[]>();
  /** The class whose template gives each step's answer; −1 without one. */
  #assigned: Int16Array = new Int16Array(0);
  /** Hashes of the constants (`Wording.constants`), by place. */
  #constants: ReadonlyMap<string, ReadonlySet<number>> = new Map();
  /** Hashes of the words that texts take from steps (`Wording.grounded`), by place. */
  #grounded: ReadonlyMap<string, ReadonlySet<number>> = new Map();
  readonly #situations = new Map<string, readonly Situation[]>();
  /** The result of `#situatedAt`, by place and step. */
  readonly #situated = new Map<string, ReadonlySet<number>>();
  /** The result of `#affirmedAt`, by place and step. */
  readonly #affirmed = new Map<string, ReadonlySet<number>>();
  #style: ReadonlyMap<string, ReadonlySet<number>> = new Map();
  /** Places of arguments that calls may leave out. */
  readonly #optional: Set<string>;

  constructor(stage: StageAnswers) {
    this.#stage = stage;
    const contents = stage.examples.map(({ content }) => content as StudentBlock[]);
    this.#answers = stage.examples.map(({ content, context }) => readSpelled(content, context));
    this.#worded = contents.map((content) => readWording(content, stage.free));
    this.#grounds = stage.examples.map(({ context }) => new Ground(context.step));
    this.#sources = stage.examples.map(({ context }) =>
      context.step.sources.map(({ name }) => name).join('\n'),
    );
    this.#optional = new Set(this.#findOptional());
  }

  /** Optional arguments whose presence in calls nothing in the steps predicts. */
  *#findOptional(): Iterable<string> {
    for (const [tool, key, may] of this.#stage.free) {
      if (may !== 'optional') continue;
      const calls = [...this.#stage.examples.entries()].flatMap(([i, { content }]) =>
        content.flatMap((block) =>
          block.type === 'tool_call' && block.name === tool && isObject(block.input)
            ? [{ step: i, has: Object.hasOwn(block.input, key) }]
            : [],
        ),
      );
      const steps = (has: boolean) => calls.filter((call) => call.has === has).map(({ step }) => step);
      if (!this.#areSeparated(steps(true), steps(false))) yield placeOfArgument(tool, key);
    }
  }

  label(): LabelledAnswers {
    const ofStep = this.#assign();
    this.#assigned = ofStep.slice();
    this.#constants = this.#findConstants();
    this.#grounded = this.#findGrounded();
    this.#style = this.#findStyle();
    this.#findSituations();
    this.#leaveOthersOut(ofStep);
    const { labels, paths } = this.#joinClasses(ofStep);
    this.#assignOptional(ofStep, labels);
    const wordings = this.#listWordings(ofStep, labels);
    this.#assignWordings(ofStep, labels, wordings);
    const looks = this.#assignLooks(ofStep, labels);
    return { labels, paths, ofStep, wordings: this.#listWordings(ofStep, labels), looks };
  }

  /** Fills the template of a class for a step; null when the step lacks a value. */
  #fill(c: number, i: number): StudentBlock[] | null {
    const id = `${c} ${i}`;
    let filled = this.#filled.get(id);
    if (filled === undefined) {
      const found: string[] = [];
      const made = fillTemplate(this.#stage.classes[c]!.template, this.#stage.examples[i]!.context, found);
      filled = typeof made === 'string' ? null : made.value;
      this.#filled.set(id, filled);
      if (filled !== null && found.length > 0) this.#computed.set(id, found);
    }
    return filled;
  }

  /** What a step holds, with the values that the rules of these classes compute from it. */
  #groundOf(classes: readonly number[], i: number): Ground {
    const computed = classes.flatMap((c) =>
      c < 0 || this.#fill(c, i) === null ? [] : (this.#computed.get(`${c} ${i}`) ?? []),
    );
    return this.#grounds[i]!.with(computed);
  }

  #agrees(c: number, i: number): boolean {
    const filled = this.#fill(c, i);
    const { context } = this.#stage.examples[i]!;
    return filled !== null && comparablesAgree(readSpelled(filled, context), this.#answers[i]!);
  }

  /**
   * The class of each step: the class that has it as a member, or the first class whose answer agrees; otherwise −1.
   */
  #assign(): Int16Array {
    const { classes, examples } = this.#stage;
    const ofStep = new Int16Array(examples.length).fill(-1);
    for (const [c, { members }] of classes.entries()) for (const i of members) ofStep[i] = c;
    for (let i = 0; i < examples.length; i++)
      if (ofStep[i]! < 0) ofStep[i] = classes.findIndex((_, c) => this.#agrees(c, i));
    return ofStep;
  }

  /**
   * Values that several runs share at a place, although fewer than half of their steps contain them. A number does not
   * count as such a value if other runs have another such number instead: `4 strings` beside `3 strings` is a count,
   * which the step does not hold.
   */
  #findConstants(): Map<string, Set<number>> {
    const seen = new Map<string, SharedValue>();
    for (const [i, worded] of this.#worded.entries())
      for (const { place, facts } of worded?.texts ?? [])
        for (const value of [...facts.facts.keys(), ...facts.names]) {
          const key = hashString(value);
          const id = `${place} ${key}`;
          const isNumber = facts.facts.get(value)?.kind === 'number';
          const found = seen.get(id) ?? { place, key, isNumber, runs: new Set(), held: 0, count: 0 };
          seen.set(id, found);
          found.runs.add(this.#stage.examples[i]!.run_id);
          found.count++;
          if (this.#grounds[i]!.holds(facts.facts.get(value)?.text ?? value)) found.held++;
        }
    const shared = [...seen.values()].filter(
      ({ runs, held, count }) => runs.size >= CONSTANT_RUNS && 2 * held < count,
    );
    const numbers = shared.filter(({ isNumber }) => isNumber);
    const constants = new Map<string, Set<number>>();
    for (const value of shared) {
      const { place, key } = value;
      if (value.isNumber && numbers.some((other) => replaces(other, value))) continue;
      const ofPlace = constants.get(place);
      if (ofPlace === undefined) constants.set(place, new Set([key]));
      else ofPlace.add(key);
    }
    return constants;
  }

  /**
   * Words that occur in the step nearly whenever a text at a place uses them, but not in nearly all other steps, and not
   * by chance: a word that every step has says nothing about a step.
   */
  #findGrounded(): Map<string, Set<number>> {
    const grounded = new Map<string, Set<number>>();
    for (const [place, steps] of this.#listUses()) {
      const words = new Map<string, number[]>();
      for (const { step, plain } of steps)
        for (const word of plain) {
          const uses = words.get(word);
          if (uses === undefined) words.set(word, [step]);
          else uses.push(step);
        }
      const ofPlace = new Set<number>();
      for (const [word, uses] of words) {
        const held = uses.filter((i) => this.#grounds[i]!.holdsOutsidePrompt(word)).length;
        if (held < GROUNDED * uses.length) continue;
        const others = steps.filter(({ plain }) => !plain.has(word)).map(({ step }) => step);
        if (this.#isTold(word, { uses, held }, others)) ofPlace.add(hashString(word));
      }
      grounded.set(place, ofPlace);
    }
    return grounded;
  }

  /**
   * Whether texts take a word from their steps: the steps of texts without the word lack it so often that chance does
   * not explain why the steps of texts with the word have it. The test compares steps after the same calls. If fewer
   * than ALIKE of these belong to texts without the word, it is enough that not nearly all steps of such texts have it.
   * @param of `uses`: the steps of texts with the word; `held`: how many of these steps have it
   * @param others the steps of texts without the word
   */
  #isTold(
    word: string,
    { uses, held }: { uses: readonly number[]; held: number },
    others: readonly number[],
  ): boolean {
    const countIn = (steps: readonly number[]): number =>
      steps.filter((i) => this.#grounds[i]!.holdsOutsidePrompt(word)).length;
    const chosen = sample(others, OTHERS);
    if (chosen.length > 0 && countIn(chosen) >= GROUNDED * chosen.length) return false;
    const calls = new Set(uses.map((i) => this.#sources[i]!));
    const alike = sample(
      others.filter((i) => calls.has(this.#sources[i]!)),
      OTHERS,
    );
    if (alike.length < ALIKE) return true;
    const ofOthers = { all: alike.length, having: countIn(alike) };
    return chanceOfMore({ all: uses.length, having: held }, ofOthers) <= BY_CHANCE;
  }

  /** The words of the texts at each place. */
  #listUses(): Map<string, { step: number; plain: ReadonlySet<string> }[]> {
    const uses = new Map<string, { step: number; plain: ReadonlySet<string> }[]>();
    for (const [step, worded] of this.#worded.entries())
      for (const { place, facts } of worded?.texts ?? []) {
        const ofPlace = uses.get(place);
        if (ofPlace === undefined) uses.set(place, [{ step, plain: facts.plain }]);
        else ofPlace.push({ step, plain: facts.plain });
      }
    return uses;
  }

  /** Stems whose use no mark, number or token of the step explains, although enough texts would show it. */
  #findStyle(): Map<string, Set<number>> {
    const texts = this.#listTexts(() => true);
    const style = new Map<string, Set<number>>();
    if (texts.size === 0) return style;
    const columns = [...this.#stage.columns, ...readTokenColumns(this.#stage.examples)];
    for (const [place, ofPlace] of texts) {
      const stems = new Set<number>();
      for (const stem of new Set(ofPlace.flatMap(({ words }) => [...words]))) {
        const used = ofPlace.filter(({ words }) => words.has(stem)).map(({ step }) => step);
        const unused = ofPlace.filter(({ words }) => !words.has(stem)).map(({ step }) => step);
        if (!isTested(columns, used.length, unused.length)) continue;
        if (isSeparated(columns, used, unused, 0) || isSplit(this.#stage.numbers, used, unused)) continue;
        stems.add(hashString(stem));
      }
      style.set(place, stems);
    }
    return style;
  }

  /**
   * Divides the texts of each place into situations, by marks, numbers and tokens of their steps. For each text that
   * reports what was done, it keeps the words that its situation allows.
   */
  #findSituations(): void {
    const texts = this.#listTexts((place, word) => !this.#isGrounded(place, word));
    if (texts.size === 0) return;
    const columns = [...this.#stage.columns, ...readTokenColumns(this.#stage.examples)];
    for (const [place, ofPlace] of texts) {
      const situations = findSituations(ofPlace, columns, this.#stage.numbers);
      this.#situations.set(place, situations);
      const grounded = this.#grounded.get(place) ?? NO_WORDS;
      for (const situation of situations) {
        if (!this.#isReport(place)) continue;
        const free = [...situation.style, ...situation.common].map((stem) => hashString(stem));
        const situated = new Set([...grounded, ...free]);
        const affirmed = this.#listAffirmed(
          place,
          situation.texts.map(({ step }) => step),
        );
        for (const { step } of situation.texts) {
          this.#situated.set(`${place} ${step}`, situated);
          this.#affirmed.set(`${place} ${step}`, affirmed);
        }
      }
    }
  }

  /** At most STYLE_TEXTS texts of each place, with the stems of the words for which `isTaken` is true. */
  #listTexts(isTaken: (place: string, word: string) => boolean): Map<string, SituatedText[]> {
    const texts = new Map<string, SituatedText[]>();
    for (const [step, worded] of this.#worded.entries())
      for (const { place, facts } of worded?.texts ?? []) {
        const ofPlace = texts.get(place) ?? [];
        texts.set(place, ofPlace);
        if (ofPlace.length >= STYLE_TEXTS) continue;
        const taken = [...facts.plain].filter((word) => isTaken(place, word));
        ofPlace.push({ step, words: new Set(taken.map(stemWord)) });
      }
    return texts;
  }

  #isGrounded(place: string, word: string): boolean {
    return this.#grounded.get(place)?.has(hashString(word)) === true;
  }

  /**
   * Words on which texts for a step may differ: its situation does not explain them, or texts take them from the step.
   */
  #situatedAt(place: string, i: number): ReadonlySet<number> {
    return this.#situated.get(`${place} ${i}`) ?? NO_WORDS;
  }

  /** Stems that golden texts of the step's situation affirm; undefined where texts answer a question. */
  #affirmedAt(place: string, i: number): ReadonlySet<number> | undefined {
    return this.#affirmed.get(`${place} ${i}`);
  }

  /** Whether a text reports what was done: it is part of a call, or follows a call that does more than look. */
  #isReport(place: string): boolean {
    return (
      place !== '' || this.#stage.stage.split(' ').some((name) => !isLookOrTask(name, this.#stage.reads))
    );
  }

  #listAffirmed(place: string, steps: readonly number[]): Set<number> {
    const affirmed = new Set<number>();
    for (const i of steps)
      for (const text of this.#worded[i]?.texts ?? [])
        if (text.place === place) for (const stem of text.facts.affirmed) affirmed.add(hashString(stem));
    return affirmed;
  }

  /** Whether a class's answer for a step has the same values and fixed parts as the step's golden answer. */
  #hasSameValues(c: number, i: number): boolean {
    const filled = this.#fill(c, i);
    if (filled === null) return false;
    const a = readWording(filled, this.#stage.free);
    const b = this.#worded[i]!;
    if (a === null && b === null) return this.#agrees(c, i);
    if (a === null || b === null || a.fixed !== b.fixed) return false;
    const pairs = pairTexts(a, b, (place) => this.#optional.has(place));
    const held = this.#groundOf([c, this.#assigned[i]!], i);
    return (
      pairs?.every(([{ place, facts }, other]) => {
        return (
          areGrounded(facts, other.facts, this.#grounds[i]!, this.#grounded.get(place) ?? NO_WORDS) &&
          valuesMatch(facts, other.facts, held, this.#constants.get(place), this.#affirmedAt(place, i)) &&
          !haveOtherMeanings(
            facts,
            other.facts,
            this.#style.get(place) ?? NO_WORDS,
            this.#situatedAt(place, i),
          )
        );
      }) === true
    );
  }

  /**
   * Takes an answer without calls out of its class (−1) if the class's answer for the step means something else, or if
   * the step cannot fill the template. A template of many wordings has the words of one of its texts, and the other
   * texts may tell another reason.
   */
  #leaveOthersOut(ofStep: Int16Array): void {
    const { classes } = this.#stage;
    for (const [i, c] of ofStep.entries()) {
      if (c < 0 || classes[c]!.template.calls.length > 0) continue;
      if (!this.#agrees(c, i) && !this.#hasSameValues(c, i)) ofStep[i] = -1;
    }
  }

  #joinClasses(ofStep: Int16Array): Pick<LabelledAnswers, 'labels' | 'paths'> {
    const { classes } = this.#stage;
    const members = classes.map((_, c) => [...ofStep.keys()].filter((i) => ofStep[i] === c));
    /** The classes of each label, those with most members first. */
    const groups: number[][] = [];
    const order = [...classes.keys()].sort((a, b) => members[b]!.length - members[a]!.length || a - b);
    for (const c of order) {
      const joined = groups.find((group) => this.#isSameLabel(group, c, members));
      if (joined === undefined) groups.push([c]);
      else joined.push(c);
    }
    const paths = new Array<number>(classes.length).fill(0);
    for (const [path, group] of groups.entries()) for (const c of group) paths[c] = path;
    this.#joinPaths(groups, members, ofStep);
    const labels = new Array<number>(classes.length).fill(0);
    const places = new Map(groups.map((group) => [Math.min(...group), group]));
    // Labels are numbered in the order of the classes.
    for (const [label, first] of [...places.keys()].sort((a, b) => a - b).entries())
      for (const c of places.get(first)!) labels[c] = label;
    return { labels, paths };
  }

  #isSameLabel(group: readonly number[], c: number, members: readonly number[][]): boolean {
    const { classes } = this.#stage;
    const first = group[0]!;
    if (!sameCalls(classes[first]!.template, classes[c]!.template)) return false;
    if (this.#areAlike(first, c, members, (of, i) => this.#agrees(of, i))) return true;
    if (!this.#areAlike(first, c, members, (of, i) => this.#hasSameValues(of, i))) return false;
    const others = group.flatMap((other) => members[other]!);
    return !this.#areSeparated(others, members[c]!);
  }

  /**
   * Whether two classes agree on nearly all of each other's steps. A step for which the other class has no answer does
   * not count; a quarter of the compared steps, and at least one, must have both answers.
   */
  #areAlike(
    a: number,
    b: number,
    members: readonly number[][],
    agrees: (c: number, i: number) => boolean,
  ): boolean {
    let filled = 0;
    let compared = 0;
    for (const [c, at] of [
      [a, members[b]!],
      [b, members[a]!],
    ] as const) {
      const chosen = sample(at, COMPARED);
      const answered = chosen.filter((i) => this.#fill(c, i) !== null);
      if (answered.filter((i) => agrees(c, i)).length < SAME_LABEL * answered.length) return false;
      filled += answered.length;
      compared += chosen.length;
    }
    return filled >= Math.max(1, ANSWERED * compared);
  }

  /**
   * Joins labels whose calls are ways to the same result: calls in either order, and lookups that some runs leave out.
   * Without such a lookup, it joins the other ways of few runs.
   */
  #joinPaths(groups: number[][], members: readonly number[][], ofStep: Int16Array): void {
    for (let a = 0; a < groups.length; a++)
      for (let b = groups.length - 1; b > a; b--)
        if (this.#areInEitherOrder(groups[a]!, groups[b]!, members))
          groups[a]!.push(...groups.splice(b, 1)[0]!);
    const join = (main: number[], other: number[]): void => {
      // The student then answers with the main way.
      for (const c of other) for (const i of members[c]!) ofStep[i] = main[0]!;
      main.push(...other);
      groups.splice(groups.indexOf(other), 1);
    };
    this.#joinOtherKeys(groups, members, join);
    const main = groups.find((look) => {
      const others = this.#findPathsWithout(look, groups, members);
      for (const other of others) join(look, other);
      return others.length > 0;
    });
    if (main !== undefined) return;
    this.#joinOtherWays(groups, members, join);
  }

  /**
   * Joins the ways of few runs to a way of more runs, which the student then takes. If both have the same tools, the
   * student takes the order that comes first by name.
   */
  #joinOtherWays(
    groups: number[][],
    members: readonly number[][],
    join: (main: number[], other: number[]) => void,
  ): void {
    const order = groups.toSorted((a, b) => membersOf(b, members).length - membersOf(a, members).length);
    for (const [at, common] of order.entries()) {
      let main = common;
      for (const other of order.slice(at + 1)) {
        if (!groups.includes(main) || !groups.includes(other)) continue;
        if (!this.#isOtherWay(main, other, members)) continue;
        if (this.#comesFirst(other, main)) [main] = [other, join(other, main)];
        else join(main, other);
      }
    }
  }

  /**
   * Whether the other group has the same calls in an order that comes first by name. Each round then chooses the same
   * order.
   */
  #comesFirst(other: readonly number[], main: readonly number[]): boolean {
    const [a, b] = [other, main].map((group) =>
      this.#stage.classes[group[0]!]!.template.calls.map(({ name }) => name),
    );
    const isSame = a!.toSorted().join('\n') === b!.toSorted().join('\n');
    return isSame && a!.join('\n') < b!.join('\n');
  }

  /**
   * Whether the other group is another way to the result of the main group. True if both make the same lookup with
   * other options. Also true if nothing in the step tells which way follows, and one of these conditions holds: the
   * main way is a lookup after which its runs make the other calls; both are lookups with different tools after which
   * runs go on alike; or nearly all runs of the other way make the main calls at once or later, and the additional
   * calls of the other way are harmless.
   */
  #isOtherWay(main: readonly number[], other: readonly number[], members: readonly number[][]): boolean {
    if (!this.#hasCalls(main) || !this.#hasCalls(other) || this.#isFinal(main)) return false;
    const [ofMain, ofOther] = [membersOf(main, members), membersOf(other, members)];
    if (this.#countRuns(ofOther) < OTHER_RUNS || this.#countRuns(ofMain) < this.#countRuns(ofOther))
      return false;
    if (this.#haveOtherOptions(main, other, members)) return true;
    const isWay =
      this.#looksFirst(main, other, members) ||
      (!this.#isFinal(other) &&
        (this.#areOtherLooks(main, other, members) ||
          (this.#shareMade(main, ofOther) >= OTHER_WAY && this.#leavesLooksOut(main, other, members))));
    if (!isWay) return false;
    return !this.#areSeparated(ofMain, ofOther);
  }

  /** Whether the main way only looks something up, and most of its runs then make the calls of the other way. */
  #looksFirst(main: readonly number[], other: readonly number[], members: readonly number[][]): boolean {
    const [ofMain, ofOther] = [membersOf(main, members), membersOf(other, members)];
    return (
      this.#isLook(main) &&
      this.#shareMadeLater([other], ofMain) >= PATH_LATER &&
      this.#goOnAlike(ofMain, ofOther)
    );
  }

  /** Whether both ways are lookups with different tools; enough runs go the other way; and both ways continue alike. */
  #areOtherLooks(main: readonly number[], other: readonly number[], members: readonly number[][]): boolean {
    const [ofMain, ofOther] = [membersOf(main, members), membersOf(other, members)];
    const tools = new Set(this.#toolsOf(main));
    if (!this.#isLook(main) || !this.#isLook(other)) return false;
    if (this.#toolsOf(other).some((name) => tools.has(name)) || this.#countRuns(ofOther) < PATH_RUNS)
      return false;
    return this.#goOnAlike(ofMain, ofOther);
  }

  /** Whether runs of both groups of steps use the same tools that do more than look, at these steps or later. */
  #goOnAlike(a: readonly number[], b: readonly number[]): boolean {
    const { examples } = this.#stage;
    const later = (i: number) => new Set([...this.#stage.later(i), ...callsOf(examples[i]!.content)]);
    return !isSeparated(readLaterTools({ ...this.#stage, later }), a, b, 0);
  }

  /** Share of the steps whose run makes the group's calls at that step or later. */
  #shareMade(group: readonly number[], of: readonly number[]): number {
    const chosen = sample(of, 3 * COMPARED);
    const ways = this.#waysOf(group);
    const made = chosen.filter((i) => {
      const calls = new Set([...this.#stage.later(i), ...callsOf(this.#stage.examples[i]!.content)]);
      return ways.some((c) => {
        const filled = this.#fill(c, i);
        return filled !== null && callsOf(filled).every((call) => calls.has(call));
      });
    });
    return made.length / Math.max(1, chosen.length);
  }

  /**
   * Classes of a group that make the calls of its first class. Other classes of the group are ways that were joined to
   * it.
   */
  #waysOf(group: readonly number[]): number[] {
    const { classes } = this.#stage;
    return group.filter((c) => sameCalls(classes[group[0]!]!.template, classes[c]!.template));
  }

  /**
   * Whether the main way may leave out the calls that only the other way makes. True if these calls are lookups. Also
   * true if most runs of the main way make these calls at once or later, and at least PATH_RUNS runs go the other way.
   * If the other way has no additional call, and the main way does more than look, PATH_RUNS runs must go the other
   * way, too.
   */
  #leavesLooksOut(main: readonly number[], other: readonly number[], members: readonly number[][]): boolean {
    const ofOther = membersOf(other, members);
    const ways = this.#waysOf(main);
    let left = 0;
    const areLooks = sample(ofOther, 3 * COMPARED).every((i) => {
      const own = new Set(ways.flatMap((c) => callsOf(this.#fill(c, i) ?? [])));
      const more = this.#stage.examples[i]!.content.filter(
        (block) => block.type === 'tool_call' && !own.has(canonicalCall(block)),
      );
      left += more.length;
      return more.every((block) => block.type === 'tool_call' && isLook(block.name, this.#stage.reads));
    });
    if (areLooks && (left > 0 || this.#isLook(main))) return true;
    if (this.#countRuns(ofOther) < PATH_RUNS) return false;
    return areLooks || this.#shareMade(other, membersOf(main, members)) >= PATH_LATER;
  }

  /** Whether two groups make the same lookup, apart from options for how much it shows. */
  #haveOtherOptions(
    main: readonly number[],
    other: readonly number[],
    members: readonly number[][],
  ): boolean {
    const chosen = sample(membersOf(other, members), COMPARED);
    return chosen.every((i) => {
      const filled = this.#fill(main[0]!, i);
      const { content } = this.#stage.examples[i]!;
      return filled !== null && differInUntoldOptions(filled, content as StudentBlock[], this.#grounds[i]!);
    });
  }

  /**
   * Joins lookups by another key to the lookup of most runs. Whether something in the step tells which key follows is
   * tested for all other keys together, because each of their templates may need other words around its value.
   */
  #joinOtherKeys(
    groups: readonly number[][],
    members: readonly number[][],
    join: (main: number[], other: number[]) => void,
  ): void {
    const order = groups.toSorted((a, b) => membersOf(b, members).length - membersOf(a, members).length);
    for (const [at, main] of order.entries()) {
      if (!groups.includes(main) || this.#isFinal(main)) continue;
      const others = order
        .slice(at + 1)
        .filter((other) => groups.includes(other) && this.#haveOtherKeys(main, other, members));
      const ofOthers = others.flatMap((other) => membersOf(other, members));
      if (this.#areSeparated(membersOf(main, members), ofOthers)) continue;
      for (const other of others) join(main, other);
    }
  }

  /** Whether the lookup of the main group finds, by another key, the records that the other group's runs found. */
  #haveOtherKeys(main: readonly number[], other: readonly number[], members: readonly number[][]): boolean {
    const { classes, examples, next, reads } = this.#stage;
    if (!this.#isLook(main) || !sameCalls(classes[main[0]!]!.template, classes[other[0]!]!.template))
      return false;
    const search = (i: number) => {
      const { run_id, content } = examples[i]!;
      return { run_id, golden: content as StudentBlock[], next: next(i) };
    };
    const ways = this.#waysOf(main);
    const others: OtherSearch[] = [];
    for (const i of membersOf(other, members)) {
      const given = ways.map((c) => this.#fill(c, i)).find((filled) => filled !== null);
      if (given === undefined || given === null) continue;
      const found = { ...search(i), given };
      if (findKeyArgument([found], reads) === null) return false;
      others.push(found);
    }
    return findSameRecords(membersOf(main, members).map(search), others, reads);
  }

  /** Whether golden runs make independent calls in either order. */
  #areInEitherOrder(a: readonly number[], b: readonly number[], members: readonly number[][]): boolean {
    if (!this.#hasCalls(a) || !this.#hasCalls(b) || this.#isFinal(a) || this.#isFinal(b)) return false;
    const [ofA, ofB] = [membersOf(a, members), membersOf(b, members)];
    return (
      this.#areFrequent(ofA, ofB) &&
      this.#shareMadeLater([b], ofA) >= PATH_LATER &&
      this.#shareMadeLater([a], ofB) >= PATH_LATER &&
      !this.#areSeparated(ofA, ofB)
    );
  }

  /** The groups of calls that some runs make at once and other runs make only after this lookup. */
  #findPathsWithout(
    look: readonly number[],
    groups: readonly number[][],
    members: readonly number[][],
  ): number[][] {
    if (!this.#hasCalls(look) || this.#isFinal(look) || !this.#isLook(look)) return [];
    const ofLook = membersOf(look, members);
    const others = groups.filter(
      (group) =>
        group !== look && this.#hasCalls(group) && this.#shareMadeLater([group], ofLook) >= PATH_SEEN,
    );
    const ofOthers = others.flatMap((group) => membersOf(group, members));
    // If all ways only look, the student takes the way of most runs.
    const isRare = this.#countRuns(ofLook) < this.#countRuns(ofOthers);
    if (isRare && others.every((group) => this.#isLook(group))) return [];
    const areTwoWays =
      this.#areFrequent(ofLook, ofOthers) &&
      this.#shareMadeLater(others, ofLook) >= PATH_LATER &&
      this.#goOnAlike(ofLook, ofOthers) &&
      !this.#areSeparated(ofLook, ofOthers);
    return areTwoWays ? others : [];
  }

  #hasCalls(group: readonly number[]): boolean {
    return group.every((c) => this.#stage.classes[c]!.template.calls.length > 0);
  }

  #countRuns(of: readonly number[]): number {
    return new Set(of.map((i) => this.#stage.examples[i]!.run_id)).size;
  }

  /** Whether enough runs went each of two ways. */
  #areFrequent(a: readonly number[], b: readonly number[]): boolean {
    const runs = Math.min(this.#countRuns(a), this.#countRuns(b));
    return runs >= Math.max(PATH_RUNS, PATH_SHARE * (a.length + b.length));
  }

  #toolsOf(group: readonly number[]): string[] {
    return group.flatMap((c) => this.#stage.classes[c]!.template.calls.map(({ name }) => name));
  }

  #isFinal(group: readonly number[]): boolean {
    return this.#toolsOf(group).some((name) => this.#stage.final.has(name));
  }

  /** Whether the names of the group's tools show that they only look. In doubt, the answer is no. */
  #isLook(group: readonly number[]): boolean {
    return this.#toolsOf(group).every((name) => isLook(name, this.#stage.reads));
  }

  /** Share of the steps whose run later makes all calls of a class of these groups. */
  #shareMadeLater(groups: readonly (readonly number[])[], of: readonly number[]): number {
    const chosen = sample(of, 3 * COMPARED);
    const made = chosen.filter((i) =>
      groups.flat().some((c) => {
        const later = this.#stage.later(i);
        return (
          this.#fill(c, i)?.every((block) => block.type === 'text' || later.has(canonicalCall(block))) ===
          true
        );
      }),
    );
    return made.length / Math.max(1, chosen.length);
  }

  /** Whether a mark or a number of the step tells which of two answers follows. */
  #areSeparated(a: readonly number[], b: readonly number[]): boolean {
    return isSeparated(this.#stage.columns, a, b) || isSplit(this.#stage.numbers, a, b);
  }

  /**
   * Assigns answers without a class to a class whose calls they make, if all their other calls are lookups. The class
   * must call no final tool, enough runs must have such answers, and nothing in the step may predict these lookups.
   * @returns the tools of the lookups, by label
   */
  #assignLooks(ofStep: Int16Array, labels: readonly number[]): LooksBeside[] {
    const found = new Map<number, { steps: number[]; ofClass: number[]; tools: Set<string> }>();
    for (let i = 0; i < ofStep.length; i++) {
      if (ofStep[i]! >= 0) continue;
      for (const c of labels.keys()) {
        const beside = looksBeside(
          callsOf(this.#fill(c, i) ?? []),
          this.#stage.examples[i]!.content,
          this.#stage.reads,
        );
        if (beside === null || this.#isFinal([c])) continue;
        const ofLabel = found.get(labels[c]!) ?? { steps: [], ofClass: [], tools: new Set() };
        found.set(labels[c]!, ofLabel);
        ofLabel.steps.push(i);
        ofLabel.ofClass.push(c);
        for (const tool of beside) ofLabel.tools.add(tool);
        break;
      }
    }
    const looks: LooksBeside[] = [];
    for (const [label, { steps, ofClass, tools }] of found) {
      const others = [...ofStep.keys()].filter((i) => ofStep[i]! >= 0 && labels[ofStep[i]!] === label);
      if (this.#countRuns(steps) < OTHER_RUNS || this.#areSeparated(others, steps)) continue;
      for (const [at, i] of steps.entries()) ofStep[i] = ofClass[at]!;
      looks.push([label, [...tools]]);
    }
    return looks;
  }

  /**
   * Assigns an answer without a class to a class if the answer and the answer of the class differ only in optional
   * texts that one of the two lacks. Enough runs must have such answers, and nothing in the step may predict them.
   */
  #assignOptional(ofStep: Int16Array, labels: readonly number[]): void {
    if (this.#optional.size === 0) return;
    const found = new Map<number, { step: number; ofClass: number }[]>();
    for (let i = 0; i < ofStep.length; i++) {
      const ofClass = ofStep[i]! < 0 ? [...labels.keys()].find((c) => this.#lacksOptional(c, i)) : undefined;
      if (ofClass === undefined) continue;
      const label = labels[ofClass]!;
      found.set(label, [...(found.get(label) ?? []), { step: i, ofClass }]);
    }
    for (const [label, others] of found) {
      const steps = others.map(({ step }) => step);
      const own = [...ofStep.keys()].filter((i) => ofStep[i]! >= 0 && labels[ofStep[i]!] === label);
      if (this.#countRuns(steps) < PATH_RUNS || this.#areSeparated(own, steps)) continue;
      for (const { step, ofClass } of others) ofStep[step] = ofClass;
    }
  }

  /**
   * Whether a class's answer has the fixed parts of the step's answer, and all texts of both are optional ones that the
   * other lacks.
   */
  #lacksOptional(c: number, i: number): boolean {
    const filled = this.#fill(c, i);
    const [a, b] = [filled === null ? null : readWording(filled, this.#stage.free), this.#worded[i]!];
    if (a === null || b === null || a.fixed !== b.fixed || a.texts.length === b.texts.length) return false;
    return pairTexts(a, b, (place) => this.#optional.has(place))?.length === 0;
  }

  #listWordings(ofStep: Int16Array, labels: readonly number[]): Wording[] {
    const found = new Map<string, { label: number; place: string; words: Set<number>; steps: number[] }>();
    const ofLabels = Map.groupBy(ofStep.keys(), (i) => (ofStep[i]! < 0 ? -1 : labels[ofStep[i]!]!));
    for (const [i, worded] of this.#worded.entries()) {
      if (ofStep[i]! < 0) continue;
      const label = labels[ofStep[i]!]!;
      for (const { place, facts } of worded?.texts ?? []) {
        const wording = found.get(`${label} ${place}`) ?? { label, place, words: new Set(), steps: [] };
        found.set(`${label} ${place}`, wording);
        wording.steps.push(i);
        for (const word of facts.words.keys())
          if (wording.words.size < WORDS_KEPT) wording.words.add(hashString(word));
      }
    }
    return [...found.values()].map(({ label, place, words, steps }) => ({
      label,
      place,
      words: [...words],
      constants: [...(this.#constants.get(place) ?? [])].slice(0, WORDS_KEPT),
      grounded: [...(this.#grounded.get(place) ?? [])].slice(0, WORDS_KEPT),
      style: [...(this.#style.get(place) ?? [])].slice(0, WORDS_KEPT),
      ...(this.#isLeftOut(place, steps, ofLabels.get(label)!) ? { optional: true } : {}),
      ...(this.#isReport(place)
        ? {
            situated: this.#listSituated(place, steps).slice(0, WORDS_KEPT),
            affirmed: [...this.#listAffirmed(place, steps)].slice(0, AFFIRMED_KEPT),
          }
        : {}),
    }));
  }

  /** Whether enough runs with this label have a text at the place, and enough have none. */
  #isLeftOut(place: string, steps: readonly number[], ofLabel: readonly number[]): boolean {
    if (!this.#optional.has(place)) return false;
    const own = new Set(steps);
    const without = ofLabel.filter((i) => !own.has(i));
    return Math.min(this.#countRuns(steps), this.#countRuns(without)) >= PATH_RUNS;
  }

  /**
   * Hashes of the stems that are a matter of style, or common, in each situation of these steps; rare ones do not
   * count.
   */
  #listSituated(place: string, steps: readonly number[]): number[] {
    const own = new Set(steps);
    const situations = (this.#situations.get(place) ?? []).filter(
      ({ texts }) => texts.filter(({ step }) => own.has(step)).length >= SITUATION_SHARE * steps.length,
    );
    const stems = new Set(situations.flatMap(({ style, common }) => [...style, ...common]));
    return [...stems]
      .filter((stem) => situations.every(({ style, common }) => style.has(stem) || common.has(stem)))
      .map((stem) => hashString(stem));
  }

  /** Assigns answers with a wording that no template produces to a class with the same values and familiar words. */
  #assignWordings(ofStep: Int16Array, labels: readonly number[], wordings: readonly Wording[]): void {
    const known = new KnownWordings(wordings, this.#stage.free);
    const order = [...labels.keys()];
    for (let i = 0; i < ofStep.length; i++) {
      if (ofStep[i]! >= 0 || this.#worded[i] === null) continue;
      const content = this.#stage.examples[i]!.content;
      const same = order.find((c) => {
        const filled = this.#fill(c, i);
        const ground = this.#groundOf([c], i);
        return filled !== null && known.isSame(labels[c]!, filled, content, ground);
      });
      if (same !== undefined) ofStep[i] = same;
    }
  }
}

/**
 * Lists the tools of the calls that an answer has besides `calls`.
 * @returns null if the answer lacks one of `calls`, if `calls` is empty, or if an additional call is not a lookup
 */
function looksBeside(
  calls: readonly string[],
  content: readonly StudentBlock[],
  reads: ReadTools,
): string[] | null {
  const own = new Set(calls);
  const beside: string[] = [];
  for (const block of content) {
    if (block.type === 'text' || own.delete(canonicalCall(block))) continue;
    if (!isLook(block.name, reads)) return null;
    beside.push(block.name);
  }
  return own.size > 0 || calls.length === 0 ? null : beside;
}

/** Whether this part of a stage means the user's words or the result of a lookup. */
function isLookOrTask(name: string, reads: ReadTools): boolean {
  const tool = name.replace(/[!×]+$/, '');
  return tool === 'task' || tool === 'said' || isLook(tool, reads) || READS.test(tool);
}

/** The calls of an answer in the form in which runs are compared. */
function callsOf(content: readonly StudentBlock[]): string[] {
  return content.flatMap((block) => (block.type === 'tool_call' ? [canonicalCall(block)] : []));
}

function sameCalls(a: AnswerTemplate, b: AnswerTemplate): boolean {
  return (
    a.calls.length === b.calls.length &&
    a.calls.every(({ name }, i) => name === b.calls[i]!.name) &&
    (a.json === undefined) === (b.json === undefined)
  );
}

function membersOf(group: readonly number[], members: readonly number[][]): number[] {
  return group.flatMap((c) => members[c]!);
}

function sample<T>(all: readonly T[], most: number): readonly T[] {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, i) => all[Math.floor((i * all.length) / most)]!);
}

/** A situation counts for a label if it has at least this share of the label's texts at the place. */
const SITUATION_SHARE = 0.1;
/** Maximum number of texts of one place, and of different tokens of steps, that the search for situations examines. */
const STYLE_TEXTS = 300;
const TOKEN_COLUMNS = 3_000;
const TOKEN_KIND = 99;

/**
 * Lists fields with the same name but different values in several results, such as ordered and delivered amounts, as
 * `other NAME`.
 */
function listDifferences(context: StepContext): string[] {
  const values = new Map<string, Map<string, string>>();
  const visit = (from: string, name: string, value: unknown, depth: number): void => {
    if (Array.isArray(value)) for (const item of value) visit(from, name, item, depth + 1);
    else if (isObject(value) && depth < STUDENT_CORE.json_depth)
      for (const key of Object.keys(value)) visit(from, key, value[key], depth + 1);
    else if (name !== '') {
      const ofName = values.get(name) ?? new Map<string, string>();
      values.set(name, ofName);
      ofName.set(from, `${ofName.get(from) ?? ''} ${canonicalText(value)}`);
    }
  };
  for (const { name, value } of context.step.sources)
    if (name.startsWith('result:')) visit(name, '', value, 0);
  return [...values].flatMap(([name, ofName]) =>
    ofName.size > 1 && new Set(ofName.values()).size > 1 ? [`other ${name}`] : [],
  );
}

/**
 * Words, signs and differences of the steps, as columns: marks have no signs and no words of long texts. Left out are
 * columns that hold for fewer than three steps, and columns that hold for all steps or for all but one or two.
 */
function readTokenColumns(examples: readonly AnswerExample[]): MarkColumn[] {
  const columns = new Map<string, MarkColumn>();
  for (const [i, { context }] of examples.entries()) {
    const add = (token: string): void => {
      let column = columns.get(token);
      if (column === undefined) {
        if (columns.size >= TOKEN_COLUMNS) return;
        column = { key: 0, kind: TOKEN_KIND, has: new Uint8Array(examples.length), count: 0 };
        columns.set(token, column);
      }
      if (column.has[i] === 0) column.count++;
      column.has[i] = 1;
    };
    for (const difference of listDifferences(context)) add(difference);
    for (const token of listStepTokens(context.step)) add(token);
  }
  return [...columns.values()].filter(({ count }) => count >= 3 && count <= examples.length - 3);
}

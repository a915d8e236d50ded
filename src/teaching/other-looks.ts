/**
 * Finds golden answers that differ from the usual answer of their situation only in lookups: they look up something
 * besides, first, later, or with another tool. Such an answer is another way to the same result, so the usual answer is
 * right at its step, too. Pure; teaching.
 *
 * A run proves that its answer is such a way if it makes the usual calls at this step or later. If the run never makes
 * the usual lookup, two conditions must hold: enough runs do without the lookup, and nothing distinguishes these runs
 * from other runs, neither a mark of the step nor the tools with which the runs change something later.
 */

import { fillTemplate } from '../student/model/answer-template.ts';
import type { StudentBlock } from '../student/model/decision.ts';
import { differInLooks, type OtherLooks } from '../student/model/equivalence.ts';
import { canonicalText } from '../student/model/json-values.ts';
import { isLookCall, type ReadTools } from '../student/model/look-calls.ts';
import type { MarkColumn } from '../student/model/relevance.ts';
import type { AnswerClass, AnswerExample } from './answer-synthesis.ts';
import { canonicalCall, readLaterTools } from './later-calls.ts';
import { isSeparated } from './separation.ts';

/** Golden steps of one stage whose answers have labels. */
interface LabelledSteps {
  examples: readonly AnswerExample[];
  classes: readonly AnswerClass[];
  labels: readonly number[];
  /** The class of each step, −1 without one. Changed for the steps that are found. */
  ofStep: Int16Array;
  /** Steps of one situation have the same decisive marks. */
  situations: readonly string[];
  columns: readonly MarkColumn[];
  later(step: number): ReadonlySet<string>;
  final: ReadonlySet<string>;
  reads: ReadTools;
}

/**
 * If a different answer is another way to the same result, at least the share `share` of the runs with this answer make
 * the usual calls at once or later. The assumption is rejected if the number of runs that do is so small that it has a
 * probability below `chance`. So one exception among few runs is tolerated.
 */
const MADE = { share: 0.9, chance: 0.05 } as const;
/**
 * Minimum number of runs that do without the usual lookup. A lookup without arguments cannot look at the wrong thing, so
 * fewer runs are enough.
 */
const RUNS_WITHOUT = { usual: 4, no_arguments: 2 } as const;

/** A step with an answer that differs from the usual one only in lookups. */
interface OtherStep {
  step: number;
  /** The class of the usual answer. */
  usual: number;
  /** Tools of the lookups that differ. */
  tools: readonly string[];
  /** Whether the run makes all usual calls at this step or later. */
  is_made: boolean;
  /** Whether the usual calls that the run does not make have arguments. */
  has_arguments: boolean;
}

/**
 * Assigns steps whose answers differ from the usual one only in lookups.
 * @returns the tools of the lookups that differ, by label of the usual answer
 */
export function assignOtherLooks(stage: LabelledSteps): OtherLooks[] {
  const found = Map.groupBy(
    findOthers(stage),
    ({ usual, tools }) => `${stage.labels[usual]!} ${tools.toSorted().join('\n')}`,
  );
  const looks = new Map<number, Set<string>>();
  for (const others of found.values()) {
    const label = stage.labels[others[0]!.usual]!;
    const ofLabel = looks.get(label) ?? new Set();
    for (const { step, usual, tools } of acceptOthers(stage, label, others)) {
      stage.ofStep[step] = usual;
      for (const name of tools) ofLabel.add(name);
    }
    if (ofLabel.size > 0) looks.set(label, ofLabel);
  }
  return [...looks].map(([label, names]) => [label, [...names]]);
}

/**
 * Assigns golden answers that only look something up to as few classes as possible, before the marks get their worth.
 * Some agents look up the same things in another order in each run, or several at once, so that many classes of answers
 * share the steps of one stage. A class is right at a step if the run makes its calls there or later. The class that is
 * right at most steps comes first.
 * @returns the tools of the lookups that differ, by label of the class
 */
export function gatherLooks(stage: Omit<LabelledSteps, 'situations'>): OtherLooks[] {
  const { classes, labels, ofStep, final } = stage;
  let open = listLookSteps(stage);
  const candidates = [...classes.keys()].filter((c) => {
    const { calls } = classes[c]!.template;
    return calls.length > 0 && !calls.some(({ name }) => final.has(name));
  });
  const compared = new Map<number, Map<number, OtherStep | null>>();
  const looks = new Map<number, Set<string>>();
  while (open.length > 0) {
    const best = candidates
      .map((usual) => findGain(stage, usual, open, compared))
      .reduce<Gain | null>((a, b) => (a === null || isBetter(b, a, classes) ? b : a), null);
    if (best === null || best.others.length === 0) break;
    const label = labels[best.usual]!;
    const ofLabel = looks.get(label) ?? new Set();
    looks.set(label, ofLabel);
    for (const { step, usual, tools } of best.others) {
      ofStep[step] = usual;
      for (const name of tools) ofLabel.add(name);
    }
    open = open.filter((i) => ofStep[i]! < 0 || labels[ofStep[i]!] !== label);
  }
  return [...looks].map(([label, names]) => [label, [...names]]);
}

/** Counts the steps that {@link gatherLooks} would change, and changes none. */
export function countGatherable(stage: Omit<LabelledSteps, 'situations'>): number {
  const ofStep = stage.ofStep.slice();
  gatherLooks({ ...stage, ofStep });
  return ofStep.reduce((count, c, i) => count + (c === stage.ofStep[i] ? 0 : 1), 0);
}

/** The steps that a class would get. */
interface Gain {
  usual: number;
  /** Number of steps with the class's label, and of those that it would get. */
  steps: number;
  others: OtherStep[];
}

function isBetter(a: Gain, b: Gain, classes: readonly AnswerClass[]): boolean {
  if (a.others.length === 0 || b.others.length === 0) return a.others.length > b.others.length;
  if (a.steps !== b.steps) return a.steps > b.steps;
  return classes[a.usual]!.template.calls.length < classes[b.usual]!.template.calls.length;
}

/** Finds the steps at which a class is right, too. Steps with the same golden tools are accepted or refused together. */
function findGain(
  stage: Omit<LabelledSteps, 'situations'>,
  usual: number,
  open: readonly number[],
  compared: Map<number, Map<number, OtherStep | null>>,
): Gain {
  const { ofStep, labels, examples } = stage;
  const known = compared.get(usual) ?? new Map<number, OtherStep | null>();
  compared.set(usual, known);
  const own = open.filter((i) => ofStep[i]! >= 0 && labels[ofStep[i]!] === labels[usual]);
  const rest = open.filter((i) => ofStep[i]! < 0 || labels[ofStep[i]!] !== labels[usual]);
  const others: OtherStep[] = [];
  for (const steps of Map.groupBy(rest, (i) =>
    nameTools(examples[i]!.content as readonly StudentBlock[]),
  ).values()) {
    const found = steps.flatMap((step) => {
      let other = known.get(step);
      if (other === undefined) {
        other = compareAt(stage, usual, step);
        known.set(step, other);
      }
      return other ?? [];
    });
    const made = found.filter(({ is_made }) => is_made);
    if (isLikely(made.length, found.length)) others.push(...made);
  }
  return { usual, steps: own.length + others.length, others };
}

/** The steps whose golden answers make lookups, and no other calls. */
function listLookSteps({ examples, reads }: Omit<LabelledSteps, 'situations'>): number[] {
  return [...examples.keys()].filter((i) => {
    const calls = (examples[i]!.content as readonly StudentBlock[]).filter(
      ({ type }) => type === 'tool_call',
    );
    return calls.length > 0 && calls.every((block) => block.type === 'tool_call' && isLookCall(block, reads));
  });
}

function nameTools(content: readonly StudentBlock[]): string {
  return content
    .flatMap((block) => (block.type === 'tool_call' ? [block.name] : []))
    .sort()
    .join('\n');
}

function acceptOthers(
  stage: LabelledSteps,
  label: number,
  others: readonly OtherStep[],
): readonly OtherStep[] {
  const made = others.filter(({ is_made }) => is_made);
  if (isLikely(made.length, others.length)) return made;
  const without = others.filter(({ is_made }) => !is_made);
  return doWithout(stage, label, without) ? others : [];
}

/**
 * Whether the assumption of {@link MADE} holds for an answer.
 * @param made number of steps whose run makes the usual calls; at least one must
 * @param of number of all steps with the answer
 */
export function isLikely(made: number, of: number): boolean {
  let chance = 0;
  let ways = 1;
  for (let count = 0; count <= made; count++) {
    chance += ways * MADE.share ** count * (1 - MADE.share) ** (of - count);
    ways = (ways * (of - count)) / (count + 1);
  }
  return made > 0 && chance >= MADE.chance;
}

/** Whether enough runs leave the usual lookup out, and nothing distinguishes these runs from those that make it. */
function doWithout(stage: LabelledSteps, label: number, without: readonly OtherStep[]): boolean {
  const hasArguments = without.some(({ has_arguments }) => has_arguments);
  if (countRuns(stage, without) < RUNS_WITHOUT[hasArguments ? 'usual' : 'no_arguments']) return false;
  const { ofStep, labels } = stage;
  const usual = [...ofStep.keys()].filter((i) => ofStep[i]! >= 0 && labels[ofStep[i]!] === label);
  const steps = without.map(({ step }) => step);
  return !isSeparated(stage.columns, usual, steps) && !isSeparated(readLaterTools(stage), usual, steps, 0);
}

function countRuns({ examples }: LabelledSteps, others: readonly OtherStep[]): number {
  return new Set(others.map(({ step }) => examples[step]!.run_id)).size;
}

/** The steps whose answers differ in lookups from the usual answer of their situation. */
function findOthers(stage: LabelledSteps): OtherStep[] {
  const { examples, ofStep, labels } = stage;
  const found: OtherStep[] = [];
  for (const steps of Map.groupBy(examples.keys(), (i) => stage.situations[i]!).values()) {
    const usual = findUsual(stage, steps);
    if (usual === null) continue;
    for (const step of steps) {
      if (ofStep[step]! >= 0 && labels[ofStep[step]!] === labels[usual]) continue;
      const other = compareAt(stage, usual, step);
      if (other !== null) found.push(other);
    }
  }
  return found;
}

/**
 * Finds the usual answer of steps: the most frequent class of their most frequent label.
 * @returns null if answers without a class are more frequent, if only one step has the label, or if the class makes no
 *   call or calls a final tool
 */
function findUsual(
  { classes, ofStep, labels, final }: LabelledSteps,
  steps: readonly number[],
): number | null {
  const ofClass = Map.groupBy(steps, (i) => ofStep[i]!);
  const ofLabel = Map.groupBy(steps, (i) => (ofStep[i]! < 0 ? -1 : labels[ofStep[i]!]!));
  const [label, most] = [...ofLabel].reduce((a, b) => (b[1].length > a[1].length ? b : a));
  if (label < 0 || most.length < 2) return null;
  const [usual] = [...ofClass]
    .filter(([c]) => c >= 0 && labels[c] === label)
    .reduce((a, b) => (b[1].length > a[1].length ? b : a));
  const { calls } = classes[usual]!.template;
  return calls.length === 0 || calls.some(({ name }) => final.has(name)) ? null : usual;
}

function compareAt(
  { classes, examples, later, reads }: Pick<LabelledSteps, 'classes' | 'examples' | 'later' | 'reads'>,
  usual: number,
  step: number,
): OtherStep | null {
  const { context, content } = examples[step]!;
  const filled = fillTemplate(classes[usual]!.template, context);
  if (typeof filled === 'string') return null;
  const given = filled.value;
  const golden = content as readonly StudentBlock[];
  const tools = differInLooks(given, golden, reads);
  if (tools === null) return null;
  const made = new Set([...callsOf(golden), ...later(step)]);
  const missing = given.filter((block) => block.type === 'tool_call' && !made.has(canonicalCall(block)));
  const has_arguments = missing.some(
    (block) => block.type === 'tool_call' && canonicalText(block.input) !== NO_ARGUMENTS,
  );
  return { step, usual, tools, is_made: missing.length === 0, has_arguments };
}

const NO_ARGUMENTS = canonicalText({});

function callsOf(content: readonly StudentBlock[]): string[] {
  return content.flatMap((block) => (block.type === 'tool_call' ? [canonicalCall(block)] : []));
}

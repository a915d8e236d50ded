/**
 * Fits a student on golden steps. Pure; analysis.
 *
 * Golden steps are sorted by agent (model, tools, settings, system prompt without what changes in it) and by stage (what
 * the step answers). In each such group: the answers become classes with a template each (answer-synthesis.ts); the marks
 * that tell which class follows get their worth (relevance.ts) and are the dimensions of the step's vector; equal
 * vectors become one prototype.
 */

import { STUDENT_CORE } from '../../limits.ts';
import { comparablesAgree, readComparable } from './agreement.ts';
import type { AnswerDigest } from './answer.ts';
import { type AnswerClass, type AnswerExample, synthesizeAnswers } from './answer-synthesis.ts';
import { type AnswerTemplate, fillTemplate } from './answer-template.ts';
import type { StudentBlock } from './decision.ts';
import { StepContext } from './extraction.ts';
import { hashString } from './json-values.ts';
import { learnNovelty } from './novelty.ts';
import { visitNumbers } from './number-places.ts';
import { keyOfRelation, learnRelations, RELATION_KIND } from './number-relations.ts';
import { learnFixedValues } from './prompt-values.ts';
import { CHANCE, type MarkColumn, weighMarks } from './relevance.ts';
import type { StepDigest } from './step.ts';
import { MARK } from './step-marks.ts';
import {
  EACH_ITEM,
  keyOfMark,
  keyOfSentence,
  NUMBER_KIND,
  type NumberRange,
  type NumberRelation,
  type NumberSplit,
  type Prototype,
  type StageMemory,
  type StudentAgent,
  type StudentModel,
  SYSTEM_KIND,
} from './student-model.ts';

/** A golden step. */
export interface LearnedStep {
  /** Steps of one run never vouch for each other. */
  run_id: string;
  step: StepDigest;
  answer: AnswerDigest;
  /** Where the step was captured; left out where it was not. */
  exchange_id?: number;
}

export interface FitOptions {
  /** Golden runs that must stand behind an answer; 2 when left out. */
  support_min?: number;
  /** Of whatever is drawn by lot; 1 when left out. */
  seed?: number;
  /** Stages of which no template explains an answer are kept, too: a service may have the answers. */
  keeps_unexplained?: boolean;
}

/** System prompts that share this much are one agent's. */
const SAME_PROMPT = 0.5;
/** Share of the vector for what all golden steps have. */
const COMMON_SHARE = 0.2;
const COMMON_MARKS = 24;

/** Deterministic: the same steps in the same order give the same model. */
export function fitStudent(steps: readonly LearnedStep[], options: FitOptions = {}): StudentModel {
  const supportMin = Math.max(1, options.support_min ?? 2);
  const taken = takeSteps(steps);
  const agents: StudentAgent[] = [];
  let groups = 0;
  for (const { scope, parts } of partByScope(taken)) {
    for (const [part, members] of parts.entries()) {
      const agent = learnAgent(scope, part, members);
      const stages = new Map<string, LearnedStep[]>();
      for (const one of members) {
        const list = stages.get(one.step.stage);
        if (list === undefined) stages.set(one.step.stage, [one]);
        else list.push(one);
      }
      for (const [stage, ofStage] of stages) {
        if (groups >= STUDENT_CORE.groups) break;
        const group = fitGroup(
          stage,
          ofStage.slice(-STUDENT_CORE.group_steps),
          agent,
          supportMin,
          options.seed ?? 1,
          options.keeps_unexplained === true,
        );
        if (group === null) continue;
        groups++;
        agent.stages.push(group);
      }
      if (agent.stages.length > 0) agents.push(agent);
    }
  }
  return {
    format: 'svc_student_model_v1',
    support_min: supportMin,
    runs: new Set(taken.map(({ run_id }) => run_id)).size,
    steps: taken.length,
    groups: agents.map((agent) => ({ ...agent })),
  };
}

function takeSteps(steps: readonly LearnedStep[]): LearnedStep[] {
  return steps.slice(-STUDENT_CORE.steps).filter(({ step }) => step.unsupported === '');
}

function partByScope(steps: readonly LearnedStep[]): { scope: string; parts: LearnedStep[][] }[] {
  const scopes = new Map<string, LearnedStep[]>();
  for (const one of steps) {
    const list = scopes.get(one.step.scope);
    if (list === undefined) scopes.set(one.step.scope, [one]);
    else list.push(one);
  }
  return [...scopes].map(([scope, its]) => ({ scope, parts: partByPrompt(its) }));
}

function nameOf(scope: string, part: number): string {
  return part === 0 ? scope : `${scope}.${part}`;
}

/**
 * Whose each step is. The names are those of the agents in the model that {@link fitStudent} makes of the same steps;
 * steps that it does not learn from have none.
 */
export function nameAgents(steps: readonly LearnedStep[]): Map<LearnedStep, string> {
  const names = new Map<LearnedStep, string>();
  for (const { scope, parts } of partByScope(takeSteps(steps)))
    for (const [part, members] of parts.entries())
      for (const one of members) names.set(one, nameOf(scope, part));
  return names;
}

/**
 * The model with what each agent's steps may score at most, by kind of answer where kinds are given: then other kinds are not
 * served. Agents that are not named have no limit.
 */
export function limitAgents(
  model: StudentModel,
  agents: readonly {
    agent: string;
    threshold: number;
    kinds?: readonly { kind: string; threshold: number }[];
  }[],
): StudentModel {
  const limits = new Map(agents.map((one) => [one.agent, one]));
  return {
    ...model,
    groups: model.groups.map((group) => {
      const its = limits.get((group as unknown as StudentAgent).name);
      if (its === undefined) return group;
      const limited = { ...group, limit: its.threshold };
      if (its.kinds === undefined) return limited;
      const served = its.kinds.filter(({ threshold }) => threshold >= 0);
      return { ...limited, kinds: served.map(({ kind, threshold }) => [kind, threshold]) };
    }),
  };
}

/** Parts steps of one scope whose system prompts have little in common. */
function partByPrompt(steps: readonly LearnedStep[]): LearnedStep[][] {
  const parts: { prompt: Set<number>; members: LearnedStep[] }[] = [];
  for (const one of steps) {
    const prompt = new Set(one.step.system);
    let part = parts.find(({ prompt: other }) => overlap(prompt, other) >= SAME_PROMPT);
    if (part === undefined) {
      part = { prompt, members: [] };
      parts.push(part);
    }
    part.members.push(one);
  }
  return parts.map(({ members }) => members);
}

function overlap(a: ReadonlySet<number>, b: ReadonlySet<number>): number {
  if (a.size + b.size === 0) return 1;
  let common = 0;
  for (const value of a) if (b.has(value)) common++;
  return common / (a.size + b.size - common);
}

function learnAgent(scope: string, part: number, members: readonly LearnedStep[]): StudentAgent {
  const steps = new Map<number, number>();
  const runs = new Map<number, Set<string>>();
  for (const { run_id, step } of members) {
    for (const sentence of new Set(step.system)) {
      steps.set(sentence, (steps.get(sentence) ?? 0) + 1);
      const its = runs.get(sentence);
      if (its === undefined) runs.set(sentence, new Set([run_id]));
      else its.add(run_id);
    }
  }
  const known: number[] = [];
  const core: number[] = [];
  for (const [sentence, count] of steps) {
    if (count >= 0.98 * members.length) core.push(sentence);
    else if (runs.get(sentence)!.size > 1) known.push(sentence);
  }
  const isCore = new Set(core);
  let changing = 0;
  for (const { step } of members) {
    let count = 0;
    for (const sentence of new Set(step.system)) if (!isCore.has(sentence)) count++;
    changing = Math.max(changing, count);
  }
  const breaches = [...new Set(members.flatMap(({ step }) => step.breaches))];
  const fixed = learnFixedValues(members.map(({ run_id, step }) => ({ run_id, values: step.values ?? [] })));
  return {
    scope,
    name: nameOf(scope, part),
    core,
    known,
    fixed,
    breaches,
    changing_max: changing,
    stages: [],
  };
}

/** @returns null where fewer than `supportMin` runs support anything */
function fitGroup(
  stage: string,
  steps: readonly LearnedStep[],
  agent: StudentAgent,
  supportMin: number,
  seed: number,
  keepsUnexplained: boolean,
): StageMemory | null {
  const runs = new Set(steps.map(({ run_id }) => run_id)).size;
  if (runs < supportMin) return null;
  const examples: AnswerExample[] = steps.map(({ run_id, step, answer }) => ({
    run_id,
    context: new StepContext(step),
    content: answer.content,
  }));
  const sampled = sample(examples.length, STUDENT_CORE.examples);
  const found = synthesizeAnswers(
    sampled.map((i) => examples[i]!),
    supportMin,
  );
  if (found.length === 0 && !keepsUnexplained) return null;
  const classes = found.map((one) => ({ ...one, members: one.members.map((place) => sampled[place]!) }));
  const answers = examples.map(({ content }) => readComparable({ content: content as StudentBlock[] }));
  const agrees = (c: number, i: number): boolean => {
    const filled = fillTemplate(classes[c]!.template, examples[i]!.context);
    return (
      typeof filled !== 'string' && comparablesAgree(readComparable({ content: filled.value }), answers[i]!)
    );
  };
  const labels = joinClasses(classes, agrees);
  const ofStep = assignClasses(classes, labels, examples.length, agrees);
  const labelCount = Math.max(-1, ...labels) + 1;
  // Answers that no template explains are one label of their own.
  const targets = Uint16Array.from(ofStep, (c) => (c < 0 ? labelCount : labels[c]!));
  const { columns, splits, relations } = makeColumns(steps, targets, labelCount + 1, agent);
  const worths = weighMarks(columns, targets, labelCount + 1, seed);
  const { dimensions, worth } = chooseDimensions(columns, worths, steps.length);
  const decisive = new Set<number>();
  for (const { step } of steps)
    for (let m = 0; m < step.marks.length; m += 3) {
      const at = dimensions.indexOf(keyOfMark(step.marks, m));
      if (at >= 0 && worths[columns.findIndex(({ key }) => key === dimensions[at])]! > 0.02)
        decisive.add(step.marks[m + 1]!);
    }
  const tells = findTells(columns, targets, labelCount, listKeysAt(steps, decisive));
  const byKey = new Map(columns.map((column) => [column.key, column]));
  const prototypes = makePrototypes(
    steps,
    ofStep,
    dimensions.map((key) => byKey.get(key)!.has),
  );
  // Of streams whose clients did not ask for it, nobody knows what they took.
  const isTold = ({ answer }: LearnedStep): boolean => answer.input_tokens > 0;
  const told = steps.filter(isTold);
  const mean = (values: readonly number[]): number =>
    values.length === 0 ? 0 : Math.round(values.reduce((sum, value) => sum + value, 0) / values.length);
  return {
    stage,
    runs,
    steps: steps.length,
    input_tokens: mean(told.map(({ answer }) => answer.input_tokens)),
    cache_read_tokens: mean(told.map(({ answer }) => answer.cache_read_tokens ?? 0)),
    cache_write_tokens: mean(told.map(({ answer }) => answer.cache_write_tokens ?? 0)),
    classes: classes.map(({ template, runs: its, members }, c) => ({
      template,
      label: labels[c]!,
      runs: its,
      output_tokens: mean(
        members.flatMap((i) => (isTold(steps[i]!) ? [steps[i]!.answer.output_tokens] : [])),
      ),
    })),
    dimensions,
    worth,
    splits: splits.filter(({ key }) => dimensions.includes(key)),
    ranges: measureRanges(steps),
    relations: relations.filter((one) => one.always !== null || isAsked(one, dimensions, tells)),
    tells,
    denials: listDenials(steps, targets, runs),
    prototypes,
    novelty: learnNovelty(
      steps.map(({ run_id, step }) => ({ run_id, marks: step.marks })),
      decisive,
    ),
  };
}

/** Whether what a comparison says goes into anything. */
function isAsked(
  relation: NumberRelation,
  dimensions: readonly number[],
  tells: readonly [number, number][],
): boolean {
  const keys = [-1, 0, 1].map((way) => keyOfRelation(relation, way));
  return keys.some((key) => dimensions.includes(key) || tells.some(([told]) => told === key));
}

/** Evenly spread places. */
function sample(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: most }, (_, i) => Math.floor((i * count) / most));
}

const COMPARED = 8;
const SAME_LABEL = 0.85;

/** Classes that say the same in other words are one label. */
function joinClasses(classes: readonly AnswerClass[], agrees: (c: number, i: number) => boolean): number[] {
  const parent = classes.map((_, c) => c);
  const root = (c: number): number => (parent[c] === c ? c : root(parent[c]!));
  const share = (c: number, members: readonly number[]): number => {
    const chosen = sample(members.length, COMPARED).map((place) => members[place]!);
    return chosen.filter((i) => agrees(c, i)).length / chosen.length;
  };
  for (let a = 0; a < classes.length; a++)
    for (let b = a + 1; b < classes.length; b++) {
      if (root(a) === root(b) || !sameCalls(classes[a]!.template, classes[b]!.template)) continue;
      if (share(a, classes[b]!.members) >= SAME_LABEL && share(b, classes[a]!.members) >= SAME_LABEL)
        parent[root(b)] = root(a);
    }
  const numbers = new Map<number, number>();
  return classes.map((_, c) => {
    const its = root(c);
    if (!numbers.has(its)) numbers.set(its, numbers.size);
    return numbers.get(its)!;
  });
}

function sameCalls(a: AnswerTemplate, b: AnswerTemplate): boolean {
  return a.calls.length === b.calls.length && a.calls.every(({ name }, i) => name === b.calls[i]!.name);
}

/** @returns the class of each step; −1: none */
function assignClasses(
  classes: readonly AnswerClass[],
  labels: readonly number[],
  count: number,
  agrees: (c: number, i: number) => boolean,
): Int16Array {
  const ofStep = new Int16Array(count).fill(-1);
  for (const [c, { members }] of classes.entries()) for (const i of members) ofStep[i] = c;
  for (let i = 0; i < count; i++) {
    if (ofStep[i]! >= 0) continue;
    // Not looked at, or said in words of its own: the first class that agrees.
    const agreeing = classes.findIndex((_, c) => agrees(c, i));
    ofStep[i] = agreeing;
  }
  void labels;
  return ofStep;
}

function makeColumns(
  steps: readonly LearnedStep[],
  targets: Uint16Array,
  classes: number,
  agent: StudentAgent,
): { columns: MarkColumn[]; splits: NumberSplit[]; relations: NumberRelation[] } {
  const known = new Set(agent.known);
  const splits = splitNumbers(steps, targets, classes);
  const relations = learnRelations(steps.map(({ step }) => step));
  const visitKeys = (visit: (key: number, kind: number, i: number) => void): void => {
    for (const [i, { step }] of steps.entries()) {
      for (let m = 0; m < step.marks.length; m += 3) visit(keyOfMark(step.marks, m), step.marks[m]!, i);
      for (const sentence of step.system)
        if (known.has(sentence)) visit(keyOfSentence(sentence), SYSTEM_KIND, i);
    }
    for (const { split, has } of splits)
      for (const [i, its] of has.entries()) if (its === 1) visit(split.key, NUMBER_KIND, i);
    for (const { relation, ways } of relations) {
      if (relation.always !== null) continue;
      for (const [i, way] of ways.entries())
        if (way !== 2) visit(keyOfRelation(relation, way), RELATION_KIND, i);
    }
  };
  // Most marks are of one run alone, such as ids: a column for each of them would take more memory than all the rest.
  const onlyRuns = new Map<number, string | null>();
  visitKeys((key, _kind, i) => {
    const { run_id } = steps[i]!;
    const only = onlyRuns.get(key);
    if (only === undefined) onlyRuns.set(key, run_id);
    else if (only !== run_id) onlyRuns.set(key, null);
  });
  const columns = new Map<number, MarkColumn>();
  visitKeys((key, kind, i) => {
    if (onlyRuns.get(key) !== null) return;
    let column = columns.get(key);
    if (column === undefined) {
      column = { key, kind, has: new Uint8Array(steps.length), count: 0 };
      columns.set(key, column);
    }
    if (column.has[i] === 0) column.count++;
    column.has[i] = 1;
  });
  return {
    columns: [...columns.values()],
    splits: splits.map(({ split }) => split),
    relations: relations.map(({ relation }) => relation),
  };
}

const RANGES = 60;
const RANGE_STEPS = 8;

/** Of fewer numbers nobody knows how far they reach; of as many pairs one sees whether they grow from run to run. */
const SLACK_NUMBERS = 20;
const GROWING = 0.8;
const RANGE_NUMBERS = 400;

interface SeenRange {
  from: string;
  path: string[];
  least: number;
  most: number;
  count: number;
  latest: StepDigest;
  /** In the order of the runs; at most {@link RANGE_NUMBERS}. */
  values: number[];
}

function measureRanges(steps: readonly LearnedStep[]): NumberRange[] {
  const ranges = new Map<string, SeenRange>();
  for (const { step } of steps)
    visitNumbers(step, ({ from, path }, value) => {
      const id = JSON.stringify([from, path]);
      const range = ranges.get(id);
      if (range === undefined) {
        if (ranges.size < 200)
          ranges.set(id, { from, path, least: value, most: value, count: 1, latest: step, values: [value] });
        return;
      }
      range.least = Math.min(range.least, value);
      range.most = Math.max(range.most, value);
      if (range.latest !== step) range.count++;
      range.latest = step;
      if (range.values.length < RANGE_NUMBERS) range.values.push(value);
    });
  return [...ranges.values()]
    .filter(({ count }) => count >= RANGE_STEPS)
    .slice(0, RANGES)
    .map((range) => {
      const { from, path, least, most } = range;
      const slack = measureSlack(range);
      return slack === null ? { from, path, least, most } : { from, path, least, most, slack };
    });
}

/**
 * A threshold that golden runs came near from one side alone lies beyond their numbers. How far numbers reach beyond what was seen
 * is told by how far they reach from their middle.
 * @returns null where numbers grow from run to run, and where there are too few
 */
function measureSlack({ values, least, most }: SeenRange): [number, number] | null {
  if (values.length < SLACK_NUMBERS || isGrowing(values)) return null;
  const median = values.toSorted((a, b) => a - b)[values.length >> 1]!;
  const half = (most - least) / 2;
  return [Math.max(half, median - least), Math.max(half, most - median)];
}

function isGrowing(values: readonly number[]): boolean {
  const half = values.length >> 1;
  let up = 0;
  for (let i = 0; i < half; i++) if (values[i]! < values[i + half]!) up++;
  return up >= GROWING * half;
}

/** Where a number of a result parts what is answered: one or two thresholds a place. */
function splitNumbers(
  steps: readonly LearnedStep[],
  targets: Uint16Array,
  classes: number,
): { split: NumberSplit; has: Uint8Array }[] {
  if (classes < 2 || targets.every((target) => target === targets[0])) return [];
  const places = new Map<string, { from: string; path: string[]; values: [number, number][] }>();
  for (const [i, { step }] of steps.entries())
    visitNumbers(step, ({ from, path }, value) => {
      // Of several numbers nobody knows which one it is that decides.
      if (path.includes(EACH_ITEM)) return;
      const id = JSON.stringify([from, path]);
      const place = places.get(id);
      if (place !== undefined) place.values.push([value, i]);
      else if (places.size < 200) places.set(id, { from, path, values: [[value, i]] });
    });
  const found: { split: NumberSplit; has: Uint8Array }[] = [];
  for (const [id, { from, path, values }] of places) {
    if (values.length < 8) continue;
    values.sort((a, b) => a[0] - b[0]);
    const cut = (lo: number, hi: number, depth: number): void => {
      const at = findCut(values, targets, classes, lo, hi);
      if (at < 0) return;
      const has = new Uint8Array(steps.length);
      for (let v = at; v < values.length; v++) has[values[v]![1]] = 1;
      const key = NUMBER_KIND * 0x1_0000_0000 + hashString(`${id} ${values[at]![0]}`);
      found.push({ split: { key, from, path, below: values[at - 1]![0], above: values[at]![0] }, has });
      if (depth < 1) {
        cut(lo, at, depth + 1);
        cut(at, hi, depth + 1);
      }
    };
    cut(0, values.length, 0);
  }
  return found;
}

/** @returns place of the first value above the best threshold, −1 for none */
function findCut(
  values: readonly (readonly [number, number])[],
  targets: Uint16Array,
  classes: number,
  lo: number,
  hi: number,
): number {
  const n = hi - lo;
  if (n < 6) return -1;
  const right = new Int32Array(classes);
  const left = new Int32Array(classes);
  for (let v = lo; v < hi; v++) right[targets[values[v]![1]]!]!++;
  const xlogx = (x: number): number => (x > 1 ? x * Math.log(x) : 0);
  let whole = xlogx(n);
  for (const count of right) whole -= xlogx(count);
  let best = -1;
  let bestGain = 8 + 2 * Math.log(n);
  for (let v = lo; v < hi - 1; v++) {
    const target = targets[values[v]![1]]!;
    left[target]!++;
    right[target]!--;
    if (values[v]![0] === values[v + 1]![0]) continue;
    let parts = xlogx(v + 1 - lo) + xlogx(hi - v - 1);
    for (let c = 0; c < classes; c++) parts -= xlogx(left[c]!) + xlogx(right[c]!);
    const gain = 2 * (whole - parts);
    if (gain > bestGain) {
      bestGain = gain;
      best = v + 1;
    }
  }
  return best;
}

function listDenials(
  steps: readonly LearnedStep[],
  targets: Uint16Array,
  runs: number,
): [number, number[]][] {
  const byLabel = new Map<number, Set<number>>();
  const all = new Set<number>();
  for (const [i, { step }] of steps.entries()) {
    let its = byLabel.get(targets[i]!);
    if (its === undefined) {
      its = new Set();
      byLabel.set(targets[i]!, its);
    }
    for (let m = 0; m < step.marks.length; m += 3) {
      if (step.marks[m] !== MARK.denial) continue;
      its.add(keyOfMark(step.marks, m));
      all.add(keyOfMark(step.marks, m));
    }
  }
  return all.size > runs / 2 ? [] : [...byLabel].map(([label, keys]) => [label, [...keys]]);
}

const TELLS = 400;
const TELL_STEPS = 3;
const DECISIVE_GAIN = 3;

/** Marks of fields that stand at these places. */
function listKeysAt(steps: readonly LearnedStep[], places: ReadonlySet<number>): Set<number> {
  const keys = new Set<number>();
  for (const { step } of steps)
    for (let m = 0; m < step.marks.length; m += 3)
      if (step.marks[m]! <= MARK.earlier && places.has(step.marks[m + 1]!))
        keys.add(keyOfMark(step.marks, m));
  return keys;
}

/**
 * Marks of which all steps that have them say the same, more often than chance would have it. A rare one (a flag that
 * stops everything) weighs little in the vector, where what parts most of the steps counts most.
 */
function findTells(
  columns: readonly MarkColumn[],
  targets: Uint16Array,
  labelCount: number,
  decisiveKeys: ReadonlySet<number>,
): [number, number][] {
  const counts = new Int32Array(labelCount + 1);
  for (const target of targets) counts[target]!++;
  const perKind = new Map<number, number>();
  for (const { kind } of columns) perKind.set(kind, (perKind.get(kind) ?? 0) + 1);
  const found: { key: number; label: number; gain: number }[] = [];
  for (const { key, kind, has, count } of columns) {
    const isDecisive = decisiveKeys.has(key);
    if (count < (isDecisive ? 2 : TELL_STEPS)) continue;
    let label = -1;
    let isPure = true;
    for (let i = 0; i < has.length && isPure; i++) {
      if (has[i] === 0) continue;
      if (label < 0) label = targets[i]!;
      else isPure = targets[i] === label;
    }
    if (!isPure) continue;
    const gain = -2 * count * Math.log(counts[label]! / targets.length);
    // Where other values decide, one more that seems to is hardly chance.
    if (gain < (isDecisive ? DECISIVE_GAIN : CHANCE + 2 * Math.log(perKind.get(kind)!))) continue;
    found.push({ key, label: label === labelCount ? -1 : label, gain });
  }
  return found
    .sort((a, b) => b.gain - a.gain || a.key - b.key)
    .slice(0, TELLS)
    .map(({ key, label }) => [key, label]);
}

/** The marks that are worth most, and some that nearly all steps have. */
function chooseDimensions(
  columns: readonly MarkColumn[],
  worths: Float64Array,
  steps: number,
): { dimensions: number[]; worth: number[] } {
  const telling = columns
    .map(({ key }, i) => ({ key, worth: worths[i]! }))
    .filter(({ worth }) => worth > 0)
    .sort((a, b) => b.worth - a.worth || a.key - b.key)
    .slice(0, STUDENT_CORE.dimensions - COMMON_MARKS - 1);
  const tellingSum = telling.reduce((sum, { worth }) => sum + worth, 0);
  const chosen = new Set(telling.map(({ key }) => key));
  const common = columns
    .filter(({ key, count, kind }) => !chosen.has(key) && kind !== NUMBER_KIND && count >= 0.95 * steps)
    .sort((a, b) => a.kind - b.kind || a.key - b.key)
    .slice(0, COMMON_MARKS);
  const commonShare = tellingSum === 0 ? 1 : COMMON_SHARE;
  const dimensions: number[] = [];
  const worth: number[] = [];
  for (const one of telling) {
    dimensions.push(one.key);
    worth.push(((1 - commonShare) * one.worth) / tellingSum);
  }
  for (const { key } of common) {
    dimensions.push(key);
    worth.push(commonShare / common.length);
  }
  return { dimensions, worth };
}

function makePrototypes(
  steps: readonly LearnedStep[],
  ofStep: Int16Array,
  columns: readonly Uint8Array[],
): Prototype[] {
  const prototypes = new Map<string, { marks: number[]; votes: Map<number, Set<string>>; example: number }>();
  for (const [i, { run_id, exchange_id = 0 }] of steps.entries()) {
    const marks: number[] = [];
    for (const [d, has] of columns.entries()) if (has[i] === 1) marks.push(d);
    const id = marks.join(' ');
    let prototype = prototypes.get(id);
    if (prototype === undefined) {
      prototype = { marks, votes: new Map(), example: 0 };
      prototypes.set(id, prototype);
    }
    prototype.example = Math.max(prototype.example, exchange_id);
    const votes = prototype.votes.get(ofStep[i]!);
    if (votes === undefined) prototype.votes.set(ofStep[i]!, new Set([run_id]));
    else votes.add(run_id);
  }
  const weight = ({ votes }: { votes: Map<number, Set<string>> }): number => {
    let sum = 0;
    for (const runs of votes.values()) sum += runs.size;
    return sum;
  };
  return [...prototypes.values()]
    .sort((a, b) => weight(b) - weight(a))
    .slice(0, STUDENT_CORE.prototypes)
    .map(({ marks, votes, example }) => ({
      marks,
      votes: [...votes].map(([c, runs]) => [c, runs.size]),
      ...(example === 0 ? {} : { example }),
    }));
}

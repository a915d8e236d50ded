/**
 * Fits a student on golden steps. Pure; teaching.
 *
 * Golden steps are grouped by agent (model, tools, settings, system prompt without its changing parts) and by
 * stage (what the step answers). In each group, the answers become classes with a template each (answer-synthesis.ts).
 * The marks that determine the class get a worth (relevance.ts), and are the dimensions of the step's vector. Equal
 * vectors become one prototype.
 */

import { StepContext } from '../student/model/extraction.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import type { ReadTools } from '../student/model/look-calls.ts';
import { learnNovelty } from '../student/model/novelty.ts';
import { visitNumbers } from '../student/model/number-places.ts';
import { keyOfRelation, learnRelations, RELATION_KIND } from '../student/model/number-relations.ts';
import { shareOfAlike } from '../student/model/prompt-pattern.ts';
import type { PromptText } from '../student/model/prompt-text.ts';
import { learnFixedValues } from '../student/model/prompt-values.ts';
import { CHANCE, type MarkColumn, weighMarks } from '../student/model/relevance.ts';
import type { StepDigest } from '../student/model/step.ts';
import { MARK } from '../student/model/step-marks.ts';
import {
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
} from '../student/model/student-model.ts';
import { type AnswerExample, synthesizeAnswers } from './answer-synthesis.ts';
import { labelAnswers } from './equivalent-answers.ts';
import { findFinalTools } from './final-tools.ts';
import { findFreeArguments } from './free-arguments.ts';
import { findIdPlaces, nameOfPlace } from './id-places.ts';
import { canonicalCall } from './later-calls.ts';
import { type NumberColumn, readNumberColumns, splitNumbers } from './number-splits.ts';
import { assignOtherLooks, countGatherable, gatherLooks } from './other-looks.ts';
import { learnTemplate } from './prompt-template-fit.ts';

export interface FitOptions {
  /** Golden runs that must support an answer; default 2. */
  support_min?: number;
  /** Seed of every random draw; default 1. */
  seed?: number;
  /** Whether to keep stages whose answers no template explains, because a service may have the answers. */
  keeps_unexplained?: boolean;
  /** Names of the agents whose lookups may come in any order (`gatherLooks`); default: none. */
  gathers?: ReadonlySet<string>;
  /** Called for each stage of another agent with the number of steps that `gatherLooks` would change. */
  onGatherable?: (agent: string, steps: number) => void;
  /** Called for each stage that the model has. */
  onStage?: (stage: SituatedSteps) => void;
}

/** Minimum share that the system prompts of one agent have in common. */
const SAME_PROMPT = 0.5;
/**
 * Maximum number of parts of a scope with which a prompt is compared word by word, if it shares few whole sentences.
 */
const PARTS_READ = 50;
/**
 * Share of the total worth for common marks, which nearly all golden steps have. If no mark tells the answer, the
 * common marks get all of the worth.
 */
const COMMON_SHARE = 0.2;
/** Maximum number of common marks. */
const COMMON_MARKS = 24;

/** Fits a student. The same steps in the same order, with the same options, always give the same model. */
export function fitStudent(steps: readonly LearnedStep[], options: FitOptions = {}): StudentModel {
  const supportMin = Math.max(1, options.support_min ?? 2);
  const taken = takeSteps(steps);
  const agents: StudentAgent[] = [];
  for (const { agent, stage, ofStage, found } of fitStages(taken, supportMin, options)) {
    if (agents.at(-1) !== agent) agents.push(agent);
    agent.stages.push(found.memory);
    const { targets: labels, situations } = found;
    options.onStage?.({ agent: agent.name, stage, steps: ofStage, labels, situations });
  }
  return {
    format: 'svc_student_model_v2',
    support_min: supportMin,
    runs: new Set(taken.map(({ run_id }) => run_id)).size,
    steps: taken.length,
    groups: agents.map((agent) => ({ ...agent })),
  };
}

/** The steps of one stage, with the label of each answer and the situation of each step. */
export interface SituatedSteps {
  agent: string;
  stage: string;
  steps: readonly LearnedStep[];
  labels: ArrayLike<number>;
  /** Steps of one situation have the same decisive marks. */
  situations: readonly string[];
}

/** Fits each stage of each agent. */
function* fitStages(
  taken: readonly LearnedStep[],
  supportMin: number,
  { seed = 1, keeps_unexplained = false, gathers, onGatherable }: FitOptions,
): Generator<{ agent: StudentAgent; stage: string; ofStage: LearnedStep[]; found: FittedGroup }> {
  let groups = 0;
  for (const { scope, parts } of partByScope(taken)) {
    for (const [part, members] of parts.entries()) {
      const agent = learnAgent(scope, part, members);
      const isGathered = gathers?.has(agent.name) === true;
      const gathering = isGathered ? 'do' : onGatherable === undefined ? 'no' : 'count';
      const story = { ...readStory(members), gathering } as const;
      const stages = new Map<string, LearnedStep[]>();
      for (const member of members) {
        const list = stages.get(member.step.stage);
        if (list === undefined) stages.set(member.step.stage, [member]);
        else list.push(member);
      }
      for (const [stage, all] of stages) {
        if (groups >= STUDENT_CORE.groups) break;
        const ofStage = all.slice(-STUDENT_CORE.group_steps);
        const found = fitGroup(stage, ofStage, agent, supportMin, seed, keeps_unexplained, story);
        if (found === null) continue;
        groups++;
        if (found.gatherable > 0) onGatherable?.(agent.name, found.gatherable);
        yield { agent, stage, ofStage, found };
      }
    }
  }
}

/** A stage's memory, and what it was made of: the label of each step, and the marks that distinguish it. */
interface FittedGroup {
  memory: StageMemory;
  targets: Uint16Array;
  situations: string[];
  /** Number of steps that `gatherLooks` would change; 0 if that was not asked for. */
  gatherable: number;
}

function takeSteps(steps: readonly LearnedStep[]): LearnedStep[] {
  return steps.slice(-STUDENT_CORE.steps).filter(({ step }) => step.unsupported === '');
}

function partByScope(steps: readonly LearnedStep[]): { scope: string; parts: LearnedStep[][] }[] {
  const scopes = new Map<string, LearnedStep[]>();
  for (const step of steps) {
    const list = scopes.get(step.step.scope);
    if (list === undefined) scopes.set(step.step.scope, [step]);
    else list.push(step);
  }
  return [...scopes].map(([scope, scopeSteps]) => ({ scope, parts: partByPrompt(scopeSteps) }));
}

function nameOf(scope: string, part: number): string {
  return part === 0 ? scope : `${scope}.${part}`;
}

/**
 * Names the agent of each step, as the model that {@link fitStudent} makes from the same steps names it. Steps that no
 * student supports, and steps beyond STUDENT_CORE.steps, get no agent. The model lacks an agent of which no stage could
 * be learned.
 */
export function nameAgents(steps: readonly LearnedStep[]): Map<LearnedStep, string> {
  const names = new Map<LearnedStep, string>();
  for (const { scope, parts } of partByScope(takeSteps(steps)))
    for (const [part, members] of parts.entries())
      for (const member of members) names.set(member, nameOf(scope, part));
  return names;
}

/**
 * Copies the model and gives the named agents a maximum score for their steps. If kinds of answers are given, each kind
 * has a separate limit, and other kinds are not served. Agents that are not named stay as they are.
 */
export function limitAgents(
  model: StudentModel,
  agents: readonly {
    agent: string;
    threshold: number;
    kinds?: readonly { kind: string; threshold: number }[];
  }[],
): StudentModel {
  const limits = new Map(agents.map((agent) => [agent.agent, agent]));
  return {
    ...model,
    groups: model.groups.map((group) => {
      const agentLimit = limits.get((group as unknown as StudentAgent).name);
      if (agentLimit === undefined) return group;
      const limited = { ...group, limit: agentLimit.threshold };
      if (agentLimit.kinds === undefined) return limited;
      return { ...limited, kinds: agentLimit.kinds.map(({ kind, threshold }) => [kind, threshold]) };
    }),
  };
}

/** Separates steps of one scope whose system prompts have little in common. */
function partByPrompt(steps: readonly LearnedStep[]): LearnedStep[][] {
  const parts: { sentences: Set<number>; prompt: PromptText; members: LearnedStep[] }[] = [];
  const known = new Map<string, (typeof parts)[number]>();
  for (const member of steps) {
    const { system, prompt = [] } = member.step;
    const key = system.join(' ');
    let part = known.get(key);
    if (part === undefined) {
      const sentences = new Set(system);
      part =
        parts.find((candidate) => overlap(sentences, candidate.sentences) >= SAME_PROMPT) ??
        parts.slice(0, PARTS_READ).find((candidate) => shareOfAlike(prompt, candidate.prompt) >= SAME_PROMPT);
      if (part === undefined) {
        part = { sentences, prompt, members: [] };
        parts.push(part);
      }
      known.set(key, part);
    }
    part.members.push(member);
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
      const sentenceRuns = runs.get(sentence);
      if (sentenceRuns === undefined) runs.set(sentence, new Set([run_id]));
      else sentenceRuns.add(run_id);
    }
  }
  const known: number[] = [];
  const core: number[] = [];
  for (const [sentence, count] of steps) {
    if (count >= 0.98 * members.length) core.push(sentence);
    else if (runs.get(sentence)!.size > 1) known.push(sentence);
  }
  const breaches = [...new Set(members.flatMap(({ step }) => step.breaches))];
  const fixed = learnFixedValues(members.map(({ run_id, step }) => ({ run_id, values: step.values ?? [] })));
  return {
    scope,
    name: nameOf(scope, part),
    core,
    known,
    fixed,
    free: findFreeArguments(members),
    reads: members.at(-1)?.step.reads,
    breaches,
    prompt: learnTemplate(
      members.map(({ run_id, step }) => ({ run_id, prompt: step.prompt ?? [], at_ms: step.at_ms ?? null })),
    ),
    stages: [],
  };
}

/**
 * Fits one stage of an agent.
 * @returns null when the stage has fewer than `supportMin` runs; also when no answer has a template, unless such stages
 * are kept
 */
function fitGroup(
  stage: string,
  steps: readonly LearnedStep[],
  agent: StudentAgent,
  supportMin: number,
  seed: number,
  keepsUnexplained: boolean,
  story: AgentStory,
): FittedGroup | null {
  const runs = new Set(steps.map(({ run_id }) => run_id)).size;
  if (runs < supportMin) return null;
  const ids = findIdPlaces(steps);
  const { columns: marks, relations } = makeColumns(steps, agent, ids);
  const numbers = readNumberColumns(steps);
  const answered = classifyAnswers(steps, supportMin, agent, marks, numbers, story);
  const { classes, labels, paths, ofStep, wordings, looks } = answered;
  const { final, reads, gathering } = story;
  const stageOfLooks = { ...answered, columns: marks, final, reads };
  const gathered = gathering === 'do' ? gatherLooks(stageOfLooks) : [];
  const gatherable = gathering === 'count' ? countGatherable(stageOfLooks) : 0;
  const labelCount = Math.max(-1, ...labels) + 1;
  if (classes.length === 0 && !keepsUnexplained) return null;
  // Answers that no template explains get a separate label.
  const targets = Uint16Array.from(ofStep, (c) => (c < 0 ? labelCount : labels[c]!));
  const found = splitNumbers(numbers, targets, labelCount + 1);
  const splits = found.map(({ split }) => split);
  const columns = [...marks, ...found.map(toColumn)];
  const worths = weighMarks(columns, targets, labelCount + 1, seed);
  const { dimensions, worth } = chooseDimensions(columns, worths, steps.length);
  const decisive = findDecisive(steps, dimensions, new Map(columns.map(({ key }, i) => [key, worths[i]!])));
  const tells = findTells(columns, targets, labelCount, listKeysAt(steps, decisive));
  const byKey = new Map(columns.map((column) => [column.key, column]));
  const situations = listSituations(
    steps.length,
    dimensions.map((key) => byKey.get(key)!.has),
  );
  const names = situations.map((marks) => marks.join(' '));
  const otherLooks = assignOtherLooks({ ...answered, situations: names, columns: marks, final, reads });
  const prototypes = makePrototypes(steps, ofStep, situations);
  const memory: StageMemory = {
    stage,
    runs,
    steps: steps.length,
    ...meanUsage(steps),
    classes: classes.map(({ template, runs: classRuns, members }, c) => ({
      template,
      label: labels[c]!,
      path: paths[c]!,
      runs: classRuns,
      output_tokens: meanTokens(
        members.map((i) => steps[i]!),
        ({ output_tokens }) => output_tokens,
      ),
    })),
    wordings,
    looks,
    other_looks: otherLooks,
    later_looks: gathered,
    dimensions,
    worth,
    splits: splits.filter(({ key }) => dimensions.includes(key)),
    ranges: measureRanges(steps, ids),
    relations: relations.filter(
      (relation) => relation.always !== null || isAsked(relation, dimensions, tells),
    ),
    tells,
    denials: listDenials(steps, targets, runs),
    prototypes,
    novelty: learnNovelty(
      steps.map(({ run_id, step }) => ({ run_id, marks: step.marks })),
      decisive,
    ),
  };
  return { memory, targets, situations: names, gatherable };
}

/** The classes of the steps' answers, their labels, and the class of each step. */
function classifyAnswers(
  steps: readonly LearnedStep[],
  supportMin: number,
  { free = [] }: StudentAgent,
  columns: readonly MarkColumn[],
  numbers: readonly NumberColumn[],
  { later, next, final, reads }: AgentStory,
) {
  const examples: AnswerExample[] = steps.map(({ run_id, step, answer }) => ({
    run_id,
    context: new StepContext(step),
    content: answer.content,
  }));
  const sampled = sample(examples.length, STUDENT_CORE.examples);
  const classes = synthesizeAnswers(
    sampled.map((i) => examples[i]!),
    supportMin,
    free,
  ).map((found) => ({ ...found, members: found.members.map((place) => sampled[place]!) }));
  const laterAt = (i: number): ReadonlySet<string> => later.get(steps[i]!) ?? NO_CALLS;
  const found = labelAnswers({
    stage: steps[0]!.step.stage,
    examples,
    classes,
    free,
    columns,
    numbers,
    final,
    reads,
    later: laterAt,
    next: (i) => next.get(steps[i]!)?.step,
  });
  return { examples, classes, later: laterAt, ...found };
}

const NO_CALLS: ReadonlySet<string> = new Set();

/** The calls that follow an agent's steps in their runs. */
interface AgentStory {
  /** Calls that the run makes after a step, in canonical form. */
  later: ReadonlyMap<LearnedStep, ReadonlySet<string>>;
  /** The next step of the run. */
  next: ReadonlyMap<LearnedStep, LearnedStep>;
  /** Tools whose calls no lookup follows. */
  final: ReadonlySet<string>;
  /** Tools that only read according to their descriptions. */
  reads: ReadTools;
  /** Whether the agent's lookups may come in any order; `count`: no, but count the steps that this would change. */
  gathering: 'do' | 'count' | 'no';
}

/** Number of steps at the beginning of a run whose later calls are remembered, up to the last of these steps. */
const STORY_STEPS = 60;

/**
 * Reads which calls follow each step.
 * @param members the steps of one agent, with the steps of a run in order
 */
function readStory(members: readonly LearnedStep[]): Omit<AgentStory, 'gathering'> {
  const later = new Map<LearnedStep, ReadonlySet<string>>();
  const next = new Map<LearnedStep, LearnedStep>();
  const runs = new Map<string, LearnedStep[]>();
  for (const member of members) {
    const run = runs.get(member.run_id);
    if (run === undefined) runs.set(member.run_id, [member]);
    else run.push(member);
  }
  for (const run of runs.values()) {
    for (const [at, member] of run.slice(1).entries()) next.set(run[at]!, member);
    let calls = new Set<string>();
    for (const member of run.slice(0, STORY_STEPS).reverse()) {
      later.set(member, calls);
      calls = new Set(calls);
      for (const block of member.answer.content)
        if (block.type === 'tool_call') calls.add(canonicalCall(block));
    }
  }
  return { later, next, final: findFinalTools(members), reads: new Set(members.at(-1)?.step.reads) };
}

/** A mark with more worth than this makes its place decisive. */
const DECISIVE_WORTH = 0.02;

/** Places of the dimensions whose worth is more than DECISIVE_WORTH. */
function findDecisive(
  steps: readonly LearnedStep[],
  dimensions: readonly number[],
  worths: ReadonlyMap<number, number>,
): Set<number> {
  const worthy = new Set(dimensions.filter((key) => worths.get(key)! > DECISIVE_WORTH));
  const places = new Set<number>();
  for (const { step } of steps)
    for (let m = 0; m < step.marks.length; m += 3)
      if (worthy.has(keyOfMark(step.marks, m))) places.add(step.marks[m + 1]!);
  return places;
}

function meanUsage(
  steps: readonly LearnedStep[],
): Pick<StageMemory, 'input_tokens' | 'cache_read_tokens' | 'cache_write_tokens'> {
  return {
    input_tokens: meanTokens(steps, ({ input_tokens }) => input_tokens),
    cache_read_tokens: meanTokens(steps, ({ cache_read_tokens }) => cache_read_tokens ?? 0),
    cache_write_tokens: meanTokens(steps, ({ cache_write_tokens }) => cache_write_tokens ?? 0),
  };
}

/**
 * The mean of a token count; 0 without any count. Answers without a count of input tokens are left out: the client of a
 * stream may not have asked for usage.
 */
function meanTokens(
  steps: readonly LearnedStep[],
  countOf: (answer: LearnedStep['answer']) => number,
): number {
  const counts = steps.filter(({ answer }) => answer.input_tokens > 0).map(({ answer }) => countOf(answer));
  return counts.length === 0 ? 0 : Math.round(counts.reduce((sum, count) => sum + count, 0) / counts.length);
}

/** Whether a result of this comparison is a dimension, or tells a label. */
function isAsked(
  relation: NumberRelation,
  dimensions: readonly number[],
  tells: readonly [number, number][],
): boolean {
  const keys = [-1, 0, 1].map((way) => keyOfRelation(relation, way));
  return keys.some((key) => dimensions.includes(key) || tells.some(([tellKey]) => tellKey === key));
}

/** Indexes from 0 to below `count`: all of them, or `most` evenly spread ones. */
function sample(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: most }, (_, i) => Math.floor((i * count) / most));
}

/**
 * Makes columns of the marks, known sentences and results of comparisons that more than one run has.
 * @returns the columns, and all compared pairs of numbers
 */
function makeColumns(
  steps: readonly LearnedStep[],
  agent: StudentAgent,
  ids: ReadonlySet<string>,
): { columns: MarkColumn[]; relations: NumberRelation[] } {
  const known = new Set(agent.known);
  const relations = learnRelations(
    steps.map(({ step }) => step),
    (place) => !ids.has(nameOfPlace(place)),
  );
  const visitKeys = (visit: (key: number, kind: number, i: number) => void): void => {
    for (const [i, { step }] of steps.entries()) {
      for (let m = 0; m < step.marks.length; m += 3)
        if (step.marks[m] !== MARK.lines) visit(keyOfMark(step.marks, m), step.marks[m]!, i);
      for (const sentence of step.system)
        if (known.has(sentence)) visit(keyOfSentence(sentence), SYSTEM_KIND, i);
    }
    for (const { relation, ways } of relations) {
      if (relation.always !== null) continue;
      for (const [i, way] of ways.entries())
        if (way !== 2) visit(keyOfRelation(relation, way), RELATION_KIND, i);
    }
  };
  // Most marks, such as ids, belong to one run. A column for each of them would take more memory than everything else.
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
  return { columns: [...columns.values()], relations: relations.map(({ relation }) => relation) };
}

/** Makes the column of the mark that a threshold gives. */
function toColumn({ split, has }: { split: NumberSplit; has: Uint8Array }): MarkColumn {
  return { key: split.key, kind: NUMBER_KIND, has, count: has.reduce((sum, set) => sum + set, 0) };
}

/** Maximum number of ranges of a stage, and minimum number of steps with a number at the place. */
const RANGES = 60;
const RANGE_STEPS = 8;

/**
 * SLACK_NUMBERS: minimum number of values from which a slack is estimated. GROWING: numbers grow if at least this share
 * of the earlier half is below its counterpart in the later half. RANGE_NUMBERS: maximum number of values that are kept.
 */
const SLACK_NUMBERS = 20;
const GROWING = 0.8;
const RANGE_NUMBERS = 400;

/** The numbers seen at one place. */
interface SeenRange {
  from: string;
  path: string[];
  least: number;
  most: number;
  /** Number of steps with a number at the place. */
  count: number;
  /** The last of these steps. */
  latest: StepDigest;
  /** In the order of the runs; at most {@link RANGE_NUMBERS}. */
  values: number[];
}

function measureRanges(steps: readonly LearnedStep[], ids: ReadonlySet<string>): NumberRange[] {
  const ranges = new Map<string, SeenRange>();
  for (const { step } of steps)
    visitNumbers(step, ({ from, path }, value) => {
      const id = nameOfPlace({ from, path });
      if (ids.has(id)) return;
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
 * Estimates how far normal numbers reach beyond the golden numbers, from the spread of the golden numbers around their
 * median. A number still farther away may lie behind a threshold that golden runs approached only from one side.
 * @returns null when the numbers grow from run to run, or are too few
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

/**
 * Lists the keys of the denials in the steps, by label.
 * @returns an empty list if there are more different denials than half the number of runs
 */
function listDenials(
  steps: readonly LearnedStep[],
  targets: Uint16Array,
  runs: number,
): [number, number[]][] {
  const byLabel = new Map<number, Set<number>>();
  const all = new Set<number>();
  for (const [i, { step }] of steps.entries()) {
    let ofLabel = byLabel.get(targets[i]!);
    if (ofLabel === undefined) {
      ofLabel = new Set();
      byLabel.set(targets[i]!, ofLabel);
    }
    for (let m = 0; m < step.marks.length; m += 3) {
      if (step.marks[m] !== MARK.denial) continue;
      ofLabel.add(keyOfMark(step.marks, m));
      all.add(keyOfMark(step.marks, m));
    }
  }
  return all.size > runs / 2 ? [] : [...byLabel].map(([label, keys]) => [label, [...keys]]);
}

/** Maximum number of marks of a stage that show its label (`findTells`). */
const TELLS = 400;
/** Minimum number of steps with a mark that tells a label, and minimum gain of a mark at a decisive place. */
const TELL_STEPS = 3;
const DECISIVE_GAIN = 3;

/** Keys of the marks of fields at these places. */
function listKeysAt(steps: readonly LearnedStep[], places: ReadonlySet<number>): Set<number> {
  const keys = new Set<number>();
  for (const { step } of steps)
    for (let m = 0; m < step.marks.length; m += 3)
      if (step.marks[m]! <= MARK.earlier && places.has(step.marks[m + 1]!))
        keys.add(keyOfMark(step.marks, m));
  return keys;
}

/**
 * Finds the marks whose steps all have the same label, more often than by chance. A rare but decisive mark, such as a
 * stop flag, has little worth in the vector, because the worth favours marks that separate most of the steps. At a
 * decisive place, two steps and less evidence are enough.
 * @returns the key of each mark with the label; −1 stands for answers that no template explains
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
    // At a place where other values already separate the answers, one more separating value is unlikely to be chance.
    if (gain < (isDecisive ? DECISIVE_GAIN : CHANCE + 2 * Math.log(perKind.get(kind)!))) continue;
    found.push({ key, label: label === labelCount ? -1 : label, gain });
  }
  return found
    .sort((a, b) => b.gain - a.gain || a.key - b.key)
    .slice(0, TELLS)
    .map(({ key, label }) => [key, label]);
}

/** The marks with the most worth, and some that nearly all steps have. */
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
  for (const column of telling) {
    dimensions.push(column.key);
    worth.push(((1 - commonShare) * column.worth) / tellingSum);
  }
  for (const { key } of common) {
    dimensions.push(key);
    worth.push(commonShare / common.length);
  }
  return { dimensions, worth };
}

/** For each step, the indexes of the dimensions that it has. */
function listSituations(steps: number, columns: readonly Uint8Array[]): number[][] {
  return Array.from({ length: steps }, (_, i) =>
    [...columns.keys()].filter((dimension) => columns[dimension]![i] === 1),
  );
}

function makePrototypes(
  steps: readonly LearnedStep[],
  ofStep: Int16Array,
  situations: readonly number[][],
): Prototype[] {
  const prototypes = new Map<string, { marks: number[]; votes: Map<number, Set<string>>; example: number }>();
  for (const [i, { run_id, exchange_id = 0 }] of steps.entries()) {
    const marks = situations[i]!;
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

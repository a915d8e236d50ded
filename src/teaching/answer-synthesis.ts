/**
 * Sorts golden answers into classes that share a template (anti-unification: Plotkin, "A note on inductive
 * generalization", 1970; here, rules that read the step's context bind the variables). Steps that need different
 * answers end up in different classes. Pure; teaching.
 *
 * A value that looks generated (an id, a long number) and also appears in a golden step's context is never a constant
 * here: it needs a rule.
 */

import { parseExact } from '../std/exact-json.ts';
import {
  type AnswerTemplate,
  fillTemplate,
  makeConstant,
  type TemplateNode,
} from '../student/model/answer-template.ts';
import { minutesOf } from '../student/model/day-words.ts';
import type { StudentBlock } from '../student/model/decision.ts';
import { contextOfItem, type EachItem, proposeEach, takeItems } from '../student/model/each-item.ts';
import type { FreeArguments } from '../student/model/equivalence.ts';
import {
  applyRule,
  type ExtractionRule,
  looksOccasional,
  type ProvenRule,
  proposeRules,
  rankRule,
  type StepContext,
  sameValue,
  standsIn,
} from '../student/model/extraction.ts';
import { isAbsolutePath } from '../student/model/file-paths.ts';
import {
  canonicalText,
  isNumber,
  isObject,
  isPrimitive,
  type Primitive,
} from '../student/model/json-values.ts';
import { STUDENT_CORE } from '../student/model/limits.ts';
import { findDates } from '../student/model/prompt-dates.ts';
import {
  alignPieces,
  joinPieces,
  likeness,
  ONE_WORDING,
  type Piece,
  readPieces,
  TEXT_PIECES,
} from '../student/model/text-alignment.ts';
import { isOccasional, readTokens } from '../student/model/text-tokens.ts';
import { proposeDerivedRules } from './derived-rules.ts';
import { findListedTexts, insertList } from './listed-texts.ts';
import { LOOSE_RUNS, type LooseText, solveLooseTexts } from './loose-texts.ts';
import { DERIVED, findRules } from './rule-search.ts';

/** A golden answer with the context in which it was given. */
export interface AnswerExample {
  run_id: string;
  context: StepContext;
  content: readonly StudentBlock[];
}

/** Examples that one template explains. */
export interface AnswerClass {
  template: AnswerTemplate;
  /** Indexes of the examples. */
  members: number[];
  runs: number;
}

/** Maximum depth of divisions: each part may be divided again, up to this depth. */
const CUTS = 6;

/**
 * Sorts examples into classes. The template of a class produces the answer of each member from the member's context,
 * with two exceptions: text beside calls may be missing, and a template of loose-texts.ts has the wording of one
 * member.
 * @param supportMin minimum number of runs of a class
 * @param free arguments whose wording may differ
 * @returns the classes, those with most runs first, at most STUDENT_CORE.classes; examples that no template explains are
 * in no class
 */
export function synthesizeAnswers(
  examples: readonly AnswerExample[],
  supportMin: number,
  free: FreeArguments = [],
): AnswerClass[] {
  const classes: AnswerClass[] = [];
  const shapes = new Map<string, number[]>();
  for (const [i, example] of examples.entries()) {
    const shape = shapeOf(example.content);
    const members = shapes.get(shape);
    if (members === undefined) shapes.set(shape, [i]);
    else members.push(i);
  }
  for (const members of shapes.values()) {
    const keys = freeKeysOf(examples[members[0]!]!.content, free);
    if (keys.length > 0) solveWorded(examples, members, supportMin, keys, classes);
    else if (shapeOf(examples[members[0]!]!.content) === TEXT)
      solveTexts(examples, members, supportMin, classes);
    else splitAndSolve(examples, members, supportMin, 0, classes);
  }
  classes.sort((a, b) => b.runs - a.runs || a.members[0]! - b.members[0]!);
  return classes.slice(0, STUDENT_CORE.classes);
}

/** Lists the free arguments of an answer with a single call; an answer with several calls, or with none, has none. */
function freeKeysOf(content: readonly StudentBlock[], free: FreeArguments): string[] {
  const [call, ...more] = content.filter((block) => block.type === 'tool_call');
  if (call === undefined || more.length > 0 || !isObject(call.input)) return [];
  const { input, name } = call;
  return free.flatMap(([tool, key]) => (tool === name && typeof input[key] === 'string' ? [key] : []));
}

/**
 * Solves calls whose free arguments are worded differently. The fixed arguments are solved over all examples, and each
 * free argument is solved separately for each wording. The wordings of the first free argument divide the examples into
 * classes. For every other free argument, a class takes the wording that most of its members have.
 */
function solveWorded(
  examples: readonly AnswerExample[],
  members: number[],
  supportMin: number,
  keys: readonly string[],
  classes: AnswerClass[],
): void {
  const inputOf = (i: number): Record<string, unknown> =>
    examples[i]!.content.find((block) => block.type === 'tool_call')!.input as Record<string, unknown>;
  const fixed: AnswerClass[] = [];
  const withoutTexts = examples.map((example, i) => ({
    ...example,
    content: members.includes(i) ? example.content.map((block) => dropArguments(block, keys)) : [],
  }));
  splitAndSolve(withoutTexts, members, supportMin, 0, fixed);
  for (const found of fixed) {
    const [call] = found.template.calls;
    if (call?.input.is !== 'object' || call.each !== undefined) continue;
    const wordings = keys.map((key) => {
      const texts: AnswerClass[] = [];
      const said = examples.map((example, i): AnswerExample => {
        const text = found.members.includes(i) ? String(inputOf(i)[key]) : '';
        return { ...example, content: [{ type: 'text', text }] };
      });
      solveTexts(said, found.members, supportMin, texts);
      return texts.filter(({ template }) => template.text !== null);
    });
    for (const first of wordings[0]!) {
      const fields: [string, TemplateNode][] = [[keys[0]!, first.template.text!]];
      for (const [at, key] of keys.entries()) {
        if (at === 0) continue;
        const common = (text: AnswerClass): number =>
          text.members.filter((i) => first.members.includes(i)).length;
        const most = wordings[at]!.toSorted((a, b) => common(b) - common(a))[0];
        if (most !== undefined && common(most) > 0) fields.push([key, most.template.text!]);
      }
      if (fields.length < keys.length) continue;
      const input: TemplateNode = {
        is: 'object',
        fields: orderFields([...call.input.fields, ...fields], inputOf(first.members[0]!)),
      };
      const template = { ...found.template, calls: [{ ...call, input }] };
      classes.push({ template, members: first.members, runs: first.runs });
    }
  }
}

/**
 * Solves texts. Texts that tell each element of a list are solved with a mark in the list's place (listed-texts.ts). Texts
 * whose exact wording only a few runs have are solved again by loose-texts.ts: more runs then show where their values come
 * from.
 */
function solveTexts(
  examples: readonly AnswerExample[],
  members: number[],
  supportMin: number,
  classes: AnswerClass[],
): void {
  const others = solveListed(examples, members, supportMin, classes);
  solvePlainTexts(examples, others, supportMin, classes);
}

/**
 * Solves texts that tell each element of a list, and adds their classes.
 * @returns indexes of the texts that were not solved
 */
function solveListed(
  examples: readonly AnswerExample[],
  members: number[],
  supportMin: number,
  classes: AnswerClass[],
): number[] {
  const texts = members.map((i) => ({ ...examples[i]!, text: textOf(examples[i]!.content) }));
  const listed = findListedTexts(texts, (items) => solveItemTexts(items, supportMin));
  if (listed === null) return members;
  const rest = [...examples];
  for (const { at, text } of listed.members)
    rest[members[at]!] = { ...examples[members[at]!]!, content: [{ type: 'text', text }] };
  const own: AnswerClass[] = [];
  solvePlainTexts(
    rest,
    listed.members.map(({ at }) => members[at]!),
    supportMin,
    own,
  );
  const solved = new Set<number>();
  for (const each of own) {
    const text = each.template.text === null ? null : insertList(each.template.text, listed.list);
    if (text === null) continue;
    classes.push({ ...each, template: { ...each.template, text } });
    for (const i of each.members) solved.add(i);
  }
  return members.filter((i) => !solved.has(i));
}

/**
 * Makes a template of what texts say about elements; null when the elements do not explain every text, or without
 * texts.
 */
function solveItemTexts(items: readonly LooseText[], supportMin: number): TemplateNode | null {
  if (items.length === 0) return null;
  const examples = items.map(({ run_id, context }) => ({ run_id, context, content: [] }));
  const contexts = items.map(({ context }) => context);
  const solver: Solver = { examples, contexts, supportMin, tools: [], cuts: [], lastCuts: [] };
  const node = solveValue(
    solver,
    items.map(({ text }) => text),
  );
  return solver.cuts.length > 0 ? null : node;
}

function solvePlainTexts(
  examples: readonly AnswerExample[],
  members: number[],
  supportMin: number,
  classes: AnswerClass[],
): void {
  const found: AnswerClass[] = [];
  splitAndSolve(examples, members, supportMin, 0, found);
  const usual = found.filter(({ runs }) => runs >= LOOSE_RUNS);
  classes.push(...usual);
  const solved = new Set(usual.flatMap((each) => each.members));
  const left = members.filter((i) => !solved.has(i) && textOf(examples[i]!.content) !== '');
  const texts = left.map((i) => ({ ...examples[i]!, text: textOf(examples[i]!.content) }));
  for (const { node, members: loose } of solveLooseTexts(texts)) {
    const own = loose.map((at) => left[at]!);
    for (const i of own) solved.add(i);
    const runs = countRuns(own.map((i) => examples[i]!));
    classes.push({ template: { calls: [], text: node }, members: own, runs });
  }
  // A rare wording may be a usual one in which a value was the same by chance.
  const others = classes.filter(({ members: own }) => own.some((i) => solved.has(i)));
  for (const rare of found) {
    if (usual.includes(rare)) continue;
    const own = rare.members.filter((i) => {
      if (solved.has(i)) return false;
      const same = others.find(({ template }) => givesText(template, examples[i]!));
      same?.members.push(i);
      return same === undefined;
    });
    const runs = countRuns(own.map((i) => examples[i]!));
    if (runs >= supportMin) classes.push({ ...rare, members: own, runs });
  }
}

/** Whether a template gives exactly the example's text. */
function givesText(template: AnswerTemplate, { context, content }: AnswerExample): boolean {
  const filled = fillTemplate(template, context);
  return typeof filled !== 'string' && textOf(filled.value) === textOf(content);
}

function dropArguments(block: StudentBlock, keys: readonly string[]): StudentBlock {
  if (block.type !== 'tool_call') return block;
  const entries = Object.entries(block.input as object).filter(([key]) => !keys.includes(key));
  return { ...block, input: Object.fromEntries(entries) };
}

/** Sorts the fields, in place, into the order that their keys have in an input. */
function orderFields(
  fields: [string, TemplateNode][],
  input: Record<string, unknown>,
): [string, TemplateNode][] {
  const order = Object.keys(input);
  return fields.sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
}

function splitAndSolve(
  examples: readonly AnswerExample[],
  members: number[],
  supportMin: number,
  cuts: number,
  classes: AnswerClass[],
): void {
  const chosen = members.map((i) => examples[i]!);
  const runs = countRuns(chosen);
  if (runs < supportMin) return;
  const solved = solve(chosen, supportMin);
  if (!('cuts' in solved)) {
    classes.push({ template: solved, members, runs });
    return;
  }
  if (cuts >= CUTS) return;
  const usual = divide(examples, members, solved.cuts, supportMin);
  const best =
    usual.covered >= LAST_CUT * members.length
      ? usual
      : divide(examples, members, solved.last_cuts, supportMin);
  for (const part of (best.covered > usual.covered ? best : usual).parts)
    splitAndSolve(examples, part, supportMin, cuts + 1, classes);
}

/** If every usual division loses more than this share of the examples, the last resort is tried. */
const LAST_CUT = 0.5;
/** A rule may divide the examples as the last resort if it is right for at least this share of them. */
const LAST_CUT_RIGHT = 0.25;

/**
 * Chooses the division whose parts with enough runs cover the most examples; half an example is subtracted for each of
 * these parts. Divisions into one part, or into very many, are not considered.
 * @returns the parts with enough runs, and the number of examples in them; no parts if no division has one
 */
function divide(
  examples: readonly AnswerExample[],
  members: readonly number[],
  cuts: Cuts,
  supportMin: number,
): { parts: number[][]; covered: number } {
  const best = { parts: [] as number[][], covered: 0 };
  let bestValue = 0;
  for (const labels of cuts) {
    const parts = new Map<string, number[]>();
    for (const [i, label] of labels.entries()) {
      const part = parts.get(label);
      if (part === undefined) parts.set(label, [members[i]!]);
      else part.push(members[i]!);
    }
    // So many different values are not states. They come from an unknown source.
    if (parts.size < 2 || parts.size > 2 + members.length / 4) continue;
    let covered = 0;
    const kept: number[][] = [];
    for (const part of parts.values()) {
      if (countRuns(part.map((i) => examples[i]!)) < supportMin) continue;
      covered += part.length;
      kept.push(part);
    }
    const value = covered - 0.5 * kept.length;
    if (kept.length > 0 && value > bestValue) {
      best.parts = kept;
      best.covered = covered;
      bestValue = value;
    }
  }
  return best;
}

function countRuns(examples: readonly { run_id: string }[]): number {
  return new Set(examples.map(({ run_id }) => run_id)).size;
}

/** Shape of an answer that is only text. */
const TEXT = 'text';

/** A text of those parts of an answer that must be equal for answers with a common template. */
function shapeOf(content: readonly StudentBlock[]): string {
  let shape = '';
  // Similar calls may be one per element of a list, so their number is not fixed.
  let before = '';
  for (const block of content) {
    if (block.type !== 'tool_call') continue;
    const callShape = `${JSON.stringify(block.name)}${shapeOfValue(block.input)}\n`;
    if (callShape !== before) shape += callShape;
    before = callShape;
  }
  if (shape !== '') return shape;
  const json = readJsonAnswer(textOf(content));
  return json === null ? TEXT : `json ${json.indent} ${shapeOfValue(json.value, true)}`;
}

function textOf(content: readonly StudentBlock[]): string {
  return content
    .filter((block) => block.type === 'text')
    .map(({ text }) => text)
    .join('\n');
}

/**
 * Reads a text that is JSON.
 * @returns null for a text that is not an object or a list as JSON.stringify writes it with an indent of 0, 2 or 4
 */
function readJsonAnswer(text: string): { value: object; indent: number } | null {
  if (!text.startsWith('{') && !text.startsWith('[')) return null;
  try {
    const value = parseExact(text) as object;
    const indent = [0, 2, 4].find((spaces) => JSON.stringify(value, null, spaces) === text);
    return indent === undefined ? null : { value, indent };
  } catch {
    return null;
  }
}

/**
 * Describes the shape of a value.
 * @param tellsNull whether null (nothing was found) has its own shape
 */
function shapeOfValue(value: unknown, tellsNull = false): string {
  if (isPrimitive(value)) return tellsNull && value === null ? 'null' : '_';
  if (Array.isArray(value)) {
    // The shape of a long list does not count: a rule copies the list, or makes an element per element of another list.
    if (value.length > 8) return '_';
    const shapes = value.map((item) => shapeOfValue(item, tellsNull));
    // The list may have one element per element of another list.
    const isEven = isObject(value[0]) && shapes.every((shape) => shape === shapes[0]);
    return isEven ? `[${shapes[0]}…]` : `[${shapes.join(',')}]`;
  }
  if (!isObject(value)) return '_';
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${shapeOfValue(value[key], tellsNull)}`).join(',')}}`;
}

/** Ways to divide the examples: each is a list with one label per example. */
type Cuts = string[][];

/** The result if no single template explains all examples: ways to divide the examples, as in {@link Solver}. */
interface Unsolved {
  cuts: Cuts;
  last_cuts: Cuts;
}

function solve(examples: readonly AnswerExample[], supportMin: number): AnswerTemplate | Unsolved {
  const first = examples[0]!;
  const calls = first.content.filter((block) => block.type === 'tool_call');
  const tools = calls.map(({ name }) => name);
  const all = examples.map(({ content }) => content.filter((block) => block.type === 'tool_call'));
  const contexts = examples.map(({ context }) => context);
  const solver: Solver = { examples, contexts, supportMin, tools, cuts: [], lastCuts: [] };
  const template: AnswerTemplate = { calls: [], text: null };
  if (all.every((blocks) => blocks.length === calls.length))
    for (const [i, call] of calls.entries()) {
      const values = all.map((blocks) => blocks[i]!.input);
      template.calls.push({ name: call.name, input: solveValue(solver, values) });
    }
  if (solver.cuts.length > 0 || template.calls.length < calls.length) {
    const each = solveCallsOfEach(solver, all);
    if (each !== null) {
      solver.cuts = [];
      template.calls = each;
    } else if (template.calls.length < calls.length)
      solver.cuts.push(all.map(({ length }) => String(length)));
  }
  const texts = examples.map(({ content }) => textOf(content));
  if (calls.length === 0) {
    const jsons = texts.map(readJsonAnswer);
    if (jsons.every((json) => json !== null)) {
      const { indent } = jsons[0]!;
      const values = jsons.map(({ value }) => value);
      template.json = { value: solveValue(solver, values), indent };
    } else template.text = solveValue(solver, texts);
  }
  if (solver.cuts.length > 0) return { cuts: solver.cuts, last_cuts: solver.lastCuts };
  if (calls.length > 0 && texts.every((text) => text !== '')) {
    // The agent does not act on the text beside calls. So the text is left out if no template explains it.
    const beside: Solver = { ...solver, cuts: [], lastCuts: [] };
    const text = solveValue(beside, texts);
    if (beside.cuts.length === 0) template.text = text;
  }
  return template;
}

/** The examples of one attempt to make a template, and what the attempt finds out. */
interface Solver {
  examples: readonly AnswerExample[];
  /** The context of each example. */
  contexts: readonly StepContext[];
  /** Minimum number of runs that a rule needs. */
  supportMin: number;
  /** Tools that the answer calls. A rule may take the element of a list whose index is the number of their calls. */
  tools: readonly string[];
  /** Ways to divide unsolved examples; empty if all were solved. */
  cuts: Cuts;
  /** Ways to divide unsolved examples that are tried only if `cuts` lose too many examples. */
  lastCuts: Cuts;
}

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

/**
 * Solves answers in which some calls are made once per element of a list.
 * @returns null when no call is made once per element, when a call cannot be solved, or when the answers do not call
 *   the same tools in the same order
 */
function solveCallsOfEach(
  solver: Solver,
  all: readonly (readonly CallBlock[])[],
): AnswerTemplate['calls'] | null {
  const parts = all.map(groupCalls);
  const { length } = parts[0]!;
  if (parts.some((groups) => groups.length !== length)) return null;
  const calls: AnswerTemplate['calls'] = [];
  for (let p = 0; p < length; p++) {
    const groups = parts.map((part) => part[p]!);
    const { name } = groups[0]![0]!;
    if (groups.some((blocks) => blocks[0]!.name !== name)) return null;
    const inputs = groups.map((blocks) => blocks.map(({ input }) => input));
    if (groups.every((blocks) => blocks.length === 1)) {
      const alone: Solver = { ...solver, cuts: [], lastCuts: [] };
      const input = solveValue(
        alone,
        inputs.map(([value]) => value),
      );
      if (alone.cuts.length > 0) return null;
      calls.push({ name, input });
      continue;
    }
    const found = solveEach(solver, inputs);
    if (found === null) return null;
    calls.push({ name, input: found.item, each: found.each });
  }
  return calls.some(({ each }) => each !== undefined) ? calls : null;
}

/** Groups consecutive calls of the same shape. */
function groupCalls(blocks: readonly CallBlock[]): CallBlock[][] {
  const groups: CallBlock[][] = [];
  let before = '';
  for (const block of blocks) {
    const shape = shapeOf([block]);
    if (shape === before) groups[groups.length - 1]!.push(block);
    else groups.push([block]);
    before = shape;
  }
  return groups;
}

/** After this many list elements, no further example's list is examined. */
const EACH_EXAMPLES = 400;

/** Solves values that occur once per element of a list in each example's context; null when no list explains them. */
function solveEach(
  solver: Solver,
  values: readonly (readonly unknown[])[],
): { each: EachItem; item: TemplateNode } | null {
  const counts = values.map(({ length }) => length);
  // If no example has more than one element, and all have equally many, nothing shows that there is a list.
  if (counts.every((count) => count === counts[0]) && counts[0]! < 2) return null;
  for (const each of proposeEach(solver.contexts, counts)) {
    const examples: AnswerExample[] = [];
    const flat: unknown[] = [];
    for (const [i, { run_id, context }] of solver.examples.entries()) {
      if (examples.length >= EACH_EXAMPLES) break;
      for (const [j, item] of takeItems(each, context)!.entries()) {
        examples.push({ run_id, context: contextOfItem(context, item), content: [] });
        flat.push(values[i]![j]);
      }
    }
    if (countRuns(examples) < solver.supportMin) continue;
    const contexts = examples.map(({ context }) => context);
    const inner: Solver = { ...solver, examples, contexts, cuts: [], lastCuts: [] };
    const item = solveValue(inner, flat);
    if (inner.cuts.length === 0) return { each, item };
  }
  return null;
}

/** Shortest piece of a value that is searched for in the context, and maximum number of such pieces in a value. */
const SEGMENT = 3;
const SEGMENTS = 6;

/**
 * Solves a value that is assembled from other values and constants, such as a path in a folder. It works from left to
 * right: each time it takes the longest piece for which rules find the beginning of the remaining text in every
 * example.
 * @returns null when no rule finds a piece, or the rest is not the same in all examples; also when a value is empty or
 * contains white space without being a path, or the first value has more than 400 characters
 */
function solveConcatenation(solver: Solver, values: readonly string[]): TemplateNode | null {
  const first = values[0]!;
  if (first.length > 400 || values.some((value) => value === '' || isProse(value))) return null;
  const parts: TemplateNode[] = [];
  const at = values.map(() => 0);
  const { context } = solver.examples[0]!;
  let slots = 0;
  let constant = '';
  while (at[0]! < first.length) {
    const rest = first.slice(at[0]);
    let taken: Beginnings | null = null;
    let isKnown = false;
    if (slots < SEGMENTS && isStart(first, at[0]!)) {
      for (let end = rest.length; end >= SEGMENT && taken === null; end--) {
        if (end < rest.length && !isStart(rest, end)) continue;
        const piece = rest.slice(0, end);
        if (standsIn(piece, context)) {
          isKnown = true;
          taken = findBeginnings(solver, values, at, proposeRules(piece, context, solver.tools));
        }
        // A day or a time may be computed from words.
        if (taken === null && isMoment(piece))
          taken = findBeginnings(solver, values, at, proposeDerivedRules(piece, context), DERIVED);
      }
      // The task may have several wordings, each of which needs its own rule.
      if (isKnown && taken === null) taken = findWordedBeginnings(solver, values, at);
    }
    if (taken !== null) {
      pushText(parts, constant);
      constant = '';
      parts.push({ is: 'slot', rules: taken.rules });
      slots++;
      for (const [t, length] of taken.lengths.entries()) at[t]! += length;
      continue;
    }
    const char = rest[0]!;
    for (const [t, value] of values.entries()) {
      if (value[at[t]!] !== char) return null;
      at[t]!++;
    }
    constant += char;
  }
  pushText(parts, constant);
  if (slots === 0 || at.some((place, t) => place !== values[t]!.length)) return null;
  // A part that looks generated for one run and appears in the run's context must have come from the context.
  for (const part of parts)
    if (part.is === 'constant' && hasValueOf(String(part.value), solver.contexts)) return null;
  const hasDigit = parts.some((part) => part.is === 'constant' && /\d/.test(String(part.value)));
  if (hasDigit && !parts.some(readsDay) && movesWithDay(first, solver.contexts)) return null;
  return { is: 'text', parts };
}

/** Whether a value has white space, and is no path, in which the name of a folder may have white space. */
function isProse(value: string): boolean {
  return /\s/.test(value) && !isAbsolutePath(value);
}

/** Whether a part is a day that is computed from the current one. */
function readsDay(part: TemplateNode): boolean {
  return part.is === 'slot' && part.rules.some(({ rule }) => rule.span?.by === 'day');
}

function isMoment(piece: string): boolean {
  return piece.length >= 5 && piece.length <= 10 && minutesOf(piece) !== undefined;
}

const PARTS_OF_VALUE = /[\p{L}\p{N}_-]+/gu;

/**
 * Replaces the parts of a value that have a digit or occur in its context. What remains distinguishes wordings:
 * `cat config/·.json` and `cat jobs/·.json` are two commands.
 */
function leaveOutKnown(value: string, context: StepContext): string {
  const texts: string[] = [];
  for (const { name, value: source } of context.step.sources) {
    // The system prompt hardly differs between steps, and the progress has only counts.
    if (name === 'system' || name === 'progress') continue;
    texts.push(typeof source === 'string' ? source : JSON.stringify(source));
  }
  return value.replace(PARTS_OF_VALUE, (part) =>
    /\d/.test(part) || texts.some((text) => hasPart(text, part)) ? '·' : part,
  );
}

const PART_CHARACTER = /[\p{L}\p{N}_-]/u;

/** Whether a text has this part on its own, not within a longer part. */
function hasPart(text: string, part: string): boolean {
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
    const end = at + part.length;
    const [before, after] = [text[at - 1], text[end]];
    if (
      (before === undefined || !PART_CHARACTER.test(before)) &&
      (after === undefined || !PART_CHARACTER.test(after))
    )
      return true;
  }
  return false;
}

function hasValueOf(text: string, contexts: readonly StepContext[]): boolean {
  return readTokens(text, TEXT_PIECES).some(
    (token) =>
      isOccasional(token) &&
      token.end - token.start > 2 &&
      contexts.some((context) => standsIn(text.slice(token.start, token.end), context)),
  );
}

/** Whether a piece of a value may begin at this index, or the previous piece end there. */
function isStart(text: string, i: number): boolean {
  if (i === 0 || i === text.length) return true;
  if (/[^\p{L}\p{N}]/u.test(text[i - 1]!) || /[^\p{L}\p{N}]/u.test(text[i]!)) return true;
  // The T between a day and a time.
  return /\dT\d/.test(text.slice(i - 1, i + 2)) || /\dT\d/.test(text.slice(Math.max(0, i - 2), i + 1));
}

/** Rules for the next piece of each value, with the length of that piece in each value. */
interface Beginnings {
  rules: ProvenRule[];
  lengths: number[];
}

/** Maximum number of wordings of one task, each with its own rule. */
const WORDED = 5;

/**
 * Finds at most WORDED rules, of which at least one finds something in each example. What a rule finds must be a
 * beginning of the remaining value.
 * @returns null when there are no such rules
 */
function findWordedBeginnings(
  solver: Solver,
  values: readonly string[],
  at: readonly number[],
): Beginnings | null {
  const lengths: (number | undefined)[] = values.map(() => undefined);
  const kept: ProvenRule[] = [];
  while (lengths.includes(undefined)) {
    if (kept.length >= WORDED) return null;
    const found = findWording(solver, values, at, lengths);
    if (found === null) return null;
    kept.push(found.rule);
    for (const [t, length] of found.lengths.entries()) lengths[t] ??= length;
  }
  return { rules: kept, lengths: lengths.map((length) => length!) };
}

/**
 * Finds the rule that gives the longest beginning of the first value without a rule. In every other example in which
 * the rule finds something, the found text must be a beginning of the value, too.
 * @returns null when no such rule finds something in enough runs
 */
function findWording(
  solver: Solver,
  values: readonly string[],
  at: readonly number[],
  known: readonly (number | undefined)[],
): { rule: ProvenRule; lengths: (number | undefined)[] } | null {
  const open = known.indexOf(undefined);
  const rest = values[open]!.slice(at[open]);
  const { context } = solver.examples[open]!;
  for (let end = rest.length; end >= SEGMENT; end--) {
    const piece = rest.slice(0, end);
    if (!isStart(rest, end) || !standsIn(piece, context)) continue;
    for (const rule of proposeRules(piece, context, solver.tools).sort((a, b) => rankRule(a) - rankRule(b))) {
      const lengths: (number | undefined)[] = [];
      const runs = new Set<string>();
      for (const [t, { context: exampleContext, run_id }] of solver.examples.entries()) {
        const found = applyRule(rule, exampleContext);
        if (found === undefined) {
          lengths.push(undefined);
          continue;
        }
        const value = values[t]!;
        if (typeof found !== 'string' || found === '' || !value.startsWith(found, at[t])) break;
        if (!isStart(value, at[t]! + found.length) || (known[t] ?? found.length) !== found.length) break;
        lengths.push(found.length);
        runs.add(run_id);
      }
      if (lengths.length === values.length && runs.size >= solver.supportMin)
        return { rule: { rule, runs: runs.size }, lengths };
    }
  }
  return null;
}

/**
 * Finds rules that give a beginning of the remaining value in every example: the best rule, and those that agree with
 * it.
 * @param least minimum numbers of runs and of different beginnings
 * @returns null when there is no such rule
 */
function findBeginnings(
  solver: Solver,
  values: readonly string[],
  at: readonly number[],
  rules: readonly ExtractionRule[],
  least: Readonly<Record<'runs' | 'values', number>> = { runs: 1, values: 1 },
): Beginnings | null {
  let lengths: number[] | null = null;
  const kept: ProvenRule[] = [];
  const runs = countRuns(solver.examples);
  if (runs < least.runs) return null;
  for (const rule of [...rules].sort((a, b) => rankRule(a) - rankRule(b))) {
    if (kept.length >= STUDENT_CORE.rules) break;
    const foundLengths: number[] = [];
    const different = new Set<string>();
    for (const [t, { context }] of solver.examples.entries()) {
      const found = applyRule(rule, context);
      if (typeof found !== 'string' || found === '' || !values[t]!.startsWith(found, at[t])) break;
      foundLengths.push(found.length);
      different.add(found);
    }
    if (foundLengths.length < values.length || different.size < least.values) continue;
    if (lengths === null) lengths = foundLengths;
    if (foundLengths.every((length, t) => length === lengths![t])) kept.push({ rule, runs });
  }
  return lengths === null ? null : { rules: kept, lengths };
}

const NOTHING: TemplateNode = makeConstant(null);

function solveValue(solver: Solver, values: readonly unknown[]): TemplateNode {
  const first = values[0];
  if (values.every((value) => isObject(value))) {
    const keys = Object.keys(first as object);
    const count = keys.length;
    if (
      values.every(
        (value) => Object.keys(value).length === count && keys.every((key) => Object.hasOwn(value, key)),
      )
    )
      return {
        is: 'object',
        fields: keys.map((key) => [
          key,
          solveValue(
            solver,
            values.map((value) => value[key]),
          ),
        ]),
      };
  }
  if (values.every((value) => Array.isArray(value))) {
    const lists = values as unknown[][];
    const { length } = lists[0]!;
    if (lists.some((list) => list.length !== length && list.some(isObject))) {
      const whole = findRules(toExamples(solver, values), solver.supportMin, solver.tools);
      if (whole.rules !== null) return { is: 'slot', rules: whole.rules };
      const found = solveEach(solver, lists);
      if (found !== null) return { is: 'each', ...found };
      solver.cuts.push(lists.map((list) => String(list.length)));
      return NOTHING;
    }
    if (length <= 8 && lists.every((list) => list.length === length)) {
      if (length === 0) return { is: 'list', items: [] };
      const whole = findRules(toExamples(solver, values), solver.supportMin, solver.tools);
      if (whole.rules !== null) return { is: 'slot', rules: whole.rules };
      return {
        is: 'list',
        items: lists[0]!.map((_, i) =>
          solveValue(
            solver,
            lists.map((list) => list[i]),
          ),
        ),
      };
    }
  }
  if (values.every((value) => isPrimitive(value) && sameValue(value, first))) {
    const value = first as Primitive;
    const constant = solveConstant(solver, value);
    if (constant !== null) return constant;
  }
  const found = findRules(toExamples(solver, values), solver.supportMin, solver.tools);
  if (found.rules !== null) return { is: 'slot', rules: found.rules };
  if (values.every((value) => typeof value === 'string') && values.some((value) => value.length > 2)) {
    const cuts: Cuts = [];
    const text =
      solveConcatenation(solver, values as readonly string[]) ??
      solveText(solver, values as readonly string[], cuts);
    if (text !== null) return text;
    solver.cuts.push(...cuts);
    solver.cuts.push(values.map((value, i) => leaveOutKnown(value, solver.contexts[i]!)));
    if (found.best !== null && countRight(found.best) >= LAST_CUT_RIGHT * values.length)
      solver.lastCuts.push(found.best.map(String));
  } else if (found.best !== null) solver.cuts.push(found.best.map(String));
  solver.cuts.push(values.map((value) => canonicalText(value)));
  return NOTHING;
}

function countRight(best: readonly boolean[]): number {
  return best.filter(Boolean).length;
}

function toExamples(
  solver: Solver,
  values: readonly unknown[],
): { value: unknown; context: StepContext; run_id: string }[] {
  return values.map((value, i) => ({
    value,
    context: solver.examples[i]!.context,
    run_id: solver.examples[i]!.run_id,
  }));
}

/** A day at most this far from a day that the prompt names may be computed from it: tomorrow, in a month. */
const RECKONED_DAYS = 40;

/**
 * Whether a text names a day that is near a day of the system prompt, although the context does not name it; only the
 * first context is examined. Such a value is the same in all golden runs of one day, and different in those of the next
 * day.
 */
function movesWithDay(text: string, contexts: readonly StepContext[]): boolean {
  if (text.length > MOVING_CHARACTERS || !/\d/.test(text)) return false;
  const context = contexts[0]!;
  const prompt = context.source('system');
  if (typeof prompt !== 'string') return false;
  const daysOf = (source: string) =>
    findDates(source).flatMap(({ start, end, codes }) =>
      codes.filter((code) => code > 0).map((code) => ({ code, words: source.slice(start, end) })),
    );
  const days = daysOf(text).filter(({ words }) => !standsIn(words, context));
  if (days.length === 0) return false;
  const today = daysOf(prompt);
  return days.some(({ code }) => today.some((todayDate) => Math.abs(todayDate.code - code) <= RECKONED_DAYS));
}

const MOVING_CHARACTERS = 400;

/**
 * Maximum number of guards kept for a constant. Only plain rules, with a rank below GUARD_RANK, become guards, because
 * other rules hold by chance too often.
 */
const GUARDS = 3;
const GUARD_RANK = 1.7;

/**
 * Makes a constant, or a slot, of a value that all examples share.
 * @returns null when the value cannot be a constant, and no rule finds it
 */
function solveConstant(solver: Solver, value: Primitive): TemplateNode | null {
  if (typeof value === 'string' && movesWithDay(value, solver.contexts)) return null;
  const occasional = looksOccasional(value);
  const canBeGuarded =
    (typeof value === 'string' && value.length > 2 && value.length <= 200) || isNumber(value);
  if (!occasional && !canBeGuarded) return makeConstant(value);
  // A sentence that contains a value of the context is a text with a slot.
  if (typeof value === 'string' && occasional && hasValueOf(value, solver.contexts)) {
    const found = findRules(
      toExamples(
        solver,
        solver.examples.map(() => value),
      ),
      solver.supportMin,
      solver.tools,
    );
    return found.rules === null ? null : { is: 'slot', rules: found.rules };
  }
  const stands = solver.examples.some(({ context }) => standsIn(value, context));
  if (!stands) return makeConstant(value);
  const examples = toExamples(
    solver,
    solver.examples.map(() => value),
  );
  const found = findRules(examples, solver.supportMin, solver.tools, false);
  // In few runs a value may be equal by chance. So a value that looks generated for one run needs a rule.
  if (occasional) return found.rules === null ? null : { is: 'slot', rules: found.rules };
  if (found.rules === null) return makeConstant(value);
  const guards = found.rules.map(({ rule }) => rule).filter((rule) => rankRule(rule) < GUARD_RANK);
  return makeConstant(value, guards.slice(0, GUARDS));
}

/** Maximum number of wordings whose texts need not be identical. Each further text counts as a separate wording. */
const WORDINGS = 16;

function solveText(solver: Solver, texts: readonly string[], cuts: Cuts): TemplateNode | null {
  const pieces = texts.map(readPieces);
  const aligned = pieces.every((read) => read !== null) ? alignTexts(pieces, cuts) : undefined;
  if (aligned === undefined) cuts.push([...texts]);
  if (aligned === undefined || aligned === null) return null;
  const { common, gaps, spaces } = aligned;
  const parts: TemplateNode[] = [];
  let isSolved = true;
  for (const [i, values] of gaps.entries()) {
    if (values.some((value) => value !== '')) {
      if (!solveGap(solver, values, spaces[i]![0], parts, cuts)) {
        isSolved = false;
        continue;
      }
    } else pushText(parts, spaces[i]![0] ?? '');
    if (i < common.length && !solveWord(solver, common[i]!, common[i - 1], parts, cuts)) isSolved = false;
  }
  if (isSolved) return { is: 'text', parts };
  cuts.push([...texts]);
  return null;
}

/** Texts of one wording: their common pieces, and the text in the gaps between these pieces. */
interface AlignedTexts {
  common: Piece[];
  /** The part of each text before each common piece, and after the last common piece. */
  gaps: string[][];
  /**
   * For each gap and text, the white space before and after the gap, with a NUL between; if the gap is empty, only the
   * white space at its place.
   */
  spaces: string[][];
}

/**
 * Aligns texts.
 * @returns null if the texts have several wordings, which are then added to `cuts`, or if they cannot be aligned
 */
function alignTexts(pieces: readonly Piece[][], cuts: Cuts): AlignedTexts | null {
  const labels = labelWordings(pieces);
  if (labels.some((label) => label !== labels[0])) {
    cuts.push(labels);
    return null;
  }
  let common = pieces[0]!.slice(0, -1);
  for (const text of pieces.slice(1)) {
    common = alignPieces(common, text.slice(0, -1)).map(([i]) => common[i]!);
    if (common.length === 0) break;
  }
  const gaps: string[][] = Array.from({ length: common.length + 1 }, () => []);
  const spaces: string[][] = Array.from({ length: common.length }, () => []);
  for (const text of pieces) {
    const pairs = alignPieces(common, text.slice(0, -1));
    if (pairs.length !== common.length) return null;
    let at = 0;
    for (const [i, [, j]] of pairs.entries()) {
      const between = text.slice(at, j);
      // White space before the first piece of a gap belongs to the surrounding text.
      gaps[i]!.push(joinPieces(between, true));
      spaces[i]!.push(between.length === 0 ? text[j]!.space : `${between[0]!.space}\u0000${text[j]!.space}`);
      at = j + 1;
    }
    gaps[common.length]!.push(joinPieces(text.slice(at, -1), true));
  }
  spaces.push(pieces.map((text) => endSpaces(text, common)));
  return { common, gaps, spaces };
}

/** A label per text, equal for texts of one wording. */
function labelWordings(pieces: readonly Piece[][]): string[] {
  const wordings: { keys: string[]; label: string }[] = [];
  return pieces.map((text) => {
    const keys = text.map(({ key }) => key);
    for (const wording of wordings) if (likeness(wording.keys, keys) >= ONE_WORDING) return wording.label;
    if (wordings.length >= WORDINGS) return `other ${keys.join(' ')}`;
    const label = String(wordings.length);
    wordings.push({ keys, label });
    return label;
  });
}

/**
 * Adds template nodes for the text of a gap.
 * @returns false if no nodes give the gap's text; `cuts` then has ways to divide the texts
 */
function solveGap(
  solver: Solver,
  values: readonly string[],
  spaces: string | undefined,
  parts: TemplateNode[],
  cuts: Cuts,
): boolean {
  if (values.some((value) => value === '')) {
    cuts.push(values.map((value) => (value === '' ? 'none' : 'some')));
    return false;
  }
  const isConstant = values.every((value) => value === values[0]) && !looksOccasional(values[0]);
  const found = isConstant ? null : findRules(toExamples(solver, values), solver.supportMin, solver.tools);
  const [before = '', after = ''] = (spaces ?? '').split('\u0000');
  pushText(parts, before);
  if (found === null) pushText(parts, values[0]!);
  else if (found.rules !== null) parts.push({ is: 'slot', rules: found.rules });
  else if (!pushConcatenation(solver, values, parts)) {
    if (found.best !== null) cuts.push(found.best.map(String));
    cuts.push([...values]);
    return false;
  }
  pushText(parts, after);
  return true;
}

/** Adds a piece that all texts have. @returns false when it is a value without a known source, or a computed day */
function solveWord(
  solver: Solver,
  piece: Piece,
  before: Piece | undefined,
  parts: TemplateNode[],
  cuts: Cuts,
): boolean {
  const { contexts } = solver;
  const mayBeValue = piece.isOccasional
    ? contexts.some((context) => standsIn(piece.text, context))
    : isNameLike(piece, before) || contexts.every((context) => isLeafOf(piece.text, context));
  if (!mayBeValue) {
    if (piece.isOccasional && movesWithDay(piece.text, contexts)) return false;
    pushText(parts, piece.text);
    return true;
  }
  const texts = solver.examples.map(() => piece.text);
  const found = findRules(toExamples(solver, texts), solver.supportMin, solver.tools);
  if (found.rules !== null) parts.push({ is: 'slot', rules: found.rules });
  else if (!piece.isOccasional) pushText(parts, piece.text);
  else {
    if (found.best !== null) cuts.push(found.best.map(String));
    return false;
  }
  return true;
}

/** Whether a word of at least 4 characters is itself a value in the context. Such a word changes with the value. */
function isLeafOf(text: string, context: StepContext): boolean {
  if (text.length < 4) return false;
  const visit = (at: unknown): boolean =>
    at === text || (at !== null && typeof at === 'object' && Object.values(at).some(visit));
  return context.step.sources.some(({ name, value }) => name !== 'progress' && visit(value));
}

/**
 * Whether a piece is a capitalised word of at least 3 characters inside a sentence. Such a word may be equal by chance,
 * because two runs may have the same customer.
 */
function isNameLike(piece: Piece, before: Piece | undefined): boolean {
  if (piece.text.length < 3 || before === undefined || /^[.!?:\n]$/.test(before.text)) return false;
  const first = piece.text[0]!;
  return first !== first.toLowerCase();
}

function pushConcatenation(solver: Solver, values: readonly string[], parts: TemplateNode[]): boolean {
  const found = solveConcatenation(solver, values);
  if (found === null) return false;
  parts.push(found);
  return true;
}

/** The white space around the gap that follows the last common piece, in the form of {@link AlignedTexts}. */
function endSpaces(pieces: readonly Piece[], common: readonly Piece[]): string {
  const last = pieces[pieces.length - 1]!;
  if (pieces.length - 1 <= common.length) return last.space;
  const pairs = alignPieces(common, pieces.slice(0, -1));
  const at = pairs.length === 0 ? 0 : pairs[pairs.length - 1]![1] + 1;
  return at < pieces.length - 1 ? `${pieces[at]!.space}\u0000${last.space}` : last.space;
}

function pushText(parts: TemplateNode[], text: string): void {
  if (text === '') return;
  const last = parts[parts.length - 1];
  if (last?.is === 'constant') last.value = String(last.value) + text;
  else parts.push(makeConstant(text));
}

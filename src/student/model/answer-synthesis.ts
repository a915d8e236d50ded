/**
 * Sorts golden answers into classes with a template each (anti-unification: Plotkin, "A note on inductive
 * generalization", 1970; here the variables are bound by rules that read the step's context). Steps that need different
 * answers come out as different classes. Pure; analysis.
 *
 * A constant is never an identifier that stands in the golden steps' own context: that is a value, and needs a rule.
 */

import { STUDENT_CORE } from '../../limits.ts';
import type { AnswerTemplate, TemplateNode } from './answer-template.ts';
import type { StudentBlock } from './decision.ts';
import { contextOfItem, type EachItem, proposeEach, takeItems } from './each-item.ts';
import {
  applyRule,
  type ExtractionRule,
  findRules,
  looksOccasional,
  type ProvenRule,
  proposeRules,
  rankRule,
  type StepContext,
  standsIn,
} from './extraction.ts';
import { canonicalText, isObject, isPrimitive, type Primitive } from './json-values.ts';
import { findDates } from './prompt-dates.ts';
import {
  alignPieces,
  joinPieces,
  likeness,
  ONE_WORDING,
  type Piece,
  readPieces,
  TEXT_PIECES,
} from './text-alignment.ts';
import { isOccasional, readTokens } from './text-tokens.ts';

/** A golden answer with the context it was given in. */
export interface AnswerExample {
  run_id: string;
  context: StepContext;
  content: readonly StudentBlock[];
}

/** Examples that one template explains. */
export interface AnswerClass {
  template: AnswerTemplate;
  /** Places among the examples. */
  members: number[];
  runs: number;
}

/** Ways of cutting a set of examples in parts, one after the other. */
const CUTS = 6;

/**
 * Sorts examples into classes, each with a template that gives each of its members' answers from their context.
 * @returns classes, largest first; examples that no template explains are in none
 */
export function synthesizeAnswers(examples: readonly AnswerExample[], supportMin: number): AnswerClass[] {
  const classes: AnswerClass[] = [];
  const shapes = new Map<string, number[]>();
  for (const [i, example] of examples.entries()) {
    const shape = shapeOf(example.content);
    const members = shapes.get(shape);
    if (members === undefined) shapes.set(shape, [i]);
    else members.push(i);
  }
  for (const members of shapes.values()) splitAndSolve(examples, members, supportMin, 0, classes);
  classes.sort((a, b) => b.runs - a.runs || a.members[0]! - b.members[0]!);
  return classes.slice(0, STUDENT_CORE.classes);
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
  if (!Array.isArray(solved)) {
    classes.push({ template: solved, members, runs });
    return;
  }
  if (cuts >= CUTS) return;
  // Of the ways to cut, the one that leaves most examples in parts that have enough runs, in the fewest parts.
  let best: number[][] | null = null;
  let bestCovered = 0;
  for (const labels of solved) {
    const parts = new Map<string, number[]>();
    for (const [i, label] of labels.entries()) {
      const part = parts.get(label);
      if (part === undefined) parts.set(label, [members[i]!]);
      else part.push(members[i]!);
    }
    // As many values as that are no states: they come from somewhere, and nobody knows where.
    if (parts.size < 2 || parts.size > 2 + members.length / 4) continue;
    let covered = 0;
    const kept: number[][] = [];
    for (const part of parts.values()) {
      if (countRuns(part.map((i) => examples[i]!)) < supportMin) continue;
      covered += part.length;
      kept.push(part);
    }
    const value = covered - 0.5 * kept.length;
    if (kept.length > 0 && value > bestCovered) {
      best = kept;
      bestCovered = value;
    }
  }
  for (const part of best ?? []) splitAndSolve(examples, part, supportMin, cuts + 1, classes);
}

function countRuns(examples: readonly { run_id: string }[]): number {
  return new Set(examples.map(({ run_id }) => run_id)).size;
}

/** What must be equal for one template to be possible. */
function shapeOf(content: readonly StudentBlock[]): string {
  let shape = '';
  // Calls that are alike may be one for each element of a list: then nobody knows how many they are.
  let before = '';
  for (const block of content) {
    if (block.type !== 'tool_call') continue;
    const its = `${JSON.stringify(block.name)}${shapeOfValue(block.input)}\n`;
    if (its !== before) shape += its;
    before = its;
  }
  if (shape !== '') return shape;
  const json = readJsonAnswer(textOf(content));
  return json === null ? 'text' : `json ${json.indent} ${shapeOfValue(json.value, true)}`;
}

function textOf(content: readonly StudentBlock[]): string {
  return content
    .filter((block) => block.type === 'text')
    .map(({ text }) => text)
    .join('\n');
}

/** @returns null for a text that is not an object or a list, written as JSON.stringify writes */
function readJsonAnswer(text: string): { value: object; indent: number } | null {
  if (!text.startsWith('{') && !text.startsWith('[')) return null;
  try {
    const value = JSON.parse(text) as object;
    const indent = [0, 2, 4].find((spaces) => JSON.stringify(value, null, spaces) === text);
    return indent === undefined ? null : { value, indent };
  } catch {
    return null;
  }
}

/** @param tellsNull that nothing was found is another answer, and not another value */
function shapeOfValue(value: unknown, tellsNull = false): string {
  if (isPrimitive(value)) return tellsNull && value === null ? 'null' : '_';
  if (Array.isArray(value)) {
    // A long list, or one of plain values, is taken from the context as a whole or not at all.
    if (value.length > 8) return '_';
    const shapes = value.map((item) => shapeOfValue(item, tellsNull));
    // Of as many elements as another list has, perhaps.
    const isEven = isObject(value[0]) && shapes.every((shape) => shape === shapes[0]);
    return isEven ? `[${shapes[0]}…]` : `[${shapes.join(',')}]`;
  }
  if (!isObject(value)) return '_';
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${shapeOfValue(value[key], tellsNull)}`).join(',')}}`;
}

/** Labels of the examples, one list for each way to cut them. */
type Cuts = string[][];

function solve(examples: readonly AnswerExample[], supportMin: number): AnswerTemplate | Cuts {
  const first = examples[0]!;
  const calls = first.content.filter((block) => block.type === 'tool_call');
  const tools = calls.map(({ name }) => name);
  const all = examples.map(({ content }) => content.filter((block) => block.type === 'tool_call'));
  const contexts = examples.map(({ context }) => context);
  const solver: Solver = { examples, contexts, supportMin, tools, cuts: [] };
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
  if (solver.cuts.length > 0) return solver.cuts;
  if (calls.length > 0 && texts.every((text) => text !== '')) {
    // Nobody acts on it: said where it can be, else left out.
    const beside: Solver = { examples, contexts, supportMin, tools, cuts: [] };
    const text = solveValue(beside, texts);
    if (beside.cuts.length === 0) template.text = text;
  }
  return template;
}

interface Solver {
  examples: readonly AnswerExample[];
  contexts: readonly StepContext[];
  supportMin: number;
  tools: readonly string[];
  /** Of what could not be solved; empty: all was. */
  cuts: Cuts;
}

type CallBlock = Extract<StudentBlock, { type: 'tool_call' }>;

/** Calls of which some are one for each element of a list. @returns null where they are not */
function solveCallsOfEach(
  solver: Solver,
  all: readonly (readonly CallBlock[])[],
): AnswerTemplate['calls'] | null {
  const parts = all.map(groupCalls);
  const { length } = parts[0]!;
  if (parts.some((its) => its.length !== length)) return null;
  const calls: AnswerTemplate['calls'] = [];
  for (let p = 0; p < length; p++) {
    const its = parts.map((part) => part[p]!);
    const { name } = its[0]![0]!;
    if (its.some((blocks) => blocks[0]!.name !== name)) return null;
    const inputs = its.map((blocks) => blocks.map(({ input }) => input));
    if (its.every((blocks) => blocks.length === 1)) {
      const alone: Solver = { ...solver, cuts: [] };
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

/** Calls that follow each other and are alike. */
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

/** Elements of all lists together that are looked at. */
const EACH_EXAMPLES = 400;

/** Values of which each example has one for each element of a list in its context. */
function solveEach(
  solver: Solver,
  values: readonly (readonly unknown[])[],
): { each: EachItem; item: TemplateNode } | null {
  const counts = values.map(({ length }) => length);
  // One each time is no list.
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
    const inner: Solver = { ...solver, examples, contexts, cuts: [] };
    const item = solveValue(inner, flat);
    if (inner.cuts.length === 0) return { each, item };
  }
  return null;
}

/** Shortest piece of a value that is looked for in the context. */
const SEGMENT = 3;
const SEGMENTS = 6;

/**
 * A value put together from others and constants, such as a path in a folder. From the left: the longest piece of the
 * value that the context holds, by rules that find a beginning of what is left in every example.
 * @returns null where it does not come out
 */
function solveConcatenation(solver: Solver, values: readonly string[]): TemplateNode | null {
  const first = values[0]!;
  if (first.length > 400 || values.some((value) => value === '' || /\s/.test(value))) return null;
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
        if (!standsIn(piece, context)) continue;
        isKnown = true;
        taken = findBeginnings(solver, values, at, proposeRules(piece, context, solver.tools));
      }
      // Tasks that are worded differently need a rule each.
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
  // What looks made up for one run and stands in its context must have come from there.
  for (const part of parts)
    if (part.is === 'constant' && hasValueOf(String(part.value), solver.contexts)) return null;
  const hasDigit = parts.some((part) => part.is === 'constant' && /\d/.test(String(part.value)));
  if (hasDigit && movesWithDay(first, solver.contexts)) return null;
  return { is: 'text', parts };
}

const PARTS_OF_VALUE = /[\p{L}\p{N}_-]+/gu;

/** What is left of a value without what its context holds: `cat config/·.json` and `cat jobs/·.json` are two commands. */
function leaveOutKnown(value: string, context: StepContext): string {
  const known = new Set<string>();
  for (const { name, value: source } of context.step.sources) {
    // What is alike in all steps tells nothing.
    if (name === 'system' || name === 'progress') continue;
    const text = typeof source === 'string' ? source : JSON.stringify(source);
    for (const [part] of text.matchAll(PARTS_OF_VALUE)) known.add(part);
  }
  return value.replace(PARTS_OF_VALUE, (part) => (/\d/.test(part) || known.has(part) ? '·' : part));
}

function hasValueOf(text: string, contexts: readonly StepContext[]): boolean {
  return readTokens(text, TEXT_PIECES).some(
    (token) =>
      isOccasional(token) &&
      token.end - token.start > 2 &&
      contexts.some((context) => standsIn(text.slice(token.start, token.end), context)),
  );
}

/** Whether a piece of a value may begin there, or the one before it end. */
function isStart(text: string, i: number): boolean {
  return (
    i === 0 || i === text.length || /[^\p{L}\p{N}]/u.test(text[i - 1]!) || /[^\p{L}\p{N}]/u.test(text[i]!)
  );
}

/** Rules for the next piece of each value, and how long it is in each. */
interface Beginnings {
  rules: ProvenRule[];
  lengths: number[];
}

/** Wordings of one task that have a rule each. */
const WORDED = 5;

/** Rules that give a beginning of what is left of a value wherever they find something, and together do so in every example. */
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

/** Of the first value without a rule, the one that gives the longest beginning. */
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
      for (const [t, { context: its, run_id }] of solver.examples.entries()) {
        const found = applyRule(rule, its);
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

/** Rules that give, in every example, a beginning of what is left of its value; those that say the same as the best. */
function findBeginnings(
  solver: Solver,
  values: readonly string[],
  at: readonly number[],
  rules: readonly ExtractionRule[],
): Beginnings | null {
  let lengths: number[] | null = null;
  const kept: ProvenRule[] = [];
  const runs = countRuns(solver.examples);
  for (const rule of [...rules].sort((a, b) => rankRule(a) - rankRule(b))) {
    if (kept.length >= STUDENT_CORE.rules) break;
    const its: number[] = [];
    for (const [t, { context }] of solver.examples.entries()) {
      const found = applyRule(rule, context);
      if (typeof found !== 'string' || found === '' || !values[t]!.startsWith(found, at[t])) break;
      its.push(found.length);
    }
    if (its.length < values.length) continue;
    if (lengths === null) lengths = its;
    if (its.every((length, t) => length === lengths![t])) kept.push({ rule, runs });
  }
  return lengths === null ? null : { rules: kept, lengths };
}

const NOTHING: TemplateNode = { is: 'constant', value: null, guards: [] };

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
  if (values.every((value) => isPrimitive(value) && value === first)) {
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
  } else if (found.best !== null) solver.cuts.push(found.best.map(String));
  solver.cuts.push(values.map((value) => canonicalText(value)));
  return NOTHING;
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

/** A day this far from the one that it is may be reckoned from it: tomorrow, in a month. */
const RECKONED_DAYS = 40;

/**
 * Whether a text names a day near the one that the prompt says it is, and the context does not name it: golden runs of one day
 * then all say the same, and those of the next say another.
 */
function movesWithDay(text: string, contexts: readonly StepContext[]): boolean {
  if (text.length > MOVING_CHARACTERS || !/\d/.test(text)) return false;
  const context = contexts[0]!;
  const prompt = context.source('system');
  if (typeof prompt !== 'string') return false;
  const daysOf = (its: string) =>
    findDates(its).flatMap(({ start, end, codes }) =>
      codes.filter((code) => code > 0).map((code) => ({ code, words: its.slice(start, end) })),
    );
  const days = daysOf(text).filter(({ words }) => !standsIn(words, context));
  if (days.length === 0) return false;
  const today = daysOf(prompt);
  return days.some(({ code }) => today.some((other) => Math.abs(other.code - code) <= RECKONED_DAYS));
}

const MOVING_CHARACTERS = 400;

/** Guards kept of a constant: plain rules alone, the others hold by chance too often. */
const GUARDS = 3;
const GUARD_RANK = 1.7;

/** @returns null where it may be no constant */
function solveConstant(solver: Solver, value: Primitive): TemplateNode | null {
  if (typeof value === 'string' && movesWithDay(value, solver.contexts)) return null;
  const occasional = looksOccasional(value);
  const canBeGuarded =
    (typeof value === 'string' && value.length > 2 && value.length <= 200) || typeof value === 'number';
  if (!occasional && !canBeGuarded) return { is: 'constant', value, guards: [] };
  // A sentence with such a value in it is a text with a slot.
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
  if (!stands) return { is: 'constant', value, guards: [] };
  const examples = toExamples(
    solver,
    solver.examples.map(() => value),
  );
  const found = findRules(examples, solver.supportMin, solver.tools);
  // It may be the same by chance in few runs: whatever looks made up for one run is looked up.
  if (occasional) return found.rules === null ? null : { is: 'slot', rules: found.rules };
  if (found.rules === null) return { is: 'constant', value, guards: [] };
  const guards = found.rules.map(({ rule }) => rule).filter((rule) => rankRule(rule) < GUARD_RANK);
  return { is: 'constant', value, guards: guards.slice(0, GUARDS) };
}

const WORDINGS = 16;

function solveText(solver: Solver, texts: readonly string[], cuts: Cuts): TemplateNode | null {
  const pieces: Piece[][] = [];
  for (const text of texts) {
    const read = readPieces(text);
    if (read === null) {
      cuts.push([...texts]);
      return null;
    }
    pieces.push(read);
  }
  // One wording?
  const wordings: { keys: string[]; label: string }[] = [];
  const labels = pieces.map((its) => {
    const keys = its.map(({ key }) => key);
    for (const wording of wordings) if (likeness(wording.keys, keys) >= ONE_WORDING) return wording.label;
    if (wordings.length >= WORDINGS) return `other ${keys.join(' ')}`;
    const label = String(wordings.length);
    wordings.push({ keys, label });
    return label;
  });
  if (wordings.length > 1) {
    cuts.push(labels);
    return null;
  }
  // What all have, in order.
  let common = pieces[0]!.slice(0, -1);
  for (const other of pieces.slice(1)) {
    common = alignPieces(common, other.slice(0, -1)).map(([i]) => common[i]!);
    if (common.length === 0) break;
  }
  const gaps: string[][] = Array.from({ length: common.length + 1 }, () => []);
  const constants: string[][] = Array.from({ length: common.length }, () => []);
  for (const [t, its] of pieces.entries()) {
    const pairs = alignPieces(common, its.slice(0, -1));
    if (pairs.length !== common.length) return null;
    let at = 0;
    for (const [i, [, j]] of pairs.entries()) {
      const between = its.slice(at, j);
      // White space before the first piece of a gap belongs to the text around it.
      gaps[i]!.push(joinPieces(between, true));
      constants[i]!.push(between.length === 0 ? its[j]!.space : `${between[0]!.space}\u0000${its[j]!.space}`);
      at = j + 1;
    }
    const rest = its.slice(at, -1);
    gaps[common.length]!.push(joinPieces(rest, true));
    void t;
  }
  const parts: TemplateNode[] = [];
  let isSolved = true;
  for (let i = 0; i <= common.length; i++) {
    const values = gaps[i]!;
    const spaces = i < common.length ? constants[i]! : pieces.map((its) => endSpaces(its, common, i));
    const isGap = values.some((value) => value !== '');
    if (isGap) {
      if (values.some((value) => value === '')) {
        isSolved = false;
        cuts.push(values.map((value) => (value === '' ? 'none' : 'some')));
        continue;
      }
      const examples = toExamples(solver, values);
      const found =
        values.every((value) => value === values[0]) && !looksOccasional(values[0])
          ? null
          : findRules(examples, solver.supportMin, solver.tools);
      const [before = '', after = ''] = (spaces[0] ?? '').split('\u0000');
      pushText(parts, before);
      if (found === null) pushText(parts, values[0]!);
      else if (found.rules !== null) parts.push({ is: 'slot', rules: found.rules });
      else if (pushConcatenation(solver, values, parts)) {
        // Put together.
      } else {
        isSolved = false;
        if (found.best !== null) cuts.push(found.best.map(String));
        cuts.push([...values]);
        continue;
      }
      pushText(parts, after);
    } else pushText(parts, spaces[0] ?? '');
    if (i === common.length) break;
    const piece = common[i]!;
    const { contexts } = solver;
    if (
      piece.isOccasional
        ? contexts.some((its) => standsIn(piece.text, its))
        : isNameLike(piece, common[i - 1]) || contexts.every((its) => isLeafOf(piece.text, its))
    ) {
      const found = findRules(
        toExamples(
          solver,
          pieces.map(() => piece.text),
        ),
        solver.supportMin,
        solver.tools,
      );
      if (found.rules !== null) parts.push({ is: 'slot', rules: found.rules });
      else if (piece.isOccasional) {
        // Nobody knows where it is from.
        isSolved = false;
        if (found.best !== null) cuts.push(found.best.map(String));
      } else pushText(parts, piece.text);
    } else if (piece.isOccasional && movesWithDay(piece.text, contexts)) isSolved = false;
    else pushText(parts, piece.text);
  }
  if (isSolved) return { is: 'text', parts };
  cuts.push([...texts]);
  return null;
}

/** Words that stand alone as a value of the context say what it says, and change with it. */
function isLeafOf(text: string, context: StepContext): boolean {
  if (text.length < 4) return false;
  const visit = (at: unknown): boolean =>
    at === text || (at !== null && typeof at === 'object' && Object.values(at).some(visit));
  return context.step.sources.some(({ name, value }) => name !== 'progress' && visit(value));
}

/** A word with a capital inside a sentence: it may be the same by chance, as two runs of one customer's. */
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

function endSpaces(its: readonly Piece[], common: readonly Piece[], i: number): string {
  const last = its[its.length - 1]!;
  const hasGap = its.length - 1 > common.length && i === common.length;
  if (!hasGap) return last.space;
  const pairs = alignPieces(common, its.slice(0, -1));
  const at = pairs.length === 0 ? 0 : pairs[pairs.length - 1]![1] + 1;
  return at < its.length - 1 ? `${its[at]!.space}\u0000${last.space}` : last.space;
}

function pushText(parts: TemplateNode[], text: string): void {
  if (text === '') return;
  const last = parts[parts.length - 1];
  if (last?.is === 'constant') last.value = String(last.value) + text;
  else parts.push({ is: 'constant', value: text, guards: [] });
}

/**
 * Makes templates of texts that say something about each element of a list: `09:00 to 10:00 Call: budget; 11:00 to …`.
 * The elements between the first and the last one show what a text says about an element. If a text has these words
 * for all elements of a step's list, a mark replaces the words, and the remaining text is solved like any other text.
 * Pure; teaching.
 */

import { fillTemplate, makeConstant, type TemplateNode } from '../student/model/answer-template.ts';
import {
  contextOfItem,
  type EachItem,
  ITEM_SOURCE,
  proposeEach,
  takeItems,
} from '../student/model/each-item.ts';
import { StepContext } from '../student/model/extraction.ts';
import { isObject, isPrimitive, textOfPrimitive } from '../student/model/json-values.ts';
import { JOINTS } from '../student/model/list-summary.ts';
import type { LooseText } from './loose-texts.ts';

/** Texts that say something about each element of a list, with a mark in place of these words. */
interface ListedTexts {
  list: ItemsNode;
  /** Indexes of the texts, and their other words. */
  members: { at: number; text: string }[];
}

type ItemsNode = Extract<TemplateNode, { is: 'items' }>;

/** Solves texts; the result is null if their steps do not explain them. */
type SolveItems = (texts: readonly LooseText[]) => TemplateNode | null;

/** The character that replaces a list in a text. It is one for private use, which clients hardly ever send. */
const LIST_MARK = '\uE000';
/** Minimum number of runs whose texts show a list; also of runs whose texts have at least two elements of it. */
const LISTED_RUNS = 5;
/**
 * Minimum number of elements in a text that shows what texts say about an element. Then at least one element is between
 * the first and the last.
 */
const TOLD = 3;
/** Of the texts that have any element of a list: maximum share of those that do not have all elements. */
const PARTLY = 0.1;
/** Maximum number of elements that are examined. */
const ITEMS = 120;
/** Maximum number of elements from which a template is proposed, and maximum depth of a field in an element. */
const PROPOSING = 6;
const FIELD_DEPTH = 2;
/** Maximum number of texts that are searched for the list whose elements texts mention. */
const SHOWING = 3;

/**
 * Finds texts that say something about each element of a list.
 * @returns the texts of the list that most texts mention; null when too few runs have such texts
 */
export function findListedTexts(texts: readonly LooseText[], solveItems: SolveItems): ListedTexts | null {
  let best: ListedTexts | null = null;
  for (const [by, last] of JOINTS) {
    if (by.length < 2 && by !== '\n') continue;
    const told = texts.map(({ text }) => divide(text, by, last));
    const telling = texts.flatMap((text, at) =>
      told[at]!.length >= TOLD ? [{ ...text, items: told[at]! }] : [],
    );
    if (countRuns(telling) < LISTED_RUNS) continue;
    for (const { items, context } of telling.slice(0, SHOWING))
      for (const each of proposeEach([context], [items.length])) {
        const inner = listInner(telling, each);
        const item = inner.length === 0 ? null : (copyFields(inner) ?? solveItems(inner));
        if (item === null) continue;
        const found = markLists(texts, { is: 'items', each, item, by, last });
        if (found.members.length > (best?.members.length ?? 0) && tellsWhole(texts, found)) best = found;
      }
  }
  if (best === null) return null;
  const { list, members } = best;
  const several = members.filter(({ at }) => (takeItems(list.each, texts[at]!.context)?.length ?? 0) > 1);
  return countRuns(several.map(({ at }) => texts[at]!)) < LISTED_RUNS ? null : best;
}

/** Whether hardly any text mentions only some elements of the list. */
function tellsWhole(texts: readonly LooseText[], { list, members }: ListedTexts): boolean {
  const whole = new Set(members.map(({ at }) => at));
  const partly = texts.filter(({ text, context }, at) => {
    if (whole.has(at)) return false;
    return takeItems(list.each, context)?.some((value) => {
      const told = fillText(list.item, contextOfItem(context, value));
      return told !== null && text.includes(told);
    });
  });
  return partly.length <= PARTLY * (members.length + partly.length);
}

/** Puts the list into a template in the mark's place; null unless the template has exactly one such place. */
export function insertList(template: TemplateNode, list: ItemsNode): TemplateNode | null {
  const parts = template.is === 'text' ? template.parts : [template];
  const filled: TemplateNode[] = [];
  let places = 0;
  for (const part of parts) {
    const text = part.is === 'constant' && typeof part.value === 'string' ? part.value : '';
    const [before = '', ...after] = text.split(LIST_MARK);
    if (after.length === 0) {
      filled.push(part);
      continue;
    }
    places += after.length;
    if (before !== '') filled.push(makeConstant(before));
    filled.push(list);
    if (after[0] !== '') filled.push(makeConstant(after[0]!));
  }
  return places === 1 ? { is: 'text', parts: filled } : null;
}

function countRuns(texts: readonly { run_id: string }[]): number {
  return new Set(texts.map(({ run_id }) => run_id)).size;
}

/**
 * Divides a text at separators.
 * @param last the separator before the last part
 * @returns the parts; empty if `last` is another separator than `by` and does not occur in the right place
 */
function divide(text: string, by: string, last: string): string[] {
  const parts = text.split(by);
  if (last === by) return parts;
  const end = parts.pop()!;
  const at = end.indexOf(last);
  return at < 0 ? [] : [...parts, end.slice(0, at), end.slice(at + last.length)];
}

/**
 * What texts say about the elements between the first and the last one. Those two may have other words beside them.
 * Empty when too few runs have such elements.
 */
function listInner(
  telling: readonly (LooseText & { items: readonly string[] })[],
  each: EachItem,
): LooseText[] {
  const found: LooseText[] = [];
  for (const { run_id, context, items } of telling) {
    const values = takeItems(each, context);
    if (values?.length !== items.length) continue;
    for (let i = 1; i < items.length - 1 && found.length < ITEMS; i++) {
      const own = new StepContext({ sources: [{ name: ITEM_SOURCE, value: values[i] }] });
      found.push({ run_id, context: own, text: items[i]! });
    }
  }
  return countRuns(found) < LISTED_RUNS ? [] : found;
}

/** Makes a template that copies fields of an element; null when none gives the texts about all elements. */
function copyFields(items: readonly LooseText[]): TemplateNode | null {
  const runs = countRuns(items);
  for (const { text, context } of items.slice(0, PROPOSING)) {
    const template = proposeFields(text, listFields(context.source(ITEM_SOURCE)), runs);
    if (items.every((item) => fillText(template, item.context) === item.text)) return template;
  }
  return null;
}

interface Field {
  path: string[];
  text: string;
  isText: boolean;
}

/** The fields of an element, those with the longest values first. */
function listFields(value: unknown, path: string[] = []): Field[] {
  if (isObject(value))
    return Object.keys(value)
      .flatMap((key) => (path.length < FIELD_DEPTH ? listFields(value[key], [...path, key]) : []))
      .sort((a, b) => b.text.length - a.text.length);
  if (!isPrimitive(value) || value === null || typeof value === 'boolean' || value === '') return [];
  return [{ path, text: textOfPrimitive(value), isText: typeof value === 'string' }];
}

/** A template that has a field wherever the text has its value as whole words. */
function proposeFields(text: string, fields: readonly Field[], runs: number): TemplateNode {
  const parts: TemplateNode[] = [];
  let constant = '';
  for (let at = 0; at < text.length; ) {
    const field = fields.find(
      (each) => text.startsWith(each.text, at) && areWhole(text, at, at + each.text.length),
    );
    if (field === undefined) {
      constant += text[at++]!;
      continue;
    }
    if (constant !== '') parts.push(makeConstant(constant));
    constant = '';
    const writing = field.isText ? 'same' : 'text';
    parts.push({
      is: 'slot',
      rules: [{ rule: { from: ITEM_SOURCE, path: field.path, span: null, writing }, runs }],
    });
    at += field.text.length;
  }
  if (constant !== '') parts.push(makeConstant(constant));
  return { is: 'text', parts };
}

const WORD = /[\p{L}\p{N}]/u;

/** Whether both places are borders of words: no word begins before a place and continues after it. */
function areWhole(text: string, from: number, to: number): boolean {
  const isInside = (at: number): boolean => WORD.test(text[at - 1] ?? ' ') && WORD.test(text[at] ?? ' ');
  return !isInside(from) && !isInside(to);
}

function fillText(template: TemplateNode, context: StepContext): string | null {
  const filled = fillTemplate({ calls: [], text: template }, context);
  const [block] = typeof filled === 'string' ? [] : filled.value;
  return block?.type === 'text' ? block.text : null;
}

/** Finds the texts that tell the list exactly once, and puts the mark in its place. */
function markLists(texts: readonly LooseText[], list: ItemsNode): ListedTexts {
  const members = texts.flatMap(({ text, context }, at) => {
    const told = fillText(list, context);
    const parts = told === null ? [] : text.split(told);
    return parts.length === 2 ? [{ at, text: parts.join(LIST_MARK) }] : [];
  });
  return { list, members };
}

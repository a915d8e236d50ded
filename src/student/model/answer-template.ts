/**
 * What several golden answers have in common, with slots for what differs, and the code that fills the slots with a
 * step's own values. answer-synthesis.ts makes templates. Pure; teaching and the student's thread.
 */

import { canonicalNumber, exactNumber, isRawNumber, type RawNumber } from '../../std/exact-json.ts';
import type { StudentBlock } from './decision.ts';
import { contextOfItem, type EachItem, takeItems } from './each-item.ts';
import {
  applyRule,
  type ExtractionRule,
  type ProvenRule,
  type StepContext,
  sameValue,
} from './extraction.ts';
import { isPrimitive, type Primitive, textOfPrimitive } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';

/**
 * A value that is the same in all golden answers. Guards are rules that found this value in the context of golden
 * steps. A guard that finds another value in a live step makes the constant doubtful. `digits` holds a number that a
 * double would print differently; `value` is null then.
 */
interface TemplateConstant {
  is: 'constant';
  value: Exclude<Primitive, RawNumber>;
  digits?: string;
  guards: ExtractionRule[];
}

/** A constant with this value. */
export function makeConstant(value: Primitive, guards: ExtractionRule[] = []): TemplateConstant {
  return isRawNumber(value)
    ? { is: 'constant', value: null, digits: value.rawJSON, guards }
    : { is: 'constant', value, guards };
}

/** A part of an answer. */
export type TemplateNode =
  | TemplateConstant
  | { is: 'slot'; rules: ProvenRule[] }
  | { is: 'text'; parts: TemplateNode[] }
  | { is: 'object'; fields: [string, TemplateNode][] }
  | { is: 'list'; items: TemplateNode[] }
  /** One element per element of another list. */
  | { is: 'each'; each: EachItem; item: TemplateNode }
  /** A text for each element of a list, with a separator between them, and another one before the last. */
  | { is: 'items'; each: EachItem; item: TemplateNode; by: string; last: string };

/** The template of an answer: calls, a text, or a text that is JSON. */
export interface AnswerTemplate {
  /** `each`: one call per element of a list. */
  calls: { name: string; input: TemplateNode; each?: EachItem }[];
  /** Text alone, or the commentary beside calls where it could be learned. */
  text: TemplateNode | null;
  /** Set if the answer is a text alone that is JSON: the value, and the indentation of the text. `text` is null then. */
  json?: { value: TemplateNode; indent: number };
}

/** A filled part, with the doubt about it. */
interface Filled<T> {
  value: T;
  /** Doubt about the least certain slot or constant, 0 … 1. */
  doubt: number;
}

/** Why a template cannot be filled. */
type Unfilled = 'missing_value' | 'disagreement';

/**
 * Fills a template with a step's own values. A text beside calls is left out if it cannot be filled.
 * @param found receives the values that the slots' rules find
 * @returns the answer, or why it cannot be filled: the step lacks a value, or the answer would be empty or too large
 */
export function fillTemplate(
  template: AnswerTemplate,
  context: StepContext,
  found: string[] = [],
): Filled<StudentBlock[]> | Unfilled {
  const content: StudentBlock[] = [];
  let doubt = 0;
  if (template.text !== null) {
    const text = fillNode(template.text, context, found, true);
    if (typeof text === 'string') {
      if (template.calls.length === 0) return text;
    } else if (
      typeof text.value === 'string' &&
      text.value !== '' &&
      text.value.length <= STUDENT_CORE.answer
    ) {
      content.push({ type: 'text', text: text.value });
      if (template.calls.length === 0) doubt = text.doubt;
    }
  }
  if (template.json !== undefined) {
    const filled = fillNode(template.json.value, context, found);
    if (typeof filled === 'string') return filled;
    const text = JSON.stringify(filled.value, null, template.json.indent);
    if (text.length > STUDENT_CORE.answer) return 'missing_value';
    return { value: [{ type: 'text', text }], doubt: filled.doubt };
  }
  let calls = 0;
  for (const { name, input, each } of template.calls) {
    const items = each === undefined ? [NO_ITEM] : (takeItems(each, context) ?? []);
    // An answer without any calls would be a different answer.
    if (items.length === 0) return 'missing_value';
    calls += items.length;
    if (calls > STUDENT_CORE.answer_calls) return 'missing_value';
    for (const item of items) {
      const before = found.length;
      const filled = fillNode(input, item === NO_ITEM ? context : contextOfItem(context, item), found);
      if (typeof filled === 'string') return filled;
      if (input.is === 'text' && !found.slice(before).every((value) => PLAIN.test(value)))
        return 'missing_value';
      doubt = Math.max(doubt, filled.doubt);
      content.push({ type: 'tool_call', id: '', name, input: filled.value });
    }
  }
  return content.length === 0 ? 'missing_value' : { value: content, doubt };
}

/**
 * A value that may stand anywhere in a custom tool's text. Such a text is usually code, in which a quote or another sign
 * of a value could end a text and begin a command.
 */
const PLAIN = /^[\p{L}\p{N} _.,:/@#%+=~-]*$/u;

const NO_ITEM = Symbol('no element');

/**
 * Fills one node.
 * @param isProse whether the node is part of a text that people read, in which `12.5` and `12.50` are the same number
 */
function fillNode(
  node: TemplateNode,
  context: StepContext,
  found: string[],
  isProse = false,
): Filled<unknown> | Unfilled {
  switch (node.is) {
    case 'constant': {
      const value = node.digits === undefined ? node.value : exactNumber(node.digits);
      for (const guard of node.guards) {
        const guarded = applyRule(guard, context);
        if (guarded !== undefined && !sameValue(guarded, value)) return { value, doubt: 0.5 };
      }
      return { value, doubt: 0 };
    }
    case 'slot': {
      const filled = fillSlot(node.rules, context, isProse);
      if (typeof filled !== 'string' && isPrimitive(filled.value)) found.push(textOfPrimitive(filled.value));
      return filled;
    }
    case 'text': {
      let text = '';
      let doubt = 0;
      for (const part of node.parts) {
        const filled = fillNode(part, context, found, isProse);
        if (typeof filled === 'string') return filled;
        if (!isPrimitive(filled.value)) return 'missing_value';
        text += textOfPrimitive(filled.value);
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: text, doubt };
    }
    case 'each': {
      const items: unknown[] = [];
      let doubt = 0;
      for (const item of takeItems(node.each, context) ?? [NO_ITEM]) {
        if (item === NO_ITEM) return 'missing_value';
        const filled = fillNode(node.item, contextOfItem(context, item), found);
        if (typeof filled === 'string') return filled;
        items.push(filled.value);
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: items, doubt };
    }
    case 'items':
      return fillItems(node, context, found);
    case 'list': {
      const items: unknown[] = [];
      let doubt = 0;
      for (const item of node.items) {
        const filled = fillNode(item, context, found);
        if (typeof filled === 'string') return filled;
        items.push(filled.value);
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: items, doubt };
    }
    default: {
      const object: Record<string, unknown> = {};
      let doubt = 0;
      for (const [key, field] of node.fields) {
        const filled = fillNode(field, context, found);
        if (typeof filled === 'string') return filled;
        object[key] = filled.value;
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: object, doubt };
    }
  }
}

/** Fills a text about each element of a list. */
function fillItems(
  { each, item, by, last }: Extract<TemplateNode, { is: 'items' }>,
  context: StepContext,
  found: string[],
): Filled<string> | Unfilled {
  const items = takeItems(each, context);
  if (items === undefined || items.length === 0) return 'missing_value';
  let text = '';
  let doubt = 0;
  for (const [i, value] of items.entries()) {
    const filled = fillNode(item, contextOfItem(context, value), found, true);
    if (typeof filled === 'string') return filled;
    if (!isPrimitive(filled.value)) return 'missing_value';
    if (i > 0) text += i === items.length - 1 ? last : by;
    text += textOfPrimitive(filled.value);
    if (text.length > STUDENT_CORE.answer) return 'missing_value';
    doubt = Math.max(doubt, filled.doubt);
  }
  // A text may say how many elements it lists.
  found.push(String(items.length));
  return { value: text, doubt };
}

/** Minimum doubt about a slot if a rule with at least as much evidence as the others finds nothing in this step. */
const SILENT = 0.2;

function fillSlot(
  rules: readonly ProvenRule[],
  context: StepContext,
  isProse: boolean,
): Filled<unknown> | Unfilled {
  let chosen: unknown;
  let evidence = 0;
  let against = 0;
  let silent = 0;
  for (const { rule, runs } of rules) {
    const value = applyRule(rule, context);
    if (value === undefined) {
      silent = Math.max(silent, runs);
      continue;
    }
    if (chosen === undefined) {
      chosen = value;
      evidence = runs;
    } else if (sameValue(value, chosen) || (isProse && isSameNumber(value, chosen)))
      evidence = Math.max(evidence, runs);
    else against = Math.max(against, runs);
  }
  if (chosen === undefined) return 'missing_value';
  // A rule that at least as many golden runs support finds no value in this step. So the step differs from those runs.
  const unsure =
    silent >= evidence && evidence >= 8 ? Math.max(SILENT, 1 / (evidence + 2)) : 1 / (evidence + 2);
  const contradicted = 0.15 + 0.7 * (against / (evidence + against));
  return { value: chosen, doubt: against === 0 ? unsure : Math.max(unsure, contradicted) };
}

const NUMBER = /^-?\d{1,40}(?:\.\d{1,20})?$/;

function isSameNumber(a: unknown, b: unknown): boolean {
  if (!isPrimitive(a) || !isPrimitive(b)) return false;
  const [left, right] = [textOfPrimitive(a), textOfPrimitive(b)];
  return NUMBER.test(left) && NUMBER.test(right) && canonicalNumber(left) === canonicalNumber(right);
}

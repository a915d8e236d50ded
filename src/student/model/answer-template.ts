/**
 * What several golden answers have in common, with slots for what differs, and filling it with a step's own values.
 * Made by answer-synthesis.ts. Pure; the student's thread.
 */

import { STUDENT_CORE } from '../../limits.ts';
import type { StudentBlock } from './decision.ts';
import { contextOfItem, type EachItem, takeItems } from './each-item.ts';
import {
  applyRule,
  type ExtractionRule,
  type ProvenRule,
  type StepContext,
  sameValue,
} from './extraction.ts';
import { isPrimitive, type Primitive } from './json-values.ts';

/** A part of an answer. */
export type TemplateNode =
  /** The same in all golden answers. Guards find it in the context: where they find something else, it is in doubt. */
  | { is: 'constant'; value: Primitive; guards: ExtractionRule[] }
  | { is: 'slot'; rules: ProvenRule[] }
  | { is: 'text'; parts: TemplateNode[] }
  | { is: 'object'; fields: [string, TemplateNode][] }
  | { is: 'list'; items: TemplateNode[] }
  /** One element for each of another list's. */
  | { is: 'each'; each: EachItem; item: TemplateNode };

export interface AnswerTemplate {
  /** `each`: as many calls as a list has elements. */
  calls: { name: string; input: TemplateNode; each?: EachItem }[];
  /** Text alone; beside calls the commentary, where it could be learnt. */
  text: TemplateNode | null;
  /** Text alone that is JSON, with the spaces of one level; then there is no other text. */
  json?: { value: TemplateNode; indent: number };
}

/** A filled part, and how sure it is. */
export interface Filled<T> {
  value: T;
  /** Share of doubt in the least sure slot, 0 … 1. */
  doubt: number;
}

/** Why a template cannot be filled. */
export type Unfilled = 'missing_value' | 'disagreement';

/** Fills a template with a step's own values. */
export function fillTemplate(
  template: AnswerTemplate,
  context: StepContext,
): Filled<StudentBlock[]> | Unfilled {
  const content: StudentBlock[] = [];
  let doubt = 0;
  if (template.text !== null) {
    const text = fillNode(template.text, context);
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
    const filled = fillNode(template.json.value, context);
    if (typeof filled === 'string') return filled;
    const text = JSON.stringify(filled.value, null, template.json.indent);
    if (text.length > STUDENT_CORE.answer) return 'missing_value';
    return { value: [{ type: 'text', text }], doubt: filled.doubt };
  }
  let calls = 0;
  for (const { name, input, each } of template.calls) {
    const items = each === undefined ? [NO_ITEM] : (takeItems(each, context) ?? []);
    // None to call for is another answer.
    if (items.length === 0) return 'missing_value';
    calls += items.length;
    if (calls > STUDENT_CORE.answer_calls) return 'missing_value';
    for (const item of items) {
      const filled = fillNode(input, item === NO_ITEM ? context : contextOfItem(context, item));
      if (typeof filled === 'string') return filled;
      doubt = Math.max(doubt, filled.doubt);
      content.push({ type: 'tool_call', id: '', name, input: filled.value });
    }
  }
  return content.length === 0 ? 'missing_value' : { value: content, doubt };
}

const NO_ITEM = Symbol('no element');

function fillNode(node: TemplateNode, context: StepContext): Filled<unknown> | Unfilled {
  switch (node.is) {
    case 'constant': {
      for (const guard of node.guards) {
        const found = applyRule(guard, context);
        if (found !== undefined && !sameValue(found, node.value)) return { value: node.value, doubt: 0.5 };
      }
      return { value: node.value, doubt: 0 };
    }
    case 'slot':
      return fillSlot(node.rules, context);
    case 'text': {
      let text = '';
      let doubt = 0;
      for (const part of node.parts) {
        const filled = fillNode(part, context);
        if (typeof filled === 'string') return filled;
        if (!isPrimitive(filled.value)) return 'missing_value';
        text += String(filled.value);
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: text, doubt };
    }
    case 'each': {
      const items: unknown[] = [];
      let doubt = 0;
      for (const item of takeItems(node.each, context) ?? [NO_ITEM]) {
        if (item === NO_ITEM) return 'missing_value';
        const filled = fillNode(node.item, contextOfItem(context, item));
        if (typeof filled === 'string') return filled;
        items.push(filled.value);
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: items, doubt };
    }
    case 'list': {
      const items: unknown[] = [];
      let doubt = 0;
      for (const item of node.items) {
        const filled = fillNode(item, context);
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
        const filled = fillNode(field, context);
        if (typeof filled === 'string') return filled;
        object[key] = filled.value;
        doubt = Math.max(doubt, filled.doubt);
      }
      return { value: object, doubt };
    }
  }
}

/** Doubt where a rule of those that found a value in every golden step finds none. */
const SILENT = 0.2;

function fillSlot(rules: readonly ProvenRule[], context: StepContext): Filled<unknown> | Unfilled {
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
    } else if (sameValue(value, chosen)) evidence = Math.max(evidence, runs);
    else against = Math.max(against, runs);
  }
  if (chosen === undefined) return 'missing_value';
  // A better rule that found it in as many golden steps finds nothing: something here is not as it was there.
  const unsure =
    silent >= evidence && evidence >= 8 ? Math.max(SILENT, 1 / (evidence + 2)) : 1 / (evidence + 2);
  const contradicted = 0.15 + 0.7 * (against / (evidence + against));
  return { value: chosen, doubt: against === 0 ? unsure : Math.max(unsure, contradicted) };
}

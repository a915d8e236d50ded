/**
 * Lists whose elements each produce one call, or one element of another list. Pure; teaching proposes rules, and the
 * student's thread applies them.
 */

import { applyRule, type ExtractionRule, StepContext } from './extraction.ts';
import { isObject } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';
import { type ListFilter, listFilters, passesFilter } from './list-summary.ts';

/** A list in a step's context, or some of its elements. */
export interface EachItem {
  /** Finds the list. */
  list: ExtractionRule;
  /** Selects elements by the value of a field; absent: all elements. */
  filter?: ListFilter;
}

/** Name of the source with which `contextOfItem` adds an element of a list to a context. */
export const ITEM_SOURCE = 'item';

/**
 * Takes the elements of the list that pass the filter.
 * @returns these elements in their order; undefined if the list is missing, or has STUDENT_CORE.json_items elements or more
 * and may therefore be truncated
 */
export function takeItems({ list, filter }: EachItem, context: StepContext): unknown[] | undefined {
  const items = applyRule(list, context);
  if (!Array.isArray(items) || items.length >= STUDENT_CORE.json_items) return undefined;
  return filter === undefined ? items : items.filter((item) => passesFilter(item, filter));
}

/**
 * Makes the context in which rules for one element are applied: the context of the step with the element as first
 * source.
 */
export function contextOfItem(context: StepContext, item: unknown): StepContext {
  const { step } = context;
  return new StepContext(
    { ...step, sources: [{ name: ITEM_SOURCE, value: item }, ...step.sources] },
    context,
  );
}

/** Maximum number of lists that are proposed, and that are examined. */
const CANDIDATES = 6;
const LISTS = 24;

/**
 * Proposes lists, or parts of lists, that have the wanted number of elements in every context.
 * @param counts by context
 */
export function proposeEach(contexts: readonly StepContext[], counts: readonly number[]): EachItem[] {
  // The longest list is the most informative.
  const at = counts.indexOf(Math.max(...counts));
  const context = contexts[at];
  if (context === undefined) return [];
  const found: EachItem[] = [];
  let lists = 0;
  const isRight = (each: EachItem): boolean =>
    contexts.every((context, i) => takeItems(each, context)?.length === counts[i]);
  const visit = (from: string, value: unknown, path: string[]): void => {
    if (found.length >= CANDIDATES || lists >= LISTS || path.length > 4) return;
    if (Array.isArray(value)) {
      lists++;
      if (value.length < counts[at]!) return;
      const list: ExtractionRule = { from, path, span: null, writing: 'same' };
      if (isRight({ list })) found.push({ list });
      const keys = isObject(value[0]) ? Object.keys(value[0]).slice(0, 12) : [];
      for (const filter of listFilters(value, keys))
        if (found.length < CANDIDATES && isRight({ list, filter })) found.push({ list, filter });
    } else if (isObject(value)) for (const key of Object.keys(value)) visit(from, value[key], [...path, key]);
  };
  for (const { name, value } of context.step.sources) if (name !== 'progress') visit(name, value, []);
  return found;
}

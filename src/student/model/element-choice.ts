/**
 * Chooses an element of a list: the one that another part of the context names, or the last, smallest or largest of the
 * elements that pass a filter, such as the cheapest train that is not full. Pure; teaching proposes rules, and the
 * student's thread applies them.
 */

import { findNamed, hasRun, readWords, type WordPlaces } from './common-run.ts';
import { minutesOf } from './day-words.ts';
import { isObject, isPrimitive, readNumber, textOfPrimitive } from './json-values.ts';
import { type ListFilter, listFilters, passesFilter } from './list-summary.ts';

export type ElementChoice =
  /**
   * The element whose field `key` has the longest run of words in common with the source `in`. null: the elements are
   * plain values, which are compared themselves.
   */
  | { pick: 'named'; key: string | null; in: string }
  /** The only element whose field `key` (null: the element itself) occurs completely in the source `in`. */
  | { pick: 'said'; key: string | null; in: string }
  /** Absent filter: all elements. */
  | { pick: 'among'; by: 'last'; filter: ListFilter }
  | { pick: 'among'; by: 'least' | 'most'; key: string; filter?: ListFilter };

/** The parts of a step's context by which elements are chosen. */
interface ChoiceContext {
  /** Words of a source; undefined without such a source. */
  words(source: string): WordPlaces | undefined;
}

/**
 * Chooses an element.
 * @returns undefined when no element fits, or more than one; with `last`, the last of those that fit
 */
export function chooseElement(
  items: readonly unknown[],
  choice: ElementChoice,
  context: ChoiceContext,
): unknown {
  if (choice.pick === 'named' || choice.pick === 'said') {
    const named = context.words(choice.in);
    if (named === undefined) return undefined;
    if (choice.pick === 'said') {
      const said = listWords(items, choice.key).flatMap((words, at) =>
        hasRun(words, named) ? [items[at]] : [],
      );
      return said.length === 1 ? said[0] : undefined;
    }
    return items[findNamed(listWords(items, choice.key), named)];
  }
  const { filter } = choice;
  const chosen = filter === undefined ? items : items.filter((item) => passesFilter(item, filter));
  return 'key' in choice ? findExtreme(chosen, choice.key, choice.by) : chosen[chosen.length - 1];
}

function listWords(items: readonly unknown[], key: string | null): string[][] {
  return items.map((item) => {
    const value = fieldOf(item, key);
    if (!isPrimitive(value) || value === null) return [];
    return readWords(textOfPrimitive(value));
  });
}

function fieldOf(item: unknown, key: string | null): unknown {
  if (key === null) return item;
  return isObject(item) && Object.hasOwn(item, key) ? item[key] : undefined;
}

/**
 * The element with the smallest or largest number, day or time; undefined when several elements have it, or an element
 * has none.
 */
function findExtreme(items: readonly unknown[], key: string, by: 'least' | 'most'): unknown {
  let best: unknown;
  let bestAt = 0;
  let form: string | undefined;
  let isTie = false;
  for (const item of items) {
    const order = orderOf(fieldOf(item, key));
    if (order === undefined || (form ?? order.form) !== order.form) return undefined;
    form = order.form;
    if (best === undefined || (by === 'least' ? order.at < bestAt : order.at > bestAt)) {
      best = item;
      bestAt = order.at;
      isTie = false;
    } else if (order.at === bestAt) isTie = true;
  }
  return isTie ? undefined : best;
}

/** A number, or a day or time as a number, with its form. */
function orderOf(value: unknown): { at: number; form: string } | undefined {
  const number = readNumber(value);
  if (number !== undefined) return { at: number, form: 'number' };
  return typeof value === 'string' ? minutesOf(value) : undefined;
}

/** Maximum number of fields that are read, and of choices that are proposed. */
const KEYS = 12;
const CHOICES = 24;
/** Maximum number of fields by which elements are ordered, and of filters. */
const ORDERED_KEYS = 5;
const FILTERS = 12;

/**
 * Proposes choices that give the element at the index `at`.
 * @param sources names of the sources that may name the element
 */
export function proposeChoices(
  items: readonly unknown[],
  at: number,
  sources: readonly string[],
  context: ChoiceContext,
): ElementChoice[] {
  const item = items[at];
  const keys: (string | null)[] = isObject(item) ? Object.keys(item).slice(0, KEYS) : [null];
  const found: ElementChoice[] = [];
  const add = (choice: ElementChoice): void => {
    if (found.length < CHOICES && chooseElement(items, choice, context) === item) found.push(choice);
  };
  for (const key of keys)
    for (const source of sources) {
      add({ pick: 'said', key, in: source });
      add({ pick: 'named', key, in: source });
    }
  if (!isObject(item)) return found;
  const fields = Object.keys(item).slice(0, KEYS);
  const ordered = fields.filter((key) => orderOf(item[key]) !== undefined).slice(0, ORDERED_KEYS);
  for (const key of ordered) for (const by of ['least', 'most'] as const) add({ pick: 'among', by, key });
  for (const filter of listChoiceFilters(items, item, fields)) {
    for (const key of ordered)
      for (const by of ['least', 'most'] as const) add({ pick: 'among', by, key, filter });
    add({ pick: 'among', by: 'last', filter });
  }
  return found;
}

/** Filters that the element passes and another element does not. */
function listChoiceFilters(
  items: readonly unknown[],
  item: unknown,
  fields: readonly string[],
): ListFilter[] {
  return listFilters(items, fields)
    .filter((filter) => passesFilter(item, filter))
    .filter((filter) => items.length === 1 || items.some((other) => !passesFilter(other, filter)))
    .slice(0, FILTERS);
}

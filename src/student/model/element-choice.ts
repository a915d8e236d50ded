/**
 * Chooses an element of a list by other parts of the context: the element that a task names, or the first, last,
 * smallest or largest of the elements that pass a filter, such as the earliest train after the time in the task. Pure;
 * teaching proposes rules, and the student's thread applies them.
 */

import { findNamed, hasRun, readWords, type WordPlaces } from './common-run.ts';
import { DAY_READINGS, findDays, findTimes, minutesOf } from './day-words.ts';
import { isObject, isPrimitive, readNumber, textOfPrimitive } from './json-values.ts';
import { type ListFilter, listFilters, passesFilter } from './list-summary.ts';

/** Selects the elements whose field is at least, or at most, the number, day or time that a text names. */
interface BoundFilter {
  key: string;
  unit: Unit;
  way: 'from' | 'up_to';
  /** The source, and which of its values of this unit. */
  in: string;
  nth: number;
}

type Unit = 'number' | 'day' | 'time';

type ChoiceFilter = ListFilter | BoundFilter;

export type ElementChoice =
  /** The element whose field, or which itself, has the longest run of words in common with a source. */
  | { pick: 'named'; key: string | null; in: string }
  /** The only element whose field, or which itself, a source names completely. */
  | { pick: 'said'; key: string | null; in: string }
  /** Absent filter: all elements. */
  | { pick: 'among'; by: 'first' | 'last'; filter: ChoiceFilter }
  | { pick: 'among'; by: 'least' | 'most'; key: string; filter?: ChoiceFilter };

/** The parts of a step's context by which elements are chosen. */
interface ChoiceContext {
  /** Words of a source; undefined without such a source. */
  words(source: string): WordPlaces | undefined;
  /** Text of a source; '' when it is not a text. */
  text(source: string): string;
  /** The current day as the request names it; null: unknown. */
  readonly today: number | null;
}

/**
 * Chooses an element.
 * @returns undefined when no element fits, or more than one
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
  const chosen = choice.filter === undefined ? items : filterItems(items, choice.filter, context);
  if (chosen === undefined) return undefined;
  if (!('key' in choice)) return choice.by === 'first' ? chosen[0] : chosen[chosen.length - 1];
  return findExtreme(chosen, choice.key, choice.by);
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

/** The element with the smallest or largest number, day or time; undefined when several have it, or one has none. */
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

function filterItems(
  items: readonly unknown[],
  filter: ChoiceFilter,
  context: ChoiceContext,
): unknown[] | undefined {
  if ('is' in filter) return items.filter((item) => passesFilter(item, filter));
  const bound = listBounds(context.text(filter.in), filter.unit, context.today)[filter.nth];
  if (bound === undefined) return undefined;
  return items.filter((item) => {
    const at = unitOf(fieldOf(item, filter.key), filter.unit);
    return at !== undefined && (filter.way === 'from' ? at >= bound : at <= bound);
  });
}

/** The part of a value that is compared: a number, the day, or the time of the day. */
function unitOf(value: unknown, unit: Unit): number | undefined {
  const order = orderOf(value);
  if (order === undefined || (order.form === 'number') !== (unit === 'number')) return undefined;
  if (unit === 'number') return order.at;
  if (!order.form.includes(unit)) return undefined;
  return unit === 'day' ? Math.floor(order.at / MINUTES) : order.at % MINUTES;
}

const MINUTES = 1_440;

/** Values of one unit that a text names. Ambiguous days are read in the usual way. */
function listBounds(text: string, unit: Unit, today: number | null): number[] {
  if (unit === 'number')
    return (text.match(/(?<![\w.:/-])\d[\d,]*(?:\.\d+)?(?![\w:/-]|\.\d)/g) ?? []).map((each) =>
      Number(each.replaceAll(',', '')),
    );
  const named = unit === 'day' ? findDays(text, today, DAY_READINGS[0]!) : findTimes(text);
  return named.map((each) => {
    const { at } = minutesOf(each)!;
    return unit === 'day' ? Math.floor(at / MINUTES) : at;
  });
}

/** Maximum number of fields that are read, and of choices that are proposed. */
const KEYS = 12;
const CHOICES = 24;
/** Maximum number of fields by which elements are ordered, of values of a source that are bounds, and of filters. */
const ORDERED_KEYS = 5;
const BOUNDS = 3;
const FILTERS = 12;

/**
 * Choices that give the element with this index.
 * @param sources that may name it
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
  for (const filter of listChoiceFilters(items, item, fields, ordered, sources, context)) {
    for (const key of ordered)
      for (const by of ['least', 'most'] as const) add({ pick: 'among', by, key, filter });
    if (!('is' in filter)) add({ pick: 'among', by: 'first', filter });
    add({ pick: 'among', by: 'last', filter });
  }
  return found;
}

/** Filters that the element passes and another one does not. */
function listChoiceFilters(
  items: readonly unknown[],
  item: unknown,
  fields: readonly string[],
  ordered: readonly string[],
  sources: readonly string[],
  context: ChoiceContext,
): ChoiceFilter[] {
  const filters: ChoiceFilter[] = listFilters(items, fields).filter((filter) => passesFilter(item, filter));
  for (const key of ordered)
    for (const unit of ['number', 'day', 'time'] as const) {
      if (unitOf(fieldOf(item, key), unit) === undefined) continue;
      for (const source of sources.filter((name) => !name.includes(':')))
        for (let nth = 0; nth < BOUNDS; nth++)
          for (const way of ['from', 'up_to'] as const) filters.push({ key, unit, way, in: source, nth });
    }
  return filters
    .filter((filter) => {
      const passing = filterItems(items, filter, context);
      return passing?.includes(item) === true && (passing.length < items.length || items.length === 1);
    })
    .slice(0, FILTERS);
}

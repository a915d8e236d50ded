/**
 * Marks of whole lists: which states, forms and names of the user their elements have, at whatever position. An agent
 * decides by them whether something is left to do, and what. Elements that the agent's calls have named since the list
 * arrived are left out. Pure; teaching and the student's thread.
 */

import { digitsOf } from '../../std/exact-json.ts';
import { hashString, isObject, isPrimitive, type Primitive } from './json-values.ts';
import { STUDENT_CORE } from './limits.ts';

/**
 * Maximum number of lists of one result, depth of a list, number of elements and fields that are read, and number and
 * length of the values of a state.
 */
const LISTS = 4;
const DEPTH = 3;
const ELEMENTS = 24;
const FIELDS = 10;
const STATES = 5;
const STATE_CHARACTERS = 24;
/** Lengths of a name that the user may have mentioned, and of an element's own name in a call. */
const NAME = { least: 3, most: 60 } as const;
const FORM_CHARACTERS = 20;

/** What the marks of a list depend on, besides the list. */
interface ListUse {
  /** Whether the user's words have this value as whole words. */
  isSaid: (value: string) => boolean;
  /**
   * Values in the inputs of each tool's calls since the list arrived. Elements that a call named are left out of the
   * marks for that tool. Empty when no tool was called.
   */
  called: ReadonlyMap<string, ReadonlySet<string>>;
}

/**
 * Marks the first LISTS lists of a result, without empty lists and lists that may be truncated.
 * @param name of the result
 * @param mark called with a place and a value
 */
export function markLists(
  name: string,
  json: unknown,
  use: ListUse,
  mark: (place: number, value: number) => void,
): void {
  let lists = 0;
  const visit = (value: unknown, path: string, depth: number): void => {
    if (lists >= LISTS || depth > DEPTH) return;
    if (Array.isArray(value)) {
      if (value.length === 0 || value.length >= STUDENT_CORE.json_items) return;
      lists++;
      if (use.called.size === 0) markList(`${name}${path}`, value, use, mark);
      for (const [tool, called] of use.called)
        markList(
          `${name}${path} ${tool}`,
          value.filter((item) => !namesElement(item, called)),
          use,
          mark,
        );
    } else if (isObject(value))
      for (const key of Object.keys(value).slice(0, 24)) visit(value[key], `${path}.${key}`, depth + 1);
  };
  visit(json, '', 0);
}

function markList(
  name: string,
  left: readonly unknown[],
  { isSaid }: ListUse,
  mark: (place: number, value: number) => void,
): void {
  const place = hashString(`list ${name}`);
  mark(place, left.length === 0 ? 0 : left.length === 1 ? 1 : 2);
  const columns = new Map<string, Primitive[]>();
  for (const item of left.slice(0, ELEMENTS))
    for (const [key, value] of fieldsOf(item)) {
      const column = columns.get(key);
      if (column === undefined) columns.set(key, [value]);
      else column.push(value);
    }
  for (const [key, values] of columns) {
    const at = hashString(key, place);
    const names = values.filter(isName);
    if (names.length > 0) mark(hashString('said', at), names.some((each) => isSaid(each)) ? 1 : 2);
    markValues(hashString('has', at), values.filter(isState).map(String), values.length, mark);
    markValues(hashString('form', at), values.map(formOf), values.length, mark);
  }
}

/** The plain fields of an element; '' is the key of an element that is itself a plain value. */
function fieldsOf(item: unknown): [string, Primitive][] {
  if (isPrimitive(item)) return [['', item]];
  if (!isObject(item)) return [];
  return Object.keys(item)
    .slice(0, FIELDS)
    .flatMap((key) => {
      const value = item[key];
      return isPrimitive(value) ? [[key, value]] : [];
    });
}

/**
 * Marks each of a few different values, and whether all elements have the same one. Many different values are no
 * states.
 */
function markValues(
  place: number,
  values: readonly string[],
  of: number,
  mark: (place: number, value: number) => void,
): void {
  const different = new Set(values);
  if (different.size > STATES) return;
  for (const value of different) mark(place, hashString(value));
  if (different.size === 1 && values.length === of) mark(place, hashString(values[0]!, 1));
}

function isState(value: Primitive): boolean {
  if (typeof value === 'boolean' || value === null) return true;
  return typeof value === 'string' && value.length <= STATE_CHARACTERS && !/\d/.test(value);
}

function isName(value: Primitive): value is string {
  return typeof value === 'string' && value.length >= NAME.least && value.length <= NAME.most;
}

/** How a value is written, without its letters and digits: `9-9-9` and `9.9.9` are two forms of a date. */
function formOf(value: Primitive): string {
  const digits = digitsOf(value);
  if (digits !== null) return digits.startsWith('-') ? '-9' : '9';
  if (typeof value !== 'string') return String(value);
  return value
    .slice(0, 4 * FORM_CHARACTERS)
    .replace(/\p{Lu}+/gu, 'A')
    .replace(/\p{Ll}+/gu, 'a')
    .replace(/\p{Nd}+/gu, '9')
    .slice(0, FORM_CHARACTERS);
}

/**
 * Whether a call named an element: by its own value, or by one of its first two fields that look like a name or an id.
 */
function namesElement(item: unknown, called: ReadonlySet<string>): boolean {
  if (isPrimitive(item)) return called.has(plain(item));
  return fieldsOf(item)
    .filter(([, value]) => isName(value) || digitsOf(value) !== null)
    .slice(0, 2)
    .some(([, value]) => called.has(plain(value)));
}

function plain(value: Primitive): string {
  return digitsOf(value) ?? String(value);
}

/** Maximum number of tools whose calls are told apart, and of values of one tool's calls. */
const TOOLS = 3;
const CALLED = 400;

/**
 * Values in the inputs of calls, by tool, as {@link ListUse.called} has them.
 * @param calls the latest first
 */
export function collectCalled(
  calls: readonly { name: string; input: unknown }[],
): Map<string, ReadonlySet<string>> {
  const called = new Map<string, Set<string>>();
  for (const { name, input } of calls) {
    let values = called.get(name);
    if (values === undefined) {
      if (called.size >= TOOLS) continue;
      values = new Set();
      called.set(name, values);
    }
    collectValues(input, values, 0);
  }
  return called;
}

function collectValues(input: unknown, values: Set<string>, depth: number): void {
  if (values.size >= CALLED || depth > DEPTH) return;
  if (isPrimitive(input)) {
    if (isName(input) || digitsOf(input) !== null) values.add(plain(input));
  } else for (const inner of Object.values(input as object)) collectValues(inner, values, depth + 1);
}

/**
 * The marks of a step with readable names, to explain what is new in the step. Slower than collecting only the marks.
 * Pure; teaching.
 */

import {
  hashString,
  isObject,
  isPrimitive,
  mixNumber,
  textOfPrimitive,
} from '../student/model/json-values.ts';
import {
  MARK,
  type PastCall,
  type PastResult,
  placeOfLines,
  StepMarks,
} from '../student/model/step-marks.ts';
import type { TextToken } from '../student/model/text-tokens.ts';

/** The subject of a mark: `result:get_invoice.status`, `the last call`. */
interface MarkName {
  place: string;
  /** The value at the mark's place; '' if it has no meaning for people. */
  value: string;
}

const VALUE_CHARACTERS = 120;

const PAST_NAMES: readonly (readonly [string, string])[] = [
  ['trail 0', 'the last call'],
  ['trail 1', 'the last two calls'],
  ['trail 2', 'the last three calls'],
  ['errors', 'how many calls failed'],
  ['in a row', 'how often the last tool was called in a row'],
  ['talks', 'how many answers were texts'],
];

export class NamedMarks extends StepMarks {
  readonly #places = new Map<number, string>();
  readonly #values = new Map<string, string>();
  #current = '';

  constructor() {
    super();
    for (const [key, words] of PAST_NAMES) this.#places.set(hashString(key), words);
    for (const name of ['task', 'said', 'said#1']) {
      this.#places.set(hashString(name), name);
      this.#places.set(placeOfLines(hashString(name)), name);
    }
  }

  /** Names the places of a source's own words and lines. */
  nameSource(name: string): void {
    const place = hashString(name);
    if (!this.#places.has(place)) this.#places.set(place, name);
    this.#places.set(mixNumber(place + 1), `a line of ${name}`);
  }

  /** Names the place and the value of a mark. @param value null: only the place is asked for */
  nameOf(kind: number, place: number, value: number | null): MarkName {
    const words = this.#places.get(place) ?? (kind === MARK.system_number ? 'the system prompt' : '');
    if (kind === MARK.shared && words !== '')
      return { place: `whether another result has ${words}`, value: value === 1 ? 'yes' : 'no' };
    if (kind === MARK.lines && words !== '')
      return { place: `how many lines ${words} has`, value: value === null ? '' : String(value) };
    return {
      place: words === '' ? 'something else in the conversation' : words,
      value: value === null ? '' : (this.#values.get(`${kind} ${place} ${value}`) ?? ''),
    };
  }

  override mark(kind: number, place: number, value: number): void {
    if (this.#current !== '') this.#values.set(`${kind} ${place} ${value}`, this.#current);
    super.mark(kind, place, value);
  }

  override markTokens(kind: number, place: number, tokens: readonly TextToken[]): void {
    for (const token of tokens) {
      if (token.kind === 'sign' || token.kind === 'break') continue;
      this.#values.set(`${kind} ${place} ${hashString(token.key)}`, token.key.slice(0, VALUE_CHARACTERS));
    }
    const current = this.#current;
    this.#current = '';
    super.markTokens(kind, place, tokens);
    this.#current = current;
  }

  override markPast(calls: readonly PastCall[], results: readonly PastResult[]): void {
    for (const { name } of calls) this.#places.set(hashString(`called ${name}`), `calls of ${name}`);
    super.markPast(calls, results);
  }

  override markLines(place: number, text: string): void {
    this.#places.set(mixNumber(place + 1), `a line of ${this.#places.get(place) ?? 'a result'}`);
    super.markLines(place, text);
  }

  /** Names the place of a value and the places in it, and then collects their marks. */
  override markJson(isFresh: boolean, name: string, place: number, value: unknown, depth: number): void {
    const own = this.#places.get(place) ?? name;
    this.#places.set(place, own);
    if (Array.isArray(value)) {
      this.#places.set(mixNumber(place + 3), `how many ${own} has`);
      const inner = mixNumber(place + 5);
      this.#places.set(inner, `${own}[0]`);
      for (let at = 0; at < 4; at++) this.#places.set(mixNumber(inner + at), `${own}[${at}]`);
      this.#current = String(value.length);
    } else if (isObject(value)) {
      for (const key of Object.keys(value)) this.#places.set(hashString(key, place), `${own}.${key}`);
      this.#current = '';
    } else {
      this.#places.set(mixNumber(place + 11), `whether the user spoke of ${own}`);
      const text = isPrimitive(value) ? textOfPrimitive(value) : String(value);
      this.#current = text.slice(0, VALUE_CHARACTERS);
    }
    super.markJson(isFresh, name, place, value, depth);
    this.#current = '';
  }
}

/**
 * Descriptions of tools that say what day it is: they change daily, and the agent is the same. Pure; analysis and the student's
 * thread.
 */

import { codesNear, findDates } from './prompt-dates.ts';

/** Most descriptions name no date: one look tells. */
const NAMES_A_YEAR = /20\d\d/;
/** A longer description is a manual, and no date in it is levelled. */
const DESCRIPTION_CHARACTERS = 20_000;
const TOLD = 8;
const AROUND = 80;

/** Levels the dates in the texts of one request's tools that name the day of the request. */
export class ToolDates {
  /** Where such dates stand, with the words around them: values that answers may take. */
  readonly told = new Set<string>();
  readonly #near: ReadonlySet<number> | null;

  /** @param at_ms when it was asked; null: nobody knows, and nothing is levelled */
  constructor(at_ms: number | null) {
    this.#near = at_ms === null ? null : codesNear(at_ms);
  }

  /** @returns the text itself where it names no such day */
  level(text: string): string {
    const near = this.#near;
    if (near === null || text.length > DESCRIPTION_CHARACTERS) return text;
    // A word alone is a name or a value, and no description.
    if (!NAMES_A_YEAR.test(text) || !text.includes(' ')) return text;
    let levelled = '';
    let at = 0;
    for (const { start, end, codes } of findDates(text).sort((a, b) => a.start - b.start)) {
      if (!codes.some((code) => near.has(code))) continue;
      levelled += `${text.slice(at, start)}\u0000`;
      at = end;
      if (this.told.size < TOLD) this.told.add(text.slice(Math.max(0, start - AROUND), end + AROUND));
    }
    return at === 0 ? text : levelled + text.slice(at);
  }
}

/**
 * Tool descriptions that state the current date. They change daily although the agent stays the same. Pure; teaching
 * and the student's thread.
 */

import { codesNear, findDates } from './prompt-dates.ts';

/** Rules out most descriptions quickly, because most name no date. */
const NAMES_A_YEAR = /20\d\d/;
/** Maximum length of a description in which dates are levelled. A longer description is a manual. */
const DESCRIPTION_CHARACTERS = 20_000;
/** Maximum number of dates that `told` keeps, and number of characters that it keeps on each side of a date. */
const TOLD = 8;
const AROUND = 80;

/** Levels the dates in the texts of one request's tools that name the day of the request. */
export class ToolDates {
  /** The levelled dates with the words around them: values that answers may use. */
  readonly told = new Set<string>();
  readonly #near: ReadonlySet<number> | null;

  /** @param at_ms time of the request; null when unknown, and then nothing is levelled */
  constructor(at_ms: number | null) {
    this.#near = at_ms === null ? null : codesNear(at_ms);
  }

  /**
   * Replaces each date that names the day of the request or an adjacent day by a mark.
   * @returns the text itself when it has no such date, when the time of the request is unknown, or when the text is no
   *   description with a date: longer than DESCRIPTION_CHARACTERS, a single word, or without a year of this century
   */
  level(text: string): string {
    const near = this.#near;
    if (near === null || text.length > DESCRIPTION_CHARACTERS) return text;
    // A single word is a name or a value, not a description.
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

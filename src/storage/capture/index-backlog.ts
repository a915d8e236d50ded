/**
 * How far the index is behind what is stored: how many exchanges it lacks, and since when the oldest of them has been stored.
 * Capture process.
 *
 * Memory: a mark a second at most, and MARKS_MAX in all; beyond it the oldest marks go, and the age counts from the next one.
 */

interface IndexBehind {
  exchanges: number;
  /** Age of the oldest of them; 0 without any. */
  seconds: number;
}

/** The exchanges up to an id had been stored by then. */
interface StoredMark {
  last_id: number;
  at_ms: number;
}

const MARK_MS = 1_000;
const MARKS_MAX = 86_400;

export class IndexBacklog {
  #marks: StoredMark[] = [];

  /** Exchanges up to an id are stored now. */
  note(lastId: number): void {
    const at_ms = performance.now();
    const newest = this.#marks.at(-1);
    if (newest !== undefined && at_ms - newest.at_ms < MARK_MS) newest.last_id = lastId;
    else this.#marks.push({ last_id: lastId, at_ms });
    if (this.#marks.length > MARKS_MAX) this.#marks.splice(0, MARKS_MAX / 2);
  }

  /**
   * @param indexed the last exchange that readers find in the index
   * @param lastId the last exchange that is stored
   */
  measure(indexed: number, lastId: number): IndexBehind {
    let gone = 0;
    while (gone < this.#marks.length && this.#marks[gone]!.last_id <= indexed) gone++;
    if (gone > 0) this.#marks.splice(0, gone);
    const exchanges = Math.max(0, lastId - indexed);
    const oldest = this.#marks[0];
    if (exchanges === 0 || oldest === undefined) return { exchanges, seconds: 0 };
    return { exchanges, seconds: Math.round((performance.now() - oldest.at_ms) / 1_000) };
  }
}

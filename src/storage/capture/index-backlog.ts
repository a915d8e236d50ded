/**
 * How far the index is behind the stored exchanges: how many exchanges it lacks, and when the oldest of them was
 * stored. Capture process.
 * Memory: at most one mark for each second, and at most MARKS_MAX marks. Beyond that, the older half is dropped, and
 * the age is that of the oldest remaining mark.
 */

interface IndexBehind {
  exchanges: number;
  /**
   * Age of the oldest exchange that is not indexed; 0 if all are indexed. An exchange of an earlier process counts as
   * stored when this process opened the log.
   */
  seconds: number;
}

/** All exchanges up to an id were stored by that time. */
interface StoredMark {
  last_id: number;
  at_ms: number;
}

const MARK_MS = 1_000;
const MARKS_MAX = 86_400;

export class IndexBacklog {
  #marks: StoredMark[] = [];

  /** Records that exchanges up to an id are stored now. */
  note(lastId: number): void {
    const at_ms = performance.now();
    const newest = this.#marks.at(-1);
    if (newest !== undefined && at_ms - newest.at_ms < MARK_MS) newest.last_id = lastId;
    else this.#marks.push({ last_id: lastId, at_ms });
    if (this.#marks.length > MARKS_MAX) this.#marks.splice(0, MARKS_MAX / 2);
  }

  /**
   * Measures how far the index is behind. Drops the marks of indexed exchanges.
   * @param indexed id of the last exchange before the first that the index lacks
   * @param exchanges number of exchanges that the index lacks
   */
  measure(indexed: number, exchanges: number): IndexBehind {
    let gone = 0;
    while (gone < this.#marks.length && this.#marks[gone]!.last_id <= indexed) gone++;
    if (gone > 0) this.#marks.splice(0, gone);
    const oldest = this.#marks[0];
    if (exchanges === 0 || oldest === undefined) return { exchanges, seconds: 0 };
    return { exchanges, seconds: Math.round((performance.now() - oldest.at_ms) / 1_000) };
  }
}

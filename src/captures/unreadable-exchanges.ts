/** Counts the damaged exchanges that a command skipped, so that it can report them. Command line, main thread. */

import { countOf } from '../std/count-of.ts';

/** Up to this number the count is exact; beyond it, the report says "at least". */
const COUNTED_MAX = 100_000;

export class UnreadableExchanges {
  readonly #ids = new Set<number>();

  /** The file of the first damaged exchange. */
  #path = '';

  /** Records a damaged exchange, once even if it is reported several times. */
  note(id: number, path: string): void {
    if (this.#ids.size === 0) this.#path = path;
    if (this.#ids.size < COUNTED_MAX) this.#ids.add(id);
  }

  get count(): number {
    return this.#ids.size;
  }

  /** A line for people; '' when everything was readable. */
  describe(): string {
    if (this.count === 0) return '';
    const [first] = this.#ids;
    const least = this.count === COUNTED_MAX ? 'at least ' : '';
    return (
      `${this.#path}: ${least}${countOf(this.count, 'exchange')} cannot be read (damaged), first ${first}; the rest is shown. ` +
      'Take the file from a backup (understudy restore)'
    );
  }
}

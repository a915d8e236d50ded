/** Exchanges that a command went past because they are damaged, counted, so that it can say so. Command line, main thread. */

import { countOf } from '../std/count-of.ts';

/** Told apart from each other up to so many; beyond, "at least". */
const COUNTED_MAX = 100_000;

export class UnreadableExchanges {
  readonly #ids = new Set<number>();

  /** The file that the first of them is in. */
  #path = '';

  /** An exchange may be met several times. */
  note(id: number, path: string): void {
    if (this.#ids.size === 0) this.#path = path;
    if (this.#ids.size < COUNTED_MAX) this.#ids.add(id);
  }

  get count(): number {
    return this.#ids.size;
  }

  /** A line for people; '' when all could be read. */
  describe(): string {
    if (this.count === 0) return '';
    const [first] = this.#ids;
    const least = this.count === COUNTED_MAX ? 'at least ' : '';
    return (
      `${this.#path}: ${least}${countOf(this.count, 'exchange')} cannot be read (damaged), from ${first} on; the rest is told. ` +
      'Take the file from a backup (understudy restore)'
    );
  }
}

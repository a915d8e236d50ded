/**
 * The last id that was given, in a separate file beside the database. If the database is damaged, the next one goes on
 * after that id. The writer writes it after each commit, in place and without a sync, in a few microseconds; it may be one batch
 * behind. The file also shows that the database is one of ours. Capture process; the main thread reads it at the start.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** As many digits as an id may have, so that every text has the same length and the file never grows. */
const DIGITS = 16;

function placeOf(path: string): string {
  return `${path}.last-id`;
}

/** @returns the id; 0 where there is no such file, or it says nothing */
export function readLastId(path: string): number {
  try {
    const id = Number(readFileSync(placeOf(path), 'latin1'));
    return Number.isSafeInteger(id) && id > 0 ? id : 0;
  } catch {
    return 0;
  }
}

/** Writes it. */
export class LastIdFile {
  readonly #place: string;
  #file: number | null = null;
  #id = -1;

  /** @param path of the database */
  constructor(path: string) {
    this.#place = placeOf(path);
  }

  /** Never throws: an id that is not noted costs nothing until the database is damaged, too. */
  note(id: number): void {
    if (id === this.#id) return;
    try {
      this.#file ??= openSync(this.#place, 'w', 0o600);
      writeSync(this.#file, `${String(id).padStart(DIGITS, '0')}\n`, 0, 'latin1');
      this.#id = id;
    } catch {
      this.close();
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }
}

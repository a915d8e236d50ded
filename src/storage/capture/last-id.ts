/**
 * Keeps the last assigned id in a file beside the database. If the database is damaged, a new one continues after that
 * id. The writer updates the file after each commit, in place and without a sync, in a few microseconds, so it may be
 * one batch behind. The file also proves that the database was created by this program. The capture process writes the
 * file, and reads it when it starts. The main thread reads it when it starts the OpenTelemetry export.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** Number of digits of the largest id. Every id is padded to this length, so the file never grows. */
const DIGITS = 16;

function placeOf(path: string): string {
  return `${path}.last-id`;
}

/** Reads the last assigned id of a database; 0 if the file does not exist, cannot be read or is not valid. */
export function readLastId(path: string): number {
  try {
    const id = Number(readFileSync(placeOf(path), 'latin1'));
    return Number.isSafeInteger(id) && id > 0 ? id : 0;
  } catch {
    return 0;
  }
}

/** Writes the file. */
export class LastIdFile {
  readonly #place: string;
  #file: number | null = null;
  #id = -1;

  /** @param path of the database */
  constructor(path: string) {
    this.#place = placeOf(path);
  }

  /** Writes the last id. Does not throw, because a missing update matters only if the database is damaged later. */
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

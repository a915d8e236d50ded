/**
 * A file beside a capture database with an order to the process that writes the database. A command gives the order,
 * and may withdraw it until the process accepts it. The file of an accepted order stays until the order is carried out,
 * so that the process continues the order at its next start if it was killed. Any thread.
 */
import { existsSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { namePlace } from '../../std/file-place.ts';
import { syncFolder } from '../../std/folder.ts';

export class OrderFile {
  /** Path of an order that is not accepted yet. */
  readonly given: string;
  /** Path of an order that is being carried out. */
  readonly accepted: string;
  /** Path of the reason why the accepted order could not be carried out yet. */
  readonly failed: string;

  /** @param suffixes appended to the database's path */
  constructor(db: string, suffixes: { given: string; accepted: string }) {
    this.given = db + suffixes.given;
    this.accepted = db + suffixes.accepted;
    this.failed = `${this.accepted}-failed`;
  }

  /** Whether an order exists, given or accepted. */
  exists(): boolean {
    return this.isGiven() || existsSync(this.accepted);
  }

  /** Whether an order was given and is not accepted yet. */
  isGiven(): boolean {
    return existsSync(this.given);
  }

  /**
   * Gives an order. It is on the disk when this returns.
   * @returns false if another order exists
   * @throws a file system error
   */
  give(content: Uint8Array | string): boolean {
    const draft = `${this.given}.${process.pid}`;
    try {
      writeFileSync(draft, content, { mode: 0o600, flush: true });
      if (existsSync(this.accepted)) return false;
      linkSync(draft, this.given);
      syncFolder(dirname(this.given));
      return true;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw namePlace(thrown, this.given);
    } finally {
      rmSync(draft, { force: true });
    }
  }

  /** Withdraws the order. @returns false if the order was accepted or does not exist */
  withdraw(): boolean {
    try {
      rmSync(this.given);
      return true;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw thrown;
    }
  }

  /**
   * Accepts the given order, or returns the one that was accepted earlier.
   * @returns the order's content; null if there is no order
   * @throws a file system error
   */
  accept(): Buffer | null {
    rmSync(this.failed, { force: true });
    if (!existsSync(this.accepted)) {
      if (!this.isGiven()) return null;
      renameSync(this.given, this.accepted);
      syncFolder(dirname(this.accepted));
    }
    return readFileSync(this.accepted);
  }

  /** Ends the order, because it was carried out. */
  end(): void {
    rmSync(this.failed, { force: true });
    rmSync(this.accepted, { force: true });
    syncFolder(dirname(this.accepted));
  }

  /** Notes why the order could not be carried out now. @throws a file system error */
  noteFailure(words: string): void {
    writeFileSync(this.failed, words, { mode: 0o600 });
  }

  /** Why the accepted order could not be carried out yet; null: no attempt has failed. */
  readFailure(): string | null {
    try {
      return readFileSync(this.failed, 'utf8');
    } catch {
      return null;
    }
  }
}

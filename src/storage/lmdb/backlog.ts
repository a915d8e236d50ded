/**
 * Commits that are promised in a redo log and reach the database many at a time: a transaction writes some ten pages
 * for a single step, and hardly more for the next twenty. Wherever actors run.
 *
 * Who reads on this thread reads all that was promised, since every read brings it to the database first, unless it is of
 * rows that nothing was promised of. Others see it a moment later, so only what nobody else asks for at once is committed
 * this way.
 */
import { REDO_LOG } from '../../limits.ts';
import { openDataKey } from '../../std/data-key.ts';
import { RedoLog } from '../redo-log.ts';
import { applyChange, type Change, mergeCounts, readChanges, writeChange } from './changes.ts';
import type { Environment, Promises } from './environment.ts';
import type { WriteTurn } from './write-turn.ts';

/** What a record of the log promises. */
interface Promised {
  number: number;
  changes: readonly Change[];
}

/** Promised records that are looked through for rows; of more it is quicker to bring them to the database. */
const SEARCHED_RECORDS = 64;
/** By a log's identity: number of the last of its records that is in the database. */
const TAKEN = 'redo';

export class Backlog implements Promises {
  readonly #environment: Environment;
  readonly #log: RedoLog;
  readonly #dropSuperseded: (changes: readonly Change[]) => readonly Change[];
  readonly #turn: WriteTurn | null;
  /** What is in the log and not in the database: as it was promised, so that nothing has to be read from bytes again. */
  #promised: Promised[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** How often in a row another thread was let go first. */
  #yields = 0;
  #isClosed = false;

  /**
   * Opens the log and brings what an earlier process promised to the database.
   * @param dropSuperseded leaves out what a later change makes superfluous
   * @param key of what is promised; null: it is not sealed
   * @param turn shared with the other threads that promise commits of this database; null: there are none
   * @throws Error when the log cannot be opened, or the database not written
   */
  constructor(
    environment: Environment,
    path: string,
    dropSuperseded: (changes: readonly Change[]) => readonly Change[],
    key: Uint8Array | null,
    turn: WriteTurn | null = null,
  ) {
    this.#environment = environment;
    this.#dropSuperseded = dropSuperseded;
    this.#turn = turn;
    this.#log = new RedoLog(path, REDO_LOG.bytes, openDataKey(key)?.sealer('redo') ?? null);
    try {
      const { found, identity } = this.#log;
      const taken = readTaken(environment, identity);
      this.#log.skipTo(taken ?? 0);
      // A log that the database does not know, or that goes on somewhere else, belongs to another state of it.
      if (taken === null) environment.transactNow(() => writeTaken(environment, identity, this.#log.last));
      else if (found.length > 0 && found[0]!.number <= taken + 1 && this.#log.last > taken) {
        const left = found.filter(({ number }) => number > taken);
        this.#write(left.map(({ number, payload }) => ({ number, changes: readChanges(payload) })));
      }
    } catch (thrown) {
      this.#log.close();
      throw thrown;
    }
    environment.promises = this;
  }

  /**
   * Promises the changes.
   * @returns false when they are too many for the log
   * @throws Error of the file system or the database; then they are not promised
   */
  promise(changes: readonly Change[]): boolean {
    const kept: Change[] = [];
    const write = (into: Buffer, from: number) => {
      let at = from;
      kept.length = 0;
      for (const change of changes) {
        at = writeChange(change, into, at);
        if (at < 0) return at;
        kept.push(keepChange(change, into, at));
      }
      return at;
    };
    let number = this.#log.append(write);
    if (number === 0) {
      if (this.#log.isEmpty) return false;
      this.settle();
      number = this.#log.append(write);
      if (number === 0) return false;
    }
    this.#promised.push({ number, changes: kept });
    this.#timer ??= setTimeout(this.#settleLater, REDO_LOG.delay_ms).unref();
    return true;
  }

  /** @returns whether something may be promised of the database's rows whose keys are these bytes and `tailBytes` more */
  mayHold(database: string, stem: Buffer, tailBytes: number): boolean {
    if (this.#promised.length > SEARCHED_RECORDS) return true;
    const keyBytes = stem.length + tailBytes;
    for (const { changes } of this.#promised) {
      for (const { database: place, key } of changes) {
        if (place === database && key.length === keyBytes && stem.compare(key, 0, stem.length) === 0)
          return true;
      }
    }
    return false;
  }

  /** Brings what is promised to the database. @throws Error of the database; it stays promised */
  settle(): void {
    if (this.#log.isEmpty) return;
    this.#write(this.#promised);
    this.#promised = [];
    this.#log.beginAgain();
  }

  /** What cannot be brought to the database now stays in the log for the next one that opens it. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#environment.promises = null;
    try {
      this.settle();
    } finally {
      this.#log.close();
    }
  }

  readonly #settleLater = (): void => {
    this.#timer = null;
    if (this.#turn?.isTaken && this.#yields < REDO_LOG.yields_max) {
      this.#yields++;
      this.#timer = setTimeout(this.#settleLater, REDO_LOG.yield_ms).unref();
      return;
    }
    this.#yields = 0;
    try {
      this.settle();
    } catch {
      // The next commit or read gets the error.
      this.#timer = setTimeout(this.#settleLater, REDO_LOG.retry_ms).unref();
      void this.#environment.reopen();
    }
  };

  #write(records: readonly Promised[]): void {
    this.#turn?.take();
    try {
      this.#transact(records);
    } finally {
      this.#turn?.giveBack();
    }
  }

  #transact(records: readonly Promised[]): void {
    const { identity } = this.#log;
    this.#environment.transactNow(() => {
      // Another process may have found the log and done it.
      const taken = readTaken(this.#environment, identity) ?? 0;
      const all: Change[] = [];
      let last = taken;
      for (const { number, changes } of records) {
        if (number <= taken) continue;
        for (const change of changes) all.push(change);
        last = number;
      }
      if (last === taken) return;
      for (const change of mergeCounts(this.#dropSuperseded(all))) applyChange(this.#environment, change);
      writeTaken(this.#environment, identity, last);
    });
  }
}

/**
 * The change as it stands in the log, whatever becomes of the caller's bytes.
 * @param end of the change in the log's bytes, which stay until all of them are in the database
 */
function keepChange(change: Change, log: Buffer, end: number): Change {
  const { op, database, key } = change;
  if (op === 'put') return { op, database, key, value: log.subarray(end - change.value.length, end) };
  return op === 'add' ? { op, database, key, counts: { ...change.counts } } : change;
}

/** null: the log was never opened with this database. */
function readTaken(environment: Environment, identity: Buffer): number | null {
  return environment.named(TAKEN).get(identity)?.readDoubleBE() ?? null;
}

function writeTaken(environment: Environment, identity: Buffer, last: number): void {
  const value = Buffer.allocUnsafe(8);
  value.writeDoubleBE(last);
  environment.named(TAKEN).putSync(identity, value);
}

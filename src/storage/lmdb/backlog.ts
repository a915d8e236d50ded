/**
 * Acknowledges commits in a redo log and writes them to the database in batches: a transaction writes about ten pages
 * for one step, and hardly more for twenty steps. Any thread with actors.
 * A read on this thread sees every acknowledged row: if a pending record may affect the row, the read first writes the
 * pending records to the database. Other threads see the row after a few milliseconds, or after a second or more if the
 * database cannot be written. So use this only for rows for which that delay does not matter.
 */
import { openDataKey } from '../../std/data-key.ts';
import { RedoLog } from '../redo-log.ts';
import { applyChange, type Change, mergeCounts, readChanges, writeChange } from './changes.ts';
import type { Environment, Promises } from './environment.ts';
import { reportDamage } from './sealed-table.ts';
import type { WriteTurn } from './write-turn.ts';

/**
 * Limits of the redo log, which holds acknowledged commits until they are in the database: its size, the delay before
 * its records are written to the database, and the delay before a retry after an error. While another thread writes,
 * the log's thread waits `yield_ms` up to `yields_max` times. Records that are in the database are overwritten in the
 * log after `wipe_ms`.
 */
export const REDO_LOG = {
  bytes: 1 << 20,
  delay_ms: 5,
  retry_ms: 1_000,
  yield_ms: 1,
  yields_max: 20,
  wipe_ms: 5_000,
} as const;

/** A record of the log that is not in the database yet. */
interface Promised {
  number: number;
  changes: readonly Change[];
}

/**
 * Up to this many pending records are searched for a row. If there are more, it is faster to write them to the
 * database.
 */
const SEARCHED_RECORDS = 64;
/** Table: log identity → number of the log's last record that is in the database. */
const TAKEN = 'redo';

export class Backlog implements Promises {
  readonly #environment: Environment;
  readonly #log: RedoLog;
  readonly #dropSuperseded: (changes: readonly Change[]) => readonly Change[];
  readonly #turn: WriteTurn | null;
  /** Records in the log that are not in the database yet, kept decoded. */
  #promised: Promised[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** Set while the log may contain bytes of records that are in the database. */
  #wipeTimer: NodeJS.Timeout | null = null;
  /** How many times in a row this thread has waited for another thread to write first. */
  #yields = 0;
  #isClosed = false;

  /**
   * Opens the log and writes the records of an earlier process to the database.
   * @param dropSuperseded removes changes that a later change overrides
   * @param key encrypts the records; null: no encryption
   * @param turn shared with other threads that commit to this database through a log; null: there are no such threads
   * @throws Error when the log cannot be opened or the database cannot be written
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
    if (this.#log.isDamaged) reportDamage(path, 'redo log');
    try {
      const { found, identity } = this.#log;
      const taken = readTaken(environment, identity);
      this.#log.skipTo(taken ?? 0);
      // A log that the database does not know, or whose numbers do not continue, belongs to another state of the
      // database. Its records are not applied.
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
   * Appends the changes to the log, which acknowledges them. Writes the pending changes to the database first if the
   * log is full.
   * @returns false if the changes do not fit even into an empty log; then they are not acknowledged
   * @throws a file system or database error; then they are not acknowledged
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
    this.#wipeTimer ??= setTimeout(this.#wipeLater, REDO_LOG.wipe_ms).unref();
    return true;
  }

  /** Whether pending changes may affect rows whose key is `stem` followed by `tailBytes` bytes. */
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

  /** Writes the pending changes to the database. @throws a database error; the changes stay pending */
  settle(): void {
    if (this.#log.isEmpty) return;
    this.#write(this.#promised);
    this.#promised = [];
    this.#log.beginAgain();
  }

  /**
   * Writes the pending changes to the database and closes the log.
   * @throws a database error; the log is closed then, too, and keeps the changes for the next process
   */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#wipeTimer !== null) clearTimeout(this.#wipeTimer);
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
      // The next commit or read reports the error.
      this.#timer = setTimeout(this.#settleLater, REDO_LOG.retry_ms).unref();
      void this.#environment.reopen();
    }
  };

  /**
   * Overwrites records that are in the database. No sync is needed, because the log does not promise to survive a power
   * failure (checkpoint.ts).
   */
  readonly #wipeLater = (): void => {
    this.#wipeTimer = null;
    try {
      this.#log.wipe();
      if (this.#log.isEmpty) return;
    } catch {
      // The cause may be a full or damaged disk. Another attempt follows.
    }
    this.#wipeTimer = setTimeout(this.#wipeLater, REDO_LOG.wipe_ms).unref();
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
      // Another process may have applied the log in the meantime.
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
 * Copies a change so that it stays valid when the caller reuses its buffers.
 * @param end end of the change in the log's bytes, which stay valid until all changes are in the database
 */
function keepChange(change: Change, log: Buffer, end: number): Change {
  const { op, database, key } = change;
  if (op === 'put') return { op, database, key, value: log.subarray(end - change.value.length, end) };
  return op === 'add' ? { op, database, key, counts: { ...change.counts } } : change;
}

/**
 * Reads the number of the log's last record that is in the database; null if the log was never used with this database.
 */
function readTaken(environment: Environment, identity: Buffer): number | null {
  return environment.named(TAKEN).get(identity)?.readDoubleBE() ?? null;
}

function writeTaken(environment: Environment, identity: Buffer, last: number): void {
  const value = Buffer.allocUnsafe(8);
  value.writeDoubleBE(last);
  environment.named(TAKEN).putSync(identity, value);
}

/**
 * The journal of persistent actors in a database of DATA_DIR. Each commit contains events and the rows that follow from
 * them. It is one LMDB transaction, or one record of a redo log, which is written to the database later (backlog.ts).
 * Several threads may have the journal open, each for its own actors. Any thread with actors.
 * Table `journal`, binary keys [u8 length][kind][u16 length][key][u48 number], big-endian, so that the events of an
 * actor are adjacent and in order. Table `snapshots`, the same keys with number 0: [u48 number of its last event][u32
 * version][state]. Earlier versions kept the snapshot in `journal`, between events. When the events were removed, the
 * snapshot filled only a small part of its page. A snapshot in `journal` is read, and is removed when the next one is
 * written.
 */
import type { JournalStore, JournalWrite, StoredActor } from '../../runtime/journal.ts';
import { Backlog } from './backlog.ts';
import { applyChange, type Change, mergeCounts } from './changes.ts';
import { type Durability, Environment } from './environment.ts';
import { encodeRow } from './tables.ts';
import type { WriteTurn } from './write-turn.ts';

/** An actor's entries are damaged, so the actor cannot be started. */
class DamagedHistoryError extends Error {
  override readonly name = 'DamagedHistoryError';
}

const NUMBER_BYTES = 6;
const SNAPSHOT_HEAD_BYTES = NUMBER_BYTES + 4;
const MAX_NUMBER = 2 ** 48 - 1;

export const JOURNAL = 'journal';
export const SNAPSHOTS = 'snapshots';

/** Options for commits that a redo log acknowledges before they reach the database (backlog.ts). */
interface PromiseOptions {
  /** Path of the redo log, to which only this journal writes. */
  path: string;
  /** Kinds of actors whose commits may be acknowledged in the log, if all their rows belong to `tables`. */
  kinds: ReadonlySet<string>;
  /** Tables whose rows other threads may see slightly later. */
  tables: ReadonlySet<string>;
  /** Shared with the other threads that write this file through a redo log. */
  turn?: WriteTurn;
}

export class LmdbJournal implements JournalStore {
  readonly #environment: Environment;
  readonly #promises: PromiseOptions | null;
  /** null: every commit is written directly to the database. */
  readonly #backlog: Backlog | null = null;
  #closed = false;
  #outstanding: Promise<void> = Promise.resolve();

  /**
   * Opens the journal. Creates the file and its folder if missing.
   * @param path a database of DATA_DIR
   * @param promises options of the redo log, for durability `process` only, because a redo log promises no more than
   * that
   * @param key encrypts its values and the redo log; null: no encryption
   * @throws Error if a file cannot be opened, or does not match the key; TypeError if `promises` is given for another
   *   durability than `process`
   */
  constructor(
    path: string,
    durability: Durability = 'disk',
    promises: PromiseOptions | null = null,
    key: Uint8Array | null = null,
  ) {
    this.#environment = Environment.open(path, durability, key);
    this.#environment.named(JOURNAL);
    this.#environment.named(SNAPSHOTS);
    this.#promises = promises;
    if (promises === null) return;
    try {
      if (durability !== 'process')
        throw new TypeError(`${path} promises more durability than a redo log has`);
      const { path: log, turn = null } = promises;
      this.#backlog = new Backlog(this.#environment, log, dropSuperseded, key, turn);
    } catch (thrown) {
      void this.#environment.close();
      throw thrown;
    }
  }

  /**
   * Reads an actor's snapshot, and the events after the snapshot. Writes the pending commits to the database first if
   * one of them may belong to the actor.
   * @throws {DamagedHistoryError} if events are missing or the snapshot is cut off; Error if the journal is closed; a
   *   database error
   */
  load(kind: string, key: string): StoredActor {
    if (this.#closed) throw new Error('the journal is closed');
    const snapshotKey = encodeKey(kind, key, 0);
    const stem = snapshotKey.subarray(0, -NUMBER_BYTES);
    // An actor that is loaded has usually been idle for long, so no pending record is of it. Without this check, each
    // load would write a transaction.
    const mayHold = (table: string) => this.#backlog!.mayHold(table, stem, NUMBER_BYTES);
    if (this.#backlog === null || mayHold(JOURNAL) || mayHold(SNAPSHOTS)) this.#environment.settle();
    const journal = this.#environment.named(JOURNAL);
    // Reads of one tick share a read transaction, but this read must see the last commit.
    journal.resetReadTxn();
    const stored = this.#environment.named(SNAPSHOTS).get(snapshotKey) ?? journal.get(snapshotKey);
    const snapshot = stored === undefined ? null : decodeSnapshot(stored);
    const events: Uint8Array[] = [];
    let next = (snapshot?.seq ?? 0) + 1;
    for (const entry of journal.getRange({
      start: encodeKey(kind, key, next),
      end: encodeKey(kind, key, MAX_NUMBER),
    })) {
      if (readNumber(entry.key) !== next) {
        throw new DamagedHistoryError(`${kind}: event ${next} is missing from the journal`);
      }
      events.push(Uint8Array.from(entry.value));
      next++;
    }
    return { snapshot, events };
  }

  commit(writes: readonly JournalWrite[], done: (error: Error | null) => void): void {
    const fail = async (thrown: unknown) => {
      if (!this.#closed) await this.#environment.reopen();
      setImmediate(done, thrown instanceof Error ? thrown : new Error(String(thrown)));
    };
    if (this.#closed || !this.#environment.isImmediate) {
      // Called on the next tick, so that an error in `done` does not reject this promise.
      this.#outstanding = this.#writeLater(writes).then(() => process.nextTick(done, null), fail);
      return;
    }
    try {
      const changes = encodeWrites(writes);
      if (!this.#promise(writes, changes)) {
        this.#environment.settle();
        this.#environment.transactNow(this.#prepare(changes));
      }
    } catch (thrown) {
      this.#outstanding = fail(thrown);
      return;
    }
    process.nextTick(done, null);
  }

  /** Writes all pending commits to the database. @throws a database error */
  settle(): void {
    this.#environment.settle();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#outstanding;
    try {
      this.#backlog?.close();
    } catch {
      // The pending commits stay in the log.
    }
    await this.#environment.close();
  }

  async #writeLater(writes: readonly JournalWrite[]): Promise<void> {
    if (this.#closed) throw new Error('the journal is closed');
    await this.#environment.transact(this.#prepare(encodeWrites(writes)));
  }

  /**
   * Acknowledges the commit in the redo log, if the log may and can take it.
   * @returns false if the commit must be written directly to the database
   */
  #promise(writes: readonly JournalWrite[], changes: readonly Change[]): boolean {
    if (this.#backlog === null) return false;
    const { kinds, tables } = this.#promises!;
    for (const write of writes) if (!kinds.has(write.kind) || !isPromisable(write, tables)) return false;
    return this.#backlog.promise(changes);
  }

  /**
   * Merges the changes.
   * @returns a function that applies the changes. Call this function inside a write transaction.
   */
  #prepare(encoded: readonly Change[]): () => void {
    const changes = mergeCounts(dropSuperseded(encoded));
    return () => {
      for (const change of changes) applyChange(this.#environment, change);
    };
  }
}

/**
 * Reads an actor's history from its rows, which must be in the order of their keys.
 * @throws {DamagedHistoryError} if events are missing
 */
export function readHistory(
  kind: string,
  rows: readonly { table: string; key: Buffer; value: Buffer | null }[],
): StoredActor {
  const stored = rows.find(({ table }) => table === SNAPSHOTS)?.value;
  const snapshot = stored == null ? null : decodeSnapshot(stored);
  const first = (snapshot?.seq ?? 0) + 1;
  const events = rows.filter(({ table, key }) => table === JOURNAL && readNumber(key) >= first);
  for (const [at, { key }] of events.entries())
    if (readNumber(key) !== first + at)
      throw new DamagedHistoryError(`${kind}: event ${first + at} is missing from the journal`);
  return { snapshot, events: events.map(({ value }) => Uint8Array.from(value!)) };
}

/**
 * Whether the redo log may acknowledge the write. Writes that remove many rows go directly to the database, because
 * they are not urgent.
 */
function isPromisable(write: JournalWrite, tables: ReadonlySet<string>): boolean {
  if (write.type === 'forget') return false;
  return write.type !== 'row' || (write.row.op !== 'trim' && tables.has(write.row.table));
}

/** Encodes writes before the transaction begins, so that only errors of the database can occur in it. */
export function encodeWrites(writes: readonly JournalWrite[]): Change[] {
  const changes: Change[] = [];
  for (const write of writes) {
    if (write.type === 'row') {
      changes.push(encodeRow(write.row));
      continue;
    }
    const { kind, key } = write;
    if (write.type === 'forget') {
      const [first, end] = [encodeKey(kind, key, 0), encodeKey(kind, key, MAX_NUMBER)];
      changes.push(
        { op: 'clear', database: JOURNAL, key: first, end },
        { op: 'clear', database: SNAPSHOTS, key: first, end },
      );
      continue;
    }
    const { seq } = write;
    if (write.type === 'event') {
      const at = encodeKey(kind, key, seq);
      changes.push({ op: 'put', database: JOURNAL, key: at, value: toBuffer(write.event) });
    } else {
      const [first, end] = [encodeKey(kind, key, 0), encodeKey(kind, key, seq + 1)];
      changes.push(
        { op: 'clear', database: JOURNAL, key: first, end },
        { op: 'put', database: SNAPSHOTS, key: encodeKey(kind, key, 0), value: encodeSnapshot(write) },
      );
    }
  }
  return changes;
}

/** Drops the writes of events that a later write in the same list removes: a snapshot, or the end of the history. */
function dropSuperseded(changes: readonly Change[]): readonly Change[] {
  if (!changes.some(({ op, database }) => op === 'clear' && database === JOURNAL)) return changes;
  /** For each address: the number after the last superfluous event. */
  const cleared = new Map<string, number>();
  const kept: Change[] = [];
  // From the last to the first change, because a removal affects only events before it.
  for (const change of changes.toReversed()) {
    const { op, database, key } = change;
    if (database === JOURNAL && op === 'clear') {
      const address = addressOf(key);
      cleared.set(address, Math.max(readNumber(change.end), cleared.get(address) ?? 0));
    } else if (database === JOURNAL && op === 'put') {
      const number = readNumber(key);
      if (number > 0 && number < (cleared.get(addressOf(key)) ?? 0)) continue;
    }
    kept.push(change);
  }
  return kept.reverse();
}

/** Returns the part of a key that identifies the actor. */
function addressOf(key: Buffer): string {
  return key.toString('latin1', 0, key.length - NUMBER_BYTES);
}

/** Encodes the beginning of an actor's keys. */
export function encodeActor(kind: string, key: string): Buffer {
  return encodeKey(kind, key, 0).subarray(0, -NUMBER_BYTES);
}

export function encodeKey(kind: string, key: string, number: number): Buffer {
  const kindBytes = Buffer.byteLength(kind);
  const keyBytes = Buffer.byteLength(key);
  const encoded = Buffer.allocUnsafe(3 + kindBytes + keyBytes + NUMBER_BYTES);
  let at = encoded.writeUInt8(kindBytes, 0);
  at += encoded.write(kind, at);
  at = encoded.writeUInt16BE(keyBytes, at);
  at += encoded.write(key, at);
  encoded.writeUIntBE(number, at, NUMBER_BYTES);
  return encoded;
}

/** Returns the kind of actor whose history has this key. */
export function kindOf(key: Buffer): string {
  return key.toString('utf8', 1, 1 + key[0]!);
}

/** Returns the part of the key that all keys of the actor's history begin with. */
export function actorOf(key: Buffer): Buffer {
  return key.subarray(0, -NUMBER_BYTES);
}

function readNumber(key: Buffer): number {
  return key.readUIntBE(key.length - NUMBER_BYTES, NUMBER_BYTES);
}

function encodeSnapshot(write: Extract<JournalWrite, { type: 'snapshot' }>): Buffer {
  const head = Buffer.allocUnsafe(SNAPSHOT_HEAD_BYTES);
  head.writeUIntBE(write.seq, 0, NUMBER_BYTES);
  head.writeUInt32BE(write.version, NUMBER_BYTES);
  return Buffer.concat([head, write.state]);
}

export function decodeSnapshot(stored: Buffer): NonNullable<StoredActor['snapshot']> {
  if (stored.length < SNAPSHOT_HEAD_BYTES) throw new DamagedHistoryError('a snapshot is cut off');
  return {
    seq: stored.readUIntBE(0, NUMBER_BYTES),
    version: stored.readUInt32BE(NUMBER_BYTES),
    state: Uint8Array.from(stored.subarray(SNAPSHOT_HEAD_BYTES)),
  };
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

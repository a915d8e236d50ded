/**
 * The journal of persistent actors in the main database: one LMDB transaction a commit, synced before it counts.
 * Several actor threads may have it open at once, each writing its own actors. Actor threads.
 *
 * Table `journal`, binary keys [u8 length][kind][u16 length][key][u48 number], big-endian, so that one actor's entries
 * stand together in their order. Number 0 is the snapshot, [u48 number of its last event][u32 version][state]; the
 * others are events.
 */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import type { JournalStore, JournalWrite, StoredActor } from '../../runtime/journal.ts';

/** An actor's entries are not what was written; it cannot be started from them. */
export class DamagedHistoryError extends Error {
  override readonly name = 'DamagedHistoryError';
}

const NUMBER_BYTES = 6;
const SNAPSHOT_HEAD_BYTES = NUMBER_BYTES + 4;
const MAX_NUMBER = 2 ** 48 - 1;

interface Tables {
  root: RootDatabase<Buffer, Buffer>;
  journal: Database<Buffer, Buffer>;
}

export class LmdbJournal implements JournalStore {
  readonly #path: string;
  /** Null after close, and while it is opened again after a failure. */
  #tables: Tables | null = null;
  #closed = false;
  #outstanding: Promise<void> = Promise.resolve();

  /**
   * Opens the journal; makes the file and its folder when they are missing.
   * @param path the main database, `DATA_DIR/main.mdb`
   * @throws when the file cannot be opened
   */
  constructor(path: string) {
    this.#path = path;
    mkdirSync(dirname(path), { recursive: true });
    this.#tables = openTables(path);
  }

  /** @throws {DamagedHistoryError} when events are missing; Error when the database is not open */
  load(kind: string, key: string): StoredActor {
    const { journal } = this.#opened();
    // Reads share one read transaction a turn; this one must see the last commit.
    journal.resetReadTxn();
    const stored = journal.get(encodeKey(kind, key, 0));
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
    this.#outstanding = this.#write(writes).then(
      () => void setImmediate(done, null),
      async (thrown: unknown) => {
        const error = await findCause(thrown);
        await this.#reopen();
        setImmediate(done, error);
      },
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#outstanding;
    const tables = this.#tables;
    this.#tables = null;
    await tables?.root.close();
  }

  async #write(writes: readonly JournalWrite[]): Promise<void> {
    if (this.#tables === null && !this.#closed) this.#tables = openTables(this.#path);
    const { root, journal } = this.#opened();
    journal.resetReadTxn();
    const superseded = findSuperseded(writes);
    // All of it is encoded before any of it is queued: an error on the way must not leave half a batch.
    const removals: Buffer[] = [];
    const puts: [key: Buffer, value: Buffer][] = [];
    for (const write of writes) {
      const { kind, key, seq } = write;
      if (write.type === 'snapshot') {
        const range = { start: encodeKey(kind, key, 1), end: encodeKey(kind, key, seq + 1) };
        removals.push(...journal.getKeys(range));
        puts.push([encodeKey(kind, key, 0), encodeSnapshot(write)]);
      } else if (seq > (superseded.get(addressText(write)) ?? 0)) {
        puts.push([encodeKey(kind, key, seq), toBuffer(write.event)]);
      }
    }
    // One batch is one transaction; its promise settles when that is synced (overlappingSync is off).
    await root.batch(() => {
      for (const key of removals) journal.remove(key).catch(leaveToBatch);
      for (const [key, value] of puts) journal.put(key, value).catch(leaveToBatch);
    });
  }

  #opened(): Tables {
    if (this.#tables === null) throw new Error('the journal is not open');
    return this.#tables;
  }

  /** LMDB refuses to go on after some errors, a failed write of its head among them. */
  async #reopen(): Promise<void> {
    const tables = this.#tables;
    if (tables === null || this.#closed) return;
    this.#tables = null;
    try {
      await tables.root.close();
      if (!this.#closed) this.#tables = openTables(this.#path);
    } catch {
      // The next commit tries again; until then nothing can be loaded.
    }
  }
}

function openTables(path: string): Tables {
  const root = open<Buffer, Buffer>({
    path,
    noSubdir: true,
    maxDbs: 64,
    encoding: 'binary',
    keyEncoding: 'binary',
    cache: false,
    // A commit is on the disk when its promise settles; with it on, only `flushed` would say so.
    overlappingSync: false,
  });
  return {
    root,
    journal: root.openDB<Buffer, Buffer>({
      name: 'journal',
      encoding: 'binary',
      keyEncoding: 'binary',
      cache: false,
    }),
  };
}

/** A write fails with its transaction, whose promise tells. */
function leaveToBatch(): void {}

/** lmdb rejects every write with a general error that holds a promise of the particular one. */
async function findCause(thrown: unknown): Promise<Error> {
  const general = thrown instanceof Error ? thrown : new Error(String(thrown));
  if (!('commitError' in general)) return general;
  return Promise.resolve(general.commitError).then(
    () => general,
    (cause: unknown) => (cause instanceof Error ? cause : general),
  );
}

/** Events that a snapshot of the same batch makes superfluous: address → number of the last of them. */
function findSuperseded(writes: readonly JournalWrite[]): Map<string, number> {
  const last = new Map<string, number>();
  for (const write of writes) if (write.type === 'snapshot') last.set(addressText(write), write.seq);
  return last;
}

function addressText({ kind, key }: { kind: string; key: string }): string {
  return `${kind}\0${key}`;
}

function encodeKey(kind: string, key: string, number: number): Buffer {
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

function readNumber(key: Buffer): number {
  return key.readUIntBE(key.length - NUMBER_BYTES, NUMBER_BYTES);
}

function encodeSnapshot(write: Extract<JournalWrite, { type: 'snapshot' }>): Buffer {
  const head = Buffer.allocUnsafe(SNAPSHOT_HEAD_BYTES);
  head.writeUIntBE(write.seq, 0, NUMBER_BYTES);
  head.writeUInt32BE(write.version, NUMBER_BYTES);
  return Buffer.concat([head, write.state]);
}

function decodeSnapshot(stored: Buffer): NonNullable<StoredActor['snapshot']> {
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

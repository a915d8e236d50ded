/**
 * The journal of persistent actors in a database of DATA_DIR: one LMDB transaction a commit, with the rows that its
 * events bring. Several actor threads may have it open at once, each writing its own actors. Actor threads.
 *
 * Table `journal`, binary keys [u8 length][kind][u16 length][key][u48 number], big-endian, so that one actor's entries
 * stand together in their order. Number 0 is the snapshot, [u48 number of its last event][u32 version][state]; the
 * others are events.
 */
import type { JournalStore, JournalWrite, StoredActor } from '../../runtime/journal.ts';
import { type Durability, Environment } from './environment.ts';
import { applyRow, type EncodedRow, encodeRow, mergeCounts } from './tables.ts';

/** An actor's entries are not what was written; it cannot be started from them. */
export class DamagedHistoryError extends Error {
  override readonly name = 'DamagedHistoryError';
}

const NUMBER_BYTES = 6;
const SNAPSHOT_HEAD_BYTES = NUMBER_BYTES + 4;
const MAX_NUMBER = 2 ** 48 - 1;

const JOURNAL = 'journal';

export class LmdbJournal implements JournalStore {
  readonly #environment: Environment;
  #closed = false;
  #outstanding: Promise<void> = Promise.resolve();

  /**
   * Opens the journal; makes the file and its folder when they are missing.
   * @param path a database of DATA_DIR
   * @throws when the file cannot be opened
   */
  constructor(path: string, durability: Durability = 'disk') {
    this.#environment = Environment.open(path, durability);
    this.#environment.named(JOURNAL);
  }

  /** @throws {DamagedHistoryError} when events are missing; Error when the database is not open */
  load(kind: string, key: string): StoredActor {
    if (this.#closed) throw new Error('the journal is closed');
    const journal = this.#environment.named(JOURNAL);
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
    const fail = async (thrown: unknown) => {
      if (!this.#closed) await this.#environment.reopen();
      setImmediate(done, thrown instanceof Error ? thrown : new Error(String(thrown)));
    };
    if (this.#closed || !this.#environment.isImmediate) {
      // Behind the promises at hand, and out of their reach: what `done` throws is nobody's rejection.
      this.#outstanding = this.#writeLater(writes).then(() => process.nextTick(done, null), fail);
      return;
    }
    try {
      this.#environment.transactNow(this.#prepare(writes));
    } catch (thrown) {
      this.#outstanding = fail(thrown);
      return;
    }
    process.nextTick(done, null);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#outstanding;
    await this.#environment.close();
  }

  async #writeLater(writes: readonly JournalWrite[]): Promise<void> {
    if (this.#closed) throw new Error('the journal is closed');
    await this.#environment.transact(this.#prepare(writes));
  }

  /** @returns what is to be done inside a transaction */
  #prepare(writes: readonly JournalWrite[]): () => void {
    const superseded = findSuperseded(writes);
    // All of it is encoded before the transaction begins: nothing can fail inside but the database itself.
    const emptied: [start: Buffer, end: Buffer][] = [];
    const puts: [key: Buffer, value: Buffer][] = [];
    const rows: EncodedRow[] = [];
    for (const write of writes) {
      if (write.type === 'row') {
        rows.push(encodeRow(write.row));
        continue;
      }
      const { kind, key, seq } = write;
      if (write.type === 'snapshot') {
        emptied.push([encodeKey(kind, key, 1), encodeKey(kind, key, seq + 1)]);
        puts.push([encodeKey(kind, key, 0), encodeSnapshot(write)]);
      } else if (seq > (superseded.get(addressText(write)) ?? 0)) {
        puts.push([encodeKey(kind, key, seq), toBuffer(write.event)]);
      }
    }
    const changes = mergeCounts(rows);
    return () => {
      const journal = this.#environment.named(JOURNAL);
      for (const [start, end] of emptied)
        for (const key of [...journal.getKeys({ start, end })]) journal.removeSync(key);
      for (const [key, value] of puts) journal.putSync(key, value);
      for (const change of changes) applyRow(this.#environment, change);
    };
  }
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

/**
 * The journal in memory, for tests and the simulator: the reference implementation for ../lmdb/journal.ts. Its
 * MemoryDisk outlives an instance, so a new journal on the same disk has the commits of the earlier one. Any thread;
 * each disk belongs to one thread.
 */
import type { JournalStore, JournalWrite, StoredActor } from '../../runtime/journal.ts';
import { applyRow, type MemoryTableDisk } from './tables.ts';

/** The stored snapshot and events of one actor. */
interface History {
  snapshot: StoredActor['snapshot'];
  /** By number, in order. */
  events: Map<number, Uint8Array>;
}

/** The committed histories, by address of the actor. */
export type MemoryDisk = Map<string, History>;

export class MemoryJournal implements JournalStore {
  readonly #disk: MemoryDisk;
  readonly #tables: MemoryTableDisk;
  #outstanding: Promise<void> = Promise.resolve();
  #closed = false;

  /** @param tables receives the rows that follow from events */
  constructor(disk: MemoryDisk = new Map(), tables: MemoryTableDisk = new Map()) {
    this.#disk = disk;
    this.#tables = tables;
  }

  load(kind: string, key: string): StoredActor {
    if (this.#closed) throw new Error('the journal is closed');
    const history = this.#disk.get(addressText(kind, key));
    if (history === undefined) return { snapshot: null, events: [] };
    const { snapshot } = history;
    const first = (snapshot?.seq ?? 0) + 1;
    const numbers = [...history.events.keys()].filter((seq) => seq >= first);
    if (numbers.some((seq, at) => seq !== first + at))
      throw new Error(`${kind}: an event is missing from the journal`);
    return {
      snapshot: snapshot === null ? null : { ...snapshot, state: Uint8Array.from(snapshot.state) },
      events: numbers.map((seq) => Uint8Array.from(history.events.get(seq)!)),
    };
  }

  commit(writes: readonly JournalWrite[], done: (error: Error | null) => void): void {
    this.#outstanding = new Promise((resolve) => {
      setImmediate(() => {
        let error: Error | null = null;
        if (this.#closed) error = new Error('the journal is closed');
        else this.apply(writes);
        resolve();
        done(error);
      });
    });
  }

  /** Applies the writes to the disk immediately. */
  apply(writes: readonly JournalWrite[]): void {
    for (const write of writes) {
      if (write.type === 'row') {
        applyRow(this.#tables, write.row);
        continue;
      }
      const address = addressText(write.kind, write.key);
      if (write.type === 'forget') {
        this.#disk.delete(address);
        continue;
      }
      let history = this.#disk.get(address);
      if (history === undefined) {
        history = { snapshot: null, events: new Map() };
        this.#disk.set(address, history);
      }
      if (write.type === 'event') {
        history.events.set(write.seq, Uint8Array.from(write.event));
      } else {
        const { seq, version } = write;
        history.snapshot = { seq, version, state: Uint8Array.from(write.state) };
        for (const number of [...history.events.keys()]) if (number <= seq) history.events.delete(number);
      }
    }
  }

  async close(): Promise<void> {
    await this.#outstanding;
    this.#closed = true;
  }
}

function addressText(kind: string, key: string): string {
  return `${kind}\0${key}`;
}

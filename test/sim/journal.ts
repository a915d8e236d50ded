/**
 * The journal of one simulated thread. Commits take time, may report a failure whether or not they were written, and
 * may be lost if the thread crashes meanwhile. The disk keeps its data when the thread crashes.
 */
import type { CommitDone, JournalStore, JournalWrite, StoredActor } from '../../src/runtime/journal.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';
import type { Witness } from './witness.ts';
import type { World } from './world.ts';

/** Faults of a journal that breaks its guarantees, to test that the simulation detects them. */
export type JournalFault = 'none' | 'acknowledges_early' | 'loses_writes';

export interface JournalTrouble {
  /** Probability that a commit fails, and that a load fails. */
  commit_failure: number;
  load_failure: number;
}

/** The store of one life of a host. */
export interface SimStore extends JournalStore {
  /** Simulates a crash of the thread. The outstanding commit may or may not be written. */
  crash(): void;
}

export class SimJournal implements SimStore {
  readonly #world: World;
  readonly #witness: Witness;
  readonly #inner: MemoryJournal;
  readonly #trouble: JournalTrouble;
  readonly #fault: JournalFault;
  #pending: readonly JournalWrite[] | null = null;
  #dead = false;

  /** @param trouble read at each call, so that the test can end it */
  constructor(
    world: World,
    witness: Witness,
    disk: MemoryDisk,
    trouble: JournalTrouble,
    fault: JournalFault,
  ) {
    this.#world = world;
    this.#witness = witness;
    this.#inner = new MemoryJournal(disk);
    this.#trouble = trouble;
    this.#fault = fault;
  }

  load(kind: string, key: string): StoredActor {
    if (this.#world.prng.chance(this.#trouble.load_failure)) throw new Error('the disk cannot be read');
    return this.#inner.load(kind, key);
  }

  commit(writes: readonly JournalWrite[], done: CommitDone): void {
    const { prng } = this.#world;
    if (this.#pending !== null) this.#world.violate('two commits outstanding');
    this.#pending = writes;
    const delayMs = prng.chance(0.1) ? this.#world.between(5, 40) : this.#world.between(0.1, 4);
    const fails = prng.chance(this.#trouble.commit_failure);
    const applied = !fails || prng.chance(0.5);
    if (this.#fault === 'acknowledges_early') {
      this.#pending = null;
      this.#world.after(0.01, () => !this.#dead && done(null));
      this.#world.after(delayMs, () => !this.#dead && this.#apply(writes));
      return;
    }
    this.#world.after(delayMs, () => {
      if (this.#dead) return;
      this.#pending = null;
      const isLost = this.#fault === 'loses_writes' && prng.chance(0.05);
      if (applied && !isLost) this.#apply(writes);
      this.#world.note(`commit of ${writes.length} ${fails ? `failed, applied: ${applied}` : 'done'}`);
      done(fails ? new Error('the disk is full') : null);
    });
  }

  crash(): void {
    this.#dead = true;
    if (this.#pending !== null && this.#world.prng.chance(0.5)) this.#apply(this.#pending);
  }

  async close(): Promise<void> {}

  #apply(writes: readonly JournalWrite[]): void {
    this.#inner.apply(writes);
    this.#witness.seeDurable(writes);
  }
}

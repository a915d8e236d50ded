/**
 * A store that the simulated boxes share, and each thread's connection to it. The store gives each actor one owner at
 * a time. Requests and answers take time and overtake each other. A connection may break before or after its commit
 * happened. The commit may even happen after the thread was told that the outcome is unknown. Boxes learn late that
 * they have lost an actor.
 */

import { describeError } from '../../src/runtime/error.ts';
import {
  type CommitDone,
  JournalUnavailableError,
  type JournalWrite,
  type StoredActor,
} from '../../src/runtime/journal.ts';
import type { ActorAddress } from '../../src/runtime/protocol.ts';
import { type MemoryDisk, MemoryJournal } from '../../src/storage/memory/journal.ts';
import type { JournalTrouble, SimStore } from './journal.ts';
import { AWAY, type Thread, type Witness } from './witness.ts';
import type { World } from './world.ts';

/** Faults of a store that breaks its guarantees, to test that the simulation notices. */
export type StoreFault =
  | 'none'
  /** Stores what former owners write. */
  | 'accepts_former_owners'
  /** Does not report the actors whose writes it did not store. */
  | 'hides_losses'
  /** Stores nothing of a commit with a lost actor, and names only that actor. */
  | 'drops_the_rest'
  /** A take-over does not change the term. */
  | 'repeats_terms'
  /** Executes a commit twice after its connection broke. */
  | 'repeats_commits';

interface Owner {
  box: number;
  term: number;
  taken_at_ms: number;
}

/** Time after a take-over in which no other box can take the actor. */
const HELD_MS = 4;

export class SharedStore {
  readonly disk: MemoryDisk = new Map();
  readonly world: World;
  readonly witness: Witness;
  readonly fault: StoreFault;
  takeovers = 0;
  losses = 0;
  readonly #inner = new MemoryJournal(this.disk);
  readonly #owners = new Map<string, Owner>();
  /** The journals that are notified of lost actors. */
  readonly #listeners = new Set<SharedJournal>();

  constructor(world: World, witness: Witness, fault: StoreFault) {
    this.world = world;
    this.witness = witness;
    this.fault = fault;
  }

  /** Adds a listener; the returned function removes it. */
  listen(journal: SharedJournal): () => void {
    this.#listeners.add(journal);
    return () => void this.#listeners.delete(journal);
  }

  /** Makes the box the owner. Null: another box has taken the actor too recently. */
  take(box: number, to: ActorAddress): { term: number; stored: StoredActor } | null {
    const address = addressText(to);
    const owner = this.#owners.get(address);
    const isOther = owner !== undefined && owner.box !== box;
    const { nowMs } = this.world;
    if (isOther && nowMs < owner.taken_at_ms + HELD_MS) return null;
    const term = (owner?.term ?? 0) + (this.fault === 'repeats_terms' && owner !== undefined ? 0 : 1);
    this.#owners.set(address, { box, term, taken_at_ms: nowMs });
    this.world.note(`box ${box} takes ${to.kind}/${to.key}, term ${term}`);
    if (isOther) {
      this.takeovers++;
      this.#announce(owner.box, to, term);
    }
    try {
      return { term, stored: this.#inner.load(to.kind, to.key) };
    } catch (thrown) {
      this.world.violate(`${to.kind}/${to.key}: ${describeError(thrown)}`);
      return null;
    }
  }

  /** Tells all threads of the box at once, after a delay, that the actor has an owner with this term. */
  #announce(box: number, to: ActorAddress, term: number): void {
    const { prng } = this.world;
    this.world.after(prng.chance(0.3) ? this.world.between(2, 60) : this.world.between(0.1, 2), () => {
      this.world.note(`box ${box} learns that ${to.kind}/${to.key} is lost`);
      this.witness.seeLost(box, to.key, term);
      for (const journal of this.#listeners) if (journal.box === box) journal.onLost?.([to]);
    });
  }

  /**
   * Stores the writes of the actors whose terms are current.
   * @returns the actors of which nothing was stored, because their terms are over
   */
  store(writes: readonly JournalWrite[], terms: ReadonlyMap<string, number>): ActorAddress[] {
    const lost = new Map<string, ActorAddress>();
    for (const { kind, key } of writes) {
      const address = addressText({ kind, key });
      if (this.#owners.get(address)?.term !== terms.get(address)) lost.set(address, { kind, key });
    }
    this.losses += lost.size;
    const isKept = (write: JournalWrite): boolean => {
      if (this.fault === 'accepts_former_owners') return true;
      if (this.fault === 'drops_the_rest' && lost.size > 0) return false;
      return !lost.has(addressText(write));
    };
    const kept = writes.filter(isKept);
    this.#inner.apply(kept);
    this.witness.seeDurable(kept);
    if (this.fault === 'hides_losses' || this.fault === 'accepts_former_owners') return [];
    return [...lost.values()];
  }
}

/** One thread's connection to the store. */
export class SharedJournal implements SimStore {
  onLost: SimStore['onLost'];
  readonly #store: SharedStore;
  readonly #world: World;
  readonly #thread: Thread;
  readonly #trouble: JournalTrouble;
  readonly #stopListening: () => void;
  /** The terms in which this thread's box has loaded its actors. */
  readonly #terms = new Map<string, number>();
  /** Actors of the running commit. */
  #writing: ReadonlySet<string> | null = null;
  #dead = false;

  /** @param trouble read at each call, so that the test can end it */
  constructor(store: SharedStore, thread: Thread, trouble: JournalTrouble) {
    this.#store = store;
    this.#world = store.world;
    this.#thread = thread;
    this.#trouble = trouble;
    this.#stopListening = store.listen(this);
  }

  get box(): number {
    return this.#thread.box;
  }

  load(kind: string, key: string): Promise<StoredActor> {
    const to = { kind, key };
    const address = addressText(to);
    if (this.#writing?.has(address)) this.#world.violate(`${kind}/${key} is loaded before its last write`);
    return new Promise((resolve, reject) => {
      const take = (): void => {
        const { prng } = this.#world;
        const fails = prng.chance(this.#trouble.load_failure);
        if (fails && prng.chance(0.5)) return this.#answer(() => this.#failLoad(to, reject));
        const taken = this.#store.take(this.box, to);
        if (taken === null) return void this.#world.after(HELD_MS / 2, take);
        const seen = this.#store.witness.seeTaken(this.#thread, key, taken.term);
        if (fails) return this.#answer(() => this.#failLoad(to, reject));
        this.#answer(() => {
          seen();
          this.#terms.set(address, taken.term);
          resolve(taken.stored);
        });
      };
      this.#world.after(this.#travelMs(), take);
    });
  }

  commit(writes: readonly JournalWrite[], done: CommitDone): void {
    if (this.#writing !== null) this.#world.violate('two commits outstanding');
    this.#writing = new Set(writes.map(addressText));
    const terms = new Map<string, number>();
    for (const address of this.#writing) {
      const term = this.#terms.get(address);
      if (term === undefined) this.#world.violate(`${address} is written and not loaded`);
      terms.set(address, term ?? 0);
    }
    let outcome: ActorAddress[] | null = null;
    const execute = (): ActorAddress[] => {
      // A repeated commit is recognized by its number.
      if (outcome === null || this.#store.fault === 'repeats_commits') {
        outcome = this.#store.store(writes, terms);
        this.#world.note(`${this.#thread.life} commits ${writes.length}, lost: ${outcome.length}`);
      }
      return outcome;
    };
    const finish = (error: Error | null, lost: readonly ActorAddress[] = []): void => {
      this.#writing = null;
      done(error, lost);
    };
    const succeed = (): void => {
      const lost = execute();
      this.#answer(() => finish(null, lost));
    };
    const { prng } = this.#world;
    const attempt = (): void => {
      if (!prng.chance(this.#trouble.commit_failure)) return succeed();
      // The connection breaks. The commit has happened, will happen later, or never happens.
      const when = prng.below(3);
      if (when === 0) execute();
      else if (when === 1) this.#world.after(this.#world.between(0, 80), execute);
      if (prng.chance(0.7)) return void this.#world.after(this.#travelMs(), attempt);
      this.#answer(() => finish(new JournalUnavailableError(AWAY)));
    };
    this.#world.after(this.#travelMs(), attempt);
  }

  /** A commit that was sent may still happen. */
  crash(): void {
    this.#dead = true;
    this.#stopListening();
  }

  letGo(kind: string, key: string): void {
    const address = addressText({ kind, key });
    if (this.#writing?.has(address)) this.#world.violate(`${address} leaves before its last write`);
    this.#terms.delete(address);
  }

  async close(): Promise<void> {}

  #failLoad({ kind, key }: ActorAddress, reject: (error: Error) => void): void {
    if (this.#world.prng.chance(0.2)) return reject(new Error('an event is missing'));
    this.#store.witness.seeUnavailable(this.#thread, kind, key);
    reject(new JournalUnavailableError(AWAY));
  }

  #answer(arrive: () => void): void {
    this.#world.after(this.#travelMs(), () => {
      if (!this.#dead) arrive();
    });
  }

  #travelMs(): number {
    return this.#world.prng.chance(0.1) ? this.#world.between(2, 20) : this.#world.between(0.1, 1.5);
  }
}

function addressText({ kind, key }: ActorAddress): string {
  return `${kind}/${key}`;
}

/**
 * The journal of runs that several boxes share (../../runtime/journal.ts). Loading an actor makes this box its owner,
 * for a new term. Commits contain the term. Server threads.
 */
import type { CommitDone, JournalStore, JournalWrite, StoredActor } from '../../runtime/journal.ts';
import type { ActorAddress } from '../../runtime/protocol.ts';
import { encodeActor, encodeWrites, readHistory } from '../lmdb/journal.ts';
import { toJournalError } from './journal.ts';
import { CommitBuilder, type RunTables } from './runs-commit.ts';
import type { HeldActor, LostActor, RunsStore } from './runs-store.ts';

/**
 * Maximum number of terms that are kept, more than there are actors in memory. Beyond it, the least recently used term
 * is dropped. The next commit of its actor then counts as lost, and the actor is loaded again.
 */
const TERMS = 200_000;

interface HeldTerm extends ActorAddress {
  term: number;
}

export class SharedRunsJournal implements JournalStore {
  onLost: JournalStore['onLost'];
  readonly #store: RunsStore;
  readonly #tables: RunTables;
  readonly #most: number;
  /** By the actor's address in bytes, the most recently used last. */
  readonly #terms = new Map<string, HeldTerm>();
  /** Actors that are being taken, with the term under which another box took them in the meantime. */
  readonly #loading = new Map<string, number>();
  #outstanding: Promise<void> = Promise.resolve();
  #closed = false;

  /** @param tables where rows are stored */
  constructor(store: RunsStore, tables: RunTables, most_terms = TERMS) {
    this.#store = store;
    this.#tables = tables;
    this.#most = most_terms;
  }

  async load(kind: string, key: string): Promise<StoredActor> {
    if (this.#closed) throw new Error('the journal is closed');
    const actor = encodeActor(kind, key);
    const name = actor.toString('latin1');
    this.#terms.delete(name);
    try {
      const { term, rows } = await this.#take(actor, name);
      this.#terms.set(name, { kind, key, term });
      if (this.#terms.size > this.#most) this.#terms.delete(this.#terms.keys().next().value!);
      return readHistory(kind, rows);
    } catch (thrown) {
      throw toJournalError(thrown);
    }
  }

  commit(writes: readonly JournalWrite[], done: CommitDone): void {
    const finish = (error: Error | null, lost?: readonly ActorAddress[]) =>
      process.nextTick(done, error, lost);
    this.#outstanding = this.#commit(writes).then(
      (lost) => finish(null, lost),
      (thrown: unknown) => finish(toJournalError(thrown)),
    );
  }

  /**
   * Drops the actor's term. The actor must be loaded again before its next write, because a commit without a term
   * counts as lost.
   */
  letGo(kind: string, key: string): void {
    this.#terms.delete(encodeActor(kind, key).toString('latin1'));
  }

  /** Handles actors that other boxes have taken; null: any actor may have been taken. */
  noteLost(actors: readonly LostActor[] | null): void {
    const lost: ActorAddress[] = [];
    if (actors === null) {
      for (const { kind, key } of this.#terms.values()) lost.push({ kind, key });
      this.#terms.clear();
      for (const name of this.#loading.keys()) this.#loading.set(name, Number.POSITIVE_INFINITY);
    } else
      for (const { actor, term } of actors) {
        const name = actor.toString('latin1');
        const loading = this.#loading.get(name);
        if (loading !== undefined) this.#loading.set(name, Math.max(loading, term));
        const held = this.#terms.get(name);
        // Skips actors that this box has taken again, and actors that are not in memory here.
        if (held === undefined || held.term >= term) continue;
        this.#terms.delete(name);
        lost.push({ kind: held.kind, key: held.key });
      }
    if (lost.length > 0) this.onLost?.(lost);
  }

  async close(): Promise<void> {
    await this.#outstanding;
    this.#closed = true;
  }

  /** Takes an actor. Takes it again if another box has taken it before the answer arrived. */
  async #take(actor: Buffer, name: string): Promise<HeldActor> {
    try {
      for (;;) {
        this.#loading.set(name, 0);
        const held = await this.#store.take(actor);
        if (held.term > this.#loading.get(name)!) return held;
      }
    } finally {
      this.#loading.delete(name);
    }
  }

  async #commit(writes: readonly JournalWrite[]): Promise<ActorAddress[]> {
    if (this.#closed) throw new Error('the journal is closed');
    const builders = new Map<string, { address: ActorAddress; builder: CommitBuilder }>();
    for (const write of writes) {
      const { kind, key } = write;
      const actor = encodeActor(kind, key);
      const name = actor.toString('latin1');
      let found = builders.get(name);
      if (found === undefined) {
        found = { address: { kind, key }, builder: new CommitBuilder(actor, this.#tables) };
        builders.set(name, found);
      }
      for (const change of encodeWrites([write])) found.builder.add(change);
    }
    const lost: ActorAddress[] = [];
    const sent: ActorAddress[] = [];
    const commits = [...builders].flatMap(([name, { address, builder }]) => {
      const held = this.#terms.get(name);
      if (held === undefined) {
        lost.push(address);
        return [];
      }
      this.#terms.delete(name);
      this.#terms.set(name, held);
      sent.push(address);
      return [builder.build(held.term)];
    });
    if (commits.length > 0) for (const at of await this.#store.commit(commits)) lost.push(sent[at]!);
    for (const { kind, key } of lost) this.#terms.delete(encodeActor(kind, key).toString('latin1'));
    return lost;
  }
}

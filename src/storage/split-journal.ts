/**
 * A journal that consists of two files. Events of some kinds must be on the disk before they take effect; all others
 * only need to survive the process. All events of an actor are in one file, so its commits are atomic. Any thread with
 * actors.
 */
import type { CommitDone, JournalStore, JournalWrite, StoredActor } from '../runtime/journal.ts';
import type { ActorAddress } from '../runtime/protocol.ts';

export class SplitJournal implements JournalStore {
  readonly #main: JournalStore;
  readonly #quick: JournalStore;
  readonly #quickKinds: ReadonlySet<string>;

  /**
   * @param quickKinds kinds whose events are in `quick`
   */
  constructor(main: JournalStore, quick: JournalStore, quickKinds: ReadonlySet<string>) {
    this.#main = main;
    this.#quick = quick;
    this.#quickKinds = quickKinds;
  }

  set onLost(listener: JournalStore['onLost']) {
    this.#main.onLost = listener;
    this.#quick.onLost = listener;
  }

  load(kind: string, key: string): StoredActor | Promise<StoredActor> {
    return this.#journalOf(kind).load(kind, key);
  }

  letGo(kind: string, key: string): void {
    this.#journalOf(kind).letGo?.(kind, key);
  }

  commit(writes: readonly JournalWrite[], done: CommitDone): void {
    if (writes.every(({ kind }) => this.#quickKinds.has(kind))) return this.#quick.commit(writes, done);
    const quick = writes.filter(({ kind }) => this.#quickKinds.has(kind));
    if (quick.length === 0) return this.#main.commit(writes, done);
    const main = writes.filter(({ kind }) => !this.#quickKinds.has(kind));
    let left = 2;
    let failure: Error | null = null;
    const lost: ActorAddress[] = [];
    const settle: CommitDone = (error, moved = []) => {
      failure ??= error;
      lost.push(...moved);
      if (--left === 0) done(failure, lost);
    };
    this.#quick.commit(quick, settle);
    this.#main.commit(main, settle);
  }

  settle(): void {
    this.#main.settle?.();
    this.#quick.settle?.();
  }

  async close(): Promise<void> {
    await Promise.all([this.#main.close(), this.#quick.close()]);
  }

  #journalOf(kind: string): JournalStore {
    return this.#quickKinds.has(kind) ? this.#quick : this.#main;
  }
}

/**
 * The journal of persistent actors that several boxes share (../../runtime/journal.ts). Of two boxes that continue the
 * same actor, one gets an error: then its actor starts again from the other's events. Wherever actors run.
 */
import {
  type JournalStore,
  JournalUnavailableError,
  type JournalWrite,
  type StoredActor,
} from '../../runtime/journal.ts';
import type { Committer } from './follower.ts';
import { TruthUnavailableError } from './truth.ts';
import type { View } from './view.ts';

/** How often a commit is tried before it gives up because other commits always come first. */
const ATTEMPTS = 20;

/** @returns the journal's error if the database could not be reached, otherwise what was thrown */
export function toJournalError(thrown: unknown): Error {
  if (thrown instanceof TruthUnavailableError)
    return new JournalUnavailableError(thrown.message, { cause: thrown });
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

export class SharedJournal implements JournalStore {
  readonly #view: View;
  readonly #committer: Committer;
  #outstanding: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(view: View, committer: Committer) {
    this.#view = view;
    this.#committer = committer;
  }

  load(kind: string, key: string): StoredActor {
    if (this.#closed) throw new Error('the journal is closed');
    return this.#view.load(kind, key);
  }

  commit(writes: readonly JournalWrite[], done: (error: Error | null) => void): void {
    const finish = (error: Error | null) => process.nextTick(done, error);
    this.#outstanding = this.#commit(writes).then(
      () => finish(null),
      (thrown: unknown) => finish(toJournalError(thrown)),
    );
  }

  async close(): Promise<void> {
    await this.#outstanding;
    this.#closed = true;
  }

  async #commit(allWrites: readonly JournalWrite[]): Promise<void> {
    if (this.#closed) throw new Error('the journal is closed');
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { base, history, reads, writes } = this.#view.attemptWrites(allWrites);
      if (writes.length === 0) return;
      if ((await this.#committer.commit({ base, history, reads, writes })) !== null) return;
    }
    throw new TruthUnavailableError('other commits to the same rows always came first');
  }
}

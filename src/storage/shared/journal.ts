/**
 * The journal of persistent actors that several boxes share (../../runtime/journal.ts). If two boxes continue the same
 * actor, one of them gets an error, and its actor starts again with the events of the other box. Any thread with
 * actors.
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

/** Maximum number of attempts of a commit that conflicts with other commits. */
const ATTEMPTS = 20;

/**
 * Converts an error for the journal's callers.
 * @returns JournalUnavailableError for a TruthUnavailableError; another error unchanged; an Error for any other value
 */
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

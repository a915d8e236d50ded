/** Deletions that a stop or a crash cut short: looked for at the start and now and then. Server threads, one for all. */
import { RunClient } from '../../actors/run/client.ts';
import { DELETED_ACCOUNTS_RESUMED } from '../limits.ts';
import { carryAudit } from '../storage/accounts/audit.ts';
import { endAccountDeletion, listAccountDeletions } from '../storage/accounts/deletions.ts';
import type { Stores } from '../storage/stores.ts';
import { DeletedContent, type DeletedContentParts } from './deleted-content.ts';
import { removeAccountRows } from './organization-rows.ts';

export class UnfinishedDeletions {
  readonly #runs: RunClient;
  readonly #stores: Stores;
  readonly #content: DeletedContent;
  #isInContent = false;

  constructor(parts: DeletedContentParts) {
    this.#runs = new RunClient(parts.asker);
    this.#stores = parts.stores;
    this.#content = new DeletedContent(parts);
  }

  /** Goes on with all of them. Never fails: what cannot be done now is found by the next call. */
  async resume(): Promise<void> {
    await Promise.allSettled([
      this.#runs.resumeDeletions(this.#stores.runs),
      carryAudit(this.#stores, null),
      this.#resumeContent(),
      this.#resumeAccounts(),
    ]);
  }

  /** A large project takes longer than it is until the next call. */
  async #resumeContent(): Promise<void> {
    if (this.#isInContent) return;
    this.#isInContent = true;
    try {
      await this.#content.resume();
    } finally {
      this.#isInContent = false;
    }
  }

  async #resumeAccounts(): Promise<void> {
    const { main } = this.#stores;
    for (const user_id of listAccountDeletions(main, DELETED_ACCOUNTS_RESUMED)) {
      await removeAccountRows(main, user_id);
      await main.transact((tx) => endAccountDeletion(tx, user_id));
    }
  }
}

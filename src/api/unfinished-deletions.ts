/**
 * Resumes deletions that a stop or a crash interrupted, at the start and periodically. Server threads; one instance
 * serves all of them.
 */
import { RunClient } from '../../actors/run/client.ts';
import { carryAudit } from '../storage/accounts/audit.ts';
import type { Stores } from '../storage/ports/stores.ts';
import { DeletedContent, type DeletedContentParts } from './deleted-content.ts';

/** Maximum number of deleted accounts resumed in one pass; the next pass resumes more. */
const DELETED_ACCOUNTS_RESUMED = 100;

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

  /**
   * Resumes all interrupted deletions, but of accounts at most DELETED_ACCOUNTS_RESUMED. Never rejects: the next call
   * retries failed deletions.
   */
  async resume(): Promise<void> {
    await Promise.allSettled([
      this.#runs.resumeDeletions(this.#stores.run_records),
      carryAudit(this.#stores, null),
      this.#resumeContent(),
      this.#resumeAccounts(),
    ]);
  }

  /**
   * Resumes the removal of data. A large project may take longer than the interval between calls, so only one
   * resumption runs at a time.
   */
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
    const { accounts } = this.#stores;
    for (const user_id of accounts.deletions.listAccounts(DELETED_ACCOUNTS_RESUMED)) {
      await accounts.removeAllOfUser(user_id);
      await accounts.transact((tx) => tx.deletions.endAccount(user_id));
    }
  }
}

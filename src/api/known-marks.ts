/**
 * The marks of an organization's runs, for queries over all runs. If an organization has many marks, they are cached for
 * a few seconds, so that not every query reads them. Server threads.
 *
 * Bound: MARKED_RUNS per organization, for the organizations whose runs are in memory (searched-runs.ts).
 */
import type { RunMarks } from '../domain/run-mark.ts';
import type { AccountReads } from '../storage/ports/accounts.ts';

/**
 * Maximum number of marked runs of one organization that queries find. Further runs match no query for marks, tags and
 * notes.
 */
const MARKED_RUNS = 50_000;
/** Up to this number of marks, each query reads them; a larger number is cached for REMEMBERED_MS. */
const READ_EACH_TIME = 500;
const REMEMBERED_MS = 5_000;

interface OrganizationMarks {
  marks: ReadonlyMap<string, RunMarks>;
  until_ms: number;
}

export class KnownMarks {
  readonly #accounts: AccountReads;
  readonly #organizations = new Map<string, OrganizationMarks>();

  constructor(accounts: AccountReads) {
    this.#accounts = accounts;
  }

  /** Returns the organization's marks, by run. If there are many, they may be up to REMEMBERED_MS old. */
  of(orgId: string): ReadonlyMap<string, RunMarks> {
    const known = this.#organizations.get(orgId);
    if (known !== undefined && known.marks.size > READ_EACH_TIME && performance.now() < known.until_ms)
      return known.marks;
    const marks = new Map(this.#accounts.marks.list(orgId, MARKED_RUNS));
    this.#organizations.set(orgId, { marks, until_ms: performance.now() + REMEMBERED_MS });
    return marks;
  }

  forget(orgId: string): void {
    this.#organizations.delete(orgId);
  }
}

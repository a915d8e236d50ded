/**
 * Tells which projects and organizations are deleted. As soon as a deletion is answered, the data of the
 * project or organization is neither returned nor accepted, even if some of it is still on the disk. A
 * thread's cache is valid until the next revocation, and a deletion counts as a revocation. So a request only
 * needs to compare a counter. Server threads.
 */
import type { Revocations } from '../auth/revocations.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { RecentMap } from '../std/recent-map.ts';
import type { AccountReads } from '../storage/ports/accounts.ts';
import type { DeletedScope } from '../storage/ports/deletions.ts';

/**
 * Maximum number of organizations and projects whose deletion status a thread caches. With more,
 * the oldest are removed from the cache.
 */
const DELETED_NAMES_REMEMBERED = 10_000;

const NONE: ReadonlySet<string> = new Set();

/** The methods that handlers call. */
export type DeletedView = Pick<DeletedScopes, 'hiddenIn' | 'checkOrganization' | 'checkProject'>;

/** The view for a process in which nothing can be deleted. */
export const NOTHING_DELETED: DeletedView = {
  hiddenIn: () => NONE,
  checkOrganization: () => {},
  checkProject: () => {},
};

export class DeletedScopes {
  readonly #accounts: AccountReads;
  readonly #revocations: Pick<Revocations, 'epoch'>;
  #epoch: number | null = null;
  #hidden = new Map<string, Set<string>>();
  #gone = new RecentMap<string, boolean>(DELETED_NAMES_REMEMBERED);

  constructor(accounts: AccountReads, revocations: Pick<Revocations, 'epoch'>) {
    this.#accounts = accounts;
    this.#revocations = revocations;
  }

  /**
   * Returns the deleted projects of an organization whose data may still exist in part. Usually an
   * organization has no such projects.
   */
  hiddenIn(org_id: string): ReadonlySet<string> {
    this.#renew();
    return this.#hidden.get(org_id) ?? NONE;
  }

  /**
   * Refuses a deleted organization.
   * @throws CatalogueError `not_found` if the organization was deleted
   */
  checkOrganization(org_id: string): void {
    if (this.#wasDeleted({ org_id, project_id: null }))
      throw new CatalogueError('not_found', 'The organization was deleted');
  }

  /**
   * Refuses a deleted project, which accepts no data any more.
   * @throws CatalogueError `not_found` if the project was deleted
   */
  checkProject({ org_id }: Pick<Tenant, 'org_id'>, project_id: string): void {
    if (this.#wasDeleted({ org_id, project_id }))
      throw new CatalogueError('not_found', 'The project was deleted');
  }

  #wasDeleted(scope: DeletedScope): boolean {
    this.#renew();
    const name = `${scope.org_id}\n${scope.project_id ?? ''}`;
    let isGone = this.#gone.get(name);
    if (isGone === undefined) {
      isGone = this.#accounts.deletions.wasDeleted(scope);
      this.#gone.set(name, isGone);
    }
    return isGone;
  }

  #renew(): void {
    const { epoch } = this.#revocations;
    if (epoch === this.#epoch) return;
    const hidden = new Map<string, Set<string>>();
    for (const { org_id, project_id } of this.#accounts.deletions.list()) {
      if (project_id === null) continue;
      const projects = hidden.get(org_id);
      if (projects === undefined) hidden.set(org_id, new Set([project_id]));
      else projects.add(project_id);
    }
    this.#hidden = hidden;
    this.#gone.clear();
    // Set the epoch last, so that the next request reads the store again if reading fails.
    this.#epoch = epoch;
  }
}

/**
 * Which projects and organizations are deleted. From the answer to a deletion on nothing of a project is told or taken in any more,
 * however much of it is still on the disk. What a thread knows of it is as new as the last revocation, which a deletion is too: so
 * a request costs a look at a counter. Server threads.
 */
import type { Revocations } from '../auth/revocations.ts';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { RecentMap } from '../std/recent-map.ts';
import { type DeletedScope, listDeletions, wasDeleted } from '../storage/accounts/deletions.ts';
import type { TableReader } from '../storage/tables.ts';

/** Organizations and projects of which a thread remembers whether they were deleted. The oldest are looked up again. */
const DELETED_NAMES_REMEMBERED = 10_000;

const NONE: ReadonlySet<string> = new Set();

/** What handlers ask. */
export type DeletedView = Pick<DeletedScopes, 'hiddenIn' | 'checkOrganization' | 'checkProject'>;

/** Where nothing can be deleted. */
export const NOTHING_DELETED: DeletedView = {
  hiddenIn: () => NONE,
  checkOrganization: () => {},
  checkProject: () => {},
};

export class DeletedScopes {
  readonly #main: TableReader;
  readonly #revocations: Pick<Revocations, 'epoch'>;
  #epoch: number | null = null;
  #hidden = new Map<string, Set<string>>();
  #gone = new RecentMap<string, boolean>(DELETED_NAMES_REMEMBERED);

  constructor(main: TableReader, revocations: Pick<Revocations, 'epoch'>) {
    this.#main = main;
    this.#revocations = revocations;
  }

  /** Projects of an organization that are deleted, whose content may remain in part. Usually empty. */
  hiddenIn(org_id: string): ReadonlySet<string> {
    this.#renew();
    return this.#hidden.get(org_id) ?? NONE;
  }

  /** @throws CatalogueError `not_found` when the organization was deleted */
  checkOrganization(org_id: string): void {
    if (this.#wasDeleted({ org_id, project_id: null }))
      throw new CatalogueError('not_found', 'The organization was deleted');
  }

  /** @throws CatalogueError `not_found` when the project was deleted: nothing comes into it any more */
  checkProject({ org_id }: Pick<Tenant, 'org_id'>, project_id: string): void {
    if (this.#wasDeleted({ org_id, project_id }))
      throw new CatalogueError('not_found', 'The project was deleted');
  }

  #wasDeleted(scope: DeletedScope): boolean {
    this.#renew();
    const name = `${scope.org_id}\n${scope.project_id ?? ''}`;
    let isGone = this.#gone.get(name);
    if (isGone === undefined) {
      isGone = wasDeleted(this.#main, scope);
      this.#gone.set(name, isGone);
    }
    return isGone;
  }

  #renew(): void {
    const { epoch } = this.#revocations;
    if (epoch === this.#epoch) return;
    const hidden = new Map<string, Set<string>>();
    for (const { org_id, project_id } of listDeletions(this.#main)) {
      if (project_id === null) continue;
      const projects = hidden.get(org_id);
      if (projects === undefined) hidden.set(org_id, new Set([project_id]));
      else projects.add(project_id);
    }
    this.#hidden = hidden;
    this.#gone.clear();
    // Last: where the store fails, the next request looks again.
    this.#epoch = epoch;
  }
}

/** Projects of organizations. Types; any thread. */
import type { Project } from '../../domain/account.ts';
import type { Listing, Page } from './page.ts';

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface ProjectReads {
  find(id: string): Project | undefined;
  /** Lists the projects of an organization, newest first. */
  list(org_id: string, page: Page): Listing<Project>;
}

/** What a transaction may do. */
export interface ProjectWork extends ProjectReads {
  /** Creates a project. @throws CatalogueError `conflict` if the organization has reached its limit */
  create(fields: Pick<Project, 'org_id' | 'name' | 'created_by'>, nowMs: number): Project;
  put(project: Project): void;
  /** Removes the record, and records that the project's data must be removed. */
  remove(project: Project, nowMs: number): void;
}

/** Projects of organizations. Functions of a transaction. Any thread. */
import type { Project } from '../../domain/account.ts';
import { newUlid } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { type Listing, type Page, readNewest } from './page.ts';

/** [org, project] → Project. */
const PROJECTS = 'projects';
/** [project] → org: a path names the project alone. */
const ORG_OF_PROJECT = 'org_of_project';

export function createProject(
  tx: TableTransaction,
  fields: Pick<Project, 'org_id' | 'name' | 'created_by'>,
  nowMs: number,
): Project {
  const project: Project = {
    id: `proj_${newUlid()}`,
    ...fields,
    created_at: new Date(nowMs).toISOString(),
  };
  tx.write({ op: 'put', table: ORG_OF_PROJECT, row: [project.id], value: project.org_id });
  putProject(tx, project);
  return project;
}

export function putProject(tx: TableTransaction, project: Project): void {
  tx.write({ op: 'put', table: PROJECTS, row: [project.org_id, project.id], value: project });
}

export function getProject(tables: TableReader, id: string): Project | undefined {
  const org_id = tables.get<string>(ORG_OF_PROJECT, [id]);
  return org_id === undefined ? undefined : tables.get<Project>(PROJECTS, [org_id, id]);
}

export function removeProject(tx: TableTransaction, { org_id, id }: Project): void {
  tx.write({ op: 'remove', table: PROJECTS, row: [org_id, id] });
  tx.write({ op: 'remove', table: ORG_OF_PROJECT, row: [id] });
}

/** Newest first. */
export function listProjects(tables: TableReader, org_id: string, page: Page): Listing<Project> {
  return readNewest<Project>(tables, PROJECTS, [org_id], page);
}

/**
 * Projects of organizations. Functions that run in a transaction. Any thread.
 */
import type { Project } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { noteDeletion } from './deletions.ts';
import { countRow, countRows, type Listing, type Page, readNewest } from './page.ts';
import { requireRoom } from './room.ts';

/** Maximum number of projects of one organization. Further ones are refused with 409. */
const PROJECTS_PER_ORG_MAX = 5_000;

/** [org, project] → Project, counted by organization. */
export const PROJECTS = 'projects';
/** [project] → org, because a path contains only the project. */
const ORG_OF_PROJECT = 'org_of_project';

/**
 * @throws CatalogueError `conflict` if the organization has reached its limit
 */
export function createProject(
  tx: TableTransaction,
  fields: Pick<Project, 'org_id' | 'name' | 'created_by'>,
  nowMs: number,
): Project {
  requireRoom(countRows(tx, PROJECTS, [fields.org_id]), PROJECTS_PER_ORG_MAX, 'projects');
  const project: Project = {
    id: `proj_${ulidAt(nowMs)}`,
    ...fields,
    created_at: new Date(nowMs).toISOString(),
  };
  tx.write({ op: 'put', table: ORG_OF_PROJECT, row: [project.id], value: project.org_id });
  putProject(tx, project);
  countRow(tx, PROJECTS, [project.org_id], 1);
  return project;
}

export function putProject(tx: TableTransaction, project: Project): void {
  tx.write({ op: 'put', table: PROJECTS, row: [project.org_id, project.id], value: project });
}

export function getProject(tables: TableReader, id: string): Project | undefined {
  const org_id = tables.get<string>(ORG_OF_PROJECT, [id]);
  return org_id === undefined ? undefined : tables.get<Project>(PROJECTS, [org_id, id]);
}

/** Removes the record and notes that the project's data is to be removed. */
export function removeProject(tx: TableTransaction, { org_id, id }: Project, nowMs: number): void {
  noteDeletion(tx, { org_id, project_id: id }, nowMs);
  forgetProject(tx, { org_id, id });
}

/** Removes the record alone. */
export function forgetProject(tx: TableTransaction, { org_id, id }: Pick<Project, 'org_id' | 'id'>): void {
  tx.write({ op: 'remove', table: PROJECTS, row: [org_id, id] });
  countRow(tx, PROJECTS, [org_id], -1);
  tx.write({ op: 'remove', table: ORG_OF_PROJECT, row: [id] });
}

/** Newest first. */
export function listProjects(tables: TableReader, org_id: string, page: Page): Listing<Project> {
  return readNewest<Project>(tables, PROJECTS, [org_id], page);
}

/**
 * Projects of organizations. Any thread.
 */
import type { Project } from '../../domain/account.ts';
import { ulidAt } from '../../std/id.ts';
import type { Listing, Page } from '../ports/page.ts';
import type { ProjectReads, ProjectWork } from '../ports/projects.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { TableDeletionWork } from './deletions.ts';
import { countRow, countRows, readNewest } from './page.ts';
import { requireRoom } from './room.ts';

/** Maximum number of projects of one organization. Further ones are refused with 409. */
const PROJECTS_PER_ORG_MAX = 5_000;

/** [org, project] → Project, counted by organization. */
export const PROJECTS = 'projects';
/** [project] → org, because paths of the API contain only the project. */
const ORG_OF_PROJECT = 'org_of_project';

export class TableProjectReads implements ProjectReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(id: string): Project | undefined {
    const org_id = this.#reader.get<string>(ORG_OF_PROJECT, [id]);
    return org_id === undefined ? undefined : this.#reader.get<Project>(PROJECTS, [org_id, id]);
  }

  list(org_id: string, page: Page): Listing<Project> {
    return readNewest<Project>(this.#reader, PROJECTS, [org_id], page);
  }
}

export class TableProjectWork extends TableProjectReads implements ProjectWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  create(fields: Pick<Project, 'org_id' | 'name' | 'created_by'>, nowMs: number): Project {
    requireRoom(countRows(this.#tx, PROJECTS, [fields.org_id]), PROJECTS_PER_ORG_MAX, 'projects');
    const project: Project = {
      id: `proj_${ulidAt(nowMs)}`,
      ...fields,
      created_at: new Date(nowMs).toISOString(),
    };
    this.#tx.write({ op: 'put', table: ORG_OF_PROJECT, row: [project.id], value: project.org_id });
    this.put(project);
    countRow(this.#tx, PROJECTS, [project.org_id], 1);
    return project;
  }

  put(project: Project): void {
    this.#tx.write({ op: 'put', table: PROJECTS, row: [project.org_id, project.id], value: project });
  }

  remove({ org_id, id }: Project, nowMs: number): void {
    new TableDeletionWork(this.#tx).note({ org_id, project_id: id }, nowMs);
    this.forget({ org_id, id });
  }

  /** Removes only the record, not the project's data. */
  forget({ org_id, id }: Pick<Project, 'org_id' | 'id'>): void {
    this.#tx.write({ op: 'remove', table: PROJECTS, row: [org_id, id] });
    countRow(this.#tx, PROJECTS, [org_id], -1);
    this.#tx.write({ op: 'remove', table: ORG_OF_PROJECT, row: [id] });
  }
}

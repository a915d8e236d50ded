/**
 * What reports on experiments read: what each experiment keeps of its runs, which their actors write. Reads are
 * synchronous. Implementation: ../table-experiments.ts. Types; any thread.
 */
import type { RunSummary } from '../../domain/run-summary.ts';

export interface Experiments {
  /** The greatest id below another one; null: none. @param id null: the greatest of all */
  findBelow(org_id: string, id: string | null): string | null;
  /** The projects with runs in an experiment, one seek each. @param only this project, if it has any; null: all */
  listProjects(org_id: string, id: string, only: string | null): Iterable<string>;
  /**
   * The runs of an experiment in the order of project and run id; lazily, so that 100,000 of them are never in memory
   * at once. Other work may run between two of them.
   * @param project_id null: of all projects
   */
  listRuns(org_id: string, project_id: string | null, id: string): Iterable<RunSummary>;
  /**
   * Removes what experiments keep of an organization's runs, in portions. Rejects with an Error of the store; the
   * next call removes the rest.
   * @param project_id null: of all projects
   */
  removeRuns(org_id: string, project_id: string | null): Promise<void>;
}

/**
 * The rows of experiments about their runs, for reports. The runs' actors write them. Reads are synchronous.
 * Implementation: ../table-experiments.ts. Types; any thread.
 */
import type { RunSummary } from '../../domain/run-summary.ts';

export interface Experiments {
  /**
   * Finds the greatest id of an experiment below `id`; null if there are no more.
   * @param id null: the greatest of all
   */
  findBelow(org_id: string, id: string | null): string | null;
  /**
   * Lists the projects with runs in an experiment. Costs one seek for each project.
   * @param only this project, if it has any; null: all
   */
  listProjects(org_id: string, id: string, only: string | null): Iterable<string>;
  /**
   * Lists the runs of an experiment in the order of project and run id; read lazily, because an experiment may have
   * 100,000 runs. Other work may run between two of them.
   * @param project_id null: of all projects
   */
  listRuns(org_id: string, project_id: string | null, id: string): Iterable<RunSummary>;
  /**
   * Removes the rows of experiments about an organization's runs, in portions. Rejects with a store error; the
   * next call removes the rest.
   * @param project_id null: of all projects
   */
  removeRuns(org_id: string, project_id: string | null): Promise<void>;
}

/**
 * Hides runs of deleted projects, which a request may name by id alone. Usually no project is deleted, and nothing is
 * read. Server threads.
 */
import { RUN_REFUSALS } from '../../actors/run/client.ts';
import { CatalogueError } from '../errors.ts';
import type { RunRecords } from '../storage/ports/run-records.ts';
import type { DeletedView } from './deleted-scopes.ts';

export class HiddenRuns {
  readonly #runs: Pick<RunRecords, 'findStart'>;
  readonly #deleted: DeletedView;

  constructor(runs: Pick<RunRecords, 'findStart'>, deleted: DeletedView) {
    this.#runs = runs;
    this.#deleted = deleted;
  }

  /**
   * Refuses a run of a deleted project.
   * @throws CatalogueError `not_found`, as for an unknown run
   */
  checkSeen(org_id: string, run_id: string): void {
    if (this.#isHidden(org_id, run_id)) throw new CatalogueError('not_found', RUN_REFUSALS.run_not_found);
  }

  /**
   * Refuses to start a run with the id of a run of a deleted project.
   * @throws CatalogueError `unavailable`, as for a run that is being deleted: its id is free shortly after
   */
  checkFree(org_id: string, run_id: string): void {
    if (this.#isHidden(org_id, run_id)) throw new CatalogueError('unavailable', RUN_REFUSALS.run_deleting);
  }

  #isHidden(org_id: string, run_id: string): boolean {
    const hidden = this.#deleted.hiddenIn(org_id);
    if (hidden.size === 0) return false;
    const start = this.#runs.findStart({ org_id, run_id });
    return start !== undefined && hidden.has(start.project_id);
  }
}

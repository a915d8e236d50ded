/**
 * Reads runs in lists and by name. These rows are on every box, so reads are synchronous. Steps, totals and counters
 * may be only in the shared database (run-reads.ts). The runs' actors write the rows. Implementation:
 * ../table-run-records.ts. Types; any thread.
 */
import type { AuditEntry } from '../../domain/account.ts';
import type { ReportedRuns } from '../../domain/reported-runs.ts';
import type { RunRow, RunStartRow } from '../../domain/run-rows.ts';
import type { ListPlace, NewestFirst, OldestFirst, ScannedPage } from './page.ts';
import type { RunName } from './run-reads.ts';

/** A run by its name and project. */
export interface RunAddress extends RunName {
  project_id: string;
}

/** A run, and the row of its start. */
export interface StoredRun {
  row: RunRow;
  start: RunStartRow | undefined;
}

/** An entry of the list of runs. */
export interface ListedRun extends RunAddress {
  place: ListPlace;
}

export interface RunRecords {
  /** Finds the start of a run in any project. */
  findStart(run: RunName): RunStartRow | undefined;
  find(run: RunAddress): StoredRun | undefined;
  /** Finds the runs in the order of `runs`, from one snapshot; runs that do not exist are left out. */
  findAll(runs: readonly RunAddress[]): StoredRun[];
  /** Reads a page of the list of runs, by the time of their start. @param isWanted whether a run belongs to the page */
  listNewest(page: NewestFirst, isWanted: (run: RunRow) => boolean): Promise<ScannedPage<StoredRun>>;
  /** Reads a portion of a list, by the time of the runs' start. */
  listOldest(portion: OldestFirst): ListedRun[];
  /** Lists the organizations with runs. */
  listOrganizations(): Iterable<string>;
  /** Lists the runs whose deletion has begun and may not be complete. */
  listDeletions(limit: number): RunName[];
  /** Returns the newest runs of an organization, to be kept in memory for queries. */
  followReported(org_id: string, max: number): ReportedRuns;
  /**
   * Entries for the audit log that were written with changes of runs, and that may not be in the log yet.
   * @param org_id null: of all organizations
   */
  listAudit(org_id: string | null, limit: number): AuditEntry[];
  /** Removes waiting entries that were copied to the log. Rejects with a store error. */
  forgetAudit(entries: readonly AuditEntry[]): Promise<void>;
}

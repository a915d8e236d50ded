/** Implements the reads of runs in lists and by name (ports/run-records.ts) with tables of this machine. Any thread. */
import type { AuditEntry } from '../domain/account.ts';
import { AUDIT_OUTBOX } from '../domain/audit-rows.ts';
import { LATE_AMONG_BOXES_MS, ReportedRuns } from '../domain/reported-runs.ts';
import { placeOfKey, RUN_LISTS, type RunListRow, runListPrefix } from '../domain/run-list.ts';
import {
  RUN_DELETIONS,
  RUN_STARTS,
  RUNS,
  type RunRow,
  type RunStartRow,
  runKey,
} from '../domain/run-rows.ts';
import { listOrganizationsIn, readListPage, readOldest } from './accounts/list-page.ts';
import type { NewestFirst, OldestFirst, ScannedPage } from './ports/page.ts';
import type { RunName } from './ports/run-reads.ts';
import type { ListedRun, RunAddress, RunRecords, StoredRun } from './ports/run-records.ts';
import type { TableReader, Tables } from './tables.ts';

export class TableRunRecords implements RunRecords {
  readonly #tables: Tables;
  readonly #lateMs: number | undefined;

  /**
   * @param tables closed by the caller, not by this object
   * @param isShared whether other boxes write to them, too
   */
  constructor(tables: Tables, isShared = false) {
    this.#tables = tables;
    this.#lateMs = isShared ? LATE_AMONG_BOXES_MS : undefined;
  }

  findStart({ org_id, run_id }: RunName): RunStartRow | undefined {
    return readStart(this.#tables, org_id, run_id);
  }

  find(run: RunAddress): StoredRun | undefined {
    return readRun(this.#tables, run);
  }

  findAll(runs: readonly RunAddress[]): StoredRun[] {
    return this.#tables.snapshot([RUNS, RUN_STARTS], (reader) =>
      runs.map((run) => readRun(reader, run)).filter((run) => run !== undefined),
    );
  }

  listNewest(
    { org_id, project_id, hidden, ...range }: NewestFirst,
    isWanted: (run: RunRow) => boolean,
  ): Promise<ScannedPage<StoredRun>> {
    return readListPage<RunListRow, StoredRun>(
      this.#tables,
      { table: RUN_LISTS, prefix: runListPrefix(org_id, project_id), ...range },
      [RUNS, RUN_STARTS],
      ({ row, value }, reader) => {
        if (hidden.has(value.project_id)) return undefined;
        const address = { org_id, project_id: value.project_id, run_id: placeOfKey(row).run_id };
        const run = reader.get<RunRow>(RUNS, runKey(address));
        if (run === undefined || !isWanted(run)) return undefined;
        return { row: run, start: readStart(reader, org_id, address.run_id) };
      },
    );
  }

  listOldest({ org_id, project_id, ...portion }: OldestFirst): ListedRun[] {
    const prefix = runListPrefix(org_id, project_id);
    return readOldest<RunListRow>(this.#tables, RUN_LISTS, prefix, portion).map(({ row, value, place }) => ({
      org_id,
      project_id: value.project_id,
      run_id: placeOfKey(row).run_id,
      place,
    }));
  }

  listOrganizations(): Iterable<string> {
    return listOrganizationsIn(this.#tables, RUN_LISTS);
  }

  listDeletions(limit: number): RunName[] {
    return [...this.#tables.range(RUN_DELETIONS, { prefix: [], limit })].map(({ row }) => ({
      org_id: String(row[0]),
      run_id: String(row[1]),
    }));
  }

  followReported(org_id: string, max: number): ReportedRuns {
    return new ReportedRuns(this.#tables, org_id, max, undefined, this.#lateMs);
  }

  listAudit(org_id: string | null, limit: number): AuditEntry[] {
    const range = { prefix: org_id === null ? [] : [org_id], limit };
    return [...this.#tables.range<AuditEntry>(AUDIT_OUTBOX, range)].map(({ value }) => value);
  }

  async forgetAudit(entries: readonly AuditEntry[]): Promise<void> {
    await this.#tables.transact((tx) => {
      for (const { org_id, id } of entries)
        tx.write({ op: 'remove', table: AUDIT_OUTBOX, row: [org_id, id] });
    });
  }
}

function readRun(reader: TableReader, run: RunAddress): StoredRun | undefined {
  const row = reader.get<RunRow>(RUNS, runKey(run));
  return row === undefined ? undefined : { row, start: readStart(reader, run.org_id, run.run_id) };
}

function readStart(reader: TableReader, org_id: string, run_id: string): RunStartRow | undefined {
  return reader.get<RunStartRow>(RUN_STARTS, [org_id, run_id]);
}

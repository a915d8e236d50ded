/**
 * Marks, tags and notes of runs, by organization (domain/run-mark.ts).
 * Any thread.
 */
import type { AuditActor } from '../../domain/account.ts';
import {
  changeMarks,
  isUnmarked,
  RUN_MARKS,
  RUN_MARKS_BY_ORG,
  type RunMarkChange,
  type RunMarkRow,
  type RunMarks,
  readMarks,
} from '../../domain/run-mark.ts';
import type { Accounts } from '../ports/accounts.ts';
import type { MarkedRun, MarkReads, MarkWork } from '../ports/marks.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { TableAuditWork } from './audit.ts';

export class TableMarkReads implements MarkReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(run: MarkedRun): RunMarkRow | undefined {
    return this.#reader.get<RunMarkRow>(RUN_MARKS, keyOf(run));
  }

  *list(org_id: string, limit: number): Generator<[run_id: string, marks: RunMarks]> {
    for (const { row } of this.#reader.range(RUN_MARKS_BY_ORG, { prefix: [org_id], limit })) {
      const run_id = String(row[1]);
      const found = this.find({ run_id, org_id });
      if (found !== undefined) yield [run_id, readMarks(found)];
    }
  }
}

export class TableMarkWork extends TableMarkReads implements MarkWork {
  readonly #tx: TableTransaction;

  constructor(tx: TableTransaction) {
    super(tx);
    this.#tx = tx;
  }

  change(
    actor: AuditActor,
    nowMs: number,
    { log_org, ...run }: MarkedRun & { log_org: string },
    change: RunMarkChange,
  ): RunMarkRow | null {
    const found = this.find(run);
    const before = readMarks(found);
    const after = changeMarks(before, change);
    if (isSame(before, after)) return found ?? null;
    if (isUnmarked(after)) this.remove(run);
    const row = { ...after, marked_at: new Date(nowMs).toISOString(), marked_by: actor.id };
    if (!isUnmarked(after)) writeRow(this.#tx, run, row);
    if (before.mark !== after.mark || actor.type !== 'key')
      new TableAuditWork(this.#tx).add(actor, nowMs, {
        org_id: log_org,
        action: 'capture.mark',
        target: run.run_id,
        before: describe(before),
        after: describe(after),
      });
    return isUnmarked(after) ? null : row;
  }

  remove(run: MarkedRun): void {
    this.#tx.write({ op: 'remove', table: RUN_MARKS, row: keyOf(run) });
    if (run.org_id !== '')
      this.#tx.write({ op: 'remove', table: RUN_MARKS_BY_ORG, row: [run.org_id, run.run_id] });
  }

  removeErased(run_ids: readonly string[], speaks: (org_id: string) => boolean): void {
    for (const run_id of run_ids)
      for (const { row } of [...this.#tx.range(RUN_MARKS, { prefix: [run_id] })]) {
        const [, org_id = ''] = row as string[];
        if (org_id === '' || speaks(org_id)) this.remove({ run_id, org_id });
      }
  }
}

/** Removes a run's marks, if it has any. */
export async function forgetRunMarks(accounts: Accounts, run: MarkedRun): Promise<void> {
  if (accounts.marks.find(run) !== undefined) await accounts.transact(({ marks }) => marks.remove(run));
}

function keyOf({ run_id, org_id }: MarkedRun): string[] {
  return org_id === '' ? [run_id] : [run_id, org_id];
}

function writeRow(tx: TableTransaction, run: MarkedRun, row: RunMarkRow): void {
  tx.write({ op: 'put', table: RUN_MARKS, row: keyOf(run), value: row });
  if (run.org_id !== '')
    tx.write({ op: 'put', table: RUN_MARKS_BY_ORG, row: [run.org_id, run.run_id], value: true });
}

/**
 * Returns the fields for the audit log. They contain no texts of users, because texts would stay in the log after the
 * run is erased.
 */
function describe({ mark, tags, note, feedback_score }: RunMarks) {
  return { mark, tags: tags.length, has_note: note !== '', feedback_score };
}

function isSame(a: RunMarks, b: RunMarks): boolean {
  return (
    a.mark === b.mark &&
    a.note === b.note &&
    a.feedback_score === b.feedback_score &&
    a.tags.length === b.tags.length &&
    a.tags.every((tag, at) => tag === b.tags[at])
  );
}

/**
 * The marks that users give captured runs (domain/run-mark.ts). Functions that run in a transaction. Any thread.
 */
import type { AuditActor } from '../../domain/account.ts';
import { RUN_MARKS, type RunMark, type RunMarkRow } from '../../domain/run-mark.ts';
import type { TableReader, TableTransaction } from '../tables.ts';
import { writeAudit } from './audit.ts';

/**
 * @returns the mark of a run; undefined if it has no mark
 */
function findRunMark(tables: TableReader, runId: string): RunMarkRow | undefined {
  return tables.get<RunMarkRow>(RUN_MARKS, [runId]);
}

/**
 * Sets or removes the mark of a run, and writes an entry of the audit log.
 * @param mark null removes the mark
 * @param org_id the organization whose log gets the entry; '' if captures belong to no organization: then no log
 *   shows it
 * @returns the new mark of the run; null if it has none
 */
export function markRun(
  tx: TableTransaction,
  actor: AuditActor,
  nowMs: number,
  { run_id, mark, org_id }: { run_id: string; mark: RunMark | null; org_id: string },
): RunMarkRow | null {
  const before = findRunMark(tx, run_id)?.mark ?? null;
  const row = mark === null ? null : { mark, marked_at: new Date(nowMs).toISOString(), marked_by: actor.id };
  if (row === null) tx.write({ op: 'remove', table: RUN_MARKS, row: [run_id] });
  else tx.write({ op: 'put', table: RUN_MARKS, row: [run_id], value: row });
  if (before !== mark) {
    const facts = {
      org_id,
      action: 'capture.mark',
      target: run_id,
      before: { mark: before },
      after: { mark },
    };
    writeAudit(tx, actor, nowMs, facts);
  }
  return row;
}

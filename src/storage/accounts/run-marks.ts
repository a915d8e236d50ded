/**
 * Marks, tags and notes of runs, by organization (domain/run-mark.ts). Functions that run in a transaction.
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
import type { TableReader, Tables, TableTransaction } from '../tables.ts';
import { writeAudit } from './audit.ts';

/** A run's marks belong to an organization; '' is the operator, to whom captures belong without GW_ORG. */
export interface MarkedRun {
  run_id: string;
  org_id: string;
}

function keyOf({ run_id, org_id }: MarkedRun): string[] {
  return org_id === '' ? [run_id] : [run_id, org_id];
}

/** @returns the marks of a run; undefined without marks */
export function findRunMarks(tables: TableReader, run: MarkedRun): RunMarkRow | undefined {
  return tables.get<RunMarkRow>(RUN_MARKS, keyOf(run));
}

/** The runs that an organization has marked. @param limit maximum number of runs */
export function* listRunMarks(
  tables: TableReader,
  org_id: string,
  limit: number,
): Generator<[run_id: string, marks: RunMarks]> {
  for (const { row } of tables.range(RUN_MARKS_BY_ORG, { prefix: [org_id], limit })) {
    const run_id = String(row[1]);
    const found = findRunMarks(tables, { run_id, org_id });
    if (found !== undefined) yield [run_id, readMarks(found)];
  }
}

/**
 * Changes a run's marks. The audit log gets an entry for a changed mark, and for every change by a person.
 * Tags and notes from agents are not logged, because there may be as many as runs.
 * @param log_org the organization whose log gets the entry; '' if captures belong to no organization: then no
 *   log shows it
 * @returns the present marks of the run; null: none
 * @throws RangeError if the run would have too many tags
 */
export function markRun(
  tx: TableTransaction,
  actor: AuditActor,
  nowMs: number,
  { log_org, ...run }: MarkedRun & { log_org: string },
  change: RunMarkChange,
): RunMarkRow | null {
  const found = findRunMarks(tx, run);
  const before = readMarks(found);
  const after = changeMarks(before, change);
  if (isSame(before, after)) return found ?? null;
  if (isUnmarked(after)) removeRunMarks(tx, run);
  const row = { ...after, marked_at: new Date(nowMs).toISOString(), marked_by: actor.id };
  if (!isUnmarked(after)) writeRow(tx, run, row);
  if (before.mark !== after.mark || actor.type !== 'key')
    writeAudit(tx, actor, nowMs, {
      org_id: log_org,
      action: 'capture.mark',
      target: run.run_id,
      before: describe(before),
      after: describe(after),
    });
  return isUnmarked(after) ? null : row;
}

/** Removes the marks of a deleted run. */
export function removeRunMarks(tx: TableTransaction, run: MarkedRun): void {
  tx.write({ op: 'remove', table: RUN_MARKS, row: keyOf(run) });
  if (run.org_id !== '') tx.write({ op: 'remove', table: RUN_MARKS_BY_ORG, row: [run.org_id, run.run_id] });
}

/**
 * Removes the marks of erased captures: the operator's, and those of organizations whose reports count for captures.
 * @param speaks whether an organization's reports count (accounts/capture-owner.ts)
 */
export async function forgetErasedMarks(
  main: Tables,
  runIds: readonly string[],
  speaks: (org_id: string) => boolean,
): Promise<void> {
  await main.transact((tx) => {
    for (const run_id of runIds)
      for (const { row } of [...tx.range(RUN_MARKS, { prefix: [run_id] })]) {
        const [, org_id = ''] = row as string[];
        if (org_id === '' || speaks(org_id)) removeRunMarks(tx, { run_id, org_id });
      }
  });
}

/** Removes a run's marks, if it has any. */
export async function forgetRunMarks(main: Tables, run: MarkedRun): Promise<void> {
  if (findRunMarks(main, run) !== undefined) await main.transact((tx) => removeRunMarks(tx, run));
}

function writeRow(tx: TableTransaction, run: MarkedRun, row: RunMarkRow): void {
  tx.write({ op: 'put', table: RUN_MARKS, row: keyOf(run), value: row });
  if (run.org_id !== '')
    tx.write({ op: 'put', table: RUN_MARKS_BY_ORG, row: [run.org_id, run.run_id], value: true });
}

/** The log contains no texts, because they would stay in the log after the run is erased. */
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

/** Marks, tags and notes of runs. Types; any thread. */
import type { AuditActor } from '../../domain/account.ts';
import type { RunMarkChange, RunMarkRow, RunMarks } from '../../domain/run-mark.ts';

/** A run's marks belong to an organization; '' is the operator, to whom captures belong without GW_ORG. */
export interface MarkedRun {
  run_id: string;
  org_id: string;
}

/** Reads show the state at the time of the call; in a transaction also its own writes. */
export interface MarkReads {
  /** Finds the marks of a run; undefined if it has none. */
  find(run: MarkedRun): RunMarkRow | undefined;
  /** Lists the runs that an organization has marked. @param limit maximum number of runs */
  list(org_id: string, limit: number): Iterable<[run_id: string, marks: RunMarks]>;
}

/** What a transaction may do. */
export interface MarkWork extends MarkReads {
  /**
   * Changes a run's marks. The audit log gets an entry for a changed mark, and for every change by a person. Tags and
   * notes from agents are not logged, because there may be as many as runs.
   * @param log_org the organization whose log gets the entry; '' if captures belong to no organization, so that no log
   * shows the entry
   * @returns the marks of the run after the change; null: it has none
   * @throws RangeError if the run would have too many tags
   */
  change(
    actor: AuditActor,
    nowMs: number,
    run: MarkedRun & { log_org: string },
    change: RunMarkChange,
  ): RunMarkRow | null;
  /** Removes the marks of a deleted run. */
  remove(run: MarkedRun): void;
  /**
   * Removes the marks of erased captures: the operator's, and those of organizations whose reports count for captures.
   * @param speaks whether an organization's reports count (accounts/capture-owner.ts)
   */
  removeErased(run_ids: readonly string[], speaks: (org_id: string) => boolean): void;
}

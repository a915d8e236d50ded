/**
 * Implements the rows of experiments about their runs (ports/experiments.ts) with tables of this machine. Any thread.
 */
import { RUNS_BY_EXPERIMENT, type RunSummary } from '../domain/run-summary.ts';
import type { RowKey } from '../runtime/protocol.ts';
import { removeRows } from './accounts/row-removal.ts';
import type { Experiments } from './ports/experiments.ts';
import type { Row, RowRange, Tables } from './tables.ts';

/** Maximum number of runs that are read at once, which takes a few milliseconds. */
const RUNS_AT_ONCE = 250;

export class TableExperiments implements Experiments {
  readonly #tables: Tables;

  /** @param tables closed by the caller, not by this object */
  constructor(tables: Tables) {
    this.#tables = tables;
  }

  findBelow(org_id: string, id: string | null): string | null {
    // An id alone sorts before the keys of its runs, so this takes one seek, whatever the number of runs.
    const after = id === null ? {} : { after: [org_id, id] };
    const range = { prefix: [org_id], reverse: true, limit: 1, ...after };
    const [found] = this.#tables.range(RUNS_BY_EXPERIMENT, range);
    return found === undefined ? null : (found.row[1] as string);
  }

  *listProjects(org_id: string, id: string, only: string | null): Iterable<string> {
    const prefix = only === null ? [org_id, id] : [org_id, id, only];
    // A key with `project_id` and a zero byte sorts after all keys of the project, so a search from there finds the
    // next project.
    for (let after: RowKey | null = null; ; ) {
      const range: RowRange = { prefix, limit: 1, ...(after === null ? {} : { after }) };
      const [first] = [...this.#tables.range(RUNS_BY_EXPERIMENT, range)];
      if (first === undefined) return;
      const project_id = first.row[2] as string;
      yield project_id;
      after = [org_id, id, `${project_id}\0`];
    }
  }

  /** Reads each portion in one turn of the event loop, so that no read transaction stays open longer. */
  *listRuns(org_id: string, project_id: string | null, id: string): Iterable<RunSummary> {
    const prefix = project_id === null ? [org_id, id] : [org_id, id, project_id];
    let after: (string | number)[] | null = null;
    for (;;) {
      const range: RowRange = { prefix, limit: RUNS_AT_ONCE, ...(after === null ? {} : { after }) };
      const portion: Row<RunSummary>[] = [...this.#tables.range<RunSummary>(RUNS_BY_EXPERIMENT, range)];
      for (const { value } of portion) yield value;
      if (portion.length < RUNS_AT_ONCE) return;
      after = portion.at(-1)!.row;
    }
  }

  async removeRuns(org_id: string, project_id: string | null): Promise<void> {
    const isMeant = ({ row }: Row) => project_id === null || row[2] === project_id;
    await removeRows(this.#tables, RUNS_BY_EXPERIMENT, [org_id], isMeant);
  }
}

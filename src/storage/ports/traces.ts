/** Submitted traces and their outcomes. Pattern makers write them. Types; any thread. */
import type { TraceAddress, TraceRow, TraceStatus } from '../../domain/trace-rows.ts';
import type { ListPlace, NewestFirst, OldestFirst, ScannedPage } from './page.ts';

/** An entry of the list of traces. */
export interface ListedTrace extends TraceAddress {
  place: ListPlace;
}

export interface TraceReads {
  /** Finds a trace of exactly the address's project, or without a project if the address has none. */
  findExact(address: TraceAddress): TraceRow | undefined;
  /**
   * Finds a trace by its id.
   * @param project_id null: the traces of all projects; a trace without a project is preferred
   * @returns undefined if no such trace exists or is visible
   */
  find(org_id: string, project_id: string | null, trace_id: string): TraceRow | undefined;
  /** Reads a page of the list of traces, by the time of submission. @param status null: any */
  listNewest(page: NewestFirst, status: TraceStatus | null): Promise<ScannedPage<TraceRow>>;
  /** Reads a portion of a list, by the time of submission. */
  listOldest(portion: OldestFirst): ListedTrace[];
  /** Lists the organizations with traces. */
  listOrganizations(): Iterable<string>;
  /** Lists the pattern makers that have unfinished work, by their keys. */
  listUnfinished(limit: number): string[];
}

/** Stored findings about code bases. The findings index writes them. Types; any thread. */
import type { Codebase, Finding } from '../../domain/finding.ts';
import type { FindingPlace } from '../../domain/finding-rows.ts';

/** A code base of a list. */
export interface CodebaseFacts {
  codebase_id: string;
  /** null: not counted, because a project sees only some of the findings. */
  findings: number | null;
}

/** Whose code bases are listed. */
interface CodebaseScope {
  org_id: string;
  /** null: of all projects. */
  project_id: string | null;
  /** Projects whose findings are hidden; absent: no such projects. */
  hidden?: ReadonlySet<string>;
}

export interface FindingReads {
  /** Reads the finding at a place; undefined if it was deleted in the meantime. */
  find(codebase: Codebase, place: FindingPlace): Finding | undefined;
  /**
   * Lists the ids of the code bases with findings, in descending order. With a project, only code bases in which the
   * project has a finding. At most PAGE_SCAN_ROWS rows are read to find them, so the page may be short.
   * @param after the end of the last page: a code base, and the sequence number below which to continue (0: after
   *   this code base)
   */
  listCodebases(
    scope: CodebaseScope,
    after: readonly [codebase_id: string, seq: number] | null,
    limit: number,
  ): { found: CodebaseFacts[]; last: [string, number] | null };
  /** Lists the organization's code bases that have findings. */
  listCodebasesOf(org_id: string): Iterable<Codebase>;
  /**
   * Lists the code bases whose oldest finding was stored before a time (RFC 3339 UTC with milliseconds). Findings that
   * were stored at the same time may be slightly out of order, which does not matter for ages of days.
   */
  listExpirable(before: string): Iterable<Codebase>;
  /** Lists the code bases in which some vectors are missing or belong to another embedder. */
  listOutdated(embedder_id: string): Iterable<Codebase>;
}

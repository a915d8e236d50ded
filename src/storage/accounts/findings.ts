/** Stored findings about code bases, in tables. Any thread. */
import type { Codebase, Finding } from '../../domain/finding.ts';
import {
  type CodebaseRow,
  FINDINGS,
  FINDINGS_CODEBASES,
  FINDINGS_INDEXED,
  type FindingPlace,
  findingRow,
  type IndexedRow,
} from '../../domain/finding-rows.ts';
import { PAGE_SCAN_ROWS } from '../../limits.ts';
import type { CodebaseFacts, FindingReads } from '../ports/findings.ts';
import type { TableReader } from '../tables.ts';

export class TableFindingReads implements FindingReads {
  readonly #reader: TableReader;

  constructor(reader: TableReader) {
    this.#reader = reader;
  }

  find(codebase: Codebase, { seq, finding_id }: FindingPlace): Finding | undefined {
    const finding = this.#reader.get<Finding>(FINDINGS, findingRow(codebase, seq));
    return finding?.finding_id === finding_id ? finding : undefined;
  }

  listCodebases(
    {
      org_id,
      project_id,
      hidden,
    }: { org_id: string; project_id: string | null; hidden?: ReadonlySet<string> },
    after: readonly [codebase_id: string, seq: number] | null,
    limit: number,
  ): { found: CodebaseFacts[]; last: [string, number] | null } {
    const found: CodebaseFacts[] = [];
    let looked = 0;
    let last: [string, number] | null = null;
    // Keys are read backwards, and a key sorts before all keys that extend it. So if the last page ended within a code
    // base, reading begins after a longer key, and the row of that code base is read again.
    const start = after === null ? null : after[1] === 0 ? [org_id, after[0]] : [org_id, after[0], 0];
    const hides = hidden !== undefined && hidden.size > 0;
    const isCounted = project_id === null && !hides;
    const isMeant = (projectId: string) =>
      (project_id === null || projectId === project_id) && !(hides && hidden.has(projectId));
    const range = { prefix: [org_id], reverse: true, ...(start === null ? {} : { after: start }) };
    for (const { row, value } of this.#reader.range<CodebaseRow>(FINDINGS_CODEBASES, range)) {
      const codebase_id = row[1] as string;
      if (found.length === limit || looked >= PAGE_SCAN_ROWS) return { found, last };
      looked++;
      if (value.count > 0 && isCounted) found.push({ codebase_id, findings: value.count });
      if (value.count > 0 && !isCounted) {
        const below = after !== null && after[0] === codebase_id && after[1] > 0 ? after[1] : value.next_seq;
        const prefix = [org_id, codebase_id];
        const indexed = { prefix, reverse: true, after: [...prefix, below] };
        for (const { row: place, value: entry } of this.#reader.range<IndexedRow>(
          FINDINGS_INDEXED,
          indexed,
        )) {
          if (isMeant(entry.project_id)) {
            found.push({ codebase_id, findings: null });
            break;
          }
          if (++looked >= PAGE_SCAN_ROWS && (place[2] as number) > 0)
            return { found, last: [codebase_id, place[2] as number] };
        }
      }
      last = [codebase_id, 0];
    }
    return { found, last: null };
  }

  *listCodebasesOf(orgId: string): Iterable<Codebase> {
    for (const { row, value } of this.#reader.range<CodebaseRow>(FINDINGS_CODEBASES, { prefix: [orgId] }))
      if (value.count > 0) yield { org_id: orgId, codebase_id: String(row[1]) };
  }

  *listExpirable(before: string): Iterable<Codebase> {
    for (const { row, value } of this.#reader.range<CodebaseRow>(FINDINGS_CODEBASES, { prefix: [] })) {
      if (value.count === 0) continue;
      const [org_id, codebase_id] = row as [string, string];
      const prefix = [org_id, codebase_id];
      for (const { value: oldest } of this.#reader.range<IndexedRow>(FINDINGS_INDEXED, { prefix, limit: 1 }))
        if (oldest.created_at < before) yield { org_id, codebase_id };
    }
  }

  *listOutdated(embedder_id: string): Iterable<Codebase> {
    for (const { row, value } of this.#reader.range<CodebaseRow>(FINDINGS_CODEBASES, { prefix: [] })) {
      if (value.count === 0 || value.embedder_id === embedder_id) continue;
      yield { org_id: row[0] as string, codebase_id: row[1] as string };
    }
  }
}

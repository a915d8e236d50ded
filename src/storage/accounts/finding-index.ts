/** Implements the rows of the findings index (ports/finding-index.ts) with tables. Actor thread. */
import type { AuditEntry } from '../../domain/account.ts';
import { auditWrites } from '../../domain/audit-rows.ts';
import type { Codebase } from '../../domain/finding.ts';
import {
  type CodebaseRow,
  codebaseRow,
  FINDINGS,
  FINDINGS_CODEBASES,
  FINDINGS_INDEXED,
  findingRow,
  type IndexedRow,
} from '../../domain/finding-rows.ts';
import type { FindingIndexStore, IndexedFinding, NewFinding, NewVector } from '../ports/finding-index.ts';
import type { TableReader, Tables, TableTransaction } from '../tables.ts';

const EMPTY: CodebaseRow = { next_seq: 0, count: 0, embedder_id: null };

export class TableFindingIndex implements FindingIndexStore {
  readonly #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  readNextSeq(codebase: Codebase): number {
    return readCodebase(this.#tables, codebase).next_seq;
  }

  *listCodebases(): Iterable<Codebase> {
    for (const { row } of this.#tables.range(FINDINGS_CODEBASES, { prefix: [] }))
      yield { org_id: row[0] as string, codebase_id: row[1] as string };
  }

  listIndexed(codebase: Codebase, after: number | null, limit: number): IndexedFinding[] {
    const place = after === null ? {} : { after: findingRow(codebase, after) };
    const range = { prefix: codebaseRow(codebase), limit, ...place };
    return [...this.#tables.range<IndexedRow>(FINDINGS_INDEXED, range)].map(({ row, value }) => ({
      ...value,
      seq: row[2] as number,
    }));
  }

  store({ codebase, seq, finding, indexed, evicted }: NewFinding): Promise<number> {
    return this.#tables.transact((tx) => {
      let gone = 0;
      for (const place of evicted) gone += Number(removeFinding(tx, codebase, place));
      const before = readCodebase(tx, codebase);
      const isTaken = tx.get(FINDINGS_INDEXED, findingRow(codebase, seq)) !== undefined;
      const free = isTaken ? before.next_seq : seq;
      const row = findingRow(codebase, free);
      tx.write({ op: 'put', table: FINDINGS, row, value: finding });
      tx.write({ op: 'put', table: FINDINGS_INDEXED, row, value: indexed });
      const isSame = before.count === 0 || before.embedder_id === indexed.embedder_id;
      putCodebase(tx, codebase, {
        next_seq: Math.max(before.next_seq, free + 1),
        count: before.count + 1 - gone,
        embedder_id: isSame ? indexed.embedder_id : null,
      });
      return free;
    });
  }

  async remove(codebase: Codebase, seqs: readonly number[], audit: AuditEntry | null): Promise<void> {
    await this.#tables.transact((tx) => {
      let gone = 0;
      for (const seq of seqs) gone += Number(removeFinding(tx, codebase, seq));
      const before = readCodebase(tx, codebase);
      putCodebase(tx, codebase, { ...before, count: before.count - gone });
      if (audit !== null) for (const write of auditWrites(audit)) tx.write(write);
    });
  }

  async embed(
    codebase: Codebase,
    embedder_id: string,
    vectors: readonly NewVector[],
    is_last: boolean,
  ): Promise<void> {
    await this.#tables.transact((tx) => {
      for (const { seq, vector } of vectors) {
        const row = findingRow(codebase, seq);
        const before = tx.get<IndexedRow>(FINDINGS_INDEXED, row);
        if (before === undefined) continue;
        tx.write({ op: 'put', table: FINDINGS_INDEXED, row, value: { ...before, embedder_id, vector } });
      }
      if (is_last) putCodebase(tx, codebase, { ...readCodebase(tx, codebase), embedder_id });
    });
  }
}

function readCodebase(reader: TableReader, codebase: Codebase): CodebaseRow {
  return reader.get<CodebaseRow>(FINDINGS_CODEBASES, codebaseRow(codebase)) ?? EMPTY;
}

function putCodebase(tx: TableTransaction, codebase: Codebase, value: CodebaseRow): void {
  tx.write({ op: 'put', table: FINDINGS_CODEBASES, row: codebaseRow(codebase), value });
}

/** Removes a finding. Returns false if the finding does not exist: another box may have removed it. */
function removeFinding(tx: TableTransaction, codebase: Codebase, seq: number): boolean {
  const row = findingRow(codebase, seq);
  if (tx.get(FINDINGS_INDEXED, row) === undefined) return false;
  tx.write({ op: 'remove', table: FINDINGS, row });
  tx.write({ op: 'remove', table: FINDINGS_INDEXED, row });
  return true;
}

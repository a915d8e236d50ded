/**
 * Reads and writes the findings tables for the findings index. Actor thread.
 */

import type { AuditEntry } from '../../src/domain/account.ts';
import { auditWrites } from '../../src/domain/audit-rows.ts';
import type { Codebase, Finding } from '../../src/domain/finding.ts';
import {
  type CodebaseRow,
  codebaseRow,
  FINDINGS,
  FINDINGS_CODEBASES,
  FINDINGS_INDEXED,
  findingRow,
  type IndexedRow,
} from '../../src/domain/finding-rows.ts';
import type { Tables, TableTransaction } from '../../src/storage/tables.ts';

export const FINDINGS_ADAPTER = 'findings';

/** Number of rows that are read before other work of the thread gets a turn. */
const ROWS_A_TURN = 500;

const EMPTY: CodebaseRow = { next_seq: 0, count: 0, embedder_id: null };

export interface LoadedFindings {
  next_seq: number;
  /** The rows, in the order of their places. */
  rows: (IndexedRow & { seq: number })[];
}

/** Where a finding was stored. */
export interface StoredFinding {
  seq: number;
}

export interface NewVector {
  seq: number;
  vector: Uint8Array;
}

/** Code bases of which the thread knows that it has read them. Beyond it, every code base counts as read. */
const READ_CODEBASES = 10_000;

/** The operations that behaviours name in `context.io`; each is atomic. */
export class FindingsAdapter {
  readonly #tables: Tables;
  readonly #read = new Map<string, Codebase>();
  #hasReadMore = false;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  /** The code bases among these of which an index may be in memory. @param codebases null: all */
  knownOf(codebases: readonly Codebase[] | null): Codebase[] {
    if (codebases === null) return [...this.#read.values()];
    return codebases.filter((codebase) => this.#hasReadMore || this.#read.has(nameOf(codebase)));
  }

  /**
   * Loads the findings without their texts. The index is the only writer of this box, and writes nothing meanwhile. If
   * another box writes, the index is told so (client.ts), and loads again.
   */
  async load(codebase: Codebase): Promise<LoadedFindings> {
    if (this.#read.size < READ_CODEBASES) this.#read.set(nameOf(codebase), codebase);
    else this.#hasReadMore = true;
    const { next_seq } = this.#tables.get<CodebaseRow>(FINDINGS_CODEBASES, codebaseRow(codebase)) ?? EMPTY;
    const rows: LoadedFindings['rows'] = [];
    let after: (string | number)[] | undefined;
    for (;;) {
      const range = { prefix: codebaseRow(codebase), limit: ROWS_A_TURN };
      const page = [
        ...this.#tables.range<IndexedRow>(
          FINDINGS_INDEXED,
          after === undefined ? range : { ...range, after },
        ),
      ];
      for (const { row, value } of page) rows.push({ ...value, seq: row[2] as number });
      if (page.length < ROWS_A_TURN) return { next_seq, rows };
      after = page.at(-1)!.row;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /**
   * @param input `seq`: where to store it, unless another box has stored one there; `evicted`: findings to remove in the same
   *   transaction, to make room
   */
  async store(input: {
    codebase: Codebase;
    seq: number;
    finding: Finding;
    indexed: IndexedRow;
    evicted: readonly number[];
  }): Promise<StoredFinding> {
    const { codebase, finding, indexed, evicted } = input;
    const seq = await this.#tables.transact((transaction) => {
      let gone = 0;
      for (const place of evicted) gone += Number(removeFinding(transaction, codebase, place));
      const before = transaction.get<CodebaseRow>(FINDINGS_CODEBASES, codebaseRow(codebase)) ?? EMPTY;
      const isTaken = transaction.get(FINDINGS_INDEXED, findingRow(codebase, input.seq)) !== undefined;
      const free = isTaken ? before.next_seq : input.seq;
      const row = findingRow(codebase, free);
      transaction.write({ op: 'put', table: FINDINGS, row, value: finding });
      transaction.write({ op: 'put', table: FINDINGS_INDEXED, row, value: indexed });
      changeCodebase(transaction, codebase, () => ({
        next_seq: Math.max(before.next_seq, free + 1),
        count: before.count + 1 - gone,
        embedder_id:
          before.count === 0 || before.embedder_id === indexed.embedder_id ? indexed.embedder_id : null,
      }));
      return free;
    });
    return { seq };
  }

  /**
   * @param input `audit`: entry that is written with the removal; null: no entry
   */
  async remove(input: {
    codebase: Codebase;
    seqs: readonly number[];
    audit: AuditEntry | null;
  }): Promise<null> {
    const { codebase, seqs, audit } = input;
    await this.#tables.transact((transaction) => {
      let gone = 0;
      for (const seq of seqs) gone += Number(removeFinding(transaction, codebase, seq));
      changeCodebase(transaction, codebase, (before) => ({ ...before, count: before.count - gone }));
      if (audit !== null) for (const write of auditWrites(audit)) transaction.write(write);
    });
    return null;
  }

  /**
   * @param input `is_last`: whether every finding then has a vector of this embedder
   */
  async embed(input: {
    codebase: Codebase;
    embedder_id: string;
    vectors: readonly NewVector[];
    is_last: boolean;
  }): Promise<null> {
    const { codebase, embedder_id, vectors, is_last } = input;
    await this.#tables.transact((transaction) => {
      for (const { seq, vector } of vectors) {
        const row = findingRow(codebase, seq);
        const before = transaction.get<IndexedRow>(FINDINGS_INDEXED, row);
        if (before === undefined) continue;
        transaction.write({
          op: 'put',
          table: FINDINGS_INDEXED,
          row,
          value: { ...before, embedder_id, vector },
        });
      }
      if (is_last) changeCodebase(transaction, codebase, (before) => ({ ...before, embedder_id }));
    });
    return null;
  }
}

function nameOf({ org_id, codebase_id }: Codebase): string {
  return JSON.stringify([org_id, codebase_id]);
}

/** @returns whether it existed: another box may have removed it */
function removeFinding(transaction: TableTransaction, codebase: Codebase, seq: number): boolean {
  const row = findingRow(codebase, seq);
  if (transaction.get(FINDINGS_INDEXED, row) === undefined) return false;
  transaction.write({ op: 'remove', table: FINDINGS, row });
  transaction.write({ op: 'remove', table: FINDINGS_INDEXED, row });
  return true;
}

function changeCodebase(
  transaction: TableTransaction,
  codebase: Codebase,
  change: (before: CodebaseRow) => CodebaseRow,
): void {
  const row = codebaseRow(codebase);
  const before = transaction.get<CodebaseRow>(FINDINGS_CODEBASES, row) ?? EMPTY;
  transaction.write({ op: 'put', table: FINDINGS_CODEBASES, row, value: change(before) });
}

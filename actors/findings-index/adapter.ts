/** Reads and changes the rows of the findings index, and knows which code bases may be in memory. Actor thread. */

import type { AuditEntry } from '../../src/domain/account.ts';
import type { Codebase } from '../../src/domain/finding.ts';
import type {
  FindingIndexStore,
  IndexedFinding,
  NewFinding,
  NewVector,
} from '../../src/storage/ports/finding-index.ts';

export const FINDINGS_ADAPTER = 'findings';

/** Number of rows that are read before other work of the thread runs. */
const ROWS_A_TURN = 500;

export interface LoadedFindings {
  next_seq: number;
  /** The rows, in the order of their places. */
  rows: IndexedFinding[];
}

/** Where a finding was stored. */
export interface StoredFinding {
  seq: number;
}

/**
 * Maximum number of code bases that are remembered as read. Beyond it, `knownOf` returns every code base that it is
 * given, and all code bases without a list.
 */
const READ_CODEBASES = 10_000;

/** The operations that behaviours name in `context.io`; each write is atomic. */
export class FindingsAdapter {
  readonly #store: FindingIndexStore;
  readonly #read = new Map<string, Codebase>();
  readonly #mostRead: number;
  #hasReadMore = false;

  /** @param mostRead for tests */
  constructor(store: FindingIndexStore, mostRead = READ_CODEBASES) {
    this.#store = store;
    this.#mostRead = mostRead;
  }

  /** Returns the code bases whose index may be in memory. @param codebases the ones to choose from; null: all */
  knownOf(codebases: readonly Codebase[] | null): Codebase[] {
    if (codebases === null && !this.#hasReadMore) return [...this.#read.values()];
    const all = codebases ?? [...this.#store.listCodebases()];
    return all.filter((codebase) => this.#hasReadMore || this.#read.has(nameOf(codebase)));
  }

  /**
   * Loads the findings without their texts. The index is the only writer on this box, and does not write while it
   * loads. If another box writes, the index gets a message (client.ts) and loads the rows again.
   */
  async load(codebase: Codebase): Promise<LoadedFindings> {
    if (this.#read.size < this.#mostRead || this.#read.has(nameOf(codebase)))
      this.#read.set(nameOf(codebase), codebase);
    else this.#hasReadMore = true;
    const next_seq = this.#store.readNextSeq(codebase);
    const rows: IndexedFinding[] = [];
    for (let after: number | null = null; ; ) {
      const page: IndexedFinding[] = this.#store.listIndexed(codebase, after, ROWS_A_TURN);
      rows.push(...page);
      if (page.length < ROWS_A_TURN) return { next_seq, rows };
      after = page.at(-1)!.seq;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async store(input: NewFinding): Promise<StoredFinding> {
    return { seq: await this.#store.store(input) };
  }

  async remove(input: {
    codebase: Codebase;
    seqs: readonly number[];
    audit: AuditEntry | null;
  }): Promise<null> {
    await this.#store.remove(input.codebase, input.seqs, input.audit);
    return null;
  }

  async embed(input: {
    codebase: Codebase;
    embedder_id: string;
    vectors: readonly NewVector[];
    is_last: boolean;
  }): Promise<null> {
    await this.#store.embed(input.codebase, input.embedder_id, input.vectors, input.is_last);
    return null;
  }
}

function nameOf({ org_id, codebase_id }: Codebase): string {
  return JSON.stringify([org_id, codebase_id]);
}

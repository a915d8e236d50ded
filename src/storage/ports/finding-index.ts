/** The rows of the findings index about code bases. Each change is atomic. Types; actor thread. */
import type { AuditEntry } from '../../domain/account.ts';
import type { Codebase, Finding } from '../../domain/finding.ts';
import type { IndexedRow } from '../../domain/finding-rows.ts';

/** A finding without its text, as the index needs it. */
export interface IndexedFinding extends IndexedRow {
  seq: number;
}

/** A finding to store. */
export interface NewFinding {
  codebase: Codebase;
  /** The sequence number to use, unless another box has used it. */
  seq: number;
  finding: Finding;
  indexed: IndexedRow;
  /** Findings to remove in the same transaction, to make room. */
  evicted: readonly number[];
}

export interface NewVector {
  seq: number;
  vector: Uint8Array;
}

/** Changes reject with a store error. */
export interface FindingIndexStore {
  /** Reads the next sequence number of a code base. */
  readNextSeq(codebase: Codebase): number;
  /** The code bases that have or had findings. */
  listCodebases(): Iterable<Codebase>;
  /** Findings without their texts, in the order of their sequence numbers. @param after null: from the first */
  listIndexed(codebase: Codebase, after: number | null, limit: number): IndexedFinding[];
  /** Stores a finding and removes those that make room for it. @returns the finding's sequence number */
  store(finding: NewFinding): Promise<number>;
  /** Removes findings. @param audit entry that is written with the removal; null: no entry */
  remove(codebase: Codebase, seqs: readonly number[], audit: AuditEntry | null): Promise<void>;
  /** Stores vectors of findings. @param is_last whether every finding then has a vector of this embedder */
  embed(
    codebase: Codebase,
    embedder_id: string,
    vectors: readonly NewVector[],
    is_last: boolean,
  ): Promise<void>;
}

/** The rows of findings in `main.mdb`, which their index writes: tables, keys and values. Pure; any thread. */
import type { Codebase } from './finding.ts';

/** Tables of `main.mdb`. A finding has two rows: its texts, and the data for the index. */
export const FINDINGS = 'findings';
export const FINDINGS_INDEXED = 'findings_indexed';
/** One row per code base. */
export const FINDINGS_CODEBASES = 'findings_codebases';

export interface CodebaseRow {
  /** The next sequence number. Every lower number was assigned once. */
  next_seq: number;
  /** Number of stored findings. */
  count: number;
  /** The embedder of all vectors; null if some are missing or belong to another embedder. */
  embedder_id: string | null;
}

/** The index's data about a finding. */
export interface IndexedRow {
  finding_id: string;
  project_id: string;
  file_path: string;
  finding_type: string;
  created_at: string;
  /** From `hashFinding`; equal findings of a project have the same hash. */
  hash: string;
  /** null: not embedded yet. */
  embedder_id: string | null;
  /** 32-bit floats in this machine's byte order; empty: no vector. */
  vector: Uint8Array;
}

/** Identifies a finding by its sequence number, and by its id to detect a replacement. */
export interface FindingPlace {
  seq: number;
  finding_id: string;
}

export function codebaseRow({ org_id, codebase_id }: Codebase): (string | number)[] {
  return [org_id, codebase_id];
}

/** Makes the key of both rows of a finding. */
export function findingRow({ org_id, codebase_id }: Codebase, seq: number): (string | number)[] {
  return [org_id, codebase_id, seq];
}

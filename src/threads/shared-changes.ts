/**
 * Updates the indexes that actors of this thread hold in memory when other boxes change rows of the
 * shared database. Actor threads.
 */

import type { FindingsAdapter } from '../../actors/findings-index/adapter.ts';
import { tellStale } from '../../actors/findings-index/client.ts';
import type { PatternStoreAdapter } from '../../actors/pattern-index/adapter.ts';
import type { ChangedPattern } from '../../actors/pattern-index/following.ts';
import type { Codebase } from '../domain/finding.ts';
import { FINDINGS_CODEBASES, FINDINGS_INDEXED } from '../domain/finding-rows.ts';
import { PATTERN_VECTORS, PATTERNS } from '../domain/pattern-rows.ts';
import type { Asker } from '../runtime/actor-client.ts';
import { databaseOf } from '../storage/lmdb/tables.ts';
import { decodeRowKey } from '../storage/row-key.ts';
import type { ChangedRow } from '../storage/shared/store-protocol.ts';

/** The receivers of the changes. */
interface Followers {
  asker: Asker;
  findings: FindingsAdapter;
  patterns: PatternStoreAdapter;
}

export class SharedChanges {
  /** null before the actors have started: then no index is in memory. */
  #followers: Followers | null = null;

  follow(followers: Followers): void {
    this.#followers = followers;
  }

  /**
   * Updates the indexes that the changed rows concern. Resolves when they are updated.
   * @param rows that other boxes changed; null: any rows may have changed
   */
  async take(rows: readonly ChangedRow[] | null): Promise<void> {
    if (this.#followers === null) return;
    const { asker, findings, patterns } = this.#followers;
    const codebases = rows === null ? null : findCodebases(rows);
    const told: Promise<unknown>[] = findings
      .knownOf(codebases)
      .map((codebase) => tellStale(asker, codebase));
    const changed = rows === null ? null : findPatterns(rows);
    if (changed === null || changed.length > 0) told.push(patterns.follow(changed));
    await Promise.all(told);
  }
}

function findPatterns(rows: readonly ChangedRow[]): ChangedPattern[] {
  const [patterns, vectors] = [databaseOf(PATTERNS), databaseOf(PATTERN_VECTORS)];
  return rows.flatMap(({ table, key: bytes }) => {
    if (table !== patterns && table !== vectors) return [];
    const key = decodeRowKey(bytes);
    return [table === patterns ? { key, embedder: null } : { key: key.slice(1), embedder: String(key[0]) }];
  });
}

/**
 * Finds the codebases whose findings changed: a row of the codebase or of one of its findings changed. A new
 * vector of a finding changes only the finding's row.
 */
function findCodebases(rows: readonly ChangedRow[]): Codebase[] {
  const tables = new Set([FINDINGS_CODEBASES, FINDINGS_INDEXED].map(databaseOf));
  const found = new Map<string, Codebase>();
  for (const { table, key } of rows) {
    if (!tables.has(table)) continue;
    const [org_id, codebase_id] = decodeRowKey(key) as [string, string];
    found.set(JSON.stringify([org_id, codebase_id]), { org_id, codebase_id });
  }
  return [...found.values()];
}

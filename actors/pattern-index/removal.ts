/**
 * Removes patterns. First the scope's saved graphs are deleted, because they contain information about the vectors.
 * Then one transaction removes the patterns from the disk, with their vectors of every embedder. Then they are removed
 * from memory, and the caller gets an answer. If the process crashes before the transaction, only the graph is lost,
 * and the next start builds it again. Actor thread.
 */
import type { AuditEntry } from '../../src/domain/account.ts';
import { auditWrites } from '../../src/domain/audit-rows.ts';
import type { PatternScope } from '../../src/domain/pattern.ts';
import {
  PATTERN_SOURCES,
  PATTERN_VECTORS,
  PATTERNS,
  type PatternRow,
  patternKey,
  sourceKey,
} from '../../src/domain/pattern-rows.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import type { Tables, TableTransaction } from '../../src/storage/tables.ts';
import type { GraphKeeper } from './graph-keeper.ts';
import type { RemoveRequest } from './protocol.ts';
import type { PatternScopes } from './scopes.ts';
import type { StoreParts } from './store-parts.ts';

/**
 * Removes patterns of a scope. Must not run at the same time as another removal or an intake.
 * @returns how many of the patterns existed
 * @throws CatalogueError `unavailable` if they cannot be removed now: then all of them still exist
 */
export async function removePatterns(
  { tables }: Pick<StoreParts, 'tables'>,
  scopes: PatternScopes,
  keeper: GraphKeeper,
  { scope, pattern_ids, audit }: RemoveRequest,
): Promise<number> {
  const home = scopes.of(scope);
  try {
    await keeper.discard(home);
    const removed = await tables.transact((tx) => {
      const embedders = [...listEmbedders(tx)];
      let count = 0;
      for (const id of pattern_ids) if (removeRows(tx, scope, id, embedders)) count++;
      if (count > 0) writeEntry(tx, audit);
      return count;
    });
    scopes.forgetAll(home, pattern_ids);
    return removed;
  } catch (thrown) {
    throw new CatalogueError('unavailable', 'The pattern store cannot remove patterns now', {
      cause: thrown,
    });
  }
}

/** Removes a pattern's rows, including its vectors of these embedders. @returns whether it existed */
export function removeRows(
  tx: TableTransaction,
  scope: PatternScope,
  patternId: string,
  embedders: readonly string[],
): boolean {
  const key = patternKey(scope, patternId);
  const row = tx.get<PatternRow>(PATTERNS, key);
  if (row === undefined) return false;
  tx.write({ op: 'remove', table: PATTERNS, row: key });
  for (const embedder of embedders)
    tx.write({ op: 'remove', table: PATTERN_VECTORS, row: [embedder, ...key] });
  for (const trace of row.sources)
    tx.write({ op: 'remove', table: PATTERN_SOURCES, row: sourceKey(scope, trace, row.situation) });
  return true;
}

function writeEntry(tx: TableTransaction, audit: AuditEntry | null): void {
  if (audit !== null) for (const write of auditWrites(audit)) tx.write(write);
}

/** Yields the embedders of the stored vectors, by their names in the keys. */
export function* listEmbedders(tables: Pick<Tables, 'range'>): Iterable<string> {
  let after: RowKey | undefined;
  for (;;) {
    const range = after === undefined ? { prefix: [], limit: 1 } : { prefix: [], after, limit: 1 };
    let found: string | undefined;
    for (const { row } of tables.range(PATTERN_VECTORS, range)) found = String(row[0]);
    if (found === undefined) return;
    yield found;
    // The last part is greater than any text, so the key sorts after all keys of this embedder.
    after = [found, '\u{10ffff}'];
  }
}

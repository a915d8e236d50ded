/**
 * Removes patterns: from the disk in one transaction, with their vectors of every embedder; then from memory, before anybody
 * is told. A saved graph holds what is left of their vectors, so it goes first: a crash in between costs the graph, which
 * the next start builds again. Actor thread.
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
import type { TableReader, TableTransaction } from '../../src/storage/tables.ts';
import type { GraphKeeper } from './graph-keeper.ts';
import type { RemoveRequest } from './protocol.ts';
import type { PatternScopes } from './scopes.ts';
import type { StoreParts } from './store-parts.ts';

/**
 * One call at a time, and none beside an intake.
 * @returns how many of them were there
 * @throws CatalogueError `unavailable` when they cannot be removed now; all of them are there then
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
    throw new CatalogueError('unavailable', 'The pattern store removes nothing now', { cause: thrown });
  }
}

/** Removes a pattern's rows with its vectors of these embedders. @returns whether it was there */
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

/** The embedders that stored vectors are of, as their keys name them. */
export function* listEmbedders(tables: TableReader): Iterable<string> {
  let after: RowKey | undefined;
  for (;;) {
    const range = after === undefined ? { prefix: [], limit: 1 } : { prefix: [], after, limit: 1 };
    let found: string | undefined;
    for (const { row } of tables.range(PATTERN_VECTORS, range)) found = String(row[0]);
    if (found === undefined) return;
    yield found;
    // The greatest text: past all keys that begin with this embedder.
    after = [found, '\u{10ffff}'];
  }
}

/**
 * Adds patterns to the store that the command line imported into the database, at the start and at intervals. Actor
 * thread.
 */
import { type ImportRow, PATTERN_IMPORTS } from '../../src/domain/pattern-rows.ts';
import { CatalogueError } from '../../src/errors.ts';
import type { RowKey, RowWrite } from '../../src/runtime/protocol.ts';
import { cleanAdded, type PatternIntake } from './intake.ts';
import type { StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

/** Interval of the checks for imports. */
const IMPORTS_EVERY_MS = 2_000;

type ImportParts = Pick<StoreParts, 'tables' | 'log'>;

/**
 * Adds imported patterns, one import after the other, until the store is closed.
 * @param onTaken called after each import
 */
export async function takeImports(
  parts: ImportParts,
  intake: PatternIntake,
  life: StoreLifecycle,
  onTaken: () => void,
): Promise<void> {
  const { tables, log } = parts;
  while (!life.isOver) {
    try {
      const [first] = [...tables.range<ImportRow>(PATTERN_IMPORTS, { prefix: [], limit: 1 })];
      if (first !== undefined) {
        await takeImport(parts, intake, life, first.row, first.value);
        onTaken();
        continue;
      }
    } catch (thrown) {
      if (life.isOver) return;
      log.warn({ err: thrown }, 'imported patterns cannot be stored now');
    }
    await life.pause(IMPORTS_EVERY_MS);
  }
}

async function takeImport(
  { tables, log }: ImportParts,
  intake: PatternIntake,
  life: StoreLifecycle,
  row: RowKey,
  { scope, patterns }: ImportRow,
): Promise<void> {
  const removal: RowWrite = { op: 'remove', table: PATTERN_IMPORTS, row };
  const clean = patterns.map((pattern) => cleanAdded({ ...pattern, source_trace_id: null }));
  const vectors = await intake.embed(clean);
  try {
    const outcomes = await life.alone(() => intake.take(scope, clean, vectors, () => [removal]));
    const created = outcomes.filter((outcome) => outcome.created).length;
    log.info({ created, merged: outcomes.length - created }, 'imported patterns are stored');
  } catch (thrown) {
    if (!(thrown instanceof CatalogueError) || thrown.code !== 'conflict') throw thrown;
    // The import is dropped, because a retry would be refused again.
    log.warn({ err: thrown, patterns: patterns.length }, 'imported patterns are dropped');
    await tables.transact((transaction) => transaction.write(removal));
  }
}

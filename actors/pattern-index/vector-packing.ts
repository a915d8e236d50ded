/**
 * Packs the vectors that versions up to 0.1 stored as floats, once, in the background. Packed rows take a quarter of
 * the space. Continues after a restart. Actor thread.
 */
import {
  decodeVector,
  encodeVector,
  isUnpackedVector,
  PATTERN_SETTINGS,
  PATTERN_VECTORS,
} from '../../src/domain/pattern-rows.ts';
import type { RowKey } from '../../src/runtime/protocol.ts';
import { RETRY_FIRST_MS, RETRY_MAX_MS, type StoreLifecycle } from './store-lifecycle.ts';
import type { StoreParts } from './store-parts.ts';

const PACKING_ROW: RowKey = ['vectors'];
/** Number of rows checked in one transaction, and the pause between two transactions. */
const BATCH = 64;
const PAUSE_MS = 3;

interface PackingRow {
  /** The last row that was checked; null: none was checked yet, or all were. */
  after: RowKey | null;
  is_done: boolean;
}

export async function packVectors(
  parts: Pick<StoreParts, 'tables' | 'log'>,
  life: StoreLifecycle,
): Promise<void> {
  for (let retryMs = RETRY_FIRST_MS; !life.isOver; ) {
    try {
      if (await life.alone(() => packSome(parts.tables))) return;
      retryMs = RETRY_FIRST_MS;
      await life.pause(PAUSE_MS);
    } catch (thrown) {
      if (life.isOver) return;
      parts.log.warn({ err: thrown, retry_in_ms: retryMs }, 'stored vectors cannot be packed now');
      await life.pause(retryMs);
      retryMs = Math.min(2 * retryMs, RETRY_MAX_MS);
    }
  }
}

/** Packs the next rows. @returns true when all rows are packed */
async function packSome(tables: StoreParts['tables']): Promise<boolean> {
  const before = tables.get<PackingRow>(PATTERN_SETTINGS, PACKING_ROW) ?? { after: null, is_done: false };
  if (before.is_done) return true;
  const range = { prefix: [], limit: BATCH, ...(before.after === null ? {} : { after: before.after }) };
  const rows = [...tables.range<Uint8Array>(PATTERN_VECTORS, range)].map(({ row }) => row);
  const is_done = rows.length < BATCH;
  const now: PackingRow = { after: is_done ? null : rows.at(-1)!, is_done };
  await tables.transact((transaction) => {
    for (const row of rows) {
      const bytes = transaction.get<Uint8Array>(PATTERN_VECTORS, row);
      // The row may have been removed after it was listed.
      if (!(bytes instanceof Uint8Array) || !isUnpackedVector(bytes)) continue;
      const value = encodeVector(decodeVector(bytes, bytes.length / 4)!);
      transaction.write({ op: 'put', table: PATTERN_VECTORS, row, value });
    }
    transaction.write({ op: 'put', table: PATTERN_SETTINGS, row: PACKING_ROW, value: now });
  });
  return is_done;
}

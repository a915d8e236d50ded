/** Counts the unused pages of a database file by LMDB's own counts, which takes microseconds. Any thread. */
import type { Database, RootDatabase } from 'lmdb';

/** LMDB's counts of a table's pages, as lmdb-js names them; it does not declare them. */
interface TableStats {
  treeBranchPageCount: number;
  treeLeafPageCount: number;
  overflowPages: number;
}

interface RootStats extends TableStats {
  pageSize: number;
  lastPageNumber: number;
  free: TableStats;
}

/** The pages of the two heads. */
const HEAD_PAGES = 2;

/**
 * Measures the size of a file, and how much of it is in pages that no table uses.
 * @param tables all tables of the file
 */
export function measureFile(
  root: Pick<RootDatabase, 'getStats'>,
  tables: readonly Pick<Database, 'getStats'>[],
): { bytes: number; unused_bytes: number } {
  const stats = root.getStats() as unknown as RootStats;
  const counts = tables.map((table) => table.getStats() as unknown as TableStats);
  const used = [stats, stats.free, ...counts].reduce((sum, table) => sum + countPages(table), HEAD_PAGES);
  const pages = stats.lastPageNumber + 1;
  return { bytes: pages * stats.pageSize, unused_bytes: Math.max(0, pages - used) * stats.pageSize };
}

function countPages({ treeBranchPageCount, treeLeafPageCount, overflowPages }: TableStats): number {
  return treeBranchPageCount + treeLeafPageCount + overflowPages;
}

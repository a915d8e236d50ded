/** Where the product's databases are, and their tables for one thread. Any thread. */
import { join } from 'node:path';
import type { Stores } from '../stores.ts';
import { LmdbTables } from './tables.ts';

/** Paths of the databases in DATA_DIR: plain data, for threads to open them by. */
export interface DatabasePaths {
  main: string;
  runs: string;
}

export function databasePaths(dataDir: string): DatabasePaths {
  return { main: join(dataDir, 'main.mdb'), runs: join(dataDir, 'runs.mdb') };
}

/**
 * Opens both for this thread; makes what is missing.
 * @throws Error when a file cannot be opened
 */
export function openStores(paths: DatabasePaths): Stores {
  return { main: new LmdbTables(paths.main, 'disk'), runs: new LmdbTables(paths.runs, 'process') };
}

export async function closeStores({ main, runs }: Stores): Promise<void> {
  await Promise.all([main.close(), runs.close()]);
}

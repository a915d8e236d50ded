/**
 * What finished monitor runs say of captured runs of the same id: a run that did not succeed is not golden. Command line,
 * main thread; reads only.
 */

import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { RUNS, type RunRow } from '../domain/run-rows.ts';

/** Databases of monitor runs: beside the capture file and in DATA_DIR. */
export async function listRunsDbs(db: string, dataDir: string): Promise<string[]> {
  const { databasePaths } = await import('../storage/lmdb/stores.ts');
  const folders = new Set([dirname(db), resolve(dataDir)]);
  return [...folders].map((folder) => databasePaths(folder).runs).filter((path) => existsSync(path));
}

/** The monitor runs are there and cannot be read: then nobody knows what they say of a run. */
export class OutcomesError extends Error {
  constructor(path: string, cause: unknown) {
    super(`the monitor runs in ${path} cannot be read: ${(cause as Error).message}`, { cause });
    this.name = 'OutcomesError';
  }
}

/**
 * Outcomes of finished monitor runs that have the id of a captured run; of several, one that is no success.
 * @param runs finds a captured run by its id; undefined when there is none
 * @param dataKey of the databases; null: none
 * @throws OutcomesError
 */
export async function readOutcomes(
  paths: readonly string[],
  runs: { find(runId: string): unknown },
  dataKey: Uint8Array | null = null,
): Promise<Map<string, string>> {
  const outcomes = new Map<string, string>();
  if (paths.length === 0) return outcomes;
  const [{ LmdbTables }, { checkFileHead }] = await Promise.all([
    import('../storage/lmdb/tables.ts'),
    import('../storage/lmdb/file-head.ts'),
  ]);
  for (const path of paths) {
    let tables: InstanceType<typeof LmdbTables>;
    try {
      // A file that is cut off would end the process while it is read.
      checkFileHead(path);
      tables = new LmdbTables(path, 'process', dataKey);
    } catch (error) {
      throw new OutcomesError(path, error);
    }
    try {
      for (const { value } of tables.range<RunRow>(RUNS, { prefix: [] })) {
        if (value.status !== 'finished' || runs.find(value.run_id) === undefined) continue;
        const known = outcomes.get(value.run_id);
        if (known === undefined || known === 'success') outcomes.set(value.run_id, value.outcome);
      }
    } catch (error) {
      throw new OutcomesError(path, error);
    } finally {
      await tables.close();
    }
  }
  return outcomes;
}

/**
 * Reads and writes the mark of database files that may still contain deleted content. LMDB keeps the bytes of removed
 * values in free pages, and in the free space of pages, until it overwrites them. A transaction that deletes content of
 * the tables in CONTENT or EDITED also writes the mark. The mark is removed when the file is rewritten (compaction.ts)
 * or its unused bytes are overwritten (page-wipe.ts). Any thread.
 */
import type { Database, RootDatabase } from 'lmdb';
import { PATTERNS } from '../../domain/pattern-rows.ts';
import { RUN_GATHERED_STEPS, RUN_STEPS, RUNS } from '../../domain/run-rows.ts';
import { TRACES } from '../../domain/trace-rows.ts';
import { type Environment, TABLE_PREFIX } from './environment.ts';

/** The table with the mark. A rewritten file does not have it. */
export const DELETION_MARK = 'deletions';
const MARK = Buffer.from('since');

const databasesOf = (tables: readonly string[]): ReadonlySet<string> =>
  new Set(tables.map((table) => TABLE_PREFIX + table));

/**
 * Tables from which a row is removed only when its content is deleted: on request, with its project, organization or
 * account, or by age. Rows of other tables are also removed in normal use.
 */
const CONTENT = databasesOf([
  RUNS,
  RUN_STEPS,
  RUN_GATHERED_STEPS,
  TRACES,
  PATTERNS,
  'api_keys',
  'feedback',
  'findings',
  'invitations',
  'members',
  'organizations',
  'profiles',
  'projects',
  'saved_searches',
  'subscriptions',
  'users',
]);

/**
 * Tables whose rows are replaced only if a request changes their content: a name, an address, a profile's numbers.
 */
const EDITED = databasesOf(['organizations', 'profiles', 'projects', 'users']);

const TABLE = { name: DELETION_MARK, encoding: 'binary', keyEncoding: 'binary', cache: false } as const;

type Root = RootDatabase<Buffer, Buffer>;

/**
 * Marks the file if removing a row of this database deletes content. Call it in the transaction that removes the row.
 */
export function markRemoval(environment: Environment, database: string): void {
  if (CONTENT.has(database)) writeMark(environment);
}

/**
 * Marks the file if a new value for this row deletes content. Call it in the transaction, before the row is written.
 */
export function markReplacement(environment: Environment, database: string, key: Buffer): void {
  if (!EDITED.has(database)) return;
  // Only the key is read, because the value may be damaged.
  for (const found of environment.named(database).getKeys({ start: key, limit: 1 }))
    if (key.equals(found)) writeMark(environment);
}

/** Writes the mark without reading an existing one, because a damaged mark must not prevent a deletion. */
export function writeMark(environment: Pick<Environment, 'named'>): void {
  environment.named(DELETION_MARK).putSync(MARK, Buffer.from([1]));
}

/** Opens the table of the mark; null in a file without one. */
export function openMarks(root: Root): Database<Buffer, Buffer> | null {
  // Without this check, opening the table would create it.
  return listTables(root).includes(DELETION_MARK) ? root.openDB<Buffer, Buffer>(TABLE) : null;
}

/** Whether the mark is in its table. */
export function hasMark(marks: Database<Buffer, Buffer> | null): boolean {
  return marks?.get(MARK) !== undefined;
}

/** Removes the mark. */
export function removeMark(marks: Database<Buffer, Buffer>): void {
  marks.removeSync(MARK);
}

/** Lists the names of a file's tables. */
export function listTables(root: Root): string[] {
  return [...root.getKeys({})].map((key) => key.toString().replace(/\0$/, ''));
}

/** The snapshots of a database file that readers have open. Any thread. */
import type { RootDatabase } from 'lmdb';

/** The transactions whose snapshots readers of any process have open. */
export function listSnapshots(root: RootDatabase<Buffer, Buffer>): number[] {
  // After a title, one line for each reader: process, thread and transaction ("-" without one).
  return [...root.readerList().matchAll(/^ *\d+ +[0-9a-f]+ +(\d+)$/gm)].map((line) => Number(line[1]));
}

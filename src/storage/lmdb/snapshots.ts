/** The snapshots of a database file that readers have open. Any thread. */
import type { RootDatabase } from 'lmdb';

/** A read transaction of some process. */
export interface OpenSnapshot {
  pid: number;
  /** Distinguishes the threads of a process. */
  thread: string;
  txn: number;
}

type WithReaders = Pick<RootDatabase, 'readerList'>;

/** The read transactions of all processes, also of other containers that share the file. */
export function listReads(root: WithReaders): OpenSnapshot[] {
  // After a title, one line for each reader: process, thread and transaction ("-" without one).
  return [...root.readerList().matchAll(/^ *(\d+) +([0-9a-f]+) +(\d+)$/gm)].map(([, pid, thread, txn]) => ({
    pid: Number(pid),
    thread: thread!,
    txn: Number(txn),
  }));
}

/** The transactions whose snapshots readers of any process have open. */
export function listSnapshots(root: WithReaders): number[] {
  return listReads(root).map(({ txn }) => txn);
}

/** The snapshots of a database file that readers have open. Any thread. */
import type { RootDatabase } from 'lmdb';

/** An open read transaction of a process. */
export interface OpenSnapshot {
  pid: number;
  /** Distinguishes the threads of a process. */
  thread: string;
  txn: number;
}

type WithReaders = Pick<RootDatabase, 'readerList'>;

/** Lists the read transactions of all processes, including those of other containers that share the file. */
export function listReads(root: WithReaders): OpenSnapshot[] {
  // After a title, the list has a line for each reader: process, thread and transaction ("-" if it has none open).
  return [...root.readerList().matchAll(/^ *(\d+) +([0-9a-f]+) +(\d+)$/gm)].map(([, pid, thread, txn]) => ({
    pid: Number(pid),
    thread: thread!,
    txn: Number(txn),
  }));
}

/** Lists the transactions whose snapshots readers of any process have open. */
export function listSnapshots(root: WithReaders): number[] {
  return listReads(root).map(({ txn }) => txn);
}

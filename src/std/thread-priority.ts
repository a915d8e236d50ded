/**
 * The scheduling priority of a thread. Linux has one for each thread, other systems for the whole process. Any thread.
 */
import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';

/**
 * Gives the calling thread a lower priority, where the system has priorities of threads. Threads that it starts inherit
 * it.
 * @param nice 1 (slightly lower) to 19 (only otherwise unused time)
 */
export function lowerThreadPriority(nice: number): void {
  try {
    // The link points to PID/task/TID. Linux takes a thread's id in the place of a process id.
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), nice);
  } catch {
    // Not Linux, or not permitted: the thread keeps its priority.
  }
}

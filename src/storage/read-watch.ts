/**
 * Kills processes that have had a read transaction of a database open for too long. Such a transaction keeps LMDB from
 * reusing pages that were freed later, so the file grows with each write and never shrinks. The commands and the
 * capture reader renew their transactions with each call; a copy for a backup is one transaction. Killing a reader is
 * safe. Readers change nothing, and if a process is killed in a write transaction, the transaction has no effect. Runs
 * in the capture process for captures, and on the main thread for the databases of DATA_DIR. A process is killed only
 * if /proc (Linux) shows that it maps the file, because its id may come from another container that shares the file.
 */
import { readFileSync, realpathSync } from 'node:fs';
import { type Clock, systemClock } from '../std/clock.ts';
import type { OpenSnapshot } from './lmdb/snapshots.ts';

/** Ages of a read transaction at which its process is reported, gets SIGTERM, and gets SIGKILL. */
export const READ_AGES = { told_ms: 60_000, asked_ms: 900_000, killed_ms: 960_000 };
type ReadAges = typeof READ_AGES;

/** A read transaction that is too old. */
export interface OldRead {
  pid: number;
  seconds: number;
  /** `told`: the process was only reported. `asked`: it got SIGTERM. */
  done: 'told' | 'asked' | 'killed';
}

interface ReadWatchOptions {
  path: string;
  /** The read transactions of all processes. */
  listReads: () => OpenSnapshot[];
  /** Called once for each step. */
  tell: (read: OldRead) => void;
  /** Selects processes that are reported, but not killed. */
  isSpared?: (pid: number) => boolean;
  ages?: ReadAges;
  clock?: Pick<Clock, 'monotonicMs'>;
}

interface WatchedRead {
  since_ms: number;
  done: OldRead['done'] | null;
}

export class ReadWatch {
  readonly #options: ReadWatchOptions;
  readonly #ages: ReadAges;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** The transactions of the last check. LMDB limits their number. */
  #reads = new Map<string, WatchedRead>();

  constructor(options: ReadWatchOptions) {
    this.#options = options;
    this.#ages = options.ages ?? READ_AGES;
    this.#clock = options.clock ?? systemClock;
  }

  /** Checks all read transactions once. */
  look(): void {
    const now = this.#clock.monotonicMs();
    const reads = new Map<string, WatchedRead>();
    for (const { pid, thread, txn } of this.#options.listReads()) {
      // The writer itself keeps a snapshot open for its last checkpoint.
      if (pid === process.pid) continue;
      const key = `${pid} ${thread} ${txn}`;
      const read = this.#reads.get(key) ?? { since_ms: now, done: null };
      reads.set(key, read);
      this.#act(pid, read, now - read.since_ms);
    }
    this.#reads = reads;
  }

  /**
   * Age of the oldest read transaction of another process that the last check found, in seconds; 0 if there was no such
   * transaction.
   */
  get oldest_s(): number {
    const now = this.#clock.monotonicMs();
    let oldest = 0;
    for (const { since_ms } of this.#reads.values()) oldest = Math.max(oldest, now - since_ms);
    return Math.round(oldest / 1_000);
  }

  #act(pid: number, read: WatchedRead, ageMs: number): void {
    const { told_ms, asked_ms, killed_ms } = this.#ages;
    const due =
      ageMs >= killed_ms ? 'killed' : ageMs >= asked_ms ? 'asked' : ageMs >= told_ms ? 'told' : null;
    if (due === null || due === read.done) return;
    const isEnded = due !== 'told' && this.#end(pid, due === 'killed' ? 'SIGKILL' : 'SIGTERM');
    if (due !== 'told' && !isEnded && read.done !== null) return;
    read.done = isEnded ? due : 'told';
    this.#options.tell({ pid, seconds: Math.round(ageMs / 1_000), done: read.done });
  }

  #end(pid: number, signal: 'SIGTERM' | 'SIGKILL'): boolean {
    const { path, isSpared } = this.#options;
    if (isSpared?.(pid) === true || !maps(pid, path)) return false;
    try {
      return process.kill(pid, signal);
    } catch {
      // The process has ended, or belongs to another user.
      return false;
    }
  }
}

/** Whether a process of this machine maps the file; false if that cannot be determined. */
function maps(pid: number, path: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/maps`, 'latin1').includes(` ${realpathSync(path)}\n`);
  } catch {
    return false;
  }
}

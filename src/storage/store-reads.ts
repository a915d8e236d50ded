/**
 * Watches the read transactions of other processes in main.mdb and runs.mdb (read-watch.ts), while the service runs. Main
 * thread.
 */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { MAX_NAMED } from './lmdb/environment.ts';
import { listReads } from './lmdb/snapshots.ts';
import type { DatabasePaths } from './lmdb/stores.ts';
import { type OldRead, type READ_AGES, ReadWatch } from './read-watch.ts';

/** Interval of the checks. */
const LOOK_MS = 10_000;

interface StoreReadsOptions {
  /** Called once for each step against a process. */
  tell: (path: string, read: OldRead) => void;
  ages?: typeof READ_AGES;
  look_ms?: number;
}

/** Age of the oldest read transaction of another process in each database, in seconds; 0 if no process has one open. */
type ReadAgesByFile = Record<string, { oldest_read_s: number }>;

export class StoreReads {
  readonly #watches = new Map<string, ReadWatch>();
  readonly #roots: RootDatabase[] = [];
  readonly #timer: NodeJS.Timeout;

  /** @param paths of existing files, which this process has open */
  constructor({ main, runs, seat }: DatabasePaths, { tell, ages, look_ms = LOOK_MS }: StoreReadsOptions) {
    // A box that shares its rows has one view of them.
    for (const [path, noSync] of new Map([
      [main, seat !== undefined],
      [runs, true],
    ])) {
      // The first `open` of a file in a process sets the maximum number of its tables.
      const maxDbs = MAX_NAMED;
      const root = open({ path, noSubdir: true, maxDbs, cache: false, overlappingSync: false, noSync });
      this.#roots.push(root);
      const watch = new ReadWatch({
        path,
        listReads: () => {
          root.readerCheck();
          return listReads(root);
        },
        tell: (read) => tell(path, read),
        // Child processes of this process are spared: the capture reader reads these databases, too, and renews its
        // transactions.
        isSpared: isOwnChild,
        ...(ages === undefined ? {} : { ages }),
      });
      this.#watches.set(basename(path), watch);
    }
    this.#timer = setInterval(() => this.look(), look_ms).unref();
  }

  /** Checks all read transactions once. */
  look(): void {
    for (const watch of this.#watches.values()) watch.look();
  }

  ages(): ReadAgesByFile {
    return Object.fromEntries(
      [...this.#watches].map(([name, watch]) => [name, { oldest_read_s: watch.oldest_s }]),
    );
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    for (const root of this.#roots) await root.close();
  }
}

/** Whether this process is the parent of the process `pid`; false if that cannot be determined. */
function isOwnChild(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name of the program may contain spaces and parentheses. State and parent follow it.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === process.pid;
  } catch {
    return false;
  }
}

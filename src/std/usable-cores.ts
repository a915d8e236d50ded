/**
 * How many cores this process may use: the cores that it may run on (affinity), or fewer if its control groups limit
 * its CPU time (a container's limit). Any thread.
 */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

/** The sources of the system's information; tests replace them. */
interface CoreSources {
  /** Number of cores on which this process may run. */
  parallelism: number;
  /** Reads the text of a file; null if the file cannot be read. */
  read(path: string): string | null;
}

const SYSTEM: CoreSources = {
  parallelism: availableParallelism(),
  read: (path) => {
    try {
      return readFileSync(path, 'latin1');
    } catch {
      return null;
    }
  },
};

const ROOT = '/sys/fs/cgroup';

/** Counts the cores that this process may use: at least 1, rounded down. */
export function countUsableCores({ parallelism, read }: CoreSources = SYSTEM): number {
  let cores = parallelism;
  for (const line of (read('/proc/self/cgroup') ?? '').split('\n')) {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    const isUnified = controllers === '';
    if (path === '' || (!isUnified && !controllers.split(',').includes('cpu'))) continue;
    // A parent group may have a lower limit. Inside a container the path may be the host's: then the root is the
    // container itself.
    for (let at = path; ; at = at.slice(0, at.lastIndexOf('/'))) {
      const quota = isUnified ? readUnified(read, at) : readFirst(read, controllers, at);
      if (quota !== null) cores = Math.min(cores, quota);
      if (at === '' || at === '/') break;
    }
  }
  return Math.max(1, Math.floor(cores));
}

/**
 * Reads the limit in cores from version 2 of cgroups, whose file has "max 100000" (no limit), or a quota and a period
 * in microseconds; null without a limit.
 */
function readUnified(read: CoreSources['read'], path: string): number | null {
  for (const root of [ROOT, join(ROOT, 'unified')]) {
    const [quota, period] = (read(join(root, path, 'cpu.max')) ?? '').trim().split(' ');
    if (Number(quota) > 0 && Number(period) > 0) return Number(quota) / Number(period);
  }
  return null;
}

/** Reads the limit in cores from version 1 of cgroups, where a quota of −1 means no limit; null without a limit. */
function readFirst(read: CoreSources['read'], controllers: string, path: string): number | null {
  for (const folder of [controllers, 'cpu']) {
    const quota = Number(read(join(ROOT, folder, path, 'cpu.cfs_quota_us')) ?? Number.NaN);
    const period = Number(read(join(ROOT, folder, path, 'cpu.cfs_period_us')) ?? Number.NaN);
    if (quota > 0 && period > 0) return quota / period;
  }
  return null;
}

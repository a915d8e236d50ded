/**
 * Measures what a process and its children cost, from Linux's /proc. Bench process. On a system without /proc, the
 * processor time and the memory of a process are NaN, the busy time is 0, and no threads are listed.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** /proc counts processor time in hundredths of a second on every Linux that Node runs on (USER_HZ). */
const TICK_US = 10_000;

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
}

/** Lists the process and all its descendants. */
export function listTree(pid: number): number[] {
  const found = [pid];
  for (const parent of found) {
    for (const thread of listThreads(parent)) {
      const children = readOrNull(`/proc/${parent}/task/${thread}/children`) ?? '';
      for (const child of children.split(' ')) if (child) found.push(Number(child));
    }
  }
  return found;
}

/**
 * Sums utime and stime of a stat file, in microseconds; NaN without the file. The command name before these fields may
 * contain spaces.
 */
function parseCpuUs(stat: string | null): number {
  if (stat === null) return Number.NaN;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

/**
 * Reads the processor time that all threads of the tree have used so far, in user and kernel mode, in microseconds. The
 * system counts it in steps of 10 ms. NaN if a process of the tree ends meanwhile.
 */
export function readCpuUs(pid: number): number {
  return listTree(pid).reduce((sum, each) => sum + parseCpuUs(readOrNull(`/proc/${each}/stat`)), 0);
}

/** Reads the processor time of each thread: "pid/tid name" → microseconds. Threads that have ended are missing. */
export function readThreadCpuUs(pid: number): Record<string, number> {
  const out: Record<string, number> = {};
  for (const each of listTree(pid)) {
    for (const thread of listThreads(each)) {
      const stat = readOrNull(`/proc/${each}/task/${thread}/stat`);
      const name = stat?.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')) ?? '';
      if (stat) out[`${each}/${thread} ${name}`] = parseCpuUs(stat);
    }
  }
  return out;
}

/**
 * Reads the time that all threads of the tree ran or waited for a core, in microseconds. Unlike the processor time, it
 * grows while a process that has work gets no core. The time of threads that ended is missing.
 */
export function readBusyUs(pid: number): number {
  let busyNs = 0;
  for (const each of listTree(pid))
    for (const thread of listThreads(each)) {
      const stat = readOrNull(`/proc/${each}/task/${thread}/schedstat`) ?? '';
      const [ran = '0', waited = '0'] = stat.split(' ');
      busyNs += Number(ran) + Number(waited);
    }
  return busyNs / 1_000;
}

function listThreads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function sumStatus(pid: number, field: string): number {
  const line = new RegExp(`^${field}:\\s*(\\d+) kB`, 'm');
  return listTree(pid).reduce((sum, each) => {
    const match = line.exec(readOrNull(`/proc/${each}/status`) ?? '');
    return sum + (match ? Number(match[1]) * 1024 : Number.NaN);
  }, 0);
}

/** Reads the present resident memory of the tree, in bytes. */
export const readRssBytes = (pid: number): number => sumStatus(pid, 'VmRSS');

/**
 * Reads the resident memory of the tree without mapped files, in bytes. The system can reclaim mapped pages of LMDB at
 * any time.
 */
export const readAnonBytes = (pid: number): number => sumStatus(pid, 'RssAnon');

/** Sums the highest resident memory of each process since its start or the last resetPeak, in bytes. */
export const readPeakBytes = (pid: number): number => sumStatus(pid, 'VmHWM');

/** Resets the peak (proc(5), clear_refs 5). Without the permission, the peak is the one since the start. */
export function resetPeak(pid: number): void {
  for (const each of listTree(pid)) {
    try {
      writeFileSync(`/proc/${each}/clear_refs`, '5');
    } catch {
      // The process has ended, or we may not reset it. The peak is still an upper bound.
    }
  }
}

/** Bytes that the files under `dir` occupy on the disk (blocks, not lengths: LMDB files have holes). */
export function readDiskBytes(dir: string): number {
  let sum = 0;
  for (const name of readdirSync(dir, { recursive: true }) as string[]) {
    const stat = statSync(join(dir, name), { throwIfNoEntry: false });
    if (stat?.isFile()) sum += stat.blocks * 512;
  }
  return sum;
}

/** Cores that a process may use, by its affinity and by its control groups' limits. */

import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { countUsableCores } from '../../src/std/usable-cores.ts';

function count(parallelism: number, files: Record<string, string>): number {
  return countUsableCores({ parallelism, read: (path) => files[path] ?? null });
}

const V2 = { '/proc/self/cgroup': '0::/a/b\n' };
const V1 = { '/proc/self/cgroup': '4:memory:/x\n3:cpu,cpuacct:/docker/abc\n' };

it.each([
  ['without groups', 8, {}, 8],
  ['a group without a limit', 8, { ...V2, '/sys/fs/cgroup/a/b/cpu.max': 'max 100000\n' }, 8],
  ['a limit', 8, { ...V2, '/sys/fs/cgroup/a/b/cpu.max': '300000 100000\n' }, 3],
  ['a part of a core', 8, { ...V2, '/sys/fs/cgroup/a/b/cpu.max': '20000 100000\n' }, 1],
  ['two and a half', 8, { ...V2, '/sys/fs/cgroup/a/b/cpu.max': '250000 100000\n' }, 2],
  [
    'a limit above',
    8,
    { ...V2, '/sys/fs/cgroup/a/cpu.max': '200000 100000\n', '/sys/fs/cgroup/a/b/cpu.max': '700000 100000\n' },
    2,
  ],
  [
    'a separate container',
    8,
    { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '400000 100000\n' },
    4,
  ],
  ['a limit beyond the affinity', 2, { ...V2, '/sys/fs/cgroup/a/b/cpu.max': '900000 100000\n' }, 2],
  [
    'version 1',
    8,
    {
      ...V1,
      '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us': '150000\n',
      '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us': '50000\n',
    },
    3,
  ],
  [
    'version 1 in a container',
    8,
    {
      ...V1,
      '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '500000\n',
      '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
    },
    5,
  ],
  [
    'version 1 without a limit',
    8,
    {
      ...V1,
      '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1\n',
      '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000\n',
    },
    8,
  ],
  ['unintelligible files', 8, { '/proc/self/cgroup': 'nonsense', '/sys/fs/cgroup/cpu.max': 'x y' }, 8],
])('the usable cores are counted: %s', (_name, parallelism, files, cores) => {
  expect(count(parallelism, files)).toBe(cores);
});

it.skipIf(process.platform !== 'linux')('the cores to which a process is bound are counted', () => {
  const url = new URL('../../src/std/usable-cores.ts', import.meta.url).href;
  const script = `console.log((await import(${JSON.stringify(url)})).countUsableCores())`;
  const args = ['-c', '0', process.execPath, '--input-type=module', '-e', script];
  expect(execFileSync('taskset', args, { encoding: 'utf8' }).trim()).toBe('1');
});

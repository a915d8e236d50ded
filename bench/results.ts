/** Where a bench's figures come from, and where they are kept: bench/results. Used in the bench's own process. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import { join, relative } from 'node:path';

/** What somebody needs to know before comparing two results. */
export interface Provenance {
  date: string;
  commit: string;
  /** Files under version control differed from the commit. */
  dirty: boolean;
  machine: {
    cpu: string;
    cores: number;
    memory_bytes: number;
    kernel: string;
    node: string;
    load_average: number[];
  };
}

function askGit(...args: string[]): string {
  try {
    return execFileSync('git', args, {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return '';
  }
}

/** Machine, date and commit, as they are now. `commit` is "none" outside a checkout. */
export function takeProvenance(): Provenance {
  return {
    date: new Date().toISOString(),
    commit: askGit('rev-parse', '--short', 'HEAD') || 'none',
    dirty: askGit('status', '--porcelain', '--untracked-files=no') !== '',
    machine: {
      cpu: cpus()[0]?.model.trim() ?? 'unknown',
      cores: cpus().length,
      memory_bytes: totalmem(),
      kernel: `${platform()} ${release()}`,
      node: process.version,
      load_average: loadavg(),
    },
  };
}

/** Writes `result` to bench/results/<suite>-<date>-<commit>.json; gives the path from the working directory. */
export function saveResult(result: Provenance & { suite: string }): string {
  const dir = join(import.meta.dirname, 'results');
  mkdirSync(dir, { recursive: true });
  const file = join(dir, `${result.suite}-${result.date.slice(0, 10)}-${result.commit}.json`);
  // JSON has no NaN: what could not be measured is null.
  const round = (_key: string, value: unknown): unknown =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
  writeFileSync(file, `${JSON.stringify(result, round, 1)}\n`);
  return relative(process.cwd(), file);
}

/** The newest kept result of the suite from the same kind of machine, to compare with; null where there is none. */
export function readLastResult<Result extends Provenance>(
  suite: string,
  { cpu, cores }: Provenance['machine'],
): Result | null {
  const dir = join(import.meta.dirname, 'results');
  const results = readdirSync(dir)
    .filter((name) => name.startsWith(`${suite}-2`) && name.endsWith('.json'))
    .map((name) => JSON.parse(readFileSync(join(dir, name), 'utf8')) as Result)
    .filter(({ machine }) => machine.cpu === cpu && machine.cores === cores)
    .sort((a, b) => (a.date < b.date ? 1 : -1));
  return results[0] ?? null;
}

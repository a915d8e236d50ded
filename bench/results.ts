/** Records where a bench's figures come from, and stores them in bench/results. Bench process. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import { join, relative } from 'node:path';

/** Date, commit and machine of a result. They show whether two results are comparable. */
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

/** Reads the present machine, date and commit. `commit` is "none" outside a checkout. */
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

const RESULTS = join(import.meta.dirname, 'results');
const LINE_WIDTH = 120;

/**
 * Formats a result as JSON. Short values are on one line, so that the file is short and its diff readable. Numbers that
 * are not integers keep six digits. NaN, which means that a figure was not measured, becomes null.
 */
export function formatResult(result: object): string {
  const rounded = JSON.stringify(result, (_key, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value,
  );
  return `${layOut(JSON.parse(rounded), '')}\n`;
}

function layOut(value: unknown, indent: string): string {
  const line = JSON.stringify(value);
  if (typeof value !== 'object' || value === null || indent.length + line.length <= LINE_WIDTH) return line;
  const inner = `${indent} `;
  if (Array.isArray(value))
    return `[\n${value.map((item) => inner + layOut(item, inner)).join(',\n')}\n${indent}]`;
  const fields = Object.entries(value).map(
    ([name, field]) => `${inner}${JSON.stringify(name)}: ${layOut(field, inner)}`,
  );
  return `{\n${fields.join(',\n')}\n${indent}}`;
}

/** Names the processor and the number of cores, which must be equal for figures to be comparable. */
export function nameMachine({ machine }: Provenance): string {
  return `${machine.cpu}, ${machine.cores} cores`;
}

/** Paths and contents of the stored results of `suite`, newest first. */
function readResults<Result extends Provenance>(suite: string): { path: string; result: Result }[] {
  return readdirSync(RESULTS)
    .filter((name) => name.startsWith(`${suite}-2`) && name.endsWith('.json'))
    .map((name) => join(RESULTS, name))
    .map((path) => ({ path, result: JSON.parse(readFileSync(path, 'utf8')) as Result }))
    .sort((a, b) => (a.result.date < b.result.date ? 1 : -1));
}

/**
 * Stores `result` as bench/results/<suite>-<date>-<commit>.json. Removes the suite's earlier result from the same kind
 * of machine; git keeps the removed file. Returns the new path relative to the working directory.
 */
export function saveResult(result: Provenance & { suite: string }): string {
  mkdirSync(RESULTS, { recursive: true });
  for (const former of readResults(result.suite))
    if (nameMachine(former.result) === nameMachine(result))
      for (const ending of ['.json', '.svg']) rmSync(former.path.replace(/\.json$/, ending), { force: true });
  const file = join(RESULTS, `${result.suite}-${result.date.slice(0, 10)}-${result.commit}.json`);
  writeFileSync(file, formatResult(result));
  return relative(process.cwd(), file);
}

/** Reads the suite's stored result from the same kind of machine as `now`; null if it does not exist. */
export function readLastResult<Result extends Provenance>(suite: string, now: Provenance): Result | null {
  return (
    readResults<Result>(suite).find(({ result }) => nameMachine(result) === nameMachine(now))?.result ?? null
  );
}

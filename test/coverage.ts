/**
 * `npm run test:coverage`: runs the tests and reports how many lines of each folder they cover, in the test processes
 * and in the processes and threads that these start. It exits with 1 if a folder of `src` is below the minimum.
 * Arguments go to vitest. Without arguments it runs all of `npm test` and the long tests of `FURTHER`. Own process.
 *
 * Every process writes its counts when it ends (NODE_V8_COVERAGE). Types are stripped in place (strip-types.ts), so
 * V8's positions are those of the sources. A killed process writes nothing or half a file, and neither is counted.
 */
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const COUNTS = join(ROOT, 'node_modules/.coverage');
const STRIPPED = join(ROOT, 'node_modules/.stripped');
const MINIMUM = 0.8;
/** For each folder below the minimum, how many files with the most missing lines are named. */
const WORST = 5;

/** Folders that are not counted: programs for developers, and the dashboard, which runs in a browser, not in Node. */
const UNCOUNTED = ['src/demo/', 'src/search/model-maker/', 'src/dashboard/'];
/** The projects to run. The tests tagged `long` are left out because they take longer than all others together. */
const PROJECTS = ['unit', 'shared', 'process'];
/** Folders of the project `long` whose subject no other project tests. */
const FURTHER = ['test/integrations'];

interface Range {
  startOffset: number;
  endOffset: number;
  count: number;
}

/** The output of one process: for each script and function, its ranges with their counts. */
interface ProcessCounts {
  result: { url: string; functions: { ranges: Range[] }[] }[];
}

interface Share {
  covered: number;
  total: number;
}

function runTests(args: readonly string[]): number {
  rmSync(COUNTS, { recursive: true, force: true });
  mkdirSync(COUNTS, { recursive: true });
  const runs =
    args.length > 0
      ? [args]
      : [PROJECTS.flatMap((name) => ['--project', name]), ['--project', 'long', ...FURTHER]];
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const env = { ...process.env, NODE_V8_COVERAGE: COUNTS };
  const codes = runs.map(
    (words) =>
      spawnSync(process.execPath, [vitest, 'run', ...words], { cwd: ROOT, env, stdio: 'inherit' }).status,
  );
  return codes.every((code) => code === 0) ? 0 : 1;
}

/** One byte for each character of a source: whether any process ran it. */
class SourceCoverage {
  readonly text: string;
  readonly #isRun: Uint8Array;

  constructor(path: string) {
    this.text = readFileSync(join(STRIPPED, path), 'utf8');
    this.#isRun = new Uint8Array(this.text.length);
  }

  /** Adds what one process counted. The innermost range around a character decides whether it ran. */
  add(functions: ProcessCounts['result'][number]['functions']): void {
    const ranges = functions.flatMap((counted) => counted.ranges);
    ranges.sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
    const isRun = new Uint8Array(this.text.length);
    for (const { startOffset, endOffset, count } of ranges)
      isRun.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    for (let at = 0; at < isRun.length; at++) if (isRun[at] === 1) this.#isRun[at] = 1;
  }

  /** A line counts if it has code other than brackets. It is covered if the first character of its code ran. */
  countLines(): Share {
    const share = { covered: 0, total: 0 };
    const code = blankComments(this.text);
    let start = 0;
    for (const line of code.split('\n')) {
      const first = /[^\s{}()[\];,]/.exec(line);
      if (first !== null) {
        share.total += 1;
        share.covered += this.#isRun[start + first.index]!;
      }
      start += line.length + 1;
    }
    return share;
  }
}

/** Replaces comments at the beginning of lines by blanks; comments after code change nothing. */
function blankComments(text: string): string {
  const blank = (comment: string) => comment.replace(/[^\n]/g, ' ');
  return text.replace(/^[ \t]*\/\*[\s\S]*?\*\//gm, blank).replace(/^[ \t]*\/\/.*$/gm, blank);
}

function readProcess(name: string): ProcessCounts['result'] {
  try {
    return (JSON.parse(readFileSync(join(COUNTS, name), 'utf8')) as ProcessCounts).result;
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

function readCounts(): Map<string, SourceCoverage> {
  const paths = globSync('{actors,native,src}/**/*.ts', { cwd: ROOT, exclude: ['**/*.d.ts', '**/dist/**'] });
  const counted = paths.filter((path) => !UNCOUNTED.some((folder) => path.startsWith(folder)));
  const sources = new Map(counted.map((path) => [path, new SourceCoverage(path)]));
  const byUrl = new Map([...sources].map(([path, source]) => [pathToFileURL(join(ROOT, path)).href, source]));
  for (const name of readdirSync(COUNTS)) {
    for (const { url, functions } of readProcess(name)) byUrl.get(url.split('?')[0]!)?.add(functions);
  }
  return sources;
}

/** @returns the folder whose share includes this source: `src/NAME` within `src`, the top folder elsewhere */
function folderOf(path: string): string {
  const [root, room] = dirname(path).split('/');
  return root === 'src' && room !== undefined ? `${root}/${room}` : root!;
}

/** @returns the folders below the minimum, each with the files that have the most uncovered lines */
function report(sources: ReadonlyMap<string, SourceCoverage>): string[] {
  const files = [...sources].map(([path, source]) => ({ path, lines: source.countLines() }));
  const folders = new Map<string, Share>();
  const all = { covered: 0, total: 0 };
  for (const { path, lines } of files) {
    const folder = folders.get(folderOf(path)) ?? { covered: 0, total: 0 };
    folders.set(folderOf(path), folder);
    for (const sum of [folder, all]) {
      sum.covered += lines.covered;
      sum.total += lines.total;
    }
  }
  const rows = [...folders].sort(([a], [b]) => (a < b ? -1 : 1));
  const table = [...rows, ['all', all] as const].map(([name, share]) => `| ${name} | ${percent(share)} |`);
  process.stdout.write(`\n| Folder | Lines |\n|---|---|\n${table.join('\n')}\n`);
  const low = rows.filter(([, { covered, total }]) => covered < MINIMUM * total);
  const notRun = ({ covered, total }: Share) => total - covered;
  files.sort((a, b) => notRun(b.lines) - notRun(a.lines));
  return low.map(([name]) => {
    const worst = files.filter(({ path }) => folderOf(path) === name).slice(0, WORST);
    return `${name} (${worst.map(({ path, lines }) => `${path} ${percent(lines)}`).join(', ')})`;
  });
}

const percent = ({ covered, total }: Share): string =>
  `${total === 0 ? 100 : Math.floor((100 * covered) / total)} %`;

const failed = runTests(process.argv.slice(2));
const low = report(readCounts());
if (low.length > 0) process.stdout.write(`below ${100 * MINIMUM} %:\n${low.join('\n')}\n`);
process.exitCode = failed !== 0 || low.length > 0 ? 1 : 0;

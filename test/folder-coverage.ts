/**
 * A vitest reporter for `--coverage`: lines and branches of each folder, as CONTRIBUTING shows them. Counted is what runs in
 * the tests' own processes and not what runs in the threads and processes that they start.
 */
import { dirname, relative } from 'node:path';
import type { Reporter } from 'vitest/node';

interface Share {
  covered: number;
  total: number;
}

/** What is used here of the map that vitest hands out. */
interface CoverageMap {
  files(): string[];
  fileCoverageFor(file: string): { toSummary(): { data: { lines: Share; branches: Share } } };
}

interface Folder {
  lines: Share;
  branches: Share;
}

export class FolderCoverage implements Reporter {
  onCoverage(coverage: unknown): void {
    const map = coverage as CoverageMap;
    const folders = new Map<string, Folder>();
    const all = emptyFolder();
    for (const file of map.files()) {
      const [root, room] = dirname(relative(process.cwd(), file)).split('/');
      const name = root === 'src' && room !== undefined ? `${root}/${room}` : root!;
      const folder = folders.get(name) ?? emptyFolder();
      folders.set(name, folder);
      const { lines, branches } = map.fileCoverageFor(file).toSummary().data;
      for (const one of [folder, all]) {
        addShare(one.lines, lines);
        addShare(one.branches, branches);
      }
    }
    const rows = [...folders].sort(([a], [b]) => (a < b ? -1 : 1));
    const lines = [...rows, ['all', all] as const].map(
      ([name, folder]) => `| ${name} | ${percent(folder.lines)} | ${percent(folder.branches)} |`,
    );
    process.stdout.write(`\n| Folder | Lines | Branches |\n|---|---|---|\n${lines.join('\n')}\n`);
  }
}

const emptyFolder = (): Folder => ({ lines: { covered: 0, total: 0 }, branches: { covered: 0, total: 0 } });

function addShare(sum: Share, { covered, total }: Share): void {
  sum.covered += covered;
  sum.total += total;
}

/** Of nothing all is covered. */
function percent({ covered, total }: Share): string {
  return `${total === 0 ? 100 : Math.floor((100 * covered) / total)} %`;
}

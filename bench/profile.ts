/**
 * Reads the CPU profiles that `npm run bench -- gateway --cpu-prof DIR` writes, and prints the most expensive functions
 * of each thread: `node bench/profile.ts DIR [rows]`. Own process.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** V8's format: a tree of frames, and the frame that was on top at each sample. Times are microseconds. */
interface CpuProfile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: number[];
  }[];
  samples: number[];
  timeDeltas: number[];
}

const ROOT = resolve(import.meta.dirname, '..');

function nameFrame(frame: CpuProfile['nodes'][number]['callFrame']): string {
  const file = frame.url.startsWith('file:') ? relative(ROOT, fileURLToPath(frame.url)) : frame.url;
  return `${frame.functionName || '(anonymous)'}${file ? ` ${file}:${frame.lineNumber + 1}` : ''}`;
}

interface Cost {
  self: number;
  total: number;
}

/** Sums self and total time by function, microseconds; a function that calls itself is counted once in its total. */
function sumProfile(profile: CpuProfile): Map<string, Cost> {
  const self = new Map<number, number>();
  profile.samples.forEach((id, i) => {
    self.set(id, (self.get(id) ?? 0) + (profile.timeDeltas[i] ?? 0));
  });
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const costs = new Map<string, Cost>();
  const visit = (id: number, above: Set<string>): number => {
    const node = nodes.get(id);
    if (!node) return 0;
    const name = nameFrame(node.callFrame);
    const isOutermost = !above.has(name);
    if (isOutermost) above.add(name);
    let total = self.get(id) ?? 0;
    const cost = costs.get(name) ?? { self: 0, total: 0 };
    costs.set(name, cost);
    cost.self += total;
    for (const child of node.children ?? []) total += visit(child, above);
    if (isOutermost) {
      cost.total += total;
      above.delete(name);
    }
    return total;
  };
  const root = profile.nodes[0];
  if (root) visit(root.id, new Set());
  return costs;
}

const [dir, rows = '30'] = process.argv.slice(2);
if (!dir) {
  console.error('node bench/profile.ts DIR [rows]');
  process.exit(2);
}
for (const file of readdirSync(dir).filter((name) => name.endsWith('.cpuprofile'))) {
  const costs = sumProfile(JSON.parse(readFileSync(join(dir, file), 'utf8')) as CpuProfile);
  const idle = (costs.get('(idle)')?.self ?? 0) + (costs.get('(root)')?.self ?? 0);
  const busy = [...costs.values()].reduce((sum, cost) => sum + cost.self, 0) - idle;
  console.log(`\n${file}: busy ${(busy / 1000).toFixed(0)} ms\n self    total`);
  const sorted = [...costs].filter(([name]) => name !== '(idle)' && name !== '(root)');
  for (const [name, cost] of sorted.sort((a, b) => b[1].self - a[1].self).slice(0, Number(rows))) {
    const share = (us: number): string => `${((us / busy) * 100).toFixed(1).padStart(5)}%`;
    console.log(`${share(cost.self)}  ${share(cost.total)}  ${name}`);
  }
}

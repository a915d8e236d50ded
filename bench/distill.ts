/**
 * Measures what a round of teaching over a large capture database costs: `node bench/distill.ts [--runs N] [--dir D]
 * [--save]`. The bench runs `loop --once` twice, as a user would; the second round uses the cache of the first. If D
 * contains no database, the bench makes one there (capture-database.ts). If D was not given, the bench uses a temporary
 * folder, which it removes at the end. Own process.
 *
 * The bench reads the memory of the command's processes every 50 ms: the sum of their private memory, and the sum of
 * their resident memory. Resident memory includes mapped pages of the database, which the system reclaims when other
 * processes need memory. The bench also measures `inspect`.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { RoundJson } from '../src/teaching/round-json.ts';
import { type MadeDatabase, makeCaptureDatabase } from './capture-database.ts';
import { listTree, readCpuUs } from './process-meter.ts';
import { saveResult, takeProvenance } from './results.ts';

const ENTRY = fileURLToPath(new URL('../src/cli/understudy.mjs', import.meta.url));
const MEGABYTE = 1_000_000;
const KIBIBYTE = 1_024;
const SAMPLE_MS = 50;
/** Each run is about 100 KB on the wire. */
const RUN_BYTES = 106_000;
/** Goal for the resident memory of a round, whatever the size of the database. */
const RESIDENT_MB_MAX = 500;

interface Cost {
  seconds: number;
  cpu_seconds: number;
  status: number | null;
  /** Largest sums over all processes at one time, of the resident and of the private memory. */
  resident_mb: number;
  own_mb: number;
}

/** Runs a command to its end, and measures its memory meanwhile. */
async function measure(argv: string[], env: Record<string, string>): Promise<Cost & { out: string }> {
  const started = performance.now();
  const child = spawn(process.execPath, [ENTRY, ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  let resident = 0;
  let own = 0;
  let cpuUs = 0;
  const sample = setInterval(() => {
    const sums = { VmRSS: 0, RssAnon: 0 };
    for (const pid of listTree(child.pid!))
      for (const name of ['VmRSS', 'RssAnon'] as const) sums[name] += readStatus(pid, name);
    resident = Math.max(resident, sums.VmRSS);
    own = Math.max(own, sums.RssAnon);
    cpuUs = Math.max(cpuUs, readCpuUs(child.pid!));
  }, SAMPLE_MS);
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  clearInterval(sample);
  return {
    seconds: (performance.now() - started) / 1_000,
    cpu_seconds: cpuUs / 1e6,
    status,
    resident_mb: resident / MEGABYTE,
    own_mb: own / MEGABYTE,
    out,
  };
}

/** Reads a size from the status of a process, in bytes; 0 for a process that has ended. */
function readStatus(pid: number, name: string): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0) * KIBIBYTE;
  } catch {
    return 0;
  }
}

function sizeOf(dir: string): number {
  const names = readdirSync(dir).filter((name) => name.endsWith('.mdb'));
  return names.reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
}

const describe = ({ seconds, cpu_seconds, status, resident_mb, own_mb }: Cost): string =>
  `exit ${status}, ${seconds.toFixed(1)} s (${cpu_seconds.toFixed(1)} s of processor time); ` +
  `at most ${Math.round(resident_mb)} MB resident and ${Math.round(own_mb)} MB private`;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '10000' },
    dir: { type: 'string' },
    save: { type: 'boolean', default: false },
  },
});
const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'bench-distill-'));
const db = join(dir, 'capture.mdb');
const work = mkdtempSync(join(tmpdir(), 'bench-distill-out-'));
const student = join(work, 'student');
try {
  let made: MadeDatabase | null = null;
  if (!existsSync(db)) {
    made = await makeCaptureDatabase({ dir, runs: Number(values.runs), run_bytes: RUN_BYTES });
    console.log(
      `made ${made.runs} runs, ${made.exchanges} exchanges, ${Math.round(made.raw_bytes / MEGABYTE)} MB on the wire`,
    );
  }
  console.log(`database ${Math.round(sizeOf(dir) / MEGABYTE)} MB`);
  const env = { DATA_DIR: work, EMBED_MODEL: 'off' };
  const rounds: (Cost & { report: Partial<RoundJson> })[] = [];
  for (const what of ['first', 'again']) {
    const { out, ...cost } = await measure(['loop', '--once', '--json', '--db', db, '--out', student], env);
    console.log(`${what}: ${describe(cost)}`);
    const report = (cost.status === 0 ? JSON.parse(out) : {}) as Partial<RoundJson>;
    if (what === 'first') console.log(JSON.stringify(report, null, 1).slice(0, 4_000));
    // The student's manifest does not contain the round's cost.
    delete report.student;
    rounds.push({ ...cost, report });
  }
  const { out: _, ...inspect } = await measure(['inspect', '--db', db], env);
  console.log(`inspect: ${describe(inspect)}`);
  const goals = {
    rounds_end: rounds.every(({ status }) => status === 0),
    resident: rounds.every(({ resident_mb }) => resident_mb < RESIDENT_MB_MAX),
  };
  for (const [goal, isMet] of Object.entries(goals)) console.log(`${goal}: ${isMet ? 'met' : 'MISSED'}`);
  if (values.save)
    console.log(
      saveResult({
        ...takeProvenance(),
        suite: 'distill',
        ...{ made, database_bytes: sizeOf(dir), rounds, inspect, goals },
      } as never),
    );
} finally {
  rmSync(work, { recursive: true, force: true });
  if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}

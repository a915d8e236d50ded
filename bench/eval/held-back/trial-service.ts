/**
 * The product as operators run it, for the held-back trial: the whole service as a process, whose gateway forwards to a
 * provider on loopback, and rounds of the command `loop`. Bench process.
 */

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The command of a checkout. */
const COMMAND = 'src/cli/understudy.mjs';
const KEY = 'held-back-static-key';
const START_LIMIT_MS = 90_000;
const STUDENT_LIMIT_MS = 60_000;
const LOOK_MS = 100;
/** Clock ticks per second in /proc, on every Linux that Node runs on. */
const TICKS_A_SECOND = 100;

/** The gateway's report on its student: the fields that the trial reads. */
interface RelegationStats {
  student: string | null;
  version: number | null;
  served: number;
  fallbacks: Record<string, number>;
  audit: { asked: number; compared: number; agreed: number };
  agents?: { agent: string; state: string; kinds: { kind: string; state: string }[] }[];
}

/** Why the student did not serve a step, and what it would have answered. */
export interface Explanation {
  relegation: { decision: string; kind: string | null } | null;
  opinion: { decision: string; rule: string; kind: string | null } | null;
  comparison: { agree: boolean; values: { place: string; student: string | null }[] } | null;
}

export interface TrialService {
  /** The gateway's address. */
  url: string;
  db: string;
  stats(): Promise<RelegationStats>;
  /** Waits until the gateway uses a student above `version`. @returns that student's version */
  awaitStudent(version: number): Promise<number>;
  flush(): Promise<void>;
  /** Returns the gateway's explanation of an exchange; null: the step was not captured. */
  explain(exchange: number): Promise<Explanation | null>;
  stop(): Promise<void>;
}

/**
 * Starts a service for a trial.
 * @param folder of the captured data; the log is beside it
 * @param student directory; null: relegation is off
 * @param checkout whose service is started
 */
export async function startTrialService(
  folder: string,
  upstream: string,
  student: string | null,
  checkout: string,
): Promise<TrialService> {
  mkdirSync(folder, { recursive: true });
  if (student !== null) mkdirSync(student, { recursive: true });
  const log = `${folder}.log`;
  const child = spawn(process.execPath, [join(checkout, COMMAND), 'up', '--port', '0'], {
    stdio: ['ignore', 'pipe', openSync(log, 'a')],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATA_DIR: folder,
      PORT: '0',
      SVC_KEYS: KEY,
      SERVER_THREADS: '1',
      ACTOR_THREADS: '1',
      RATE_LIMIT_PER_SEC: '1000000',
      RATE_LIMIT_BURST: '1000000',
      GW_UPSTREAM_BASE: upstream,
      GW_RELEGATION_WIRES: 'messages,chat_completions,responses',
      // The deadline is high, so that a busy machine does not change the result.
      GW_STUDENT_TIMEOUT_MS: '20000',
      ...(student === null ? {} : { SVC_DISTILL_DIR: student }),
    },
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await ended;
  };
  const said = await readStart(child.stdout!, ended);
  if (said === null) {
    child.kill('SIGKILL');
    throw new Error(`the service did not start:\n${readFileSync(log, 'utf8').slice(-2_000)}`);
  }
  const ask = <T>(base: string, path: string, init: RequestInit = {}): Promise<T | null> =>
    askJson<T>(`${base}${path}`, { ...init, headers: { 'x-api-key': KEY, authorization: `Bearer ${KEY}` } });
  const stats = async (): Promise<RelegationStats> =>
    (await ask<{ relegation: RelegationStats }>(said.gateway, '/__gw/stats'))!.relegation;
  return {
    url: said.gateway,
    db: join(folder, 'capture.mdb'),
    stats,
    awaitStudent: (version) => awaitVersion(stats, version),
    flush: async () => void (await ask(said.gateway, '/__gw/flush', { method: 'POST' })),
    explain: (exchange) => ask<Explanation>(said.api, `/capture/exchanges/${exchange}/explanation`),
    stop,
  };
}

async function awaitVersion(stats: () => Promise<RelegationStats>, above: number): Promise<number> {
  const until = performance.now() + STUDENT_LIMIT_MS;
  while (performance.now() < until) {
    const { student, version } = await stats();
    if (student !== null && version !== null && version > above) return version;
    await delay(LOOK_MS);
  }
  throw new Error('the gateway does not load the new student');
}

async function askJson<T>(url: string, init: RequestInit): Promise<T | null> {
  const reply = await fetch(url, init);
  if (reply.status === 404) return null;
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${(await reply.text()).slice(0, 300)}`);
  return (await reply.json()) as T;
}

/** Reads the addresses that a starting service prints; null if the service ends or prints none in `START_LIMIT_MS`. */
async function readStart(
  stdout: NodeJS.ReadableStream,
  ended: Promise<void>,
): Promise<{ api: string; gateway: string } | null> {
  let said = '';
  const listening = new Promise<{ api: string; gateway: string }>((resolve) => {
    stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const [, api] = /^ {2}API +(http:\S+)/m.exec(said) ?? [];
      const [, gateway] = /^ {2}Gateway +(http:\S+) +->/m.exec(said) ?? [];
      if (api !== undefined && gateway !== undefined) resolve({ api, gateway });
    });
  });
  const failed = Promise.race([ended, delay(START_LIMIT_MS, undefined, { ref: false })]).then(() => null);
  return Promise.race([listening, failed]);
}

interface Round {
  is_published: boolean;
  said: string;
  /** Processor time of all its processes; NaN without /proc. */
  cpu_s: number;
}

/** Runs one round of `understudy loop` of a checkout. It publishes a student that passes its gate into `student`. */
export async function runRound(db: string, student: string, checkout: string): Promise<Round> {
  const manifest = join(student, 'manifest.json');
  const before = existsSync(manifest) ? readFileSync(manifest, 'utf8') : '';
  const from = readChildrenCpu();
  const child = spawn(
    process.execPath,
    [join(checkout, COMMAND), 'loop', '--once', '--db', db, '--out', student],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        GW_RELEGATION_WIRES: 'messages,chat_completions,responses',
      },
    },
  );
  let said = '';
  for (const output of [child.stdout, child.stderr])
    output.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`understudy loop exited with ${code}:\n${said.slice(-3_000)}`);
  const after = existsSync(manifest) ? readFileSync(manifest, 'utf8') : '';
  return { is_published: after !== before, said, cpu_s: readChildrenCpu() - from };
}

/** Reads the processor time of the ended children and their children, in seconds; NaN without /proc. */
function readChildrenCpu(): number {
  return (
    readOwnStat()
      .slice(13, 15)
      .reduce((sum, ticks) => sum + ticks, 0) / TICKS_A_SECOND
  );
}

/** Reads the processor time of this process and of all children that have ended, in seconds; NaN without /proc. */
export function readAllCpu(): number {
  return (
    readOwnStat()
      .slice(11, 15)
      .reduce((sum, ticks) => sum + ticks, 0) / TICKS_A_SECOND
  );
}

/** Reads the fields of /proc/self/stat after the command's name; the first one is the state. */
function readOwnStat(): number[] {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    return stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
  } catch {
    return Array<number>(15).fill(Number.NaN);
  }
}

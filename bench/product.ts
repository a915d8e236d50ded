/**
 * Starts the product as a separate process (by default `understudy serve`), for suites that measure it. Own process.
 */
import { spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** A long deadline, because sixteen threads may load their modules on few cores. */
const START_LIMIT_MS = 90_000;
const STOP_LIMIT_MS = 10_000;

export const PRODUCT_KEY = 'bench-static-key';

export interface Product {
  port: number;
  pid: number;
  dir: string;
  stop(): Promise<void>;
}

/**
 * Starts the product with one server thread, one actor thread and no rate limit, unless `env` changes them.
 * @param env added to the necessary variables
 * @param cores number of cores to which the process is bound, starting with the first; not bound if absent
 * @param checkout the checkout whose product is started; null: this checkout
 * @param command the command that starts the product; by default the API alone
 * @throws Error with the product's log if the product does not start
 */
export async function startProduct(
  dataDir: string,
  env: Record<string, string>,
  cores?: number,
  checkout: string | null = null,
  command: readonly string[] = ['serve', '--port', '0'],
): Promise<Product> {
  const logFile = `${dataDir}.log`;
  const entry = join(checkout ?? join(import.meta.dirname, '..'), 'src/cli/understudy.mjs');
  const [program, ...args] = bindToCores([process.execPath, entry, ...command], cores);
  const child = spawn(program!, args, {
    stdio: ['ignore', 'pipe', openSync(logFile, 'w')],
    env: {
      PATH: process.env.PATH,
      DATA_DIR: dataDir,
      SVC_KEYS: PRODUCT_KEY,
      RATE_LIMIT_PER_SEC: '100000000',
      RATE_LIMIT_BURST: '100000000',
      SERVER_THREADS: '1',
      ACTOR_THREADS: '1',
      ...env,
    },
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let said = '';
  const listening = new Promise<number>((resolve) => {
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const match = /http:\/\/[\d.]+:(\d+)/.exec(said);
      if (match !== null) resolve(Number(match[1]));
    });
  });
  const failed = Promise.race([ended, delay(START_LIMIT_MS, undefined, { ref: false })]).then(() => null);
  const port = await Promise.race([listening, failed]);
  if (port === null) {
    child.kill('SIGKILL');
    throw new Error(`the product did not start:\n${said}\n${readFileSync(logFile, 'utf8').slice(-2_000)}`);
  }
  return {
    port,
    pid: child.pid!,
    dir: dataDir,
    stop: async () => {
      child.kill('SIGTERM');
      await Promise.race([ended, delay(STOP_LIMIT_MS, undefined, { ref: false })]);
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Returns the command line that binds a process to the first cores; unchanged without a number. */
export function bindToCores(command: readonly string[], cores: number | undefined): readonly string[] {
  return cores === undefined ? command : ['taskset', '-c', `0-${cores - 1}`, ...command];
}

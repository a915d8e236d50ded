/**
 * Installs agents' clients as their makers publish them, for tests that run them. npm installs each client by the
 * lock file in the folder of its name, into `node_modules/.clients`, once for each version. They have hundreds of
 * megabytes, so they are not development dependencies. If a client cannot be installed, `entry` is null, and the
 * tests of the client are skipped.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { npmBeside } from '../fixtures/npm.ts';

const LOCKS = fileURLToPath(new URL('.', import.meta.url));
const INSTALLED = fileURLToPath(new URL('../../node_modules/.clients/', import.meta.url));
const LOCK_FILES = ['package.json', 'package-lock.json'];

/** Options for npm. If the registry does not answer soon, the install fails, and the client's tests are skipped. */
const IMPATIENCE = ['--fetch-timeout=60000', '--fetch-retries=1'];

/**
 * Timeout for installing about 380 MB. If an install takes longer, its tests are skipped. A longer timeout would delay
 * `.ci/run`, which waits for two installs.
 */
const INSTALL_MS = 120_000;

/** Timeout of the first start. A program may have 380 MB, and the machine may be busy. */
const FIRST_START_MS = 120_000;

/** The file that starts each client: for the SDK the imported module, for opencode a program that needs no Node. */
const ENTRIES = {
  'claude-code': 'cli-wrapper.cjs',
  codex: 'bin/codex.js',
  'claude-agent-sdk': 'sdk.mjs',
  'claude-agent-sdk-oldest': 'sdk.mjs',
  'gemini-cli': 'bundle/gemini.js',
  opencode: 'bin/opencode',
} as const;

type ClientFolder = keyof typeof ENTRIES;

export interface InstalledClient {
  /** The name of the package on npm. */
  package_name: string;
  version: string;
  /** Absolute path; null if it is unavailable or does not run. */
  entry: string | null;
  /** Whether the client is a program by itself, not started by Node. */
  is_program: boolean;
  /** A text for the names of tests, and for the line about skipped tests. */
  needed: string;
}

/** @returns the client, after it has printed its version; `entry` is null if it cannot be installed or started */
export async function installClient(folder: ClientFolder): Promise<InstalledClient> {
  const { dependencies } = JSON.parse(readFileSync(join(LOCKS, folder, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const [package_name = '', version = ''] = Object.entries(dependencies)[0]!;
  const client = {
    package_name,
    version,
    needed: `(${package_name} ${version} from npm)`,
    is_program: folder === 'opencode',
  };
  try {
    const place = await install(folder, `${folder}-${version}`);
    const entry = join(place, 'node_modules', package_name, ENTRIES[folder]);
    await expectStart(folder, entry, version);
    return { ...client, entry };
  } catch (thrown) {
    process.stderr.write(
      `${package_name} ${version} cannot be had: ${(thrown as Error).message.split('\n', 2).join(' ')}\n`,
    );
    return { ...client, entry: null };
  }
}

async function install(folder: ClientFolder, name: string): Promise<string> {
  const place = join(INSTALLED, name);
  if (existsSync(place)) return place;
  const partial = `${place}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  try {
    for (const file of LOCK_FILES) copyFileSync(join(LOCKS, folder, file), join(partial, file));
    // The SDK's other peer packages contain only types.
    const flags = ['--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund', '--prefer-offline'];
    await npmBeside(['ci', ...flags, ...IMPATIENCE, '--prefix', partial], partial, {}, INSTALL_MS);
    renameSync(partial, place);
  } catch (thrown) {
    rmSync(partial, { recursive: true, force: true });
    // Another test has installed it in the meantime.
    if (!existsSync(place)) throw thrown;
  }
  return place;
}

/** Starts the client, so that a missing binary, or a binary for another machine, is detected before the tests run. */
async function expectStart(folder: ClientFolder, entry: string, version: string): Promise<void> {
  // The Agent SDK is no program: it starts the client in its package. In the oldest version, that client is a file
  // for Node.
  if (folder === 'claude-agent-sdk-oldest') entry = join(dirname(entry), 'cli.js');
  const words = folder === 'claude-agent-sdk' || folder === 'opencode' ? [] : [entry];
  const program =
    folder === 'claude-agent-sdk' ? findBinaryOf(entry) : folder === 'opencode' ? entry : process.execPath;
  const env = { PATH: process.env.PATH, HOME: '/nonexistent' };
  const options = { timeout: FIRST_START_MS, env };
  const { stdout } = await promisify(execFile)(program, [...words, '--version'], options);
  if (!folder.startsWith('claude-agent-sdk') && !stdout.includes(version))
    throw new Error(`it says that it is ${stdout.trim()}`);
}

function findBinaryOf(entry: string): string {
  const packages = dirname(dirname(entry));
  const [name] = readdirSync(packages).filter((name) => name.startsWith('claude-agent-sdk-'));
  if (name === undefined) throw new Error('there is no client for this machine');
  return join(packages, name, 'claude');
}

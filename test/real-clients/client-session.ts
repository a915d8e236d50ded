/**
 * One session of a client without a terminal: the real program in a separate home and folder, against a fake provider
 * on loopback, without access to any other host.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import type { InstalledClient } from './installed-client.ts';

/** Folders of a client: its home and its working directory. */
export interface ClientPlace {
  home: string;
  work: string;
}

/** The folder of the client, removed at the end. */
export class ClientHome implements ClientPlace {
  readonly #folder = mkdtempSync(join(tmpdir(), 'understudy-client-'));
  readonly home = join(this.#folder, 'home');
  readonly work = join(this.#folder, 'work');

  constructor() {
    mkdirSync(this.home);
    mkdirSync(this.work);
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The environment of every client: no settings of the developer, and no access to other hosts. */
export function clientEnvironment({ home }: ClientPlace): Record<string, string> {
  return {
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    HOME: home,
    // Requests to other hosts than loopback end at a closed port.
    HTTPS_PROXY: 'http://127.0.0.1:9',
    HTTP_PROXY: 'http://127.0.0.1:9',
    NO_PROXY: '127.0.0.1,localhost',
  };
}

/**
 * Makes Claude Code, including that of its SDK, contact only its model, and wait for slow responses of a busy machine.
 */
export const CLAUDE_SETTINGS = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  // Without this variable, the client ends the hook at the end of a session early, whatever its settings say.
  CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS: String(PATIENCE_MS),
  // With another value, the client continues without a tool server that is slow to start.
  MCP_CONNECTION_NONBLOCKING: '0',
  CLAUDE_CODE_MCP_STARTUP_WAIT_MS: String(PATIENCE_MS),
  MCP_TIMEOUT: String(PATIENCE_MS),
};

export interface SessionEnd {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the client to its end. @param env added to the environment of every client */
export async function runClient(
  client: InstalledClient,
  home: ClientPlace,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<SessionEnd> {
  const [program, ...first] = client.is_program ? [client.entry!] : [process.execPath, client.entry!];
  const child = spawn(program, [...first, ...words], {
    cwd: home.work,
    env: { ...clientEnvironment(home), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [[code], stdout, stderr] = await Promise.all([
    once(child, 'close') as Promise<[number | null]>,
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, stdout, stderr };
}

/** Parses the lines of the output that are JSON. */
// biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
export function readJsonLines(output: string): any[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

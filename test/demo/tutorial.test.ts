/**
 * Follows docs/tutorial.md as a newcomer does: types each block into its terminal, with real processes, and compares
 * the outputs with those on the page. Only ports and folders differ.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const page = readFileSync(join(root, 'docs/tutorial.md'), 'utf8');

interface Block {
  /** What the reader types. */
  commands: string;
  /** The output that the page shows after the command, line by line; empty if it shows none. */
  shown: string[];
}

const blocks = [...page.matchAll(/```sh\n([\s\S]*?)```(?:\n\n```\n([\s\S]*?)```)?/g)].map(
  ([, commands = '', shown = '']): Block => ({
    commands,
    shown: shown.split('\n').filter((line) => line !== '' && line !== '…'),
  }),
);
const [provider, service, ...typed] = blocks;

let folder: string;
const addresses = new Map<string, string>();
const children: ChildProcess[] = [];
// Each attempt of the test has a new folder, because a process of the last attempt may still use the old one.
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-tutorial-'));
});
afterEach(async () => {
  // Each command gets its own process group, so that processes started by a shell or npm end with it.
  addresses.clear();
  for (const child of children.splice(0).reverse()) {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit');
      process.kill(-child.pid!, 'SIGKILL');
      await ended;
    }
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
});

function adapt(commands: string): string {
  let adapted = commands
    .replace('provider.ts', 'provider.ts 0')
    .replaceAll('data/student', join(folder, 'student'));
  for (const [written, real] of addresses) adapted = adapted.replaceAll(written, real);
  return adapted;
}

function open(commands: string): {
  child: ChildProcess;
  output: () => string;
  ended: Promise<number | null>;
} {
  const child = spawn('bash', ['-euo', 'pipefail', '-c', adapt(commands)], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATA_DIR: join(folder, 'data'),
      PORT: '0',
      GW_PORT: '0',
      // A busy machine must not change which step is served where.
      GW_STUDENT_TIMEOUT_MS: '60000',
      npm_config_loglevel: 'error',
    },
  });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return { child, output: () => output, ended };
}

/** Starts a long-running command, and waits for a line of its output. */
async function start(commands: string, line: RegExp): Promise<string> {
  const { output, child } = open(commands);
  await expect
    .poll(
      () => {
        if (child.exitCode !== null) throw new Error(output());
        return line.test(output());
      },
      { timeout: PATIENCE_MS },
    )
    .toBe(true);
  return line.exec(output())![1]!;
}

/**
 * Normalizes a line for comparison: counts, times and column widths may differ, and so may the content of the shop; `…`
 * matches anything.
 */
function patternOf(line: string): RegExp {
  const parts = line
    .replaceAll(join('data', 'student'), join(folder, 'student'))
    .trim()
    .split('…')
    .map((part) =>
      part
        .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
        .replace(/(?<![A-Z]-?\d*)\d+(?:\\?[.,]\d+)*/g, '[\\d.,]+')
        .replace(/\s+/g, '\\s+'),
    );
  return new RegExp(`^\\s*${parts.join('.*')}.*$`, 'm');
}

it('the tutorial has a block for each of two services, and blocks to type', () => {
  expect(provider!.commands).toContain('# first terminal');
  expect(service!.commands).toContain('# second terminal');
  expect(typed.length).toBeGreaterThan(4);
  expect(typed.filter(({ shown }) => shown.length > 0).length).toBeGreaterThan(4);
});

it('every command of the tutorial leads to the described result', {
  tags: 'long',
  timeout: 4 * PATIENCE_MS,
}, async () => {
  addresses.set('http://127.0.0.1:9000', await start(provider!.commands, /(http:\/\/127\.0\.0\.1:\d+)\n/));
  const gateway = await start(service!.commands, /Gateway +(http:\/\/127\.0\.0\.1:\d+)[\s\S]*See what/);
  addresses.set('http://127.0.0.1:8787', gateway);
  const seen: string[] = [];
  let exported = '';
  for (const { commands, shown } of typed) {
    if (commands.includes('student show')) await takenStudent(gateway);
    const { output, ended } = open(exported + commands);
    expect(await ended, `${commands}\n${output()}`).toBe(0);
    const expected = shown.map(patternOf);
    let printed = output();
    // The ledger is written every two seconds, so a reader may have to ask again.
    if (commands.includes('student ledger'))
      await expect
        .poll(
          async () => {
            const again = open(`${exported}${commands.trim().split('\n').at(-1)}`);
            expect(await again.ended, again.output()).toBe(0);
            printed += again.output();
            return expected.every((line) => line.test(printed));
          },
          { timeout: PATIENCE_MS },
        )
        .toBe(true);
    for (const line of expected) expect(printed, commands).toMatch(line);
    exported += commands
      .split('\n')
      .filter((line) => line.startsWith('export '))
      .map((line) => `${line}\n`)
      .join('');
    seen.push(printed);
  }
  // The result to which the page leads.
  const stats = (await (await fetch(`${gateway}/__gw/stats`)).json()) as {
    relegation: { served: number; money_saved_usd: number; tokens_saved: { input: number } };
  };
  expect(stats.relegation.served).toBeGreaterThan(20);
  expect(stats.relegation.money_saved_usd).toBeGreaterThan(0);
  expect(seen.join('')).toMatch(/ticket-\d+: 3 calls, 3 by the student/);
});

/** Waits until the gateway uses the new version, which takes it seconds. */
async function takenStudent(gateway: string): Promise<void> {
  const ask = async () =>
    ((await (await fetch(`${gateway}/__gw/stats`)).json()) as { relegation: { version: number | null } })
      .relegation.version;
  await expect.poll(ask, { timeout: PATIENCE_MS }).toBe(1);
}

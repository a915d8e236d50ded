/**
 * docs/troubleshooting.md: each of its commands runs against a service with traffic, and each reason that it names
 * exists.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliChild } from './child.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const page = read('docs/troubleshooting.md');
const blocks = [...page.matchAll(/^## (.+)\n[\s\S]*?(?=^## |$(?![\s\S]))/gm)].flatMap(
  ([section, title = '']) =>
    [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, commands = '']) => [title, commands] as const),
);

const hasTools = spawnSync('jq', ['--version']).status === 0 && spawnSync('curl', ['--version']).status === 0;
describe.skipIf(!hasTools)('each command runs, where jq and curl are installed', { tags: 'long' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'troubleshooting-'));
  let service: CliChild;
  let provider: ChildProcess;
  let api = '';
  let gateway = '';

  beforeAll(async () => {
    provider = spawn(process.execPath, ['examples/tutorial/provider.ts', '0'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [said] = await once(provider.stdout!, 'data');
    const [upstream = ''] = /http:\S+/.exec(String(said))!;
    service = new CliChild(['up', '--port', '0'], {
      env: {
        PORT: '0',
        DATA_DIR: join(folder, 'data'),
        GW_UPSTREAM_BASE: upstream,
        AUTH_DB_URL: 'embedded:',
        AUTH_DB_CONN_URL: 'embedded:',
      },
      cwd: folder,
    });
    [, api = ''] = await service.waitForOutput(/^ {2}API +(http:\/\/\S+)$/m);
    [, gateway = ''] = await service.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) [\s\S]*See what/m);
    const agent = spawn(process.execPath, ['examples/tutorial/agent.ts', '1', '3'], {
      cwd: root,
      stdio: 'ignore',
      env: { PATH: process.env.PATH, ANTHROPIC_BASE_URL: gateway },
    });
    expect(await once(agent, 'exit')).toEqual([0, null]);
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    if (provider.exitCode === null) provider.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  });

  it.each(blocks)('under the heading: %s', async (_title, commands) => {
    const adapted = commands
      .replaceAll('http://127.0.0.1:8787', gateway)
      .replaceAll('http://127.0.0.1:8000', api)
      .replaceAll('data/student', join(folder, 'student'))
      .replaceAll('du -sh data', `du -sh ${join(folder, 'data')}`);
    const shell = spawn('bash', ['-euo', 'pipefail', '-c', adapted], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        DATA_DIR: join(folder, 'data'),
        npm_config_loglevel: 'error',
      },
    });
    let output = '';
    for (const stream of [shell.stdout, shell.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    const [code] = await once(shell, 'close');
    expect(code, `${commands}\n${output}`).toBe(0);
    if (!commands.includes('compile.mjs')) expect(output.trim(), commands).not.toBe('');
    // A null would mean that the command reads a field that does not exist. A student's version may be null.
    if (!commands.includes('relegation')) expect(output, commands).not.toMatch(/: null\b/);
  });
});

describe('docs/troubleshooting.md', () => {
  it('has a command in most sections', () => {
    expect(blocks.length).toBeGreaterThan(8);
  });

  it('names reasons that exist in the code', () => {
    const golden = read('src/domain/golden.ts');
    const relegation = read('docs/relegation.md');
    const part = (title: string) => page.slice(page.indexOf(`## ${title}\n`)).split(/\n## /)[0]!;
    const rows = (title: string) =>
      [...part(title).matchAll(/^\| (`.+?`) \|/gm)].flatMap(([, names = '']) =>
        [...names.matchAll(/`([\w.]+)`/g)].map(([, name = '']) => name.replace('fallbacks.', '')),
      );
    const reasons = rows('Runs are not golden');
    expect(reasons.length).toBeGreaterThan(8);
    for (const reason of reasons) expect(golden).toContain(`'${reason}'`);
    const fallbacks = rows('The student serves nothing').filter(
      (name) => name.includes('_') || name === 'audit',
    );
    expect(fallbacks.length).toBeGreaterThan(5);
    for (const reason of fallbacks) expect(relegation).toContain(`\`${reason}\``);
  });
});

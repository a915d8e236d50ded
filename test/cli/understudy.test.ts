/** The command line from outside: help, versions, wrong use, bad values. */

import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DEFAULTS } from '../../src/limits.ts';
import { STUDENT_TIMEOUT_MS } from '../../src/student/serving/limits.ts';
import { runCli } from './child.ts';
import { runHere } from './here.ts';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

describe('understudy', () => {
  it('prints only its version with --version', async () => {
    expect(await runCli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('prints its help', async () => {
    const { code, stdout, stderr } = await runCli(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const command of ['up', 'serve', 'gateway', 'inspect'])
      expect(stdout).toMatch(new RegExp(`^  ${command} `, 'm'));
  });

  it('prints its usage without arguments', async () => {
    const { code, stdout, stderr } = await runCli([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('Usage: understudy COMMAND');
  });

  it.each([
    ['inpsect', 'there is no command "inpsect"; did you mean inspect?'],
    ['serv', 'did you mean serve?'],
    ['toString', 'there is no command "toString"\n'],
    ['--bogus', 'there is no command "--bogus"\n'],
  ])('refuses %s', async (typed, words) => {
    const run = typed === 'inpsect' ? runCli : runHere;
    const { code, stdout, stderr } = await run([typed]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(words);
    expect(stderr).toContain('See: understudy --help');
  });
});

describe('help of up', () => {
  it('names every variable that the configuration reads', async () => {
    const folder = new URL('../../src/config/', import.meta.url);
    const sources = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'));
    const names = [...sources.join('\n').matchAll(/^ {2}([A-Z_]+): \[/gm)].map(([, name]) => name!);
    expect(names).toContain('GW_UPSTREAM_BASE');
    const { stdout } = await runHere(['up', '--help']);
    // FRONT_THREADS is left out: it is the older name of SERVER_THREADS, which new users should not use.
    for (const name of names.filter((candidate) => candidate !== 'FRONT_THREADS'))
      expect(stdout.includes(name), name).toBe(true);
    const { exemplar, http } = STUDENT_TIMEOUT_MS;
    expect(stdout).toMatch(new RegExp(`GW_STUDENT_TIMEOUT_MS .* ${exemplar}, with a service ${http}\\n`));
    for (const [name, value] of Object.entries(DEFAULTS))
      expect(stdout, name).toMatch(new RegExp(`\\b${name}\\b.*\\b${value}\\b`));
  });
});

describe.each(['up', 'serve', 'gateway'])('understudy %s', (command) => {
  it('prints its help, in lines of at most 120 characters', async () => {
    const { code, stdout } = await runHere([command, '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain(`Usage: understudy ${command}`);
    expect(stdout).toContain('--port N');
    expect(stdout).toContain('DATA_DIR');
    expect(stdout.includes('--note')).toBe(command !== 'serve');
    for (const line of stdout.split('\n')) expect(line.length, line).toBeLessThanOrEqual(120);
  });

  it.each([['--bogus'], ['--port'], ['extra']])('refuses %s', async (...argv) => {
    const { code, stdout, stderr } = await runHere([command, ...argv]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`See: understudy ${command} --help`);
  });

  it('ends at a bad variable or flag with one line and status 78', async () => {
    const byVariable = await (command === 'up' ? runCli : runHere)([command], { GW_MAX_QUEUE: 'many' });
    expect(byVariable).toMatchObject({ code: 78, stdout: '' });
    expect(byVariable.stderr).toBe(
      'understudy: GW_MAX_QUEUE="many": must be a whole number of exchanges from 1 to 9007199254740991, in digits\n',
    );
    const byFlag = await runHere([command, '--port', 'http']);
    expect(byFlag).toMatchObject({ code: 78, stdout: '' });
    expect(byFlag.stderr).toMatch(/^understudy: --port="http": must be a port from 0 .*\n$/);
  });
});

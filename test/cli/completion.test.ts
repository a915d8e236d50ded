/**
 * `understudy completion`: with the script, each shell completes the commands and flags of the help. A shell that is
 * not installed is skipped by name.
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runHere } from './here.ts';

const isInstalled = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0;

/**
 * How each shell prints the completions of the words, one per line. The widgets of zsh work only in a terminal, so they
 * are replaced by functions that print.
 */
const TRIALS: Record<string, { flags: string[]; ask: (words: string[]) => string }> = {
  bash: {
    flags: ['--norc'],
    ask: (words) =>
      `source ./script; COMP_WORDS=(${words.map(quote).join(' ')}); COMP_CWORD=${words.length - 1}; _understudy; printf '%s\\n' "\${COMPREPLY[@]}"`,
  },
  zsh: {
    flags: ['-f'],
    ask: (words) =>
      `compdef() {}; _files() { print FILES }; _describe() { print -rl -- \${\${(P)2}%%:*} }; compadd() { shift; print -rl -- $@ }
source ./script; words=(${words.map(quote).join(' ')}); CURRENT=${words.length}; _understudy`,
  },
  fish: {
    flags: ['--no-config'],
    ask: (words) => `source ./script; complete -C ${quote(words.join(' '))} | string split -f 1 \\t; true`,
  },
};

const quote = (word: string) => `'${word}'`;

describe.each(Object.keys(TRIALS))('completion of %s', (shell) => {
  let dir: string;
  let helps: string;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'understudy-completion-'));
    const { code, stdout, stderr } = await runHere(['completion', shell]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    writeFileSync(join(dir, 'script'), stdout);
    helps = (await runHere(['--help'])).stdout;
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  function offer(...words: string[]): string[] {
    const { flags, ask } = TRIALS[shell]!;
    const { status, stdout, stderr } = spawnSync(shell, [...flags, '-c', ask(['understudy', ...words])], {
      cwd: dir,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: dir },
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return stdout.trim().split('\n');
  }

  it.skipIf(!isInstalled(shell))(
    `offers commands, their words and their options (needs ${shell})`,
    async () => {
      const commands = [...helps.matchAll(/^ {2}(?!understudy)([a-z]+) +/gm)].map(([, name]) => name!);
      expect(commands).toContain('completion');
      expect(offer('')).toEqual(expect.arrayContaining(commands));
      expect(offer('keys', '')).toEqual(expect.arrayContaining(['list', 'create', 'revoke']));
      expect(offer('hooks', '')).toEqual(expect.arrayContaining(['claude-code', 'codex']));
      for (const command of ['up', 'inspect', 'distill', 'student', 'erase']) {
        const { stdout } = await runHere([command, '--help']);
        const options = [...stdout.matchAll(/^ {2}(--[\w-]+)/gm)].map(([, name]) => name!);
        expect(options.length).toBeGreaterThan(3);
        expect(offer(command, '--'), command).toEqual(expect.arrayContaining([...options, '--help']));
      }
      expect(offer('serve', '--')).not.toContain('--db');
      expect(offer('token', '--ow')).toContain('--owner');
    },
  );

  it.skipIf(!isInstalled(shell))(`completes file names for an option's value (needs ${shell})`, () => {
    expect(offer('backup', '--out', 'scr').filter((word) => word.startsWith('--'))).toEqual([]);
  });
});

it('the command lists the shells that it knows', async () => {
  const { code, stderr } = await runHere(['completion', 'tcsh']);
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: 'understudy: name the shell: bash, zsh, fish\nSee: understudy completion --help\n',
  });
});

/** Paths and DATA_DIRs that cannot be read or written: one line says what is wrong and what to do. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli } from './child.ts';
import { runHere } from './here.ts';

const ELSEWHERE = /: correct the path, or set another DATA_DIR \(.*\)$/;
const ANOTHER = /: name another path$/;

let root: string;
let file: string;
/** A DATA_DIR with a database. */
let data: string;
let backup: string;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'understudy-places-'));
  file = join(root, 'file');
  writeFileSync(file, 'no database');
  data = join(root, 'data');
  backup = join(root, 'backup');
  await runCli(['keys', 'create', '--org', 'acme', '--name', 'ci'], { DATA_DIR: data });
  const made = await runCli(['backup', '--out', backup], { DATA_DIR: data });
  expect(made.stdout).toMatch(/^Copied 1 file, \d+ rows, /);
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

async function refuse(
  argv: string[],
  DATA_DIR: string,
  run: typeof runCli | typeof runHere = runHere,
): Promise<string> {
  const { code, stdout, stderr } = await run(argv, { DATA_DIR });
  expect({ code, stdout }, stderr).toEqual({ code: 1, stdout: '' });
  expect(stderr.trimEnd().split('\n'), argv.join(' ')).toHaveLength(1);
  expect(stderr, argv.join(' ')).not.toMatch(/ENOTDIR|ENOENT|EISDIR|EACCES|EPERM/);
  return stderr.trimEnd();
}

describe('one line says what is wrong with a DATA_DIR:', () => {
  const commands = [
    ['token', '--email', 'ann@example.com'],
    ['keys', 'list', '--org', 'acme'],
    ['feedback'],
    ['patterns', 'export', '--tier', 'e2', '-'],
  ];

  it('a path below a file', async () => {
    const all = [...commands, ['backup', '--out', join(root, 'other')], ['restore', '--from', backup]];
    for (const DATA_DIR of [file, join(file, 'below')]) {
      for (const argv of all) {
        // Two of the commands, a guarded one and another, run as processes.
        const isProcess = DATA_DIR === file && (argv[0] === 'token' || argv[0] === 'restore');
        const line = await refuse(argv, DATA_DIR, isProcess ? runCli : runHere);
        expect(line).toMatch(ELSEWHERE);
        expect(line).toContain(`understudy: ${file} is not a folder`);
        expect(line).toContain(`(now ${DATA_DIR})`);
      }
    }
  });

  it('a path where no user can create folders', { tags: 'long' }, async () => {
    for (const DATA_DIR of ['/proc/understudy', '/proc/understudy/data']) {
      for (const argv of [commands[0]!, ['restore', '--from', backup]]) {
        const line = await refuse(argv, DATA_DIR);
        expect(line).toMatch(ELSEWHERE);
        expect(line).toContain('understudy: nothing can be made in /proc:');
      }
    }
  });

  it('a folder whose secret is not a file or is too short', async () => {
    const secret = join(root, 'strange', 'secrets', 'jwt-secret');
    mkdirSync(secret, { recursive: true });
    const line = await refuse(commands[0]!, join(root, 'strange'));
    expect(line).toContain(`${secret} is a folder, not a file`);
    mkdirSync(join(root, 'short', 'secrets'), { recursive: true });
    writeFileSync(join(root, 'short', 'secrets', 'jwt-secret'), 'short');
    expect(await refuse(commands[0]!, join(root, 'short'))).toMatch(
      /jwt-secret does not hold 256 bits: .*backup/,
    );
  });
});

describe('one line says what is wrong with a path:', () => {
  it('below a file', async () => {
    const below = join(file, 'below');
    for (const argv of [
      ['backup', '--out', below],
      ['backup', `--out=${below}`],
      ['restore', '--from', below],
      ['patterns', 'export', '--tier', 'e2', below],
      ['patterns', 'import', '--tier', 'e2', below],
    ]) {
      const line = await refuse(argv, data);
      expect(line).toMatch(ANOTHER);
      expect(line).toContain(`understudy: ${file} is not a folder`);
    }
    expect(await refuse(['trace', '--db', below], data)).toContain(`cannot be read: ${file} is not a folder`);
  });

  it('where nothing can be created', async () => {
    for (const out of ['/proc/understudy', '/proc/understudy/below'])
      expect(await refuse(['backup', '--out', out], data)).toBe(
        'understudy: nothing can be made in /proc: name another path',
      );
    const line = await refuse(['patterns', 'export', '--tier', 'e2', '/proc/understudy/x'], data);
    expect(line).toBe('understudy: there is no /proc/understudy: name another path');
  });

  it('of a capture database for a backup, which is not left out silently', async () => {
    const out = join(root, 'partial');
    expect(await refuse(['backup', '--out', out, '--db', file], data)).toContain(`${file} is not a database`);
    const missing = join(root, 'missing.mdb');
    expect(await refuse(['backup', '--out', out, '--db', missing], data)).toBe(
      `understudy: there is no capture database ${missing}; name another with --db`,
    );
    expect(readdirSync(root).filter((name) => name.startsWith('partial'))).toEqual([]);
  });

  it('of an import: a device whose line has no end', async () => {
    expect(await refuse(['patterns', 'import', '--tier', 'e2', '/dev/zero'], data)).toBe(
      'understudy: line 1: the line is longer than 1000000 characters; nothing was imported',
    );
  });

  it('an empty path, which is wrong use', async () => {
    for (const argv of [
      ['inspect', '--db', ''],
      ['trace', '--db='],
      ['trace', '--out', ''],
      ['patterns', 'import', '--tier', 'e2', ''],
    ])
      expect(await runHere(argv, { DATA_DIR: data }), argv.join(' ')).toMatchObject({ code: 2, stdout: '' });
  });
});

/**
 * Restores of backups that an attacker made or that are damaged, restores that are killed, and plans that an attacker
 * wrote.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { writeBackup } from '../../src/storage/backup.ts';
import { ensureCaptureFile } from '../../src/storage/capture/layout.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { settlePlan } from '../../src/storage/rekey-plan.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { runCli } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { longFrom } from '../long-parts.ts';
import { makeFolder } from './folder.ts';

const NOW = Date.parse('2026-03-01T10:00:00.000Z');
const quiet = () => {};
let folder: string;
let copy: string;
let target: { data_dir: string; capture_db: string };

beforeEach(async () => {
  folder = makeFolder();
  copy = join(folder, 'copy');
  target = { data_dir: join(folder, 'again'), capture_db: join(folder, 'again', 'capture.mdb') };
  const data_dir = join(folder, 'data');
  const main = new LmdbTables(join(data_dir, 'main.mdb'), 'disk');
  await main.transact((tx) => {
    for (let n = 0; n < 500; n++) tx.write({ op: 'put', table: 't', row: [n], value: `value ${n}` });
  });
  await main.close();
  const runs = new LmdbTables(join(data_dir, 'runs.mdb'), 'disk');
  await runs.transact((tx) => tx.write({ op: 'put', table: 't', row: [1], value: 1 }));
  await runs.close();
  mkdirSync(join(data_dir, 'secrets'));
  writeFileSync(join(data_dir, 'secrets', 'jwt-secret'), 'secret', { mode: 0o600 });
  for (const name of ['capture.mdb', 'capture.1-40.mdb']) await ensureCaptureFile(join(data_dir, name), 1);
  await writeBackup({ data_dir, capture_db: join(data_dir, 'capture.mdb') }, copy, quiet, NOW);
});

interface Entry {
  name: string;
  kind: string;
  bytes: number;
  sha256: string;
}

/** Changes the file list of the backup. */
function editManifest(edit: (files: Entry[]) => void): void {
  const path = join(copy, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8'));
  edit(manifest.files);
  writeFileSync(path, JSON.stringify(manifest));
}

/** Adds a file with its correct digest to the backup, as an attacker could. */
function plant(kind: string, name: string, content = 'planted'): void {
  if (!/\0/.test(name)) {
    mkdirSync(join(copy, name, '..'), { recursive: true });
    writeFileSync(join(copy, name), content);
  }
  const sha256 = createHash('sha256').update(content).digest('hex');
  editManifest((files) => files.push({ name, kind, bytes: Buffer.byteLength(content), sha256 }));
}

describe('a manipulated backup', () => {
  const names = [
    ['secret', 'rekey.json'],
    ['redo', 'rekey.json'],
    ['database', 'rekey.json'],
    ['secret', 'main.mdb'],
    ['secret', 'bin/x'],
    ['database', 'bin/x'],
    ['sealed', 'secrets/jwt-secret2'],
    ['secret', 'secrets/../rekey.json'],
    ['secret', '../outside'],
    ['secret', '/tmp/outside'],
    ['secret', 'secrets/.hidden'],
    ['secret', 'Secrets/x'],
    ['secret', 'secrets\\x'],
    ['secret', 'secrets/x\0y'],
    ['database', 'MAIN.MDB'],
    ['database', 'main.mdb\0'],
    ['database', 'main.mdb\n'],
    ['redo', 'runs.1.redo.x'],
    ['redo', 'rekey.1.redo'],
    ['sealed', 'capture.2-40.mdb/x'],
    ['sealed', 'main.1-40.mdb'],
    ['attachment', 'attachments/x'],
    ['attachment', `files/${'a'.repeat(64)}`],
    ['other', 'secrets/x'],
  ] as const;
  for (const [at, [kind, name]] of names.entries())
    it(`may not bring a ${kind} named ${JSON.stringify(name)}`, longFrom(at % 4, 1), async () => {
      plant(kind, name);
      await expect(restoreBackup(copy, target, quiet)).rejects.toThrow('is not a backup that this version');
      expect(existsSync(target.data_dir)).toBe(false);
    });

  it('may not list a file twice', async () => {
    editManifest((files) => files.push(files[0]!));
    await expect(restoreBackup(copy, target, quiet)).rejects.toThrow('is not a backup that this version');
  });

  it.each<[string, (path: string) => void]>([
    ['a link', (path) => symlinkSync('/etc/hostname', path)],
    ['a dangling link', (path) => symlinkSync('/nowhere/at/all', path)],
    ['a named pipe', (path) => execFileSync('mkfifo', [path])],
    ['a folder', (path) => mkdirSync(path)],
  ])('may not bring %s', async (_what, make) => {
    const path = join(copy, 'secrets', 'jwt-secret');
    rmSync(path);
    make(path);
    await expect(restoreBackup(copy, target, quiet)).rejects.toThrow(
      'jwt-secret in the backup is not a file',
    );
    expect(existsSync(target.data_dir)).toBe(false);
  });

  it('may not contain a folder that is a link', async () => {
    mkdirSync(join(folder, 'elsewhere'));
    cpSync(join(copy, 'secrets'), join(folder, 'elsewhere'), { recursive: true });
    rmSync(join(copy, 'secrets'), { recursive: true });
    symlinkSync(join(folder, 'elsewhere'), join(copy, 'secrets'));
    await expect(restoreBackup(copy, target, quiet)).rejects.toThrow('secrets in the backup is a link');
  });

  it('with hard links is restored as copies', async () => {
    linkSync(join(copy, 'secrets', 'jwt-secret'), join(folder, 'same'));
    await restoreBackup(copy, target, quiet);
    expect(statSync(join(target.data_dir, 'secrets', 'jwt-secret')).nlink).toBe(1);
  });

  it('is not restored where a change of the data key is unfinished', async () => {
    mkdirSync(target.data_dir);
    writeFileSync(join(target.data_dir, 'rekey.json'), '{}');
    await expect(restoreBackup(copy, target, quiet)).rejects.toThrow('rekey.json exists already');
  });
});

describe('a damaged backup', () => {
  /** Replaces a file and its digest. */
  function replace(name: string, content: Buffer): void {
    writeFileSync(join(copy, name), content);
    const sha256 = createHash('sha256').update(content).digest('hex');
    editManifest((files) =>
      Object.assign(files.find((file) => file.name === name)!, { bytes: content.length, sha256 }),
    );
  }

  it.each(['main.mdb', 'runs.mdb', 'capture.mdb', 'capture.1-40.mdb'])(
    'with garbage for %s is refused, and no file is left',
    async (name) => {
      replace(name, Buffer.from('garbage '.repeat(5_000)));
      await expect(restoreBackup(copy, target, quiet)).rejects.toThrow(
        `${name} in the backup is not a database`,
      );
      expect(existsSync(target.data_dir)).toBe(false);
    },
  );

  it('is named if LMDB ends the process on it, and no file is left', { tags: 'long' }, async () => {
    const bytes = readFileSync(join(copy, 'main.mdb'));
    // The heads stay valid, but all page numbers are invalid.
    replace('main.mdb', Buffer.concat([bytes.subarray(0, 8_192), Buffer.alloc(bytes.length - 8_192, 0x5a)]));
    const { code, stderr } = await runCli(['restore', '--from', copy], { DATA_DIR: target.data_dir });
    expect(code).toBe(1);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(stderr).toContain('copy');
    expect(stderr).not.toContain('the capture database');
    expect(existsSync(target.data_dir) ? readdirSync(target.data_dir) : []).toEqual([]);
  });
});

describe('a killed restore', () => {
  function restoreKilled(at: number): void {
    const script = join(import.meta.dirname, 'killed-restore.ts');
    const argv = [...STRIPPED_FLAGS, script, copy, target.data_dir, String(at)];
    expect(spawnSync(process.execPath, argv).signal).toBe('SIGKILL');
  }

  it('is never mistaken for a complete one: all refuse it, and the next restore starts over', {
    tags: 'long',
  }, async () => {
    const env = { DATA_DIR: target.data_dir, PORT: '0', AUTH_DB_URL: 'embedded:' };
    const { length } = readManifestFiles();
    for (let at = 0; at < length; at++) {
      restoreKilled(at);
      const commands = [
        ['serve'],
        ['gateway', '--port', '0'],
        ['inspect'],
        ['keys', 'list', '--org', 'acme'],
        ['token', '--owner'],
        ['rekey', '--to', join(folder, 'key')],
        ['erase', '--run', 'x'],
        ['backup', '--out', join(folder, 'second')],
        ['retention', '--confirm'],
      ];
      writeFileSync(join(folder, 'key'), randomBytes(32), { mode: 0o600 });
      // Each command is tried at one of the moments, and all of them at the first.
      for (const argv of at === 0 ? commands : [commands[at % commands.length]!]) {
        const { code, stderr } = await runHere(argv, env);
        expect(stderr, argv[0]).toContain('is not complete');
        expect(code, argv[0]).toBe(1);
      }
    }
    await restoreBackup(copy, target, quiet);
    const listFiles = (path: string) =>
      readdirSync(path)
        .filter((name) => !name.endsWith('-lock'))
        .sort();
    expect(listFiles(target.data_dir)).toEqual(listFiles(join(folder, 'data')));
    const main = new LmdbTables(join(target.data_dir, 'main.mdb'), 'disk');
    expect([...main.range('t', { prefix: [] })]).toHaveLength(500);
    await main.close();
  });

  it('removes nothing else: a marker that names other files is refused', async () => {
    restoreKilled(2);
    const kept = join(target.data_dir, 'rekey.json');
    writeFileSync(kept, 'mine');
    const marker = join(target.data_dir, 'main.restoring');
    const held = JSON.parse(readFileSync(marker, 'utf8'));
    held.files.push({ name: 'rekey.json', kind: 'secret' });
    writeFileSync(marker, JSON.stringify(held));
    await expect(restoreBackup(copy, target, quiet)).rejects.toThrow('marker of an earlier restore into');
    expect(readFileSync(kept, 'utf8')).toBe('mine');
  });

  function readManifestFiles(): Entry[] {
    return JSON.parse(readFileSync(join(copy, 'manifest.json'), 'utf8')).files;
  }
});

describe('a manipulated plan', () => {
  const PLAN = {
    format: 'understudy_rekey_v1',
    state: 'written',
    key_id: null,
    claims: [],
    moves: [],
    removals: [],
  };

  function place(plan: object): { data_dir: string; capture_db: string; victim: string } {
    const data_dir = join(folder, 'data');
    writeFileSync(join(data_dir, 'rekey.json'), JSON.stringify({ ...PLAN, ...plan }));
    return { data_dir, capture_db: join(data_dir, 'capture.mdb'), victim: join(folder, 'victim') };
  }

  it.each<[string, (data: string, victim: string) => object]>([
    ['removes a file elsewhere', (_data, victim) => ({ removals: [victim] })],
    ['leaves DATA_DIR by `..`', (data) => ({ removals: [`${data}/../victim`] })],
    [
      'removes what no change of the key removes',
      (data) => ({ removals: [join(data, 'secrets', 'jwt-secret')] }),
    ],
    ['removes a database', (data) => ({ removals: [join(data, 'main.mdb')] })],
    ['moves from elsewhere', (data, victim) => ({ moves: [{ from: victim, to: join(data, 'main.mdb') }] })],
    [
      'moves to elsewhere',
      (data, victim) => ({ moves: [{ from: join(data, 'main.mdb.rekey'), to: victim }] }),
    ],
    [
      'undoes a move elsewhere',
      (_data, victim) => ({ state: 'writing', moves: [{ from: `${victim}`, to: `${victim}.x` }] }),
    ],
    ['claims a file elsewhere', (_data, victim) => ({ claims: [victim] })],
    ['has a relative path', () => ({ removals: ['victim'] })],
    ['has a NUL in a path', (data) => ({ removals: [`${data}/runs.1.redo\0`] })],
  ])('that %s is refused', { tags: 'long' }, async (_what, make) => {
    const { victim, data_dir } = place({});
    writeFileSync(victim, 'mine');
    const spot = place(make(data_dir, victim));
    const { code, stderr } = await runHere(['serve'], { DATA_DIR: data_dir, PORT: '0' });
    expect(stderr).toMatch(/rekey\.json names .* which is neither of DATA_DIR/);
    expect(code).toBe(1);
    await expect(settlePlan(spot)).rejects.toMatchObject({ code: 'EREKEY' });
    expect(readFileSync(victim, 'utf8')).toBe('mine');
    expect(existsSync(join(data_dir, 'main.mdb'))).toBe(true);
  });

  it('that leads through links is refused', async () => {
    const data_dir = join(folder, 'data');
    mkdirSync(join(folder, 'elsewhere'));
    const victim = join(folder, 'elsewhere', 'a'.repeat(64));
    writeFileSync(victim, 'mine');
    symlinkSync(join(folder, 'elsewhere'), join(data_dir, 'capture.mdb.files'));
    const removals = [join(data_dir, 'capture.mdb.files', 'a'.repeat(64))];
    await expect(settlePlan(place({ removals }))).rejects.toMatchObject({ code: 'EREKEY' });
    symlinkSync(victim, join(data_dir, 'main.mdb.rekey'));
    const moves = [{ from: join(data_dir, 'main.mdb.rekey'), to: join(data_dir, 'main.mdb') }];
    await expect(settlePlan(place({ moves }))).rejects.toMatchObject({ code: 'EREKEY' });
    expect(readFileSync(victim, 'utf8')).toBe('mine');
  });
});

/** Backups taken while the service writes, and what is restored from them. */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeBackup } from '../../src/storage/backup.ts';
import { ensureCaptureFile, openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';

const NOW = Date.parse('2026-03-01T10:00:00.000Z');
let folder: string;
let source: { data_dir: string; capture_db: string };
let target: { data_dir: string; capture_db: string };
const quiet = () => {};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backup-'));
  source = { data_dir: join(folder, 'data'), capture_db: join(folder, 'elsewhere', 'run.mdb') };
  target = { data_dir: join(folder, 'again'), capture_db: join(folder, 'again', 'capture.mdb') };
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function fill() {
  const main = new LmdbTables(join(source.data_dir, 'main.mdb'), 'disk');
  await main.transact((tx) => {
    for (let n = 0; n < 500; n++) tx.write({ op: 'put', table: 't', row: [n], value: `value ${n}` });
  });
  mkdirSync(join(source.data_dir, 'secrets'));
  writeFileSync(join(source.data_dir, 'secrets', 'jwt'), 'secret', { mode: 0o600 });
  const capture = new LmdbTables(source.capture_db, 'process');
  await capture.transact((tx) => tx.write({ op: 'put', table: 'exchanges', row: [1], value: 'x' }));
  await ensureCaptureFile(join(folder, 'elsewhere', 'run.1-40.mdb'), 1);
  mkdirSync(`${source.capture_db}.files`);
  writeFileSync(join(`${source.capture_db}.files`, 'a'.repeat(64)), 'picture');
  return { main, capture };
}

describe('a backup', () => {
  it('of a database in use is complete, and can be restored', async () => {
    const { main, capture } = await fill();
    let writing = true;
    let written = 0;
    const writer = (async () => {
      while (writing) {
        await main.transact((tx) => {
          tx.write({ op: 'put', table: 'pairs', row: ['left', written], value: written });
          tx.write({ op: 'put', table: 'pairs', row: ['right', written], value: written });
        });
        written++;
      }
    })();
    const manifest = await writeBackup(source, join(folder, 'copy'), quiet, NOW);
    writing = false;
    await writer;
    await Promise.all([main.close(), capture.close()]);
    expect(manifest.files.map(({ name }) => name)).toEqual([
      'main.mdb',
      'capture.mdb',
      'capture.1-40.mdb',
      `attachments/${'a'.repeat(64)}`,
      'secrets/jwt',
    ]);

    await restoreBackup(join(folder, 'copy'), target, quiet);
    const restored = new LmdbTables(join(target.data_dir, 'main.mdb'), 'disk');
    expect([...restored.range('t', { prefix: [] })]).toHaveLength(500);
    const pairs = [...restored.range<number>('pairs', { prefix: [] })].map(({ row }) => row);
    // A transaction is in the backup completely or not at all.
    expect(pairs.filter(([side]) => side === 'left').map(([, n]) => n)).toEqual(
      pairs.filter(([side]) => side === 'right').map(([, n]) => n),
    );
    await restored.transact((tx) => tx.write({ op: 'put', table: 't', row: [1], value: 'written after' }));
    await restored.close();
    expect(statSync(join(target.data_dir, 'secrets', 'jwt')).mode & 0o777).toBe(0o600);
    expect(existsSync(join(target.data_dir, 'capture.1-40.mdb'))).toBe(true);
    expect(readdirSync(join(target.data_dir, 'capture.mdb.files'))).toEqual(['a'.repeat(64)]);
  });

  it('of a capture database counts the rows that exist, independent of earlier reads', async () => {
    const { capture_db } = source;
    mkdirSync(dirname(capture_db));
    await ensureCaptureFile(capture_db, 1);
    const env = openCaptureEnv(capture_db, 'write');
    env.root.transactionSync(() => {
      for (let n = 1; n <= 300; n++) env.blocks.putSync(n, Buffer.from(`block ${n}`));
    });
    await env.root.close();
    // Backup and restore are separate commands, and each has read other data before.
    for (const before of [0x00, 0x05, 0x7f]) {
      const other = new LmdbTables(join(folder, `other-${before}.mdb`), 'process');
      await other.transact((tx) => tx.write({ op: 'put', table: 't', row: [`${before}`], value: 'read' }));
      other.get('t', [String.fromCharCode(before).repeat(500)]);
      await other.close();
      const { files } = await writeBackup(source, join(folder, `copy-${before}`), quiet, NOW);
      expect(files.find(({ kind }) => kind === 'capture')?.rows).toMatchObject({ blocks: 300 });
    }
  });

  it('of an earlier version, which counted too few rows of captures, can be restored', async () => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    await writeBackup(source, join(folder, 'copy'), quiet, NOW);
    const manifest = join(folder, 'copy', 'manifest.json');
    const { files, ...rest } = JSON.parse(readFileSync(manifest, 'utf8'));
    for (const file of files) for (const name of Object.keys(file.rows ?? {})) file.rows[name] -= 1;
    writeFileSync(manifest, JSON.stringify({ ...rest, files }));
    await restoreBackup(join(folder, 'copy'), target, quiet);
    expect(existsSync(target.capture_db)).toBe(true);
  });

  it('that was modified is refused', async () => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    await writeBackup(source, join(folder, 'copy'), quiet, NOW);
    appendFileSync(join(folder, 'copy', 'secrets', 'jwt'), '!');
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow(
      'secrets/jwt differs from what was backed up',
    );
    // A service cannot start from the remains, and the next attempt finds an empty destination.
    expect(existsSync(join(target.data_dir, 'main.mdb'))).toBe(false);
    expect(existsSync(target.data_dir)).toBe(false);
  });

  it('with one flipped bit in a database is refused', async () => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    await writeBackup(source, join(folder, 'copy'), quiet, NOW);
    const file = join(folder, 'copy', 'main.mdb');
    const bytes = readFileSync(file);
    bytes[bytes.indexOf('value 17')]! ^= 1;
    writeFileSync(file, bytes);
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow(
      'main.mdb differs from what was backed up',
    );
    expect(statSync(join(folder, 'copy')).mode & 0o777).toBe(0o700);
  });

  it('does not overwrite a secret that is in use', async () => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    await writeBackup(source, join(folder, 'copy'), quiet, NOW);
    mkdirSync(join(target.data_dir, 'secrets'), { recursive: true });
    writeFileSync(join(target.data_dir, 'secrets', 'jwt'), 'another');
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow('exists already');
    expect(readFileSync(join(target.data_dir, 'secrets', 'jwt'), 'utf8')).toBe('another');
    expect(existsSync(join(target.data_dir, 'main.mdb'))).toBe(false);
  });

  it('needs data and a target that does not exist yet; a restore also needs a complete backup', async () => {
    await expect(writeBackup(source, join(folder, 'copy'), quiet, NOW)).rejects.toThrow('holds nothing');
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    mkdirSync(join(folder, 'copy'));
    await expect(writeBackup(source, join(folder, 'copy'), quiet, NOW)).rejects.toThrow('exists already');
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow('not a backup');
    execFileSync('mkfifo', [join(folder, 'copy', 'manifest.json')]);
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow('not a backup');
    rmSync(join(folder, 'copy', 'manifest.json'));
    writeFileSync(join(folder, 'copy', 'manifest.json'), '{"format":"other"}');
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow('not a backup');
    rmSync(join(folder, 'copy'), { recursive: true });
    await writeBackup(source, join(folder, 'copy'), quiet, NOW);
    await expect(restoreBackup(join(folder, 'copy'), source, quiet)).rejects.toThrow('choose a new DATA_DIR');
  });

  it('is restored by only one of several simultaneous attempts', async () => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    const copy = join(folder, 'copy');
    await writeBackup(source, copy, quiet, NOW);
    const ends = await Promise.allSettled([1, 2, 3].map(() => restoreBackup(copy, target, quiet)));
    expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
    for (const end of ends)
      if (end.status === 'rejected') expect(end.reason).toMatchObject({ name: 'BackupError' });
    const restored = new LmdbTables(join(target.data_dir, 'main.mdb'), 'disk');
    expect([...restored.range('t', { prefix: [] })]).toHaveLength(500);
    await restored.close();
  });

  it.each(['main.mdb', 'capture.mdb'])('is not restored while a process serves %s', async (name) => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    const copy = join(folder, 'copy');
    await writeBackup(source, copy, quiet, NOW);
    const claim = await claimWriter(join(target.data_dir, name), { patience_ms: 0 });
    await expect(restoreBackup(copy, target, quiet)).rejects.toThrow(`process ${process.pid} is writing`);
    await claim.release();
    expect(readdirSync(target.data_dir)).toEqual([]);
    await restoreBackup(copy, target, quiet);
  });

  it('is not restored over data that another process wrote meanwhile', async () => {
    const { main, capture } = await fill();
    await Promise.all([main.close(), capture.close()]);
    const copy = join(folder, 'copy');
    await writeBackup(source, copy, quiet, NOW);
    const meddle = (name: string) => {
      if (name === 'capture.mdb') writeFileSync(target.capture_db, 'mine');
    };
    await expect(restoreBackup(copy, target, meddle)).rejects.toThrow('exists already');
    expect(readdirSync(target.data_dir)).toEqual(['capture.mdb']);
    expect(readFileSync(target.capture_db, 'utf8')).toBe('mine');
  });

  it('cannot name files outside its folder', async () => {
    mkdirSync(join(folder, 'copy'));
    const files = [{ name: '../evil', kind: 'secret', bytes: 1, sha256: '' }];
    writeFileSync(
      join(folder, 'copy', 'manifest.json'),
      JSON.stringify({ format: 'understudy_backup_v1', created_at: '', files }),
    );
    await expect(restoreBackup(join(folder, 'copy'), target, quiet)).rejects.toThrow('not a backup');
  });
});

/**
 * A page wipe overwrites deleted content of a database file and nothing else, even if there are writes in between, or
 * if the wipe is interrupted.
 */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import { describe, expect, it } from 'vitest';
import { FINDINGS } from '../../src/domain/finding-rows.ts';
import { restoreCheckpoint } from '../../src/storage/lmdb/checkpoint.ts';
import { writeMark } from '../../src/storage/lmdb/deletion-mark.ts';
import { Environment } from '../../src/storage/lmdb/environment.ts';
import { PageWipe } from '../../src/storage/lmdb/page-wipe.ts';
import { hasDeletions, prepareStoreFile } from '../../src/storage/lmdb/store-file.ts';
import { STRIPPED_FLAGS } from '../fixtures/strip-types.ts';
import { makeFolder } from './folder.ts';
import { setBack } from './lock-number.ts';
import { CANARY, WipedFile } from './wiped-file.ts';

const ROWS = 300;
const ANOTHER_BOOT = '00000000-0000-0000-0000-000000000000';
const holdsCanary = (path: string) => readFileSync(path).includes(CANARY);

async function makeFile(durability: 'disk' | 'process', rows = ROWS): Promise<WipedFile> {
  const path = join(makeFolder(), 'a.mdb');
  await prepareStoreFile(path, null);
  const file = new WipedFile(path, durability);
  await file.fill(rows);
  expect(holdsCanary(path)).toBe(true);
  return file;
}

describe.each(['disk', 'process'] as const)(
  'a page wipe of a file that promises commits to the %s',
  (durability) => {
    it('leaves every row and no byte of a removed or replaced one, also when it is repeated', {
      tags: 'long',
    }, async () => {
      const file = await makeFile(durability);
      for (let round = 0; round < 3; round++) {
        expect(await file.wipe()).toBe('wiped');
        expect(holdsCanary(file.path)).toBe(false);
        expect(await hasDeletions(file.path)).toBe(false);
        expect(file.wrongRows(ROWS)).toEqual([]);
        await file.fill(ROWS);
        expect(holdsCanary(file.path)).toBe(true);
      }
      await file.tables.close();
      const again = new WipedFile(file.path, durability);
      expect(again.wrongRows(ROWS)).toEqual([]);
      await again.tables.close();
    });

    it('that is killed between its writes leaves every row, and the mark', {
      tags: 'long',
    }, async () => {
      const rows = 40;
      const file = await makeFile(durability, rows);
      await file.tables.close();
      const kill = (path: string, at: number) =>
        spawnSync(
          process.execPath,
          [...STRIPPED_FLAGS, join(import.meta.dirname, 'killed-wipe.ts'), path, durability, String(at)],
          { encoding: 'utf8' },
        );
      const whole = join(makeFolder(), 'a.mdb');
      copyFileSync(file.path, whole);
      const writes = Number(kill(whole, -1).stdout);
      expect(writes).toBeGreaterThan(10);
      for (let at = 1; at <= writes; at += Math.ceil(writes / 8)) {
        const path = join(makeFolder(), 'a.mdb');
        copyFileSync(file.path, path);
        expect(kill(path, at).signal, `write ${at}`).toBe('SIGKILL');
        expect(await hasDeletions(path), `write ${at}`).toBe(true);
        const killed = new WipedFile(path, durability);
        expect(killed.wrongRows(rows), `write ${at}`).toEqual([]);
        expect(await killed.wipe()).toBe('wiped');
        expect(holdsCanary(path)).toBe(false);
        expect(killed.wrongRows(rows)).toEqual([]);
        await killed.tables.close();
      }
    });
  },
);

it('a page wipe waits for a reader of an earlier snapshot, which continues to read', async () => {
  const file = await makeFile('disk');
  const before = open<Buffer, Buffer>({ path: file.path, noSubdir: true, readOnly: true, maxDbs: 128 });
  const table = before.openDB<Buffer, Buffer>({
    name: `rows:${FINDINGS}`,
    encoding: 'binary',
    keyEncoding: 'binary',
  });
  const transaction = before.useReadTransaction();
  const readAll = () =>
    [...table.getRange({ transaction })].map(({ key, value }) => `${key} ${value}`).join();
  const rows = readAll();
  await file.fill(ROWS);
  expect(await file.wipe()).toBe('read');
  expect(readAll()).toBe(rows);
  expect(await hasDeletions(file.path)).toBe(true);
  transaction.done();
  await before.close();
  expect(await file.wipe()).toBe('wiped');
  expect(holdsCanary(file.path)).toBe(false);
  await file.tables.close();
});

it('a page wipe continues the newest commit if its number was set back', async () => {
  const file = await makeFile('disk');
  expect(await file.wipe()).toBe('wiped');
  await file.tables.close();
  // lmdb-js itself, because Environment corrects the number after some time.
  const root = open<Buffer, Buffer>({ path: file.path, noSubdir: true, maxDbs: 128, overlappingSync: false });
  const named = (name: string) =>
    root.openDB<Buffer, Buffer>({ name, encoding: 'binary', keyEncoding: 'binary' });
  const key = Buffer.from('key');
  const wipe = new PageWipe(file.path, 'disk', new AbortController().signal);
  root.transactionSync(() => {
    writeMark({ named });
    named('another').putSync(key, Buffer.from('value'));
  });
  setBack(file.path, 1);
  // There is nothing to overwrite, so the only write of this pass is the removal of the mark.
  expect(await wipe.run()).toBe('wiped');
  await wipe.close();
  expect(named('another').get(key)).toEqual(Buffer.from('value'));
  await root.close();
});

it('a page wipe that a commit or its caller ends leaves the mark', async () => {
  const file = await makeFile('process');
  const environment = Environment.open(file.path, 'process');
  const write = () => environment.transactNow(() => writeMark(environment));
  write();
  const wipe = new PageWipe(file.path, 'process', new AbortController().signal);
  const pass = wipe.run();
  write();
  expect(await pass).toBe('written');
  await wipe.close();
  await environment.close();
  expect(await hasDeletions(file.path)).toBe(true);
  const aborted = new AbortController();
  aborted.abort();
  expect(await file.wipe(aborted.signal)).toBe('stopped');
  expect(await hasDeletions(file.path)).toBe(true);
  expect(file.wrongRows(ROWS)).toEqual([]);
  await file.tables.close();
});

it('no row is damaged if pages are wiped while another process writes', {
  tags: 'long',
}, async () => {
  const rows = 60;
  const file = await makeFile('process', rows);
  const writer = spawn(
    process.execPath,
    [...STRIPPED_FLAGS, join(import.meta.dirname, 'wiped-writer.ts'), file.path],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  await once(writer.stdout, 'data');
  const outcomes: string[] = [];
  while (outcomes.length < 60 || !outcomes.includes('wiped')) {
    outcomes.push(await file.wipe());
    expect(file.wrongRows(rows)).toEqual([]);
  }
  writer.stdin.end();
  const [code] = await once(writer, 'exit');
  expect(code).toBe(0);
  expect(outcomes).toContain('written');
  expect(file.wrongRows(rows)).toEqual([]);
  expect(await file.wipe()).toBe('wiped');
  expect(holdsCanary(file.path)).toBe(false);
  await file.tables.close();
});

it('a power cut after a page wipe returns the file to a checkpoint with every row', async () => {
  const file = await makeFile('process');
  const environment = Environment.open(file.path, 'process');
  environment.guard();
  expect(await file.wipe()).toBe('wiped');
  await file.fill(ROWS);
  await environment.close();
  await file.tables.close();

  expect(restoreCheckpoint(file.path, ANOTHER_BOOT)).toBe(true);
  const back = new WipedFile(file.path, 'process');
  expect(back.wrongRows(ROWS)).toEqual([]);
  await back.tables.close();
});

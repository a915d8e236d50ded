/**
 * Databases on a disk that is really full. Each write is refused, the process continues, and writes succeed when there
 * is space again.
 */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { canMount, SmallDisk } from '../fixtures/small-disk.ts';
import { makeExchange } from './captured.ts';

// So many rows that writes fail at offsets of eight digits. There lmdb's own error text is longer than its buffer, so the
// room must be checked before lmdb writes.
const ROWS = 40;
const ROW = 'r'.repeat(1 << 20);

it.skipIf(!canMount).each(['disk', 'process'] as const)(
  'a full disk loses no row that is durable with the %s',
  async (durability) => {
    using disk = new SmallDisk('64m');
    const tables = new LmdbTables(join(disk.place, 'x.mdb'), durability);
    const put = (at: number) =>
      tables.transact((tx) => tx.write({ op: 'put', table: 't', row: [at], value: ROW }));
    for (let at = 0; at < ROWS; at++) await put(at);
    disk.fill();
    for (let at = 0; at < 100; at++) await expect(put(ROWS + at)).rejects.toMatchObject({ code: 'ENOSPC' });
    expect([...tables.range('t', { prefix: [] })]).toHaveLength(ROWS);
    disk.free();
    await put(ROWS);
    expect([...tables.range('t', { prefix: [] })]).toHaveLength(ROWS + 1);
    await tables.close();
  },
);

it.skipIf(!canMount)('a full disk refuses appends, which then use no id', { tags: 'long' }, async () => {
  using disk = new SmallDisk('64m');
  const log = await CaptureLog.open({ path: join(disk.place, 'capture.mdb'), redact: false });
  let seed = 1;
  const append = () => {
    const body = Buffer.alloc(1 << 20);
    for (let at = 0; at < body.length; at += 4) {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) | 0;
      body.writeInt32LE(seed, at);
    }
    return log.append([makeExchange({ request_body: body })]);
  };
  for (let at = 0; at < ROWS; at++) await append();
  disk.fill();
  for (let at = 0; at < 30; at++) await expect(append()).rejects.toMatchObject({ code: 'ENOSPC' });
  disk.free();
  expect((await append()).last_id).toBe(ROWS + 1);
  await log.close();
});

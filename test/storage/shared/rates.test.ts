/**
 * Entries about the rates of keys, in PostgreSQL and in memory. A box that does not know the last entry cannot replace
 * it. Test thread.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { MemoryLive } from '../../../src/storage/memory/live.ts';
import { DIVIDED_KEYS } from '../../../src/storage/postgres/rates-schema.ts';
import { migrateDatabase, PostgresTruth } from '../../../src/storage/postgres/truth.ts';
import type { LiveSession, LiveTruth } from '../../../src/storage/shared/live.ts';
import { PostgresServer, queryDatabase } from '../../fixtures/postgres-server.ts';

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.stop());

async function migrated(): Promise<string> {
  const address = await server.createDatabase();
  await migrateDatabase(address);
  return address;
}

const makers: [string, () => Promise<LiveTruth>][] = [
  ['PostgreSQL', async () => PostgresTruth.connect(await migrated())],
  ['memory', async () => new MemoryLive()],
];

async function open(truth: LiveTruth): Promise<LiveSession> {
  const session = await truth.openLive(randomUUID());
  onTestFinished(() => session.close());
  return session;
}

describe.each(makers)('in %s, entries about rates', (_, make) => {
  it('are written only by a box that knows the last entry, and are read by all boxes', async () => {
    const truth = await make();
    const [a, b] = [await open(truth), await open(truth)];
    const { epoch, version, changed } = await a.readRates(0);
    expect({ version, changed }).toEqual({ version: 0, changed: [] });
    const writes = [
      { key: 2 ** 48 - 1, base: 0, data: 'x' },
      { key: 2, base: 0, data: 'y' },
      { key: 3, base: 0, data: null },
    ];
    expect(await a.writeRates(epoch, writes)).toEqual([1, 2, null]);
    expect(await b.readRates(1)).toEqual({ epoch, version: 2, changed: [{ key: 2, version: 2, data: 'y' }] });
    expect(await b.writeRates(epoch, [{ key: 2, base: 0, data: 'z' }])).toEqual([null]);
    expect(await b.writeRates(epoch, [{ key: 2, base: 2, data: 'z' }])).toEqual([3]);
    expect(await a.writeRates(epoch, [{ key: 2, base: 2, data: null }])).toEqual([null]);
    expect(await a.writeRates(randomUUID(), [{ key: 2, base: 3, data: null }])).toEqual([null]);
    expect(await a.writeRates(epoch, [{ key: 2, base: 3, data: null }])).toEqual([4]);
    expect((await b.readRates(3)).changed).toEqual([{ key: 2, version: 4, data: null }]);
    await b.tidy();
    // A removed entry counts as missing.
    expect(await b.writeRates(epoch, [{ key: 2, base: 4, data: 'z' }])).toEqual([null]);
    expect(await b.writeRates(epoch, [{ key: 2, base: 0, data: 'z' }])).toEqual([5]);
  });

  it('are limited in number', async () => {
    const a = await open(await make());
    const { epoch } = await a.readRates(0);
    const writes = Array.from({ length: DIVIDED_KEYS + 2 }, (__, key) => ({ key, base: 0, data: 'x' }));
    const written = await a.writeRates(epoch, writes);
    expect(written.slice(-3)).toEqual([DIVIDED_KEYS, null, null]);
    expect(await a.writeRates(epoch, [{ key: 1, base: 2, data: null }])).not.toEqual([null]);
    expect(await a.writeRates(epoch, writes.slice(-1))).not.toEqual([null]);
  });
});

it('removed entries about rates are forgotten by PostgreSQL after a while', async () => {
  const address = await migrated();
  const a = await open(await PostgresTruth.connect(address));
  const { epoch } = await a.readRates(0);
  await a.writeRates(epoch, [
    { key: 1, base: 0, data: 'x' },
    { key: 2, base: 0, data: 'x' },
  ]);
  await a.writeRates(epoch, [{ key: 1, base: 1, data: null }]);
  await queryDatabase(address, "UPDATE understudy.rate_divisions SET at = now() - interval '11 minutes'");
  await a.tidy();
  expect((await a.readRates(0)).changed.map(({ key }) => key)).toEqual([2]);
});

it('a crash of PostgreSQL loses the entries about rates, and gives another epoch', async () => {
  if (!server.isOurs) return;
  const truth = await PostgresTruth.connect(await migrated());
  const a = await open(truth);
  const before = await a.readRates(0);
  await a.writeRates(before.epoch, [{ key: 1, base: 0, data: 'x' }]);
  await server.kill();
  await server.resume();
  const b = await open(truth);
  const after = await b.readRates(0);
  expect(after).toMatchObject({ version: 0, changed: [] });
  expect(after.epoch).not.toBe(before.epoch);
  expect(await b.writeRates(before.epoch, [{ key: 1, base: 1, data: 'x' }])).toEqual([null]);
});

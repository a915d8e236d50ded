/**
 * A service with captures that are weeks old, which then keeps captures for some days: older ones are deleted
 * automatically, new ones are kept, and the figures show it.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { readCaptured } from '../fixtures/capture-files.ts';
import { WholeService } from '../fixtures/whole-service.ts';

const DAY_MS = 86_400_000;
const folder = mkdtempSync(join(tmpdir(), 'understudy-expiry-'));
const preload = fileURLToPath(new URL('../fixtures/days-ago.mjs', import.meta.url));
const env: Record<string, string> = {
  NODE_OPTIONS: `--import=${preload}`,
  DAYS_AGO: '40',
  RETENTION_DAYS_CAPTURES: '0',
  SVC_KEYS: 'metrics-key',
};
const service = new WholeService(folder, env);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const db = join(folder, 'capture.mdb');
const attachments = () => (existsSync(`${db}.files`) ? readdirSync(`${db}.files`) : []);
const image = (seed: string) => ({
  messages: [
    {
      role: 'user',
      content: [
        { type: 'image', source: { type: 'base64', data: Buffer.alloc(6_000, seed).toString('base64') } },
      ],
    },
  ],
});
const flush = async () =>
  expect((await fetch(`${service.gateway}/__gw/flush`, { method: 'POST' })).status).toBe(200);
const expired = async () => {
  const stats = (await (await fetch(`${service.gateway}/__gw/stats`)).json()) as {
    db: { sealed: number; expired: { files: number; exchanges: number; attachments: number } | null };
  };
  return stats.db;
};

it('the gateway removes expired captures while it captures, and keeps the rest byte for byte', async () => {
  await service.start();
  for (let turn = 0; turn < 3; turn++)
    await service.capture('old', { messages: [{ role: 'user', content: `${turn}` }] });
  await service.capture('old', image('gone'));
  await service.capture('old', image('kept'));
  await flush();
  expect((await expired()).expired).toBeNull();
  expect(await service.stop()).toBe(0);
  const old = (Date.now() - 40 * DAY_MS) / 1_000;
  expect(attachments()).toHaveLength(2);
  for (const name of attachments()) utimesSync(join(`${db}.files`, name), old, old);

  // The retention time exceeds their age, so they are sealed and kept.
  Object.assign(env, { DAYS_AGO: '10', RETENTION_DAYS_CAPTURES: '60' });
  await service.start();
  await expect.poll(async () => (await expired()).sealed, { timeout: 60_000 }).toBe(1);
  await service.capture('young', image('kept'));
  await service.capture('young', { messages: [{ role: 'user', content: 'young' }] });
  await flush();
  expect((await readCaptured(db)).map(({ record }) => record.id)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  await service.kill();

  Object.assign(env, { DAYS_AGO: '0', RETENTION_DAYS_CAPTURES: '30' });
  await service.start();
  await expect
    .poll(async () => (await expired()).expired, { timeout: 60_000 })
    .toMatchObject({ files: 1, exchanges: 5, attachments: 1 });
  await service.capture('new', { messages: [{ role: 'user', content: 'new' }] });
  await flush();
  const kept = await readCaptured(db);
  expect(kept.map(({ record }) => record.id)).toEqual([6, 7, 8]);
  expect(JSON.parse(kept[0]!.request.toString())).toEqual({ model: 'm', max_tokens: 9, ...image('kept') });
  expect(attachments()).toHaveLength(1);
  const metrics = await fetch(`${service.api}/metrics`, { headers: { authorization: 'Bearer metrics-key' } });
  expect(await metrics.text()).toMatch(/^understudy_capture_expired_exchanges_total 5$/m);
  const shown = await service.run('inspect', '--json');
  expect(shown).toContain('young');
  expect(shown).not.toContain('"old"');
}, 180_000);

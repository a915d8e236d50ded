/**
 * Two gateways send captures to one bucket, and a service that captures nothing shows them: list, run page, bodies,
 * search, figures, marks, freshness. The service follows new files, erasures and the end of a gateway. Without the
 * bucket it shows what it has already fetched.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { BUCKET, openS3, S3_ENVIRONMENT } from '../fixtures/s3-server.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';

const KEY = 'static-key-of-the-operator';
const IMAGE = Buffer.alloc(3_000, 'an image').toString('base64');

interface Listed {
  runs: { run_id: string; task: string | null; mark: string | null; exchanges: number }[];
  found: { run_id: string }[];
  searched: { not_searched: number } | null;
  gathered: { failure: string | null; gateways: { newest_at: string | null; exchanges: number }[] };
}

const API = /(http:\/\/127\.0\.0\.1:\d+)/;

interface ApiBox {
  api: string;
  child: CliChild;
  env: Record<string, string>;
}

class Boxes {
  readonly #settings: Record<string, string>;
  readonly #s3;

  constructor(s3: Awaited<ReturnType<typeof openS3>>, dataKey: string) {
    this.#s3 = s3;
    this.#settings = { ...S3_ENVIRONMENT, SVC_KEYS: KEY, DATA_KEY_FILE: dataKey };
  }

  get #place(): string {
    return `s3://${BUCKET}/of-many?endpoint=${this.#s3.endpoint}`;
  }

  async startGateway(): Promise<WholeService> {
    const settings = { CAPTURE_BUCKET_URL: this.#place, CAPTURE_LOCAL_KEEP: '0h' };
    const service = new WholeService(makeFolder(), { ...this.#settings, ...settings });
    onTestFinished(() => service[Symbol.asyncDispose]());
    await service.start();
    return service;
  }

  /** The environment of a command at a gateway. */
  envOf({ dir }: WholeService): Record<string, string> {
    return { ...this.#settings, DATA_DIR: dir };
  }

  /** A service without a gateway. */
  async startApi(folder: string): Promise<ApiBox> {
    const env = { ...this.#settings, DATA_DIR: folder, PORT: '0', CAPTURE_READ_URL: this.#place };
    const child = new CliChild(['serve'], { env });
    onTestFinished(() => child[Symbol.asyncDispose]());
    await child.waitForOutput(API);
    return { api: API.exec(child.stdout)![1]!, child, env };
  }
}

async function get(service: { api: string }, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(service.api + path, { headers: { authorization: `Bearer ${KEY}` } });
  return { status: response.status, text: await response.text() };
}

const list = async (service: { api: string }, q = ''): Promise<Listed> =>
  JSON.parse((await get(service, `/capture/runs?q=${encodeURIComponent(q)}`)).text) as Listed;

const idsOf = ({ runs }: Listed): string[] => runs.map(({ run_id }) => run_id).sort();

/** Seals the captures of a gateway, and waits until they are in the bucket. */
async function send(service: WholeService, files: number): Promise<void> {
  for (const path of ['/__gw/flush', '/__gw/rotate'])
    expect((await fetch(service.gateway + path, { method: 'POST' })).status).toBe(200);
  const read = async () => {
    const stats = (await (await fetch(`${service.gateway}/__gw/stats`)).json()) as {
      db: { bucket: { offloaded_files: number; failure: string | null } };
    };
    return stats.db.bucket;
  };
  await expect.poll(read, { timeout: PATIENCE_MS }).toMatchObject({ offloaded_files: files, failure: null });
}

function says(words: string, image = false) {
  const shown = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: IMAGE } };
  const content = image ? [{ type: 'text', text: words }, shown] : words;
  return { messages: [{ role: 'user', content }] };
}

it('one service shows the captures of two gateways, and follows them', async () => {
  const s3 = await openS3();
  const key = join(makeFolder(), 'data.key');
  const boxes = new Boxes(s3, key);
  const secret = randomBytes(32).toString('base64');
  writeFileSync(key, secret, { mode: 0o600 });
  const [gateway1, gateway2] = [await boxes.startGateway(), await boxes.startGateway()];
  await gateway1.capture('of-one', says('the zebra of one', true));
  await gateway1.capture('shared', says('the shared quagga begins'));
  await send(gateway1, 1);
  await gateway2.capture('of-two', says('the okapi of two'));
  await gateway2.capture('shared', says('the shared quagga continues'));
  await send(gateway2, 1);

  const folder = makeFolder();
  const api = await boxes.startApi(folder);
  await expect
    .poll(async () => idsOf(await list(api)), { timeout: PATIENCE_MS })
    .toEqual(['of-one', 'of-two', 'shared']);
  const first = await list(api);
  expect(first.runs.find(({ run_id }) => run_id === 'shared')).toMatchObject({ exchanges: 2 });
  expect(first.gathered).toMatchObject({ failure: null, gateways: [{ exchanges: 2 }, { exchanges: 2 }] });
  // The bodies of runs that were listed are fetched afterwards.
  await expect
    .poll(async () => (await list(api)).runs.map(({ task }) => task).sort(), { timeout: PATIENCE_MS })
    .toEqual(['the okapi of two', 'the shared quagga begins', 'the zebra of one']);
  const page = await get(api, '/capture/runs/shared');
  for (const words of ['quagga begins', 'quagga continues']) expect(page.text).toContain(words);
  const [turn] = (
    JSON.parse((await get(api, '/capture/runs/of-one')).text) as { turns: { exchange_id: number }[] }
  ).turns;
  const body = await get(api, `/capture/exchanges/${turn!.exchange_id}/request`);
  expect(body.text).toContain(IMAGE);
  const own = new Date(first.gathered.gateways[0]!.newest_at!).getTime();
  expect(Math.abs(Date.now() - own)).toBeLessThan(24 * 3_600_000);

  await expect
    .poll(async () => (await list(api, 'text:okapi')).searched, { timeout: PATIENCE_MS })
    .toMatchObject({ not_searched: 0 });
  expect(idsOf(await list(api, 'text:okapi'))).toEqual(['of-two']);
  expect(idsOf(await list(api, 'text:"shared quagga"'))).toEqual(['shared']);
  const search = JSON.parse((await get(api, '/capture/search?q=zebra')).text) as {
    hits: { run_id: string }[];
  };
  expect(search.hits.map(({ run_id }) => run_id)).toEqual(['of-one']);
  const figures = JSON.parse((await get(api, '/capture/figures?by=model&days=2')).text) as {
    total: { exchanges: number };
  };
  expect(figures.total.exchanges).toBe(4);

  const mark = await fetch(`${api.api}/capture/runs/of-two/mark`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ mark: 'good', add_tags: ['seen'] }),
  });
  expect(mark.status, await mark.text()).toBe(200);
  expect(idsOf(await list(api, 'tag:seen'))).toEqual(['of-two']);
  expect((await get(api, '/capture/export/runs')).text).toContain('okapi');

  await gateway1.capture('later', says('a new gnu'));
  await send(gateway1, 2);
  await expect.poll(async () => idsOf(await list(api)), { timeout: PATIENCE_MS }).toContain('later');
  const known = (
    JSON.parse((await get(api, '/capture/runs/of-two')).text) as { turns: { exchange_id: number }[] }
  ).turns;
  // As a separate process, because reading blocks until the bucket answers, which this process serves.
  const erased = await new CliChild(['erase', '--run', 'of-one'], { env: boxes.envOf(gateway1) }).ended;
  expect(erased.code, erased.stderr).toBe(0);
  await expect.poll(async () => idsOf(await list(api)), { timeout: PATIENCE_MS }).not.toContain('of-one');
  await send(gateway1, 2);
  await expect
    .poll(async () => idsOf(await list(api)), { timeout: PATIENCE_MS })
    .toEqual(['later', 'of-two', 'shared']);
  const after = (
    JSON.parse((await get(api, '/capture/runs/of-two')).text) as { turns: { exchange_id: number }[] }
  ).turns;
  expect(after.map(({ exchange_id }) => exchange_id)).toEqual(known.map(({ exchange_id }) => exchange_id));
  expect(idsOf(await list(api, 'text:zebra'))).toEqual([]);
  const refused = await runHere(['erase', '--run', 'of-two'], api.env);
  expect(refused).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('on the gateway that captured them'),
  });

  // No file of the service and no object of the bucket is readable without the key.
  for (const name of readdirSync(folder, { recursive: true, withFileTypes: true }))
    if (name.isFile() && !name.name.endsWith('-lock'))
      expect(readFileSync(join(name.parentPath, name.name)).includes('quagga'), name.name).toBe(false);

  await s3.stop();
  await api.child.kill();
  const again = await boxes.startApi(folder);
  await expect
    .poll(async () => (await list(again)).gathered.failure, { timeout: PATIENCE_MS })
    .toContain('cannot be reached');
  expect(idsOf(await list(again))).toEqual(['later', 'of-two', 'shared']);
  expect(idsOf(await list(again, 'text:okapi'))).toEqual(['of-two']);
  const log = again.child.stderr + api.child.stderr + gateway1.stderr;
  for (const said of ['S3RVER', secret]) expect(log).not.toContain(said);
});

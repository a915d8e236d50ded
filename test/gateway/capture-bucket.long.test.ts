/**
 * A service whose sealed captures are in a bucket: it reads them there, and reports a bucket that cannot be reached.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { BUCKET, openS3, S3_ENVIRONMENT } from '../fixtures/s3-server.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';

const KEY = 'static-key-of-the-operator';

interface BucketStats {
  waiting_files: number;
  offloaded_files: number;
  failure: string | null;
}

it('the gateway reads bodies from the bucket, and still lists and forwards if the bucket cannot be reached', async () => {
  const s3 = await openS3();
  const folder = makeFolder();
  const service = new WholeService(folder, {
    ...S3_ENVIRONMENT,
    SVC_KEYS: KEY,
    CAPTURE_BUCKET_URL: `s3://${BUCKET}/captures-of-tests?endpoint=${s3.endpoint}`,
    CAPTURE_LOCAL_KEEP: '0h',
  });
  onTestFinished(() => service[Symbol.asyncDispose]());
  await service.start();
  const get = async (path: string) => {
    const response = await fetch(service.api + path, { headers: { authorization: `Bearer ${KEY}` } });
    return { status: response.status, text: await response.text() };
  };
  const readBucket = async (): Promise<BucketStats> => {
    const stats = (await (await fetch(`${service.gateway}/__gw/stats`)).json()) as {
      db: { bucket: BucketStats };
    };
    return stats.db.bucket;
  };
  const post = async (path: string) =>
    expect((await fetch(service.gateway + path, { method: 'POST' })).status).toBe(200);

  for (const word of ['one', 'two', 'three'])
    await service.capture('run-a', { messages: [{ role: 'user', content: `the word ${word}` }] });
  await post('/__gw/flush');
  await post('/__gw/rotate');
  await expect
    .poll(readBucket, { timeout: PATIENCE_MS })
    .toMatchObject({ offloaded_files: 1, waiting_files: 0, failure: null });
  expect(readdirSync(folder)).not.toContain('capture.mdb.cache');

  const request = await get('/capture/exchanges/2/request');
  expect(request).toMatchObject({ status: 200, text: expect.stringContaining('the word two') });
  expect((await get('/capture/runs/run-a')).text).toContain('the word three');
  expect(await service.run('inspect', '--run', 'run-a')).toContain('the word one');
  expect((await get('/metrics')).text).toMatch(/^understudy_capture_bucket_offloaded_files 1$/m);

  await s3.stop();
  rmSync(join(folder, 'capture.mdb.cache'), { recursive: true });
  await service.capture('run-b', { messages: [{ role: 'user', content: 'goes on' }] });
  await post('/__gw/flush');
  await post('/__gw/rotate');
  await expect
    .poll(readBucket, { timeout: PATIENCE_MS })
    .toMatchObject({ waiting_files: 1, failure: expect.stringContaining('cannot be reached') });
  expect(await get('/capture/runs')).toMatchObject({ status: 200, text: expect.stringContaining('run-a') });
  const refused = await get('/capture/exchanges/1/request');
  expect(refused.status).toBe(503);
  expect(refused.text).toMatch(/its bodies are in a bucket and cannot be read now: .* cannot be reached/);
  const { code, stderr } = await service.try('inspect', '--exchange', '1', '--raw', 'request');
  expect(code).toBe(1);
  expect(stderr).toMatch(/its bodies are in a bucket and cannot be read now/);
});

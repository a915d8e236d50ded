/** One student on several gateways: `understudy student share` and `follow`, and services that do it themselves. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { publishStudent, readStudentManifest } from '../../src/student/directory.ts';
import { readOrders } from '../../src/student/orders.ts';
import type { Stats } from '../fixtures/capture-gateway.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { BUCKET, S3_ENVIRONMENT, startS3 } from '../fixtures/s3-server.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

it('STUDENT_BUCKET_URL requires the directory of the student', async () => {
  const started = await runHere(['gateway'], { STUDENT_BUCKET_URL: 'file:///nowhere', DATA_DIR: '/nowhere' });
  expect(started).toMatchObject({
    code: 78,
    stderr: expect.stringMatching(
      /^understudy: STUDENT_BUCKET_URL[^\n]*SVC_DISTILL_DIR must name the directory of the student[^\n]*\n$/,
    ),
  });
});

it('a version and a suspension reach a gateway’s directory until a signal ends the sharing', {
  tags: 'long',
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-sharing-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [taught, gateway] = [join(folder, 'taught'), join(folder, 'gateway')];
  const model = { format: 'svc_student_model_v2', support_min: 2, runs: 1, steps: 1, groups: [] } as const;
  await publishStudent(taught, makeDraft(), { ...model, groups: [] });
  const place = `s3://${BUCKET}/student?endpoint=${await startS3()}`;
  const start = (action: string, dir: string, name: string) =>
    new CliChild(['student', action, '--json', '--dir', dir, '--place', place], {
      env: { ...S3_ENVIRONMENT, DATA_DIR: join(folder, name) },
    });
  await using sharing = start('share', taught, 'data-a');
  await sharing.waitForOutput(/"new":"shared"/);
  await using following = start('follow', gateway, 'data-b');
  await following.waitForOutput(/"new":"student"/);
  expect((await readStudentManifest(gateway)).version).toBe(1);
  const suspended = await runHere(['student', 'suspend', '--all', '--dir', taught], { DATA_DIR: folder });
  expect(suspended.code).toBe(0);
  await following.waitForOutput(/"new":"orders"/);
  expect((await readOrders(gateway)).suspended).toHaveLength(1);
  await publishStudent(taught, makeDraft(), { ...model, groups: [] });
  await following.waitForOutput(/"new":"student"[\s\S]*"new":"student"/);
  expect((await readStudentManifest(gateway)).version).toBe(2);
  for (const child of [sharing, following]) {
    child.process.kill('SIGTERM');
    expect(await child.ended).toMatchObject({ code: 0, signal: null, stderr: '' });
  }
});

it('a service publishes its student; other gateways serve it and follow its orders', {
  tags: 'long',
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-sharing-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const place = pathToFileURL(join(folder, 'place')).href;
  const start = async (name: string, role: string) => {
    const env = {
      SVC_DISTILL_DIR: join(folder, name, 'student'),
      STUDENT_BUCKET_URL: place,
      STUDENT_SHARING: role,
    };
    const service = new WholeService(join(folder, name), env);
    onTestFinished(() => service[Symbol.asyncDispose]());
    await service.start();
    return service;
  };
  const taught = join(folder, 'a', 'student');
  const [, ...gateways] = await Promise.all([
    start('a', 'share'),
    start('b', 'follow'),
    start('c', 'follow'),
  ]);
  const versions = () =>
    Promise.all(
      gateways.map(async ({ gateway }) => {
        const stats = (await (await fetch(`${gateway}/__gw/stats`)).json()) as Stats;
        return stats.relegation.version;
      }),
    );
  expect(await versions()).toEqual([null, null]);
  const model = { format: 'svc_student_model_v2', support_min: 2, runs: 1, steps: 1, groups: [] } as const;
  await publishStudent(taught, makeDraft(), { ...model, groups: [] });
  await expect.poll(versions, { timeout: PATIENCE_MS }).toEqual([1, 1]);
  const suspended = await runHere(['student', 'suspend', '--all', '--dir', taught], { DATA_DIR: folder });
  expect(suspended.code).toBe(0);
  const orders = () =>
    Promise.all(
      ['b', 'c'].map(async (name) => (await readOrders(join(folder, name, 'student'))).suspended.length),
    );
  await expect.poll(orders, { timeout: PATIENCE_MS }).toEqual([1, 1]);
});

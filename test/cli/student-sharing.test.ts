/** `understudy student share` and `follow` as processes with a bucket between them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { publishStudent, readStudentManifest } from '../../src/student/directory.ts';
import { readOrders } from '../../src/student/orders.ts';
import { BUCKET, S3_ENVIRONMENT, startS3 } from '../fixtures/s3-server.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

it('brings a version and a suspension to a gateway’s directory until a signal ends both', {
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

/**
 * Content that was deleted through the API: after the next start, and after `understudy compact`, no byte of it is in
 * any file of DATA_DIR. A real service stores it and deletes it.
 */
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { claimWriter } from '../../src/storage/writer-claim.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';
import { Caller, filesWithCanary, fillService, holdSnapshots, KEPT } from './deleted-content.ts';
import { runHere } from './here.ts';

it('deleted data is in no file after the next start, and after understudy compact', {
  tags: 'long',
}, async () => {
  const folder = makeFolder();
  const copy = makeFolder();
  await using service = new WholeService(folder);
  await service.start();
  const { token, ann, org_id, key, pattern, finding } = await fillService(service);
  const held = holdSnapshots(folder);
  await key.send('DELETE', '/v1/monitor/runs/gone');
  await key.send('DELETE', '/v1/traces/gone');
  await key.send('DELETE', `/v1/patterns/${pattern}`);
  await key.send('DELETE', `/v1/findings/base/${finding}`);
  await ann.send('DELETE', `/organizations/${org_id}`);
  expect(await service.stop()).toBe(0);
  await held.release();
  expect(filesWithCanary(folder), 'LMDB keeps what was removed').toEqual(
    expect.arrayContaining(['main.mdb', 'runs.mdb']),
  );
  cpSync(folder, copy, { recursive: true });

  await service.start();
  expect(filesWithCanary(folder)).toEqual([]);
  expect(service.stderr).toContain(
    'the database file was rewritten without deleted content and unused pages',
  );
  const run = await key.send('GET', '/v1/monitor/runs/kept');
  expect(JSON.stringify(run)).toContain(KEPT);
  expect(await service.stop()).toBe(0);
  expect(filesWithCanary(folder)).toEqual([]);
  await service.start();
  expect(service.stderr).not.toContain('the database file was rewritten');

  const compacted = await runHere(['compact'], { DATA_DIR: copy });
  expect(compacted).toMatchObject({ code: 0, stderr: '' });
  expect(compacted.stdout).toMatch(/^main\.mdb: .*\nruns\.mdb: .*\n$/);
  expect(filesWithCanary(copy)).toEqual([]);
  await using again = new WholeService(copy);
  await again.start();
  expect(JSON.stringify(await new Caller(again, token).send('GET', '/organizations/'))).not.toContain(
    'doomed',
  );
});

it('understudy compact is refused while a service runs, and without a database', async () => {
  const folder = makeFolder();
  const compact = () => runHere(['compact'], { DATA_DIR: folder });
  expect(await compact()).toMatchObject({ code: 1, stderr: expect.stringContaining('holds no databases') });
  const claim = await claimWriter(join(folder, 'main.mdb'), { patience_ms: 0 });
  expect(await compact()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('stop that process first'),
  });
  // A box that shares its database has nothing to compact, whether it runs or not.
  writeFileSync(join(folder, 'shared.mdb'), '');
  expect((await compact()).stderr).toContain('shares a PostgreSQL database');
  await claim.release();
  expect((await runHere(['compact', '--help'])).stdout).toContain('Usage: understudy compact');
});

it('understudy compact --captures needs a capture database, and says its size before and after', async () => {
  const folder = makeFolder();
  const compact = (...flags: string[]) => runHere(['compact', ...flags], { DATA_DIR: folder });
  expect(await compact('--db', 'x.mdb')).toMatchObject({ code: 2 });
  expect(await compact('--captures')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no such capture database'),
  });
  await (await CaptureLog.open({ path: join(folder, 'capture.mdb'), redact: true })).close();
  expect(await compact('--captures')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Captures: 0\.\d MB before, 0\.\d MB now\.\n$/),
  });
});

/** A box with its own database moves it into PostgreSQL, shares it with another box, and moves it back. Own processes. */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runHere } from '../cli/here.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { queryDatabase } from '../fixtures/postgres-server.ts';
import { makeFolder } from '../storage/folder.ts';
import { SharedBoxes } from './shared-boxes.ts';

const CONTENT = 'the harbour crane turns left';

it('a database is moved into PostgreSQL, and back into another folder', { tags: 'long' }, async () => {
  await using boxes = await SharedBoxes.start();
  const keyFile = join(makeFolder(), 'key');
  writeFileSync(keyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
  const env = { DATA_KEY_FILE: keyFile };
  await using own = new ControlPlaneChild({ ...env });
  await own.start();
  const ann = await own.person('ann');
  const { raw_key: key } = (await own.call(ann.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  const finding = { finding_type: 'architecture', content: CONTENT, file_paths: ['a.ts'] };
  expect((await own.call(key, 'POST', '/v1/findings/code', finding)).status).toBe(200);

  const place = { ...env, AUTH_DB_URL: boxes.address, DATA_DIR: own.dir };
  const early = await runHere(['move', '--to', 'postgres'], place);
  expect(early).toMatchObject({ code: 1, stdout: '' });
  await own.stop();
  const moved = await runHere(['move', '--to', 'postgres'], place);
  expect(moved).toMatchObject({ code: 0, stderr: '' });
  expect(moved.stdout).toMatch(/^Moved \d+ rows of \d+ tables/);
  expect(readdirSync(own.dir)).toContain('main.mdb.moved');
  const rows = await queryDatabase(boxes.address, 'SELECT value FROM understudy.rows');
  expect(rows.length).toBeGreaterThan(5);
  expect(rows.some(({ value }) => (value as Buffer).includes('crane'))).toBe(false);
  // A second move would mix two databases.
  renameSync(join(own.dir, 'main.mdb.moved'), join(own.dir, 'main.mdb'));
  expect((await runHere(['move', '--to', 'postgres'], place)).stderr).toContain('has rows already');

  const list = async (box: ControlPlaneChild) =>
    (await box.call(key, 'GET', '/v1/findings/code')).body.findings;
  const [a, b] = await Promise.all([boxes.open(env), boxes.open(env)]);
  for (const box of [a, b]) expect(await list(box)).toMatchObject([{ content: CONTENT }]);
  const back = { ...env, AUTH_DB_URL: boxes.address, DATA_DIR: makeFolder() };
  expect((await runHere(['move', '--to', 'folder'], back)).stderr).toContain('boxes use it');
  expect(existsSync(join(back.DATA_DIR, 'main.mdb'))).toBe(false);
  await a.call(key, 'POST', '/v1/findings/code', { ...finding, content: 'and right' });
  await Promise.all([a.stop(), b.stop()]);
  expect(await runHere(['move', '--to', 'folder'], back)).toMatchObject({ code: 0, stderr: '' });
  await using last = new ControlPlaneChild({ ...env, DATA_DIR: back.DATA_DIR });
  await last.start();
  expect((await list(last)).map(({ content }: { content: string }) => content).sort()).toEqual([
    'and right',
    CONTENT,
  ]);
  expect((await last.call(ann.token, 'GET', '/auth/me')).body.id).toBe(ann.id);
});

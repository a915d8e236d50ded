/**
 * A box with its own database moves it into PostgreSQL, shares it with another box, and moves it back. Own processes.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runHere } from '../cli/here.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { queryDatabase } from '../fixtures/postgres-server.ts';
import { makeFolder } from '../storage/folder.ts';
import { SharedBoxes } from './shared-boxes.ts';

const CONTENT = 'the harbour crane turns left';

/** Makes a finished run whose steps take two rows, and a run that has not finished. */
async function report(box: ControlPlaneChild, key: string): Promise<void> {
  const send = async (path: string, body: object) =>
    expect((await box.call(key, 'POST', `/v1/monitor/runs${path}`, body)).status).toBeLessThan(300);
  await send('', { run_id: 'ended', task: CONTENT, experiment_id: 'x', arm: 'on' });
  for (let step_index = 0; step_index < 130; step_index++)
    await send('/ended/steps', { step_index, action: 'look', observation: `${CONTENT} ${step_index}` });
  await send('/ended/finish', { outcome: 'success' });
  await send('', { run_id: 'goes-on', task: 'turn' });
  for (let step_index = 0; step_index < 2; step_index++)
    await send('/goes-on/steps', { step_index, action: 'turn', observation: 'turned', tokens: 7 });
}

/** The runs as the API shows them to people. */
async function readAll(box: ControlPlaneChild, token: string, key: string) {
  const read = async (path: string, credential = key) => {
    const answer = await box.call(credential, 'GET', path);
    expect(answer.status, path).toBe(200);
    return answer.body;
  };
  const { totals } = await read('/usage/?days=7', token);
  return {
    ...(await read('/v1/monitor/runs')),
    ended: await read('/v1/monitor/runs/ended/steps?limit=200'),
    goes_on: await read('/v1/monitor/runs/goes-on/steps'),
    experiment: await read('/v1/monitor/experiments/x/report'),
    totals,
  };
}

it('a database is moved into PostgreSQL, and back into another folder', { tags: 'long' }, async () => {
  await using boxes = await SharedBoxes.start();
  const keyFile = join(makeFolder(), 'key');
  writeFileSync(keyFile, randomBytes(32).toString('base64'), { mode: 0o600 });
  const env = { DATA_KEY_FILE: keyFile };
  await using own = new ControlPlaneChild({ ...env });
  await own.start();
  const ann = await own.person('ann');
  const { raw_key: key } = (await own.call(ann.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  await report(own, key);
  const before = await readAll(own, ann.token, key);
  expect(before.runs.map(({ run_id, steps }: { run_id: string; steps: number }) => [run_id, steps])).toEqual([
    ['goes-on', 2],
    ['ended', 130],
  ]);
  const finding = { finding_type: 'architecture', content: CONTENT, file_paths: ['a.ts'] };
  expect((await own.call(key, 'POST', '/v1/findings/code', finding)).status).toBe(200);

  const place = { ...env, AUTH_DB_URL: boxes.address, DATA_DIR: own.dir };
  const early = await runHere(['move', '--to', 'postgres'], place);
  expect(early).toMatchObject({ code: 1, stdout: '' });
  await own.stop();
  const moved = await runHere(['move', '--to', 'postgres'], place);
  expect(moved).toMatchObject({ code: 0, stderr: '' });
  expect(moved.stdout).toMatch(/^Moved \d+ rows of \d+ tables/);
  expect(readdirSync(own.dir)).toEqual(expect.arrayContaining(['main.mdb.moved', 'runs.mdb.moved']));
  expect(
    readdirSync(own.dir).filter((name) => name.startsWith('runs.mdb-') || name.endsWith('.redo')),
  ).toEqual([]);
  const steps = await queryDatabase(
    boxes.address,
    `SELECT value FROM understudy.run_rows WHERE tbl = 'rows:run_steps'`,
  );
  expect(steps.length).toBeGreaterThan(1);
  const rows = await queryDatabase(boxes.address, 'SELECT value FROM understudy.rows');
  expect(rows.length).toBeGreaterThan(5);
  expect(rows.some(({ value }) => (value as Buffer).includes('crane'))).toBe(false);
  // A second move would mix two databases.
  renameSync(join(own.dir, 'main.mdb.moved'), join(own.dir, 'main.mdb'));
  expect((await runHere(['move', '--to', 'postgres'], place)).stderr).toContain('has rows already');

  const list = async (box: ControlPlaneChild) =>
    (await box.call(key, 'GET', '/v1/findings/code')).body.findings;
  const [a, b] = await Promise.all([boxes.open(env), boxes.open(env)]);
  expect(await readAll(a, ann.token, key)).toEqual(before);
  expect(await readAll(b, ann.token, key)).toEqual(before);
  for (const box of [a, b]) expect(await list(box)).toMatchObject([{ content: CONTENT }]);
  const back = { ...env, AUTH_DB_URL: boxes.address, DATA_DIR: makeFolder() };
  expect((await runHere(['move', '--to', 'folder'], back)).stderr).toContain('boxes that use this database');
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
  expect(await readAll(last, ann.token, key)).toEqual(before);
});

it('a folder with only runs adds them to those of other boxes, once', { tags: 'long' }, async () => {
  await using boxes = await SharedBoxes.start();
  const count = async (org_id: string) => {
    const [row] = await boxes.query(
      `SELECT (SELECT count(*) FROM understudy.rows WHERE tbl = 'rows:runs' AND position('${org_id}'::bytea IN key) > 0) AS runs,
        (SELECT count(*) FROM understudy.run_rows WHERE tbl = 'rows:run_totals' AND position('${org_id}'::bytea IN key) > 0) AS running,
        (SELECT sum(n) FROM understudy.counters WHERE tbl = 'rows:usage' AND name = 'steps'
          AND position('${org_id}'::bytea IN key) > 0) AS steps`,
    );
    return Object.values(row!).map(Number);
  };
  const fill = async (name: string): Promise<{ dir: string; org_id: string }> => {
    const dir = makeFolder();
    await using own = new ControlPlaneChild({ DATA_DIR: dir });
    await own.start();
    const person = await own.person(name);
    const { raw_key: key } = (await own.call(person.token, 'POST', '/api-keys/', { name: 'ci' })).body;
    await report(own, key);
    await own.kill();
    return { dir, org_id: person.org_id };
  };
  const [first, second] = await Promise.all([fill('ann'), fill('bob')]);
  const move = (dir: string) =>
    runHere(['move', '--to', 'postgres'], { AUTH_DB_URL: boxes.address, DATA_DIR: dir });
  expect(await move(first.dir)).toMatchObject({ code: 0, stderr: '' });
  rmSync(join(second.dir, 'main.mdb'));
  expect(await count(second.org_id)).toEqual([0, 0, 0]);
  expect(await move(second.dir)).toMatchObject({ code: 0, stderr: '' });
  for (const { org_id } of [first, second]) expect(await count(org_id)).toEqual([2, 1, 132]);
  renameSync(join(second.dir, 'runs.mdb.moved'), join(second.dir, 'runs.mdb'));
  expect((await move(second.dir)).stderr).toMatch(/has some of these rows of .* already/);
  expect(await count(second.org_id)).toEqual([2, 1, 132]);
});

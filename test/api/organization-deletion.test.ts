/**
 * A deleted organization and a deleted account: after the answer to the deletion, no caller gets their data. Their rows
 * are removed from the disk, even with a kill in between. Usage counts and all other data stay.
 */

import { join } from 'node:path';
import { open } from 'lmdb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TableDeletionWork } from '../../src/storage/accounts/deletions.ts';
import { closeStores, databasePaths, openStores } from '../../src/storage/lmdb/stores.ts';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import { ControlPlaneChild, type Person, signToken } from '../fixtures/control-plane.ts';

const api = new ControlPlaneChild({ VECTOR_STORE_URL: 'embedded:', SERVER_THREADS: '2' });
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

let people = 0;
const newPerson = () => api.person(`leaver${++people}`);

async function send(credential: string, method: string, path: string, body?: object) {
  const answer = await api.call(credential, method, path, body);
  expect(answer.status, `${method} ${path} ${answer.text}`).toBeLessThan(300);
  return answer.body;
}
const statusOf = async (credential: string, path: string, method = 'GET', body?: object) =>
  (await api.call(credential, method, path, body)).status;
const newOrganization = async (owner: Person, name: string): Promise<string> =>
  (await send(owner.token, 'POST', '/organizations/', { name })).id;
const newKey = async (owner: Person, org_id: string, project_id?: string): Promise<string> =>
  (await send(owner.token, 'POST', '/api-keys/', { name: 'k', org_id, project_id })).raw_key;

/** Creates something of every kind in a project. */
async function fill(key: string, project_id: string, mark: string): Promise<{ pattern_id: string }> {
  const run = { project_id, run_id: `run-${mark}`, experiment_id: `exp-${mark}`, arm: 'on' };
  await send(key, 'POST', '/v1/monitor/runs', run);
  await send(key, 'POST', `/v1/monitor/runs/run-${mark}/steps`, { step_index: 0, observation: mark });
  await send(key, 'POST', '/v1/traces', {
    project_id,
    trace_id: `trace-${mark}`,
    outcome: 'success',
    steps: [],
  });
  await send(key, 'POST', `/v1/findings/base-${mark}`, {
    project_id,
    content: mark,
    file_path: `${mark}.ts`,
  });
  const patterns = [{ situation: `the ${mark} of a broken build`, dead_ends: '', unlock: mark }];
  const made = await send(key, 'POST', '/v1/patterns', { tier: 'e1', project_id, patterns });
  return made.patterns[0];
}

/** @returns the tables of the data directory that contain this text. The service must not run. */
async function tablesWith(needle: string): Promise<string[]> {
  const found = new Set<string>();
  for (const file of ['main.mdb', 'runs.mdb']) {
    const root = open({
      path: join(api.dir, file),
      noSubdir: true,
      keyEncoding: 'binary',
      encoding: 'binary',
      maxDbs: 100,
    });
    for (const name of [...root.getKeys()].map((key) =>
      Buffer.from(key as Uint8Array)
        .toString()
        .replace(/\0$/, ''),
    )) {
      const database = root.openDB<Buffer, Buffer>({ name, keyEncoding: 'binary', encoding: 'binary' });
      for (const { key, value } of database.getRange())
        if (Buffer.from(key).includes(needle) || Buffer.from(value).includes(needle)) found.add(name);
    }
    await root.close();
  }
  return [...found].sort();
}

describe('a deleted organization', () => {
  it('is gone at once for all users, and from the disk except for counts, audit log and deletion record', {
    tags: 'long',
    timeout: 120_000,
  }, async () => {
    const [owner, member, guest] = [await newPerson(), await newPerson(), await newPerson()];
    const org_id = await newOrganization(owner, 'doomed');
    await api.join(owner, org_id, member, 'member');
    const project: string = (await send(owner.token, 'POST', `/projects/?org_id=${org_id}`, { name: 'p' }))
      .id;
    const [wide, narrow] = [await newKey(owner, org_id), await newKey(owner, org_id, project)];
    await fill(wide, project, 'doomed');
    await send(wide, 'POST', '/v1/patterns', {
      tier: 'e2',
      patterns: [{ situation: 'a common of the doomed', dead_ends: '', unlock: 'u' }],
    });
    await send(wide, 'POST', '/v1/monitor/profiles', { name: 'mine', weights: {} });
    const invited = await send(owner.token, 'POST', `/organizations/${org_id}/invite`, {
      email: guest.email,
    });

    const path = `/organizations/${org_id}`;
    const deletion = await api.call(owner.token, 'DELETE', path);
    expect([deletion.status, deletion.text]).toEqual([204, '']);

    const unknown = await api.call(owner.token, 'GET', '/organizations/org_none');
    for (const person of [owner, member, guest]) {
      expect((await api.call(person.token, 'GET', path)).text).toBe(unknown.text);
      for (const under of ['members', 'invitations', 'audit-log'])
        expect(await statusOf(person.token, `${path}/${under}`)).toBe(404);
      expect(await statusOf(person.token, `/projects/${project}`)).toBe(404);
      expect(await statusOf(person.token, `/v1/monitor/runs?org_id=${org_id}`)).toBe(404);
      const { organizations, invitations } = (await api.call(person.token, 'GET', '/auth/bootstrap')).body;
      expect(organizations.map(({ id }: { id: string }) => id)).not.toContain(org_id);
      expect(invitations).toEqual([]);
    }
    expect(await statusOf(owner.token, path, 'DELETE')).toBe(404);
    expect(await statusOf(guest.token, `/organizations/invitations/${invited.id}/accept`, 'POST')).toBe(404);
    for (const key of [wide, narrow]) expect(await statusOf(key, '/v1/monitor/runs')).toBe(401);
    // The operator cannot add data to it either.
    expect(await statusOf(CHILD_KEY, `/v1/monitor/runs?org_id=${org_id}`)).toBe(404);
    expect(await statusOf(CHILD_KEY, '/v1/monitor/runs', 'POST', { org_id, run_id: 'r' })).toBe(404);

    await api.stop();
    const counted = [
      'audit',
      'deleted_scopes',
      'intervention_totals',
      'list_counts',
      'project_deletions',
      'usage',
    ];
    const left = (await tablesWith(org_id)).map((name) => name.replace(/^rows:/, ''));
    expect(left.filter((name) => !counted.includes(name))).toEqual([]);
    expect(left).toContain('usage');
    for (const needle of ['of a broken build', 'run-doomed', 'trace-doomed', 'base-doomed', invited.id])
      expect(
        (await tablesWith(needle)).filter((name) => name !== 'rows:audit'),
        needle,
      ).toEqual([]);
    await api.start();
  });

  it('is also gone if the process is killed before or after the answer', {
    tags: 'long',
    timeout: 120_000,
  }, async () => {
    const [owner, other] = [await newPerson(), await newPerson()];
    const org_id = await newOrganization(owner, 'killed');
    const [key, spared] = [await newKey(owner, org_id), await newKey(other, other.org_id)];
    for (let n = 0; n < 20; n++) await fill(key, `p${n % 3}`, `k${n}`);
    await fill(spared, 'p0', 'spared');
    const answer = api.call(owner.token, 'DELETE', `/organizations/${org_id}`).catch(() => null);
    const read = () => statusOf(owner.token, `/organizations/${org_id}`);
    await expect.poll(read, { timeout: 60_000, interval: 1 }).toBe(404);
    await api.kill();
    await answer;
    await api.start();
    expect(await read()).toBe(404);
    expect(await statusOf(key, '/v1/monitor/runs')).toBe(401);
    const stores = openStores(databasePaths(api.dir));
    try {
      const rows = () =>
        ['run_starts', 'run_lists', 'runs_by_experiment'].map(
          (table) => [...stores.runs.range(table, { prefix: [org_id] })].length,
        );
      await expect.poll(rows, { timeout: 60_000 }).toEqual([0, 0, 0]);
      const patterns = () => [...stores.main.range('patterns', { prefix: ['e1', org_id] })].length;
      await expect.poll(patterns, { timeout: 60_000 }).toBe(0);
    } finally {
      await closeStores(stores);
    }
    expect((await send(spared, 'GET', '/v1/monitor/runs')).runs).toHaveLength(1);
    expect((await send(spared, 'GET', '/v1/findings/base-spared')).total).toBe(1);
  });

  it('is deleted only by an owner', async () => {
    const owner = await newPerson();
    for (const role of ['admin', 'member', 'viewer']) {
      const person = await newPerson();
      await api.join(owner, owner.org_id, person, role);
      expect(await statusOf(person.token, `/organizations/${owner.org_id}`, 'DELETE'), role).toBe(403);
    }
    const [stranger, path] = [await newPerson(), `/organizations/${owner.org_id}`];
    const foreign = await api.call(stranger.token, 'DELETE', path);
    const unknown = await api.call(stranger.token, 'DELETE', '/organizations/org_none');
    expect([foreign.status, foreign.text]).toEqual([404, unknown.text]);
    expect(await statusOf(await newKey(owner, owner.org_id), path, 'DELETE')).toBe(403);
    expect(await statusOf(owner.token, path)).toBe(200);
  });

  it('is deleted once, however many requests ask, and accepts nothing meanwhile', async () => {
    const owner = await newPerson();
    const org_id = await newOrganization(owner, 'raced');
    const key = await newKey(owner, org_id);
    const writes = Array.from({ length: 60 }, (_, n) =>
      statusOf(key, '/v1/monitor/runs', 'POST', { run_id: `raced-${n}` }),
    );
    const deletions = Array.from({ length: 5 }, () =>
      statusOf(owner.token, `/organizations/${org_id}`, 'DELETE'),
    );
    const projects = Array.from({ length: 5 }, () =>
      statusOf(owner.token, `/projects/?org_id=${org_id}`, 'POST', { name: 'p' }),
    );
    expect((await Promise.all(deletions)).sort()).toEqual([204, 404, 404, 404, 404]);
    for (const status of await Promise.all(writes)) expect([200, 401, 404]).toContain(status);
    for (const status of await Promise.all(projects)) expect([200, 404]).toContain(status);
    expect(await statusOf(key, '/v1/monitor/runs')).toBe(401);
  });
});

describe('a deleted account', () => {
  const tokenOf = (name: string, iat: number) => signToken(name, { claims: { iat } });
  const nowS = () => Math.floor(Date.now() / 1_000);

  it('is refused at once, and its address can sign up again', { tags: 'long' }, async () => {
    const [friend, name] = [await newPerson(), `leaver${++people}`];
    const old = await tokenOf(name, nowS() - 5);
    const me = await api.person(name, { claims: { iat: nowS() - 5 } });
    const own = me.org_id;
    const key = await newKey(me, own);
    await api.join(friend, friend.org_id, me, 'member');
    const shared = await newKey(me, friend.org_id);
    await send(old, 'POST', '/feedback/', { message: 'farewell-of-the-leaver' });
    expect((await api.call(old, 'DELETE', '/auth/me')).status).toBe(204);
    for (const path of [
      '/auth/me',
      '/auth/bootstrap',
      '/organizations/',
      `/v1/monitor/runs?org_id=${friend.org_id}`,
    ])
      expect(await statusOf(old, path), path).toBe(401);
    expect(await statusOf(old, '/auth/me', 'DELETE')).toBe(401);
    // The account's own organization was deleted with the account. A key of another organization belongs to that
    // organization, so it still works.
    expect(await statusOf(key, '/v1/monitor/runs')).toBe(401);
    expect(await statusOf(shared, '/v1/monitor/runs')).toBe(200);
    const members = (await send(friend.token, 'GET', `/organizations/${friend.org_id}/members`)) as Person[];
    expect(members.map(({ email }) => email)).toEqual([friend.email]);
    const log = await send(friend.token, 'GET', `/organizations/${friend.org_id}/audit-log`);
    expect(log[0]).toMatchObject({ action: 'user.delete', actor: me.id, target: me.id });
    expect(await statusOf(friend.token, `/organizations/${own}`)).toBe(404);

    const invited = await send(friend.token, 'POST', `/organizations/${friend.org_id}/invite`, {
      email: me.email,
    });
    const fresh = await tokenOf(name, nowS() + 5);
    const again = await send(fresh, 'GET', '/auth/me');
    expect(again.email).toBe(me.email);
    expect(again.id).not.toBe(me.id);
    expect(await statusOf(old, '/auth/me')).toBe(401);
    expect(await statusOf(old, `/v1/monitor/runs?org_id=${friend.org_id}`)).toBe(401);
    await send(fresh, 'POST', `/organizations/invitations/${invited.id}/accept`);
    expect(await statusOf(fresh, `/v1/monitor/runs?org_id=${friend.org_id}`)).toBe(200);
    // A token without an issue time may be older than the deletion, so it is refused.
    expect(await statusOf(await signToken(name), '/auth/me')).toBe(401);

    await api.stop();
    await api.start();
    expect(await statusOf(old, '/auth/me')).toBe(401);
    const stores = openStores(databasePaths(api.dir));
    try {
      const said = () => JSON.stringify([...stores.main.range('feedback', { prefix: [] })]);
      await expect.poll(said, { timeout: 60_000 }).not.toContain('farewell-of-the-leaver');
      const users = () => [...stores.main.range('users', { prefix: [me.id] })].length;
      expect(users()).toBe(0);
    } finally {
      await closeStores(stores);
    }
  });

  it('is refused while its user owns an organization with other members', async () => {
    const [me, other] = [await newPerson(), await newPerson()];
    const org_id = await newOrganization(me, 'Left behind');
    await api.join(me, org_id, other, 'member');
    const refused = await api.call(me.token, 'DELETE', '/auth/me');
    expect(refused.status).toBe(409);
    expect(refused.body.detail).toContain(`Left behind (${org_id})`);
    // The refused deletion changed nothing.
    expect(await statusOf(me.token, `/organizations/${me.org_id}`)).toBe(200);
    await send(me.token, 'PATCH', `/organizations/${org_id}/members/${other.id}`, { role: 'owner' });
    expect(await statusOf(me.token, '/auth/me', 'DELETE')).toBe(204);
    expect(await statusOf(other.token, `/organizations/${org_id}`)).toBe(200);
    expect(await statusOf(me.token, '/auth/me')).toBe(401);
  });

  it('cannot be deleted by an API key', async () => {
    expect(await statusOf(CHILD_KEY, '/auth/me', 'DELETE')).toBe(403);
    expect(await statusOf('', '/auth/me', 'DELETE')).toBe(401);
  });

  it('leaves nothing that its requests in progress created', async () => {
    const me = await newPerson();
    const making = Array.from({ length: 20 }, (_, n) =>
      statusOf(me.token, '/organizations/', 'POST', { name: `late-${me.name}-${n}` }),
    );
    const renaming = Array.from({ length: 5 }, () =>
      statusOf(me.token, '/auth/me', 'PATCH', { display_name: 'Late' }),
    );
    expect(await statusOf(me.token, '/auth/me', 'DELETE')).toBe(204);
    for (const status of await Promise.all([...making, ...renaming])) expect([200, 401]).toContain(status);
    const stores = openStores(databasePaths(api.dir));
    try {
      expect([...stores.main.range('users', { prefix: [me.id] })]).toEqual([]);
      const named = JSON.stringify([...stores.main.range('organizations', { prefix: [] })]);
      expect(named).not.toContain(`late-${me.name}`);
    } finally {
      await closeStores(stores);
    }
  });
});

describe('a deleted project whose content still exists', () => {
  it('is as if it had never existed, and accepts nothing', { tags: 'long', timeout: 120_000 }, async () => {
    const owner = await newPerson();
    const { org_id } = owner;
    const key = await newKey(owner, org_id);
    const newProject = async (name: string): Promise<string> =>
      (await send(owner.token, 'POST', `/projects/?org_id=${org_id}`, { name })).id;
    const [gone, stays] = [await newProject('gone'), await newProject('stays')];
    const pattern = await fill(key, gone, 'buried');
    await fill(key, stays, 'seen');
    const mixed = { project_id: stays, content: 'seen too' };
    await send(key, 'POST', '/v1/findings/base-buried', mixed);
    await api.stop();
    // Stores the state after the answer to the deletion of a large project, which lasts for the duration of this
    // test.
    const stores = openStores(databasePaths(api.dir));
    await stores.main.transact((tx) => {
      new TableDeletionWork(tx).note({ org_id, project_id: gone }, Date.now());
      tx.write({
        op: 'put',
        table: 'project_deletions',
        row: [org_id, gone],
        value: { at_ms: Date.now(), is_swept: true },
      });
    });
    await closeStores(stores);
    await api.start();

    const reads = [
      '/v1/monitor/runs',
      `/v1/monitor/runs?project_id=${gone}`,
      '/v1/traces',
      `/v1/traces?project_id=${gone}`,
      '/v1/monitor/experiments',
      '/v1/monitor/experiments/exp-buried/report',
      `/v1/patterns?project_id=${gone}`,
      '/v1/findings/base-buried',
      `/v1/findings/base-buried?project_id=${gone}`,
    ];
    for (const path of reads) {
      const { status, text } = await api.call(key, 'GET', path);
      expect(status, path).toBe(200);
      expect(text.replaceAll('exp-buried', '').replaceAll('base-buried', ''), path).not.toMatch(/buried/);
    }
    const report = await send(key, 'GET', '/v1/monitor/experiments/exp-buried/report');
    expect(report.arms.on.runs).toBe(0);
    const bases = await send(key, 'GET', '/v1/findings');
    expect(bases.codebases.map(({ codebase_id }: { codebase_id: string }) => codebase_id).sort()).toEqual([
      'base-buried',
      'base-seen',
    ]);
    expect((await send(key, 'GET', '/v1/findings/base-buried')).total).toBe(1);
    const missing: [string, string, string, object?][] = [
      ['GET', '/v1/monitor/runs/run-buried', '/v1/monitor/runs/run-none'],
      ['GET', '/v1/monitor/runs/run-buried/steps', '/v1/monitor/runs/run-none/steps'],
      ['DELETE', '/v1/monitor/runs/run-buried', '/v1/monitor/runs/run-none'],
      ['POST', '/v1/monitor/runs/run-buried/steps', '/v1/monitor/runs/run-none/steps', { step_index: 1 }],
      [
        'POST',
        '/v1/monitor/runs/run-buried/finish',
        '/v1/monitor/runs/run-none/finish',
        { outcome: 'success' },
      ],
      ['GET', '/v1/traces/trace-buried', '/v1/traces/trace-none'],
      ['DELETE', '/v1/traces/trace-buried', '/v1/traces/trace-none'],
      [
        'GET',
        `/v1/patterns/${pattern.pattern_id}?project_id=${gone}`,
        `/v1/patterns/pat_none?project_id=${gone}`,
      ],
    ];
    for (const [method, path, unknown, body] of missing) {
      const [known, none] = [
        await api.call(key, method, path, body),
        await api.call(key, method, unknown, body),
      ];
      expect([known.status, known.text], `${method} ${path}`).toEqual([404, none.text]);
    }
    expect(await statusOf(key, '/v1/monitors/evaluate', 'POST', { run_id: 'run-buried' })).toBe(404);
    const found = await send(key, 'POST', '/v1/traces/retrieve', {
      context: 'the buried of a broken build',
      top_k: 20,
      min_similarity: 0,
    });
    expect(found.traces.map(({ fields }: { fields: { unlock: string } }) => fields.unlock)).toContain('seen');
    expect(JSON.stringify(found)).not.toContain('buried');
    const recalled = await send(key, 'POST', '/v1/findings/base-buried/recall', {
      query: 'seen too',
      score_threshold: 0,
    });
    expect(recalled.findings.map(({ content }: { content: string }) => content)).toEqual(['seen too']);
    const covered = await send(key, 'POST', '/v1/findings/base-buried/coverage', {
      file_paths: ['buried.ts'],
    });
    expect(covered.coverage).toBe(0);

    const writes: [string, object][] = [
      ['/v1/monitor/runs', { run_id: 'late' }],
      ['/v1/traces', { trace_id: 'late', outcome: 'success', steps: [] }],
      ['/v1/findings/late', { content: 'late' }],
      ['/v1/patterns', { tier: 'e1', patterns: [{ situation: 'late', dead_ends: '', unlock: 'u' }] }],
    ];
    for (const [path, body] of writes) {
      expect(await statusOf(key, path, 'POST', { ...body, project_id: gone }), path).toBe(404);
      expect(await statusOf(CHILD_KEY, path, 'POST', { ...body, project_id: gone, org_id }), path).toBe(404);
      expect(await statusOf(key, path, 'POST', { ...body, project_id: stays }), path).toBeLessThan(300);
    }
    // The ids of its runs are refused until the runs are deleted.
    expect(await statusOf(key, '/v1/monitor/runs', 'POST', { run_id: 'run-buried' })).toBe(503);

    // The last pass of the deletion removes late data and its own record.
    await api.stop();
    const again = openStores(databasePaths(api.dir));
    await again.main.transact((tx) =>
      tx.write({
        op: 'put',
        table: 'project_deletions',
        row: [org_id, gone],
        value: { at_ms: Date.now() - 3_600_000, is_swept: true },
      }),
    );
    await api.start();
    const notes = () => [...again.main.range('project_deletions', { prefix: [org_id] })].length;
    await expect.poll(notes, { timeout: 60_000 }).toBe(0);
    expect([...again.runs.range('run_starts', { prefix: [org_id, 'run-buried'] })]).toEqual([]);
    await closeStores(again);
    expect(await statusOf(key, '/v1/monitor/runs', 'POST', { run_id: 'run-buried' })).toBe(200);
    expect(await statusOf(key, '/v1/monitor/runs', 'POST', { run_id: 'late-2', project_id: gone })).toBe(404);
    expect((await send(key, 'GET', `/v1/monitor/runs?project_id=${stays}`)).runs).toHaveLength(2);
  });
});

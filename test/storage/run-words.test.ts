/**
 * External statements about captured runs: outcomes by id, those of an earlier version, and marks that survive a
 * backup.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { RUN_LISTS, runListKeys } from '../../src/domain/run-list.ts';
import { type CaptureOwner, NO_WORDS, RUN_MARKS } from '../../src/domain/run-mark.ts';
import { RUN_OUTCOMES, RUNS } from '../../src/domain/run-rows.ts';
import { speaksOfCaptures } from '../../src/storage/accounts/capture-owner.ts';
import { writeBackup } from '../../src/storage/backup.ts';
import { closeStores, databasePaths, openStores } from '../../src/storage/lmdb/stores.ts';
import { restoreBackup } from '../../src/storage/restore.ts';
import { listOldRows, OUTCOME_LISTING } from '../../src/storage/row-listing.ts';
import { StoredRunWords } from '../../src/storage/run-words.ts';
import type { TableStores } from '../../src/storage/stores.ts';

const ACTOR = { type: 'user', id: 'usr_ann', address: '127.0.0.1' } as const;
let dir: string;
let stores: TableStores;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'understudy-words-'));
  stores = openStores(databasePaths(dir));
});
afterEach(async () => {
  await closeStores(stores);
  rmSync(dir, { recursive: true, force: true });
});

const oldRun = (org_id: string, run_id: string, status: string, outcome: string) =>
  stores.runs.transact((tx) =>
    tx.write({
      op: 'put',
      table: RUNS,
      row: [org_id, 'p', run_id],
      value: { org_id, project_id: 'p', run_id, status, outcome },
    }),
  );

const NO_OWNER: CaptureOwner = { org: null, emails: [], owner: null };

async function ask(folders: string[], ...runIds: string[]) {
  return askAs(NO_OWNER, folders, ...runIds);
}

async function askAs(owner: CaptureOwner, folders: string[], ...runIds: string[]) {
  const words = new StoredRunWords(
    folders.map((folder) => databasePaths(folder)),
    (main, org_id) => speaksOfCaptures(main, owner, org_id),
  );
  try {
    return runIds.map((runId) => words.of(runId));
  } finally {
    await words.close();
  }
}

it('outcomes that an earlier version stored are found before and after they are listed by id', async () => {
  await oldRun('acme', 'one', 'finished', 'success');
  await oldRun('beta', 'one', 'finished', 'failure: Error');
  await oldRun('acme', 'two', 'running', '');
  const expected = [{ ...NO_WORDS, outcome: 'failure: Error' }, NO_WORDS, NO_WORDS];
  expect(await ask([dir], 'one', 'two', 'none')).toEqual(expected);
  await listOldRows(stores.runs, OUTCOME_LISTING, () => false);
  expect(await ask([dir], 'one', 'two', 'none')).toEqual(expected);
  expect([...stores.runs.range(RUN_OUTCOMES, { prefix: [] })]).toHaveLength(2);
});

it('all marks and outcomes of captured runs are listed, and no others', async () => {
  await oldRun('acme', 'one', 'finished', 'success');
  await oldRun('acme', 'other', 'finished', 'success');
  await stores.accounts.transact((tx) =>
    tx.marks.change(ACTOR, 0, { run_id: 'two', org_id: '', log_org: 'acme' }, { mark: 'bad' }),
  );
  const words = new StoredRunWords([databasePaths(join(dir, 'nothing')), databasePaths(dir)], () => true);
  const captured = { find: (runId: string) => (runId === 'other' ? undefined : runId) };
  expect([...words.all(captured)]).toEqual([
    ['one', { ...NO_WORDS, outcome: 'success' }],
    ['two', { ...NO_WORDS, mark: 'bad' }],
  ]);
  await words.close();
});

it('each change of a mark is logged, the same mark again is not, and a mark can be removed', async () => {
  const mark = (word: 'good' | 'bad' | null) =>
    stores.accounts.transact((tx) =>
      tx.marks.change(ACTOR, 0, { run_id: 'one', org_id: '', log_org: 'acme' }, { mark: word }),
    );
  expect(await mark('good')).toMatchObject({ mark: 'good', marked_by: 'usr_ann' });
  await mark('good');
  await mark('bad');
  expect(await mark(null)).toBeNull();
  const { items } = stores.accounts.audit.list('acme', { limit: 10, offset: 0 });
  const changes = items.map(({ before, after }) => [before?.mark, after?.mark]);
  expect(new Set(changes.map(String))).toEqual(new Set(['bad,', ',good', 'good,bad']));
  expect(await ask([dir], 'one')).toEqual([NO_WORDS]);
});

it('marks that an earlier version stored are read; among marks of several organizations, the latest permitted one counts', async () => {
  const legacy = { mark: 'good', marked_at: '2026-01-01T00:00:00.000Z', marked_by: 'usr_ann' };
  const say = (org_id: string, nowMs: number, tags: string[]) =>
    stores.accounts.transact((tx) =>
      tx.marks.change(ACTOR, nowMs, { run_id: 'one', org_id, log_org: '' }, { tags }),
    );
  await stores.main.transact((tx) => tx.write({ op: 'put', table: RUN_MARKS, row: ['one'], value: legacy }));
  expect(await ask([dir], 'one')).toEqual([{ ...NO_WORDS, mark: 'good' }]);
  const year = Date.UTC(2026, 5);
  await say('acme', year, ['acme']);
  await say('beta', year + 1, ['beta']);
  const heard: CaptureOwner = { org: 'acme', emails: [], owner: null };
  expect(await askAs(heard, [dir], 'one', 'on')).toEqual([{ ...NO_WORDS, tags: ['acme'] }, NO_WORDS]);
});

it('marks of erased captures are removed, except those of organizations that may not mark them', async () => {
  const say = (run_id: string, org_id: string) =>
    stores.accounts.transact((tx) =>
      tx.marks.change(ACTOR, 1, { run_id, org_id, log_org: '' }, { tags: [org_id] }),
    );
  for (const org_id of ['', 'acme', 'other']) await say('one', org_id);
  await say('one-more', 'acme');
  await stores.accounts.transact((tx) => tx.marks.removeErased(['one'], (org_id) => org_id === 'acme'));
  const left = [...stores.main.range(RUN_MARKS, { prefix: [] })].map(({ row }) => row);
  expect(left).toEqual([
    ['one', 'other'],
    ['one-more', 'acme'],
  ]);
  expect([...stores.accounts.marks.list('acme', 10)].map(([run_id]) => run_id)).toEqual(['one-more']);
});

it('marks are in a backup', async () => {
  await stores.accounts.transact((tx) =>
    tx.marks.change(
      ACTOR,
      0,
      { run_id: 'one', org_id: '', log_org: '' },
      { mark: 'good', tags: ['flaky'], note: 'see the log' },
    ),
  );
  const backup = join(dir, 'backup');
  const restored = join(dir, 'restored');
  mkdirSync(restored);
  const places = (data_dir: string) => ({ data_dir, capture_db: join(data_dir, 'capture.mdb') });
  await writeBackup(places(dir), backup, () => {}, 0);
  await restoreBackup(backup, places(restored), () => {});
  expect(await ask([restored], 'one')).toEqual([
    { ...NO_WORDS, mark: 'good', tags: ['flaky'], note: 'see the log' },
  ]);
});

it.each([
  ['not yet listed by id', false],
  ['listed by id', true],
])('outcomes %s count where their organization may mark captures', async (_, isListed) => {
  const makeOrganization = (email: string, email_verified: boolean) =>
    stores.accounts.transact((tx) => {
      const identity = { issuer: 'i', subject: email, issued_at_s: null };
      const user = tx.users.create({ ...identity, email, name: null, email_verified }, 0);
      return tx.organizations.create({ name: email, created_by: user.id }, 0).id;
    });
  const tenant = await makeOrganization('mallory@example.com', true);
  const impostor = await makeOrganization('Ops@example.com', false);
  const operator = await makeOrganization('ops@example.com', true);
  const owner = await makeOrganization('owner@example.com', true);
  for (const org_id of [tenant, impostor, operator, owner, 'acme'])
    await oldRun(org_id, `of ${org_id}`, 'finished', 'failure: Error');
  await oldRun('acme', 'one', 'finished', 'success');
  await oldRun(tenant, 'one', 'finished', 'failure: Error');
  if (isListed) await listOldRows(stores.runs, OUTCOME_LISTING, () => false);

  const failedFor = async (rules: Partial<CaptureOwner>) => {
    const all = [tenant, impostor, operator, owner, 'acme'];
    const words = await askAs({ ...NO_OWNER, ...rules }, [dir], ...all.map((org_id) => `of ${org_id}`));
    return all.filter((_, i) => words[i]!.outcome !== null);
  };
  expect(await failedFor({})).toEqual(['acme']);
  const identity = { issuer: 'i', subject: 'owner@example.com' };
  expect(await failedFor({ owner: identity, emails: ['ops@example.com'] })).toEqual([
    operator,
    owner,
    'acme',
  ]);
  expect(await failedFor({ org: tenant, owner: identity, emails: ['ops@example.com'] })).toEqual([tenant]);
  // One organization reports a failure, but its reports do not count. Another reports a success, and its reports count.
  expect(await ask([dir], 'one')).toEqual([{ ...NO_WORDS, outcome: 'success' }]);
});

it('reported runs of all organizations together stay within the bound', async () => {
  const ids = ['acme', 'beta', 'gamma'].flatMap((org) => [1, 2, 3, 4, 5].map((at) => `${org}-${at}`));
  for (const [at, run_id] of ids.entries()) {
    const [org_id] = run_id.split('-') as [string];
    const started_at_ms = 1_000 + at;
    const run = { org_id, project_id: 'p', run_id, status: 'finished', fired: {} };
    await stores.runs.transact((tx) => {
      tx.write({
        op: 'put',
        table: RUNS,
        row: [run.org_id, 'p', run_id],
        value: { ...run, started_at: new Date(started_at_ms).toISOString() },
      });
      for (const row of runListKeys(run, { started_at_ms, run_id }))
        tx.write({ op: 'put', table: RUN_LISTS, row, value: { project_id: 'p' } });
    });
  }
  const words = new StoredRunWords([databasePaths(dir)], () => true, 7);
  for (let round = 0; round < 3; round++) {
    words.followReported(() => true);
    const known = ids.filter((id) => words.reportedOf(id) !== undefined);
    expect(known).toEqual([...ids.slice(0, 5), 'beta-5']);
  }
  await words.close();
});

/**
 * One suite for the ports of all stores: the reads and changes that the product makes, in its own terms. Test thread.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeAuditEntry, outboxWrite } from '../../src/domain/audit-rows.ts';
import { FINDINGS, FINDINGS_CODEBASES, FINDINGS_INDEXED, findingRow } from '../../src/domain/finding-rows.ts';
import { makeProfile } from '../../src/domain/monitors/profiles.ts';
import { ownScope } from '../../src/domain/pattern.ts';
import {
  PATTERN_SETTINGS,
  PATTERN_SOURCES,
  putPattern,
  STARTERS_ROW,
  sourceKey,
} from '../../src/domain/pattern-rows.ts';
import { RUN_LISTS, runListKeys } from '../../src/domain/run-list.ts';
import { RUN_DELETIONS, RUN_STARTS, RUNS, type RunRow, runKey } from '../../src/domain/run-rows.ts';
import { RUNS_BY_EXPERIMENT } from '../../src/domain/run-summary.ts';
import {
  TRACE_LISTS,
  TRACES,
  type TraceStatus,
  traceListKeys,
  traceRowKey,
  UNFINISHED_TRACES,
} from '../../src/domain/trace-rows.ts';
import { usageWrites } from '../../src/domain/usage.ts';
import type { RowWrite } from '../../src/runtime/protocol.ts';
import { carryAudit } from '../../src/storage/accounts/audit.ts';
import type { NewestFirst, OldestFirst } from '../../src/storage/ports/page.ts';
import type { Stores } from '../../src/storage/ports/stores.ts';

/** An empty store and its ports. */
export interface OpenPorts {
  stores: Pick<Stores, 'accounts' | 'run_records' | 'experiments'>;
  /** Commits rows of the main database, as actors do. */
  writeMain(writes: readonly RowWrite[]): Promise<void>;
  /** Commits rows of runs, as actors do. */
  writeRuns(writes: readonly RowWrite[]): Promise<void>;
  close(): Promise<void>;
}

const NOW = Date.parse('2026-03-01T10:00:00.000Z');
const OPERATOR = { type: 'operator', id: 'cli', address: '' } as const;
const NONE: ReadonlySet<string> = new Set();
const put = (table: string, row: RowWrite['row'], value: unknown): RowWrite => ({
  op: 'put',
  table,
  row,
  value,
});

const newest = (more: Partial<NewestFirst> = {}): NewestFirst => ({
  org_id: 'org',
  project_id: null,
  after: null,
  from_ms: Number.NEGATIVE_INFINITY,
  limit: 10,
  hidden: NONE,
  ...more,
});
const oldest = (more: Partial<OldestFirst> = {}): OldestFirst => ({
  org_id: 'org',
  project_id: null,
  before_ms: Number.POSITIVE_INFINITY,
  after: null,
  limit: 10,
  ...more,
});

function runRows(org_id: string, project_id: string, run_id: string, ms: number): RowWrite[] {
  const run = { org_id, project_id, run_id, status: 'running', fired: {} } as RunRow;
  return [
    put(RUNS, runKey(run), run),
    put(RUN_STARTS, [org_id, run_id], { project_id, task: `task of ${run_id}` }),
    ...runListKeys(run, { started_at_ms: ms, run_id }).map((row) => put(RUN_LISTS, row, { project_id })),
  ];
}

function traceRows(project_id: string | null, trace_id: string, ms: number, status: TraceStatus): RowWrite[] {
  const address = { org_id: 'org', project_id, trace_id };
  return [
    put(TRACES, traceRowKey(address), { trace_id, project_id, status }),
    ...traceListKeys(address, ms).map((row) => put(TRACE_LISTS, row, { project_id })),
  ];
}

function findingRows(codebase_id: string, seq: number, project_id: string, created_at: string): RowWrite[] {
  const row = findingRow({ org_id: 'org', codebase_id }, seq);
  const finding_id = `f${seq}`;
  return [
    put(FINDINGS, row, { finding_id, project_id, content: `note ${seq}` }),
    put(FINDINGS_INDEXED, row, { finding_id, project_id, created_at }),
    put(FINDINGS_CODEBASES, ['org', codebase_id], {
      next_seq: seq + 1,
      count: seq + 1,
      embedder_id: 'minilm',
    }),
  ];
}

/** Defines the suite for one kind of store. @param prepare makes an empty store */
export function describePorts(name: string, prepare: () => OpenPorts | Promise<OpenPorts>): void {
  describe(`the ports of ${name}`, () => {
    let store: OpenPorts;
    beforeEach(async () => {
      store = await prepare();
    });
    afterEach(() => store.close());

    describe('accounts', () => {
      it('change several kinds of records in one transaction, or none of them', async () => {
        const { accounts } = store.stores;
        const make = (isRefused: boolean) =>
          accounts.transact((tx) => {
            const { id } = tx.organizations.create({ name: 'Ours', created_by: 'usr_a' }, NOW);
            tx.projects.create({ org_id: id, name: 'Web', created_by: 'usr_a' }, NOW);
            tx.audit.add(OPERATOR, NOW, { org_id: id, action: 'organization.create', target: id });
            expect(tx.organizations.roleOf(id, 'usr_a')).toBe('owner');
            expect(tx.projects.list(id, { limit: 5, offset: 0 }).total).toBe(1);
            if (isRefused) throw new Error('refused');
            return id;
          });
        await expect(make(true)).rejects.toThrow('refused');
        expect(accounts.organizations.listOf('usr_a')).toEqual([]);
        const id = await make(false);
        expect(accounts.organizations.listOf('usr_a').map(({ organization }) => organization.id)).toEqual([
          id,
        ]);
        expect(accounts.audit.list(id, { limit: 5, offset: 0 }).items).toMatchObject([{ target: id }]);
      });

      it('know a key by its digest, count its uses, and revoke it', async () => {
        const { accounts } = store.stores;
        const key = {
          id: 'key_1',
          org_id: 'org',
          project_id: 'web',
          name: 'ci',
          hash: 'h1',
          prefix: 'svc',
          last4: '1234',
        };
        const record = {
          ...key,
          created_by: null,
          created_at: new Date(NOW).toISOString(),
          expires_at: null,
          revoked_at: null,
        };
        await accounts.transact(({ keys }) => keys.insert(record));
        expect(accounts.keys.findByHash('h1')).toEqual(record);
        expect(accounts.keys.findByHash('h2')).toBeUndefined();
        for (const day of ['2026-02-28', '2026-03-01', '2026-03-01'])
          await accounts.transact(({ keys }) => keys.addRequests('key_1', day, 2));
        expect([...accounts.keys.listRequests('key_1', '2026-03-01')]).toEqual([
          { date: '2026-03-01', requests: 4 },
        ]);
        expect([...accounts.keys.listLive('org', null, NOW)]).toEqual([{ id: 'key_1', project_id: 'web' }]);
        const revoked_at = new Date(NOW).toISOString();
        await accounts.transact(({ keys }) => keys.end('key_1', { revoked_at }));
        expect(accounts.keys.countLive('org', null, NOW)).toBe(0);
        expect(accounts.keys.findByHash('h1')).toEqual({ ...record, revoked_at });
      });

      it('remove all data of a deleted organization, and no other data', async () => {
        const { accounts } = store.stores;
        const profile = makeProfile('strict', {}, {});
        for (const org of ['org', 'other'])
          await accounts.transact((tx) => {
            tx.profiles.put(org, profile);
            tx.searches.save({ org_id: org, user_id: 'usr_a' }, 'outcome:failure', NOW);
            tx.marks.change(OPERATOR, NOW, { run_id: 'r', org_id: org, log_org: org }, { mark: 'bad' });
          });
        await accounts.removeAllOfOrganization('org');
        const has = (org_id: string) => [
          accounts.profiles.list(org_id, null).length,
          accounts.searches.list({ org_id, user_id: 'usr_a' }).length,
          [...accounts.marks.list(org_id, 10)].length,
        ];
        expect([has('org'), has('other')]).toEqual([
          [0, 0, 0],
          [1, 1, 1],
        ]);
        expect(accounts.audit.list('org', { limit: 5, offset: 0 }).total).toBe(1);
      });

      it('sum what was counted by day and project', async () => {
        const counts = { retrievals: 2, injections_retrieve: 1 };
        for (const project of ['web', 'api']) await store.writeMain(usageWrites('org', NOW, project, counts));
        const { usage } = store.stores.accounts;
        expect(usage.listCounts('org', '2026-03-01').map(({ project_id }) => project_id)).toEqual([
          'api',
          'web',
        ]);
        expect(usage.listCounts('org', '2026-03-02')).toEqual([]);
        expect(usage.listProjectCounts('org', 'web', ['2026-03-01'])).toMatchObject([{ counts }]);
        expect(usage.sumInterventions('org', null)).toMatchObject({ injections_retrieve: 2 });
      });
    });

    describe('runs', () => {
      beforeEach(() =>
        store.writeRuns([
          ...runRows('org', 'web', 'r1', NOW),
          ...runRows('org', 'api', 'r2', NOW + 1),
          ...runRows('org', 'web', 'r3', NOW + 2),
          ...runRows('other', 'web', 'r1', NOW),
          put(RUN_DELETIONS, ['org', 'r9'], 1),
        ]),
      );

      it('are listed from both ends, in pages', async () => {
        const { run_records: runs } = store.stores;
        const ids = async (more: Partial<NewestFirst>, isWanted = (_: RunRow) => true) =>
          (await runs.listNewest(newest(more), isWanted)).found.map(({ row }) => row.run_id);
        expect(await ids({})).toEqual(['r3', 'r2', 'r1']);
        expect(await ids({ project_id: 'web' })).toEqual(['r3', 'r1']);
        expect(await ids({ hidden: new Set(['web']) })).toEqual(['r2']);
        expect(await ids({ from_ms: NOW + 1 })).toEqual(['r3', 'r2']);
        expect(await ids({}, (run) => run.run_id === 'r1')).toEqual(['r1']);
        const { last, looked } = await runs.listNewest(newest({ limit: 1 }), () => true);
        expect(looked).toBe(1);
        expect(await ids({ after: last })).toEqual(['r2', 'r1']);
        const early = runs.listOldest(oldest({ before_ms: NOW + 2 }));
        expect(early).toMatchObject([
          { run_id: 'r1', project_id: 'web' },
          { run_id: 'r2', project_id: 'api' },
        ]);
        expect(runs.listOldest(oldest({ after: early[0]!.place })).map(({ run_id }) => run_id)).toEqual([
          'r2',
          'r3',
        ]);
        expect([...runs.listOrganizations()]).toEqual(['org', 'other']);
      });

      it('are found by name and project', () => {
        const { run_records: runs } = store.stores;
        const run = { org_id: 'org', project_id: 'web', run_id: 'r1' };
        expect(runs.find(run)).toMatchObject({ row: run, start: { task: 'task of r1' } });
        expect(runs.find({ ...run, project_id: 'api' })).toBeUndefined();
        expect(runs.findStart({ org_id: 'org', run_id: 'r2' })).toMatchObject({ project_id: 'api' });
        const found = runs.findAll([{ ...run, run_id: 'r3' }, { ...run, run_id: 'none' }, run]);
        expect(found.map(({ row }) => row.run_id)).toEqual(['r3', 'r1']);
        expect(runs.listDeletions(10)).toEqual([{ org_id: 'org', run_id: 'r9' }]);
      });

      it('can be loaded into memory, and later changes can be followed', async () => {
        const reported = store.stores.run_records.followReported('org', 10);
        while (reported.follow(() => true));
        expect([...reported.values()].map(({ run_id }) => run_id).sort()).toEqual(['r1', 'r2', 'r3']);
        await store.writeRuns(runRows('org', 'web', 'r4', NOW + 3));
        while (reported.follow(() => true));
        expect(reported.get('r4')).toMatchObject({ project_id: 'web' });
        // Another organization needs the room.
        expect([reported.size, reported.is_whole]).toEqual([4, true]);
        while (reported.follow(() => true, 2));
        expect([reported.size <= 2, reported.is_whole]).toEqual([true, false]);
        while (reported.follow(() => true, -1));
        expect([...reported.values()]).toEqual([]);
      });

      it('leave audit entries, each of which is moved into the log once', async () => {
        const { accounts, run_records } = store.stores;
        const entry = (org_id: string) =>
          makeAuditEntry(OPERATOR, NOW, { org_id, action: 'run.delete', target: 'r1' });
        const [own, other] = [entry('org'), entry('other')];
        await store.writeRuns([outboxWrite(own), outboxWrite(other)]);
        await accounts.transact(({ audit }) => audit.take(own));
        await carryAudit(store.stores, 'org');
        expect(accounts.audit.list('org', { limit: 5, offset: 0 })).toEqual({ items: [own], total: 1 });
        expect(run_records.listAudit(null, 10)).toEqual([other]);
        await carryAudit(store.stores, null);
        expect(accounts.audit.list('other', { limit: 5, offset: 0 }).items).toEqual([other]);
      });
    });

    it('experiments list their projects and runs, and lose those of a project', async () => {
      const { experiments } = store.stores;
      const keys = [
        ['e1', 'api', 'a'],
        ['e1', 'web', 'b'],
        ['e1', 'web', 'c'],
        ['e2', 'web', 'd'],
      ] as const;
      await store.writeRuns(
        keys.map(([id, project_id, run_id]) =>
          put(RUNS_BY_EXPERIMENT, ['org', id, project_id, run_id], { run_id, project_id }),
        ),
      );
      expect(['z', 'e2', 'e1'].map((id) => experiments.findBelow('org', id))).toEqual(['e2', 'e1', null]);
      expect(experiments.findBelow('org', null)).toBe('e2');
      expect([...experiments.listProjects('org', 'e1', null)]).toEqual(['api', 'web']);
      expect([...experiments.listProjects('org', 'e2', 'api')]).toEqual([]);
      const ids = (project_id: string | null) =>
        [...experiments.listRuns('org', project_id, 'e1')].map(({ run_id }) => run_id);
      expect([ids(null), ids('web')]).toEqual([
        ['a', 'b', 'c'],
        ['b', 'c'],
      ]);
      await experiments.removeRuns('org', 'web');
      expect([ids(null), experiments.findBelow('org', null)]).toEqual([['a'], 'e1']);
    });

    it('patterns are found by scope and listed both ways, and stay when their sources are removed', async () => {
      const { accounts } = store.stores;
      const [web, api] = [ownScope('org', 'web'), ownScope('org', 'api')];
      const fields = { situation: 's', dead_ends: '', unlock: 'u', model: '', failure_type: '' };
      const row = { ...fields, support: 1, sources: [], created_at: '', updated_at: '' };
      await store.writeMain([
        ...['p1', 'p2', 'p3'].map((pattern_id) => putPattern({ ...row, ...web, pattern_id })),
        putPattern({ ...row, ...api, pattern_id: 'p4' }),
        put(PATTERN_SETTINGS, STARTERS_ROW, { created: { digest: 'p1' }, version: '' }),
        put(PATTERN_SOURCES, sourceKey(web, 'trace', 's'), { pattern_id: 'p1', created: true }),
      ]);
      const { patterns } = accounts;
      const ids = (order: 'newest' | 'oldest', after: string | null) =>
        [...patterns.list(web, order, after)].map(({ pattern_id }) => pattern_id);
      expect([ids('newest', null), ids('newest', 'p3'), ids('oldest', 'p1')]).toEqual([
        ['p3', 'p2', 'p1'],
        ['p2', 'p1'],
        ['p2', 'p3'],
      ]);
      expect(patterns.find(web, 'p1')).toEqual(row);
      expect(patterns.find(api, 'p1')).toBeUndefined();
      expect(patterns.listOf('e1', 'org', null, 2)).toEqual([
        { project_id: 'api', pattern_id: 'p4' },
        { project_id: 'web', pattern_id: 'p1' },
      ]);
      expect([patterns.isStarter('p1'), patterns.isStarter('p2')]).toEqual([true, false]);
      await accounts.transact((tx) => tx.patterns.addImport(web, [fields]));
      await accounts.removePatternSources('e1', 'org', 'web');
      expect(patterns.find(web, 'p1')).toEqual(row);
    });

    it('traces are found by project, and listed by status', async () => {
      const { traces } = store.stores.accounts;
      await store.writeMain([
        ...traceRows('web', 't1', NOW, 'done'),
        ...traceRows(null, 't1', NOW + 1, 'queued'),
        ...traceRows('api', 't2', NOW + 2, 'failed'),
        put(UNFINISHED_TRACES, ['maker'], 1),
      ]);
      expect(traces.find('org', null, 't1')).toMatchObject({ project_id: null });
      expect(traces.find('org', 'web', 't1')).toMatchObject({ status: 'done' });
      expect(traces.find('org', 'web', 't2')).toBeUndefined();
      const statuses = async (more: Partial<NewestFirst>, status: TraceStatus | null = null) =>
        (await traces.listNewest(newest(more), status)).found.map((trace) => trace.status);
      expect(await statuses({})).toEqual(['failed', 'queued', 'done']);
      expect(await statuses({ hidden: new Set(['api']) })).toEqual(['queued', 'done']);
      expect(await statuses({}, 'done')).toEqual(['done']);
      expect(await statuses({ project_id: 'api' })).toEqual(['failed']);
      expect(traces.listOldest(oldest({ limit: 2 })).map(({ project_id }) => project_id)).toEqual([
        'web',
        null,
      ]);
      expect([[...traces.listOrganizations()], traces.listUnfinished(5)]).toEqual([['org'], ['maker']]);
    });

    it('findings are read at their place, and their code bases by project, age and embedder', async () => {
      const { findings } = store.stores.accounts;
      await store.writeMain([
        ...findingRows('shop', 0, 'web', '2026-01-01T00:00:00.000Z'),
        ...findingRows('shop', 1, 'api', '2026-02-01T00:00:00.000Z'),
        ...findingRows('site', 0, 'web', '2026-02-01T00:00:00.000Z'),
      ]);
      const shop = { org_id: 'org', codebase_id: 'shop' };
      expect(findings.find(shop, { seq: 1, finding_id: 'f1' })).toMatchObject({ content: 'note 1' });
      expect(findings.find(shop, { seq: 1, finding_id: 'replaced' })).toBeUndefined();
      const list = (project_id: string | null) =>
        findings.listCodebases({ org_id: 'org', project_id }, null, 5).found;
      expect(list(null)).toEqual([
        { codebase_id: 'site', findings: 1 },
        { codebase_id: 'shop', findings: 2 },
      ]);
      expect(list('api')).toEqual([{ codebase_id: 'shop', findings: null }]);
      expect([...findings.listExpirable('2026-01-15T00:00:00.000Z')]).toEqual([shop]);
      expect([...findings.listCodebasesOf('org')]).toHaveLength(2);
      expect([[...findings.listOutdated('minilm')], [...findings.listOutdated('other')].length]).toEqual([
        [],
        2,
      ]);
    });
  });
}

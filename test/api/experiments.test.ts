/** Experiment reports over the API's pipeline: rows in, report out, tenants separate. */

import { describe, expect, it } from 'vitest';
import { NOTHING_DELETED } from '../../src/api/deleted-scopes.ts';
import { compileDispatch } from '../../src/api/dispatch.ts';
import { experimentHandlers } from '../../src/api/experiments.ts';
import { guard } from '../../src/api/pipeline.ts';
import { EXPERIMENTS, experimentReport } from '../../src/contract/experiments.ts';
import { bind } from '../../src/contract/handler.ts';
import type { ExperimentReport } from '../../src/domain/experiment.ts';
import { RUNS_BY_EXPERIMENT, type RunSummary, runSummaryKey } from '../../src/domain/run-summary.ts';
import type { Tenant } from '../../src/domain/tenant.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { TableExperiments } from '../../src/storage/table-experiments.ts';
import { apiServices, STATIC_KEY } from '../fixtures/api-services.ts';

const tables = new MemoryTables();
const handlers = experimentHandlers({
  stores: { experiments: new TableExperiments(tables) },
  deleted: NOTHING_DELETED,
});
const { checks } = apiServices();
const dispatch = compileDispatch(
  bind(EXPERIMENTS, handlers).map((bound) => guard(bound, checks)),
  {
    report: (error) => {
      throw error;
    },
  },
);

async function get(path: string): Promise<[number, ExperimentReport]> {
  const [route, query = ''] = path.split('?');
  const headers = new Map([['authorization', `Bearer ${STATIC_KEY}`]]);
  const reply = await dispatch({
    method: 'GET',
    path: route!,
    query,
    headers,
    address: '127.0.0.1',
    body: new Uint8Array(),
  });
  return [reply.status, JSON.parse(String(reply.body)) as ExperimentReport];
}

async function addRuns(count: number, more: (index: number) => Partial<RunSummary>): Promise<void> {
  await tables.transact((transaction) => {
    for (let index = 0; index < count; index++) {
      const run: RunSummary = {
        run_id: `r${index}`,
        org_id: 'org',
        project_id: 'p1',
        experiment_id: 'exp',
        arm: index % 2 === 0 ? 'on' : 'off',
        assignment_unit: '',
        svc_version: '1.0',
        status: 'finished',
        outcome: 'success',
        steps: 3,
        tokens: 30,
        duration_ms: 300,
        started_at: '2026-01-01T00:00:00.000Z',
        finished_at: '2026-01-01T00:00:00.300Z',
        ...more(index),
      };
      transaction.write({ op: 'put', table: RUNS_BY_EXPERIMENT, row: runSummaryKey(run), value: run });
    }
  });
}

const report = (experiment_id: string, tenant: Partial<Tenant>) =>
  Promise.resolve(
    handlers.reportExperiment({
      tenant: {
        org_id: 'org',
        project_id: null,
        actor: { type: 'key', id: 'k' },
        ...tenant,
      },
      params: { experiment_id },
      query: { expected_on_share: 0.5 },
    } as never),
  ).then(({ body }) => body as ExperimentReport);

describe('GET /v1/monitor/experiments/{experiment_id}/report', () => {
  it('reads every run of a large experiment once', async () => {
    await addRuns(2_501, (index) => ({
      experiment_id: 'large',
      outcome: index % 4 === 0 ? 'failure' : 'success',
    }));
    const [status, body] = await get('/v1/monitor/experiments/large/report?org_id=org');
    expect(status).toBe(200);
    expect(experimentReport.parse(body)).toEqual(body);
    expect(body.arms.on).toMatchObject({ runs: 1_251, finished: 1_251, successes: 625, mean_steps: 3 });
    expect(body.arms.off).toMatchObject({ runs: 1_250, successes: 1_250, success_rate: 1 });
    expect(body.effect.p_value).toBeLessThan(1e-9);
    expect(body.srm).toMatchObject({ expected_on: 0.5, flagged: false });
    expect(body.by_version.map(({ arm, runs }) => [arm, runs])).toEqual([
      ['on', 1_251],
      ['off', 1_250],
    ]);
    const [, skewed] = await get('/monitor/experiments/large/report/?org_id=org&expected_on_share=0.7');
    expect(skewed.srm).toMatchObject({ expected_on: 0.7, flagged: true });
  });

  it('is empty, not missing, for an experiment without runs', async () => {
    const [status, body] = await get('/v1/monitor/experiments/none/report');
    expect(status).toBe(200);
    expect(body).toMatchObject({ experiment_id: 'none', arms: { on: { runs: 0, success_rate: null } } });
  });

  it('shows an organization all its projects, a project only itself, and nothing of other tenants', async () => {
    await addRuns(10, (index) => ({ experiment_id: 'shared', project_id: index < 6 ? 'p1' : 'p2' }));
    await addRuns(4, () => ({ experiment_id: 'shared', org_id: 'other' }));
    await addRuns(3, () => ({ experiment_id: 'shared-2' }));
    const runs = async (tenant: Partial<Tenant>) => {
      const { arms } = await report('shared', tenant);
      return arms.on.runs + arms.off.runs;
    };
    expect(await runs({})).toBe(10);
    expect(await runs({ project_id: 'p1' })).toBe(6);
    expect(await runs({ project_id: 'p2' })).toBe(4);
    expect(await runs({ project_id: 'p3' })).toBe(0);
    expect(await runs({ org_id: 'other' })).toBe(4);
    expect(await runs({ org_id: 'third' })).toBe(0);
  });

  it.each(['0', '1', '-0.1', '1.5', 'half', 'NaN', 'inf', ''])('refuses a share of %j', async (share) => {
    const [status] = await get(`/v1/monitor/experiments/exp/report?expected_on_share=${share}`);
    expect(status).toBe(422);
  });
});

/**
 * Deletion by age: which things are too old, over tables in memory; then from a user's view in a service whose data is
 * weeks old.
 */

import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { type ExpiringKind, Retention } from '../../src/api/retention.ts';
import { CatalogueError } from '../../src/errors.ts';
import { createManualClock } from '../../src/std/clock.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import { TableRunReads } from '../../src/storage/table-run-reads.ts';
import { toStores } from '../../src/storage/table-stores.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const NOW = Date.parse('2026-11-23T12:00:00.000Z');
const DAY_MS = 86_400_000;
const at = (daysAgo: number) => NOW - daysAgo * DAY_MS;

describe('expired data', () => {
  it('is older than the days set for its kind and finished, or a run without a step for as long, in every organization', async () => {
    const [runs, main] = [new MemoryTables(), new MemoryTables()];
    const putRun = (org: string, run_id: string, ms: number, status: string, lastStepMs?: number) =>
      runs.transact((tx) => {
        const value = { org_id: org, project_id: 'p', run_id, status };
        tx.write({ op: 'put', table: 'run_lists', row: [org, '', ms, run_id], value: { project_id: 'p' } });
        tx.write({ op: 'put', table: 'runs', row: [org, 'p', run_id], value });
        if (lastStepMs === undefined) return;
        const step = { at: new Date(lastStepMs).toISOString() };
        tx.write({ op: 'put', table: 'run_steps', row: [org, run_id, 0], value: step });
      });
    const putTrace = (org: string, trace_id: string, ms: number, status: string) =>
      main.transact((tx) => {
        tx.write({
          op: 'put',
          table: 'trace_lists',
          row: [org, '', ms, trace_id, ''],
          value: { project_id: null },
        });
        tx.write({ op: 'put', table: 'traces', row: [org, trace_id, ''], value: { trace_id, status } });
      });
    for (let n = 0; n < 120; n++) await putRun('a', `old-${n}`, at(31) + n, 'finished');
    await putRun('a', 'young', at(29), 'finished');
    await putRun('a', 'still-going', at(40), 'running', at(1));
    await putRun('a', 'left-behind', at(40), 'running', at(31));
    await putRun('a!', 'old', at(50), 'finished');
    await putRun('b', 'stuck', at(50), 'finished');
    await putTrace('a', 'done', at(8), 'done');
    await putTrace('a', 'waiting', at(8), 'queued');
    await putTrace('a', 'young', at(6), 'failed');
    const gone: string[] = [];
    const counted: Record<ExpiringKind, number> = { runs: 0, traces: 0, findings: 0 };
    const reports: unknown[] = [];
    const retention = new Retention({
      days: { runs: 30, traces: 7, findings: null },
      stores: toStores(main, runs, new TableRunReads(runs)),
      runs: {
        delete: async ({ org_id }, run_id) => {
          if (run_id === 'stuck') throw new CatalogueError('unavailable');
          gone.push(`${org_id}/${run_id}`);
        },
      },
      traces: { delete: async ({ trace_id }) => void gone.push(trace_id) },
      findings: { expire: () => Promise.reject(new Error('findings are kept')) },
      count: (kind, deleted) => {
        counted[kind] += deleted;
      },
      report: (thrown) => reports.push(thrown),
      clock: createManualClock(NOW),
    });
    await retention.pass();
    const old = Array.from({ length: 120 }, (_, n) => `a/old-${n}`);
    expect(gone.sort()).toEqual([...old, 'a!/old', 'a/left-behind', 'done'].sort());
    expect(counted).toEqual({ runs: 122, traces: 1, findings: 0 });
    expect(reports).toHaveLength(1);
    const entries = [
      ...main.range<{ action: string; actor: string; after: { deleted: number } }>('audit', {
        prefix: ['a'],
      }),
    ];
    expect(entries.every(({ value }) => value.actor === 'retention')).toBe(true);
    const sum = entries.filter(({ value }) => value.action === 'retention.runs');
    expect(sum.reduce((count, { value }) => count + value.after.deleted, 0)).toBe(121);
  });
});

describe('a service with a retention', () => {
  const preload = fileURLToPath(new URL('../fixtures/days-ago.mjs', import.meta.url));
  const env: Record<string, string> = {
    NODE_OPTIONS: `--import=${preload}`,
    DAYS_AGO: '40',
    SERVER_THREADS: '2',
  };
  const api = new ApiChild(env);
  afterAll(() => api[Symbol.asyncDispose]());

  const ask = async (method: string, path: string, body?: object): Promise<string> => {
    const response = await fetch(api.url + path, {
      method,
      headers: { authorization: `Bearer ${CHILD_KEY}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return text;
  };
  const send = async (method: string, path: string, body?: object) =>
    JSON.parse(await ask(method, path, body));
  const write = async (name: string) => {
    await send('POST', '/v1/monitor/runs', { run_id: name });
    await send('POST', `/v1/monitor/runs/${name}/steps`, { step_index: 0, tokens: 3 });
    await send('POST', `/v1/monitor/runs/${name}/finish`, { outcome: 'success' });
    await send('POST', '/v1/traces', { trace_id: name, outcome: 'success', steps: [] });
    await send('POST', '/v1/findings/base', { content: name });
  };
  const read = async () => ({
    runs: (await send('GET', '/v1/monitor/runs')).runs.map(({ run_id }: { run_id: string }) => run_id),
    traces: (await send('GET', '/v1/traces')).traces.map(({ trace_id }: { trace_id: string }) => trace_id),
    findings: (await send('GET', '/v1/findings/base')).findings.map(
      ({ content }: { content: string }) => content,
    ),
  });

  it('deletes older data by itself, keeps the rest, and reports it in /metrics', {
    tags: 'long',
  }, async () => {
    await api.start();
    await write('old');
    await api.kill();
    Object.assign(env, { DAYS_AGO: '0', RETENTION_DAYS: '30', RETENTION_DAYS_TRACES: '0' });
    await api.start();
    await write('new');
    await expect
      .poll(read, { timeout: 60_000 })
      .toEqual({ runs: ['new'], traces: ['new', 'old'], findings: ['new'] });
    const metrics = () => ask('GET', '/metrics');
    await expect.poll(metrics, { timeout: 60_000 }).toContain('understudy_retention_pass_timestamp_seconds ');
    const text = await metrics();
    expect(text).toContain('understudy_retention_deleted_total{kind="runs"} 1');
    expect(text).toContain('understudy_retention_deleted_total{kind="traces"} 0');
    expect(text).toContain('understudy_retention_deleted_total{kind="findings"} 1');
  });
});

/**
 * The metrics of `/metrics`, and their use in deploy/: every expression of the alerts and of the dashboard is PromQL,
 * and uses metrics and labels that a service has.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parser } from '@prometheus-io/lezer-promql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { publishOrderStudent } from '../../bench/order-agent.ts';
import { loadConfig, raiseParserHeadLimit } from '../../src/config.ts';
import { MONITOR_NAMES } from '../../src/domain/monitors/names.ts';
import type { RunningUnderstudy } from '../../src/main.ts';
import { readPointNotes, writePointNote } from '../../src/storage/points/point-note.ts';
import { SeatState } from '../../src/storage/shared/seat.ts';
import { SharedRequests } from '../../src/threads/shared-requests.ts';

const KEY = 'a-static-key';
const DEPLOY = join(import.meta.dirname, '../../deploy');
/** Variables that Grafana replaces by values. */
const GRAFANA_WORDS = { $__rate_interval: '5m' };

let folder: string;
let running: RunningUnderstudy;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'understudy-metrics-'));
  await publishOrderStudent(join(folder, 'student'));
  raiseParserHeadLimit();
  const { startUnderstudy } = await import('../../src/main.ts');
  const env = {
    DATA_DIR: join(folder, 'data'),
    PORT: '0',
    GW_PORT: '0',
    SERVER_THREADS: '2',
    SVC_KEYS: KEY,
    AUTH_DB_URL: 'embedded:',
    VECTOR_STORE_URL: 'embedded:',
    SVC_DISTILL_DIR: join(folder, 'student'),
    PLAN_CAPS: '{"free": 2}',
    LOG_LEVEL: 'silent',
  };
  running = await startUnderstudy(loadConfig({ listener: 'gateway' }, env), { api: true, gateway: true });
  writePointNote(env.DATA_DIR, { place: 's3://bucket/"a"', from_ms: 1_700_000_000_500 });
});
afterAll(async () => {
  await running.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function post(path: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(`${running.api_url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ org_id: 'acme-secret-name', project_id: 'web', ...body }),
  });
  const text = await response.text();
  expect(response.status, text).toBeLessThan(300);
  return JSON.parse(text);
}

async function read(): Promise<string> {
  return (await fetch(`${running.api_url}/metrics`)).text();
}

/** Reads the value of a series. The test fails if the text does not contain the series. */
function seriesValue(text: string, series: string): number {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `));
  expect(line, series).toBeDefined();
  return Number(line!.slice(series.length + 1));
}

interface Asked {
  from: string;
  expr: string;
}

function readAlerts(file: string): Asked[] {
  const { groups } = parse(readFileSync(join(DEPLOY, file), 'utf8')) as {
    groups: { name: string; rules: Record<string, unknown>[] }[];
  };
  return groups.flatMap(({ name, rules }) => {
    expect(name).toMatch(/^understudy-[a-z-]+$/);
    return rules.map((rule) => {
      expect(rule).toMatchObject({
        alert: expect.stringMatching(/^Understudy[A-Za-z]+$/),
        expr: expect.any(String),
        labels: { severity: expect.stringMatching(/^(critical|warning)$/) },
        annotations: { summary: expect.any(String), runbook: expect.any(String) },
      });
      return { from: `${file}: ${rule.alert}`, expr: rule.expr as string };
    });
  });
}

interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { refId: string; expr: string; legendFormat: string }[];
}

function readPanels(): Panel[] {
  const text = readFileSync(join(DEPLOY, 'grafana-dashboard.json'), 'utf8');
  return (JSON.parse(text) as { panels: Panel[] }).panels;
}

/** Every selector of an expression. @throws Error for an invalid expression */
function selectorsOf(asked: Asked): { metric: string; labels: string[] }[] {
  let expr = asked.expr;
  for (const [word, value] of Object.entries(GRAFANA_WORDS)) expr = expr.replaceAll(word, value);
  const selectors: { metric: string; labels: string[] }[] = [];
  parser.parse(expr).iterate({
    enter: ({ type, node, from, to }) => {
      if (type.isError) throw new Error(`${asked.from}: no PromQL at ${from}: ${expr}`);
      if (type.name === 'VectorSelector') {
        const metric = node.getChild('Identifier');
        expect(metric, asked.from).not.toBeNull();
        const text = expr.slice(from, to);
        const labels = [...text.matchAll(/([a-z_]+)\s*(?:=|!=)~?\s*"/g)].map(([, label]) => label!);
        selectors.push({ metric: expr.slice(metric!.from, metric!.to), labels });
      }
    },
  });
  expect(selectors.length, asked.from).toBeGreaterThan(0);
  return selectors;
}

function everyExpression(): Asked[] {
  return [
    ...['alerts.yml', 'student-alerts.yml', 'service-alerts.yml', 'shared-alerts.yml'].flatMap(readAlerts),
    ...readPanels().flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ from: `grafana-dashboard.json: ${title}`, expr })),
    ),
  ];
}

it('the age of the oldest read is shown for each database', async () => {
  const text = await read();
  for (const database of ['main.mdb', 'runs.mdb', 'capture.mdb'])
    expect(seriesValue(text, `understudy_database_oldest_read_seconds{database="${database}"}`)).toBe(0);
});

it('the time of the last backup is shown for each destination, and only for databases with a backup', async () => {
  const name = 'understudy_backup_point_timestamp_seconds';
  expect(seriesValue(await read(), `${name}{place="s3://bucket/\\"a\\""}`)).toBe(1_700_000_000.5);
  expect(readPointNotes(join(folder, 'student'))).toEqual([]);
});

describe('the counters', () => {
  it('count each action of agents and operators once, and name no tenant', async () => {
    await post('/v1/monitor/runs', { run_id: 'r1', task: 'fix the failing test' });
    let interventions = 0;
    const fired = Object.fromEntries(MONITOR_NAMES.map((name) => [name, 0]));
    const step = (step_index: number) =>
      post('/v1/monitor/runs/r1/steps', {
        step_index,
        action: 'run_tests',
        action_input: 'npm test',
        observation: 'the same failure',
        is_error: true,
      });
    for (let at = 0; at < 12; at++) {
      for (const name of (await step(at)).fired as string[]) fired[name]!++;
    }
    await step(3);
    expect((await post('/v1/monitors/evaluate', { run_id: 'r1' })).inject).toBe(true);
    await post('/v1/monitors/evaluate', { run_id: 'r1' });
    await post('/v1/monitors/evaluate', { task: 'x', steps: [{ action: 'read' }] });
    const response = await fetch(`${running.api_url}/v1/monitor/runs/r1/steps?org_id=acme-secret-name`, {
      headers: { authorization: `Bearer ${KEY}` },
    });
    const { steps } = (await response.json()) as { steps: { intervention: object | null }[] };
    interventions = steps.filter(({ intervention }) => intervention !== null).length;
    await post('/v1/monitor/runs/r1/finish', { outcome: 'failure' });

    const situation = 'the build fails since a lock file is stale';
    const pattern = { situation, dead_ends: 'deleted the cache', unlock: 'made the lock file anew' };
    await post('/v1/patterns', { tier: 'e1', patterns: [pattern] });
    const retrieve = (context: string) => post('/v1/traces/retrieve', { context });
    expect((await retrieve(situation)).traces).toHaveLength(1);
    expect((await retrieve(situation)).traces).toHaveLength(0);
    expect((await retrieve('knitting winter socks')).traces).toHaveLength(0);

    const text = await read();
    const counted: [string, number][] = [
      ['runs_started_total', 1],
      ['runs_finished_total', 1],
      ['steps_total', 12],
      ...MONITOR_NAMES.map((name): [string, number] => [
        `monitor_fired_total{monitor="${name}"}`,
        fired[name]!,
      ]),
      ['evaluations_total{result="injected"}', 1],
      ['evaluations_total{result="repeated"}', 1],
      ['evaluations_total{result="quiet"}', 1],
      ['retrievals_total{result="found"}', 1],
      ['retrievals_total{result="capped"}', 1],
      ['retrievals_total{result="nothing"}', 1],
      ['patterns_retrieved_total', 1],
      ['patterns_created_total{source="import"}', 1],
      ['patterns_created_total{source="trace"}', 0],
    ];
    for (const [series, value] of counted)
      expect([series, seriesValue(text, `understudy_${series}`)]).toEqual([series, value]);
    expect(fired.infinite_loop).toBeGreaterThan(0);
    expect(interventions).toBeGreaterThan(0);
    const due = MONITOR_NAMES.map((name) =>
      seriesValue(text, `understudy_interventions_total{monitor="${name}"}`),
    );
    expect(due.reduce((sum, count) => sum + count)).toBe(interventions);
    expect(text).not.toContain('acme-secret-name');
  });

  it('have the type `counter` and names that end in `_total`', async () => {
    const types = [...(await read()).matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [
      name!,
      type!,
    ]);
    expect(types.length).toBeGreaterThan(50);
    expect(new Set(types.map(([name]) => name)).size).toBe(types.length);
    const own = types.filter(([name]) => name!.startsWith('understudy_'));
    for (const [name, type] of own)
      expect(`${name} ${type === 'counter'}`).toBe(`${name} ${name!.endsWith('_total')}`);
  });
});

describe('the PromQL in deploy/', () => {
  it('is valid and uses existing metrics and labels', async () => {
    const text = await read();
    const names = new Map<string, string[]>();
    for (const [, name, type] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
      names.set(name!, []);
      if (type === 'histogram') names.set(`${name}_bucket`, []);
    }
    for (const [, name, labels] of text.matchAll(/^(\w+)\{(.*)\} /gm))
      names.get(name!)?.push(...[...labels!.matchAll(/(\w+)="/g)].map(([, label]) => label!));
    // This service shares no database. A service that shares one also has the metrics of its requests.
    const shared = new SharedRequests({ identity: '', state: SeatState.allocate() });
    for (const { name } of shared.listMetrics() as { name: string }[]) names.set(name, []);
    await shared.close();
    for (const asked of everyExpression()) {
      for (const { metric, labels } of selectorsOf(asked)) {
        expect([...names.keys()], `${asked.from} asks for ${metric}`).toContain(metric);
        for (const label of labels) expect(names.get(metric), `${asked.from}: ${metric}`).toContain(label);
      }
    }
  });

  it('is used in panels that do not overlap, each with its own id and with a title', () => {
    const panels = readPanels();
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { type, title, gridPos, targets = [] } of panels) {
      expect(title).not.toBe('');
      expect(targets.length > 0).toBe(type !== 'row');
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  });

  it('is checked by a parser that refuses invalid PromQL', () => {
    expect(() => selectorsOf({ from: 'here', expr: 'sum(rate(up[5m])' })).toThrow('no PromQL');
    expect(() => selectorsOf({ from: 'here', expr: 'rate(up[5x])' })).toThrow('no PromQL');
  });
});

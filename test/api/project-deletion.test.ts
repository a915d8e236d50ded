/**
 * A deleted project: its data is gone, even with a kill in between. The data of other projects and the usage counts are
 * unchanged. Checked with a key of the whole organization.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ControlPlaneChild, type Person } from '../fixtures/control-plane.ts';

const api = new ControlPlaneChild({ VECTOR_STORE_URL: 'embedded:', SERVER_THREADS: '2' });
let owner: Person;
let key: string;

const WORDS = ['amber birch cedar', 'delta ember fjord', 'grove heath islet', 'jetty knoll larch'];
let made = 0;

async function send(method: string, path: string, body?: object, credential = key) {
  const answer = await api.call(credential, method, path, body);
  expect(answer.status, `${method} ${path} ${answer.text}`).toBe(200);
  return answer.body;
}

const newProject = async (name: string): Promise<string> =>
  (await send('POST', `/projects/?org_id=${owner.org_id}`, { name }, owner.token)).id;

/** Creates something of every kind in the project. */
async function fill(project_id: string, runs: number): Promise<void> {
  for (let n = 0; n < runs; n++) {
    const run_id = `${project_id}-${n}`;
    await send('POST', '/v1/monitor/runs', { project_id, run_id, experiment_id: 'exp', arm: 'on' });
    await send('POST', `/v1/monitor/runs/${run_id}/steps`, { step_index: 0, tokens: 7 });
  }
  await send('POST', '/v1/traces', {
    project_id,
    trace_id: `t-${project_id}`,
    outcome: 'success',
    steps: [],
  });
  await send('POST', '/v1/findings/base', { project_id, content: `of ${project_id}` });
  const situation = `${WORDS[made++ % WORDS.length]} of ${project_id}`;
  await send('POST', '/v1/patterns', {
    tier: 'e1',
    project_id,
    patterns: [{ situation, dead_ends: '', unlock: 'u' }],
  });
}

/** @returns the counts of everything in the project that a key of the organization can read */
async function look(project_id: string) {
  const count = async (path: string, field: string) => (await send('GET', path))[field].length as number;
  return {
    runs: await count(`/v1/monitor/runs?project_id=${project_id}`, 'runs'),
    traces: await count(`/v1/traces?project_id=${project_id}`, 'traces'),
    findings: await count(`/v1/findings/base?project_id=${project_id}`, 'findings'),
    patterns: await count(`/v1/patterns?tier=e1&project_id=${project_id}`, 'patterns'),
  };
}

const experimentRuns = async () =>
  (await send('GET', '/v1/monitor/experiments/exp/report')).arms.on.runs as number;
const usage = async () => (await api.call(owner.token, 'GET', `/usage?org_id=${owner.org_id}`)).text;
const GONE = { runs: 0, traces: 0, findings: 0, patterns: 0 };

beforeAll(async () => {
  await api.start();
  owner = await api.person('project-owner');
  key = (await send('POST', '/api-keys/', { name: 'k', org_id: owner.org_id }, owner.token)).raw_key;
});
afterAll(() => api[Symbol.asyncDispose]());

describe('a deleted project', () => {
  it('is gone with its data, except for its counted usage; all other data stays', async () => {
    const [gone, stays] = [await newProject('gone'), await newProject('stays')];
    await fill(gone, 3);
    await fill(stays, 2);
    const before = await usage();
    expect(await experimentRuns()).toBe(5);
    await send('DELETE', `/projects/${gone}`, undefined, owner.token);
    await expect.poll(() => look(gone), { timeout: 60_000 }).toEqual(GONE);
    await expect.poll(experimentRuns, { timeout: 60_000 }).toBe(2);
    expect(await look(stays)).toEqual({ runs: 2, traces: 1, findings: 1, patterns: 1 });
    expect(await usage()).toBe(before);
    const log = await send('GET', `/organizations/${owner.org_id}/audit-log`, undefined, owner.token);
    expect(log.filter(({ action }: { action: string }) => action === 'project.delete')).toHaveLength(1);
  });

  it('is not looked up under a text that cannot be a project’s name', async () => {
    for (const project_id of ['\ud800', 'x'.repeat(200_000)]) {
      const run_id = `ignores-${project_id.length}`;
      await send('POST', '/v1/monitor/runs', { run_id });
      await send('POST', `/v1/monitor/runs/${run_id}/steps`, { step_index: 0, project_id });
      await send('POST', `/v1/monitor/runs/${run_id}/finish`, { outcome: 'success', project_id });
      const marks = await api.call(key, 'POST', '/v1/runs/none/marks', { mark: 'good', project_id });
      expect(marks.status, marks.text).toBe(404);
    }
    const removed = await api.call(key, 'DELETE', `/v1/traces/none?project_id=${'x'.repeat(5_000)}`);
    expect(removed.status, removed.text).toBe(404);
  });

  it('is gone also if the process is killed after the answer or before it', {
    tags: 'long',
  }, async () => {
    const [gone, stays] = [await newProject('killed'), await newProject('spared')];
    await fill(gone, 40);
    await fill(stays, 1);
    const answer = api.call(owner.token, 'DELETE', `/projects/${gone}`).catch(() => null);
    // Waits only until the record of the project is gone. Other data may remain.
    const isGone = async () => (await api.call(owner.token, 'GET', `/projects/${gone}`)).status;
    await expect.poll(isGone, { timeout: 60_000, interval: 1 }).toBe(404);
    await api.kill();
    await answer;
    await api.start();
    await expect.poll(() => look(gone), { timeout: 60_000 }).toEqual(GONE);
    expect(await look(stays)).toEqual({ runs: 1, traces: 1, findings: 1, patterns: 1 });
  });
});

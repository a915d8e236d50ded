/**
 * Deletion by age under load and kill -9: while agents write, a service that keeps data for a month deletes older data,
 * and is killed again and again. Nothing is ever deleted only in part, all old data is deleted in the end, young data
 * stays complete, and usage and the audit log match the answers.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import { ControlPlaneChild, type Person } from '../fixtures/control-plane.ts';

const preload = fileURLToPath(new URL('../fixtures/days-ago.mjs', import.meta.url));
const env: Record<string, string> = {
  NODE_OPTIONS: `--import=${preload}`,
  DAYS_AGO: '40',
  SERVER_THREADS: '2',
  VECTOR_STORE_URL: 'embedded:',
};
const api = new ControlPlaneChild(env);
const prng = createPrng(Number(process.env.SEED ?? 11));
afterAll(() => api[Symbol.asyncDispose]());

const OLD = 160;
const STEPS = 6;
const KILLS = 5;

let key = '';

/** The answer's status; 0 where the process was killed before it came. */
async function send(path: string, body: object): Promise<number> {
  try {
    const response = await fetch(api.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}

async function listAll(path: string, field: string): Promise<Record<string, string>[]> {
  const items: Record<string, string>[] = [];
  for (let cursor = ''; ; ) {
    const { body } = await api.call(key, 'GET', `${path}?limit=100&cursor=${cursor}`);
    items.push(...body[field]);
    if (body.next_cursor === null) return items;
    cursor = body.next_cursor;
  }
}

const totals = async (owner: Person) =>
  (await api.call(owner.token, 'GET', `/usage?org_id=${owner.org_id}&days=90`)).body.totals as Record<
    string,
    number
  >;

it('a kill during retention leaves nothing half deleted, and new data unchanged', async () => {
  await api.start();
  // First the service runs with a clock of 40 days ago. The token is valid long enough for both runs.
  const owner = await api.person('keeper', { expires_in_s: 1e7 });
  key = (await api.call(owner.token, 'POST', '/api-keys/', { name: 'k', org_id: owner.org_id })).body.raw_key;
  for (let from = 0; from < OLD; from += 20) {
    await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const run_id = `old-${from + at}`;
        expect(await send('/v1/monitor/runs', { run_id })).toBe(200);
        for (let step_index = 0; step_index < STEPS; step_index++)
          expect(await send(`/v1/monitor/runs/${run_id}/steps`, { step_index, tokens: 1 })).toBe(200);
        expect(await send(`/v1/monitor/runs/${run_id}/finish`, { outcome: 'success' })).toBe(200);
        expect(await send('/v1/traces', { trace_id: run_id, outcome: 'success', steps: [] })).toBe(200);
        expect(await send('/v1/findings/base', { content: run_id })).toBe(200);
      }),
    );
  }
  await api.stop();

  Object.assign(env, { DAYS_AGO: '0', RETENTION_DAYS: '30' });
  const young = new Map<string, number>();
  let counted = OLD * STEPS;
  for (let life = 0; life <= KILLS; life++) {
    await api.start();
    const deadline = 20 + prng.below(300);
    let writes = 0;
    let isOver = false;
    const agents = Array.from({ length: 4 }, async (_, agent) => {
      for (let n = 0; !isOver; n++) {
        const run_id = `young-${life}-${agent}-${n}`;
        if ((await send('/v1/monitor/runs', { run_id })) !== 200) return;
        young.set(run_id, 0);
        for (let step_index = 0; step_index < 5 && !isOver; step_index++) {
          if ((await send(`/v1/monitor/runs/${run_id}/steps`, { step_index, tokens: 1 })) !== 200) return;
          young.set(run_id, step_index + 1);
          counted++;
          // Kills the service after a random number of answered requests.
          if (++writes === deadline && life < KILLS) await api.kill();
        }
        if (life === KILLS && n > 10) isOver = true;
      }
    });
    await Promise.all(agents);
  }

  // Listed data is complete, and unlisted data is completely gone.
  const whole = async () => {
    const runs = await listAll('/v1/monitor/runs', 'runs');
    for (const { run_id } of runs.filter(({ run_id }) => run_id!.startsWith('old-')).slice(0, 10)) {
      const { status, body } = await api.call(key, 'GET', `/v1/monitor/runs/${run_id}/steps`);
      if (status === 200) expect(body.steps, run_id).toHaveLength(STEPS);
    }
    const old = async (path: string, field: string, name: string) =>
      (await listAll(path, field)).filter((item) => item[name]!.startsWith('old-')).length;
    return [
      runs.filter(({ run_id }) => run_id!.startsWith('old-')).length,
      await old('/v1/traces', 'traces', 'trace_id'),
      await old('/v1/findings/base', 'findings', 'content'),
    ];
  };
  await expect.poll(whole, { timeout: 60_000, interval: 200 }).toEqual([0, 0, 0]);
  for (let n = 0; n < OLD; n += 37) {
    expect((await api.call(key, 'GET', `/v1/monitor/runs/old-${n}/steps`)).status).toBe(404);
    // The name of a deleted run is free, and a new run under it has no old steps.
    expect(await send('/v1/monitor/runs', { run_id: `old-${n}` })).toBe(200);
    expect((await api.call(key, 'GET', `/v1/monitor/runs/old-${n}/steps`)).body.steps).toEqual([]);
  }
  for (const [run_id, steps] of young) {
    const { body } = await api.call(key, 'GET', `/v1/monitor/runs/${run_id}`);
    // A step whose answer was lost in a kill may be stored.
    expect(body.steps - steps, run_id).toBeGreaterThanOrEqual(0);
    expect(body.steps - steps, run_id).toBeLessThanOrEqual(1);
  }
  const { steps, traces } = await totals(owner);
  expect(steps).toBeGreaterThanOrEqual(counted);
  expect(steps).toBeLessThanOrEqual(counted + 4 * KILLS);
  expect(traces).toBe(OLD);
  // The log reports no more deletions of a kind than there were rows. The entry of a portion may be lost in a kill.
  const told: Record<string, number> = {};
  for (let offset = 0; ; offset += 100) {
    const path = `/organizations/${owner.org_id}/audit-log?limit=100&offset=${offset}`;
    const { body } = await api.call(owner.token, 'GET', path);
    for (const { action, after } of body) {
      if (action.startsWith('retention.')) told[action] = (told[action] ?? 0) + after.deleted;
      else expect(['organization.create', 'api_key.create', 'key.create']).toContain(action);
    }
    if (body.length < 100) break;
  }
  for (const kind of ['runs', 'traces', 'findings']) {
    expect(told[`retention.${kind}`], kind).toBeLessThanOrEqual(OLD);
    expect(told[`retention.${kind}`], kind).toBeGreaterThan(OLD - 50 * (KILLS + 1));
  }
}, 600_000);

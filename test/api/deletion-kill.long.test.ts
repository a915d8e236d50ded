/**
 * Deletion under load and kill -9: agents log steps while other runs, long ones among them, and traces are deleted, and
 * the process is killed again and again. A trace whose deletion was answered with 204 is completely gone. Every other
 * trace is completely there or completely gone. Usage counts what was acknowledged, and the audit log has an entry for
 * each deletion.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { RUN_DELETE_STEPS } from '../../actors/run/behaviour.ts';
import { createPrng } from '../../src/std/prng.ts';
import { ControlPlaneChild, type Person } from '../fixtures/control-plane.ts';

const api = new ControlPlaneChild({ SERVER_THREADS: '2' });
const prng = createPrng(Number(process.env.SEED ?? 7));
const ROUNDS = 5;
const RUNS = 12;
const STEPS = 12;
/** One run of each round is so long that it is deleted in portions. */
const LONG_STEPS = RUN_DELETE_STEPS + 50;

let owner: Person;
let key: string;

/** The answer's status; 0 if the process was killed before it answered. */
async function send(method: string, path: string, body?: object): Promise<number> {
  try {
    const response = await fetch(api.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}

async function writeRun(run_id: string, steps: number): Promise<void> {
  expect(await send('POST', '/v1/monitor/runs', { run_id })).toBe(200);
  for (let from = 0; from < steps; from += 50) {
    const some = Array.from({ length: Math.min(50, steps - from) }, (_, at) =>
      send('POST', `/v1/monitor/runs/${run_id}/steps`, { step_index: from + at, tokens: 1 }),
    );
    for (const status of await Promise.all(some)) expect(status).toBe(200);
  }
}

async function read(path: string) {
  return api.call(key, 'GET', path);
}

beforeAll(async () => {
  await api.start();
  owner = await api.person('storm-owner');
  const made = await api.call(owner.token, 'POST', '/api-keys/', { name: 'k', org_id: owner.org_id });
  key = made.body.raw_key;
});
afterAll(() => api[Symbol.asyncDispose]());

it('a kill during deletions leaves nothing half deleted; usage and the audit log match the answers', async () => {
  const deleted = new Set<string>();
  const asked = new Set<string>();
  const kept = new Map<string, number>();
  let counted = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const ids = Array.from({ length: RUNS }, (_, at) => `r${round}-${at}`);
    await Promise.all(ids.map((id, at) => writeRun(id, at === 0 ? LONG_STEPS : STEPS)));
    counted += LONG_STEPS + (RUNS - 1) * STEPS;
    const traces = ids.map((id) => `t-${id}`);
    for (const trace_id of traces)
      expect(await send('POST', '/v1/traces', { trace_id, outcome: 'success', steps: [] })).toBe(200);
    // Meanwhile another agent continues a run that is not deleted.
    const busy = `busy-${round}`;
    await writeRun(busy, 1);
    counted++;
    let steps = 1;
    let isOver = false;
    const agent = (async () => {
      while (!isOver) {
        if ((await send('POST', `/v1/monitor/runs/${busy}/steps`, { step_index: steps, tokens: 1 })) !== 200)
          return;
        steps++;
        counted++;
      }
    })();
    const doomed = [
      ...ids.slice(0, 8).map((id) => `/v1/monitor/runs/${id}`),
      ...traces.slice(0, 6).map((id) => `/v1/traces/${id}`),
    ];
    const killAfter = prng.below(doomed.length);
    let answered = 0;
    const deletions = doomed.map(async (path) => {
      asked.add(path);
      if ((await send('DELETE', path)) === 204) deleted.add(path);
      if (++answered === killAfter + 1) await api.kill();
    });
    await Promise.all(deletions);
    isOver = true;
    await agent;
    await api.start();
    kept.set(busy, steps);
    for (const [at, id] of ids.entries()) if (at >= 8) kept.set(id, STEPS);
    for (const path of asked) {
      const { status, body } = await read(path);
      if (deleted.has(path)) expect(status, path).toBe(404);
      // A deletion that was not answered may not have begun. Then the run is complete.
      if (status !== 404 && path.startsWith('/v1/monitor/'))
        expect(body.steps, path).toBe(path.endsWith('-0') ? LONG_STEPS : STEPS);
    }
  }
  // Data that a deletion hid at once is later removed from the tables too, so its id is free.
  for (const path of asked) {
    const { status } = await read(path);
    if (status !== 404) expect(await send('DELETE', path), path).toBe(204);
    if (!path.startsWith('/v1/monitor/')) continue;
    const run_id = path.slice('/v1/monitor/runs/'.length);
    await expect.poll(() => send('POST', '/v1/monitor/runs', { run_id }), { timeout: 60_000 }).toBe(200);
    expect((await read(`${path}/steps`)).body.steps).toEqual([]);
  }
  for (const [run_id, steps] of kept) {
    const { body } = await read(`/v1/monitor/runs/${run_id}`);
    // A step whose answer was lost in the kill may be stored.
    expect(body.steps - steps, run_id).toBeGreaterThanOrEqual(0);
    expect(body.steps - steps, run_id).toBeLessThanOrEqual(1);
  }
  const usage = await api.call(owner.token, 'GET', `/usage?org_id=${owner.org_id}&days=2`);
  // All acknowledged steps, and at most one step per round whose answer was lost in a kill.
  expect(usage.body.totals.steps).toBeGreaterThanOrEqual(counted);
  expect(usage.body.totals.steps).toBeLessThanOrEqual(counted + ROUNDS);
  expect(usage.body.totals.traces).toBe(ROUNDS * RUNS);
  // Despite the kills, the log has one entry for each deletion.
  const wanted = [...asked]
    .map((path) => `${path.includes('/traces/') ? 'trace' : 'run'}.delete ${path.split('/').at(-1)!}`)
    .sort();
  await expect.poll(readEntries, { timeout: 60_000 }).toEqual(wanted);
}, 600_000);

/** The deletions in the audit log. */
async function readEntries(): Promise<string[]> {
  const entries: string[] = [];
  for (let offset = 0; ; offset += 100) {
    const path = `/organizations/${owner.org_id}/audit-log?limit=100&offset=${offset}`;
    const { body } = await api.call(owner.token, 'GET', path);
    for (const { action, target } of body)
      if (action === 'run.delete' || action === 'trace.delete') entries.push(`${action} ${target}`);
    if (body.length < 100) return entries.sort();
  }
}

/**
 * A service whose shared database is unreachable forwards, captures and stops as before. A trace that one box received
 * is known to the other. Own processes.
 */
import { expect, it } from 'vitest';
import { type ControlPlaneChild, SECRET } from '../fixtures/control-plane.ts';
import { WholeService } from '../fixtures/whole-service.ts';
import { makeFolder } from '../storage/folder.ts';
import { SharedBoxes } from './shared-boxes.ts';

it('forwarding and capture need no database', { tags: 'long' }, async () => {
  await using boxes = await SharedBoxes.start();
  if (!boxes.server.isOurs) return;
  const env = { AUTH_DB_URL: boxes.address, AUTH_JWT_SECRET: SECRET };
  await using whole = new WholeService(makeFolder(), env);
  await whole.start();
  const said = { messages: [{ role: 'user', content: 'before' }] };
  await whole.capture('run', said);
  await boxes.server.kill();
  for (let turn = 0; turn < 20; turn++)
    await whole.capture('run', { messages: [{ role: 'user', content: `${turn}` }] });
  const stats = await (await fetch(`${whole.gateway}/__gw/stats`)).text();
  expect(stats).not.toContain('tests-only');
  const flushed = await fetch(`${whole.gateway}/__gw/flush`, { method: 'POST' });
  expect(flushed.status).toBe(200);
  expect((await fetch(`${whole.gateway}/__gw/ready`)).status).toBe(200);
  expect(await whole.run('inspect', '--json')).toContain('"turns":21');
  // The service stops normally without the database.
  expect(await whole.stop()).toBe(0);
  expect(whole.stderr).not.toContain('tests-only');
});

it('a trace that one box received is known to the other, and its pattern is made once', {
  tags: 'long',
}, async () => {
  await using boxes = await SharedBoxes.start();
  const env = { VECTOR_STORE_URL: 'embedded:' };
  const [a, b] = await Promise.all([boxes.open(env), boxes.open(env)]);
  const ann = await a.person('ann');
  const { raw_key: key } = (await a.call(ann.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  const step = (step_index: number, rest: object) => ({ step_index, ...rest });
  const error = {
    action: 'run_tests',
    action_input: 'all',
    observation: 'Error: the crane is off',
    is_error: true,
  };
  const trace = {
    trace_id: 't1',
    outcome: 'success',
    task: 'fix the failing unit tests of the harbour crane',
    steps: [
      step(0, error),
      step(1, { action: 'edit', action_input: 'add a day', observation: 'edited' }),
      step(2, error),
      step(3, { action: 'edit', thought: 'the zone', action_input: 'use UTC', observation: 'edited' }),
      step(4, { action: 'run_tests', action_input: 'all', observation: '12 passed' }),
    ],
  };
  expect((await a.call(key, 'POST', '/v1/traces', trace)).status).toBeLessThan(300);
  const read = async (box: ControlPlaneChild) => (await box.call(key, 'GET', '/v1/traces/t1')).body;
  for (const box of [a, b]) await expect.poll(async () => (await read(box)).status).toBe('done');
  const patterns = async (box: ControlPlaneChild) =>
    (await box.call(key, 'GET', '/v1/patterns?tier=e2')).body.patterns.map(
      ({ pattern_id, support }: { pattern_id: string; support: number }) => [pattern_id, support],
    );
  const made = await patterns(a);
  expect(made.length).toBeGreaterThan(0);
  await expect.poll(() => patterns(b)).toEqual(made);
  // The other box recognizes the same trace.
  expect((await b.call(key, 'POST', '/v1/traces', trace)).status).toBeLessThan(300);
  expect(await patterns(b)).toEqual(made);
  expect((await b.call(key, 'DELETE', '/v1/traces/t1')).status).toBe(204);
  await expect.poll(async () => (await a.call(key, 'GET', '/v1/traces/t1')).status).toBe(404);
});

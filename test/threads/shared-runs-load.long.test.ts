/**
 * Agents send each step to either of two boxes, again until it is acknowledged, while one box is killed and started
 * again. Each step counts once, and has the scores that one box gives. Own processes.
 */
import { expect, it } from 'vitest';
import { createPrng } from '../../src/std/prng.ts';
import type { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { SharedBoxes } from './shared-boxes.ts';

const RUNS = 6;
const STEPS = 40;
/** Numbers of acknowledged steps after which a box is killed and started again. */
const KILL_AFTER = [40, 120];

it('every acknowledged step is there once, with the scores of one box', async () => {
  await using boxes = await SharedBoxes.start();
  const [a, b] = [await boxes.open(), await boxes.open()];
  const ann = await a.person('ann');
  const { raw_key: key } = (await a.call(ann.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  await expect.poll(async () => (await b.call(key, 'GET', '/v1/findings')).status).toBe(200);
  const random = createPrng(20_261_129);

  /** Sends the request to any box, again and again, until a box acknowledges it. */
  const insist = async (method: string, path: string, body: object): Promise<string> => {
    for (;;) {
      const box: ControlPlaneChild = random.chance(0.5) ? a : b;
      const answer = await box.call(key, method, path, body).catch(() => null);
      if (answer === null || answer.status === 503) continue;
      expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(200);
      return answer.text;
    }
  };
  const stepOf = (step_index: number) => ({
    step_index,
    action: step_index % 5 === 0 ? 'search' : 'edit',
    observation: step_index % 3 === 0 ? 'nothing found' : `line ${step_index}`,
    tokens: step_index,
  });

  let acknowledged = 0;
  let kills = 0;
  let restarting = Promise.resolve();
  const restart = async () => {
    await b.kill();
    kills++;
    await b.start();
  };
  const agent = async (run_id: string): Promise<string[]> => {
    const answers: string[] = [];
    await insist('POST', '/v1/monitor/runs', { run_id, task: 'mend it' });
    for (let at = 0; at < STEPS; at++) {
      answers.push(await insist('POST', `/v1/monitor/runs/${run_id}/steps`, stepOf(at)));
      if (KILL_AFTER.includes(++acknowledged)) restarting = restarting.then(restart);
      // A client that did not get the answer sends the step again, possibly to the other box.
      if (at % 7 === 0)
        expect(await insist('POST', `/v1/monitor/runs/${run_id}/steps`, stepOf(at))).toBe(answers[at]);
    }
    await insist('POST', `/v1/monitor/runs/${run_id}/finish`, { outcome: 'success' });
    return answers;
  };
  const answers = await Promise.all(Array.from({ length: RUNS }, (_, at) => agent(`r${at}`)));
  await restarting;
  expect(kills).toBe(KILL_AFTER.length);

  const alone: string[] = [];
  await a.call(key, 'POST', '/v1/monitor/runs', { run_id: 'alone', task: 'mend it' });
  for (let at = 0; at < STEPS; at++)
    alone.push((await a.call(key, 'POST', '/v1/monitor/runs/alone/steps', stepOf(at))).text);
  for (const told of answers) expect(told).toEqual(alone);
  for (const box of [a, b]) {
    for (let at = 0; at < RUNS; at++) {
      const { steps } = (await box.call(key, 'GET', `/v1/monitor/runs/r${at}/steps?limit=200`)).body;
      expect(steps.map(({ step_index }: { step_index: number }) => step_index)).toEqual(
        Array.from({ length: STEPS }, (_, index) => index),
      );
    }
    const { totals } = (await box.call(ann.token, 'GET', '/usage/?days=2')).body;
    const runs = RUNS + 1;
    expect(totals).toMatchObject({ runs, steps: runs * STEPS, tokens: (runs * STEPS * (STEPS - 1)) / 2 });
  }
});

/** Runs after a kill: every acknowledged step exists with its answer. */
import { expect, it } from 'vitest';
import { type ApiAnswer, ApiChild } from '../fixtures/api-child.ts';

const RUNS = '/v1/monitor/runs';

function logStep(run: string, step_index: number, fields: object, child: ApiChild): Promise<ApiAnswer> {
  return child.post(`${RUNS}/${run}/steps`, {
    step_index,
    action: 'read_file',
    action_input: `{"path":"src/${step_index}.ts"}`,
    thought: `look at file ${step_index}`,
    observation: `export const value = ${step_index};`,
    tokens: 7,
    ...fields,
  });
}

const LOOP = { action: 'search', action_input: '{"q":"x"}', thought: 'search', observation: 'no results' };

function finishRun(run: string, outcome: string, fields: object, child: ApiChild): Promise<ApiAnswer> {
  return child.post(`${RUNS}/${run}/finish`, { outcome, ...fields });
}

it('after a kill, every acknowledged step exists, and a repeated request gets the first answer', async () => {
  await using child = new ApiChild();
  await child.start();
  const starts = await Promise.all([0, 1, 2].map((at) => child.post(RUNS, { run_id: `k${at}` })));
  const acknowledged = new Map<string, string>();
  let isKilled = false;
  const log = async (run: number) => {
    for (let index = 0; !isKilled; index++) {
      const step = index % 4 === 0 ? LOOP : {};
      const answer = await logStep(`k${run}`, index, step, child).catch(() => null);
      if (answer?.status === 200) acknowledged.set(`${run} ${index}`, answer.text);
      // Kills the process in the middle of the other requests.
      if (run === 0 && index === 150) {
        isKilled = true;
        await child.kill();
      }
    }
  };
  await Promise.all([log(0), log(1), log(2)]);
  expect(acknowledged.size).toBeGreaterThan(150);
  await child.start();
  for (const [at, { text }] of starts.entries())
    expect((await child.post(RUNS, { run_id: `k${at}` })).text).toBe(text);
  for (const [key, text] of acknowledged) {
    const [run, index] = key.split(' ').map(Number);
    expect((await logStep(`k${run}`, index!, { thought: 'sent again' }, child)).text).toBe(text);
  }
  const counted = [...acknowledged.keys()].filter((key) => key.startsWith('0 ')).length;
  const { body } = await finishRun('k0', 'success', {}, child);
  // One more step may be stored, whose answer was lost in the kill.
  expect([counted, counted + 1]).toContain(body.steps);
  const finished = await finishRun('k1', 'success', {}, child);
  await child.kill();
  await child.start();
  expect((await finishRun('k1', 'success', {}, child)).text).toBe(finished.text);
  expect((await finishRun('k1', 'failure', {}, child)).status).toBe(409);
}, 400_000);

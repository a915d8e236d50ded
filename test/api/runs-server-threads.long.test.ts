/**
 * Runs with several server threads: the actor of each run is on one of them, and every thread finds the run, even
 * after a kill.
 */
import { expect, it } from 'vitest';
import { type ApiAnswer, ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { onOneDay } from '../fixtures/one-day.ts';

const RUNS = 24;
const STEPS = 6;
const APART = { connection: 'close' };

/** Sends a step on a new connection, which the kernel gives to one of the server threads. */
function logStep(child: ApiChild, run: number, step_index: number): Promise<ApiAnswer> {
  return child.post(`/v1/monitor/runs/r${run}/steps`, { step_index, action: 'read', tokens: 10 }, APART);
}

const MANY = [
  { SERVER_THREADS: '3', ACTOR_THREADS: '2' },
  { SERVER_THREADS: '5', ACTOR_THREADS: '3' },
];

it.each(MANY)(
  'runs are found by every server thread, sent to every reader, and kept under another number of threads ($SERVER_THREADS)',
  async (threads) => {
    const env = { ...threads, AUTH_DB_CONN_URL: 'embedded:' };
    await using child = new ApiChild(env);
    await child.start();
    const reader = await joinStream(child.url);
    const heard = reader.readUntil((text) => text.split('event: step').length - 1 >= RUNS * STEPS);
    const runs = Array.from({ length: RUNS }, (_, run) => run);
    for (const { status } of await Promise.all(
      runs.map((run) => child.post('/v1/monitor/runs', { run_id: `r${run}`, task: 'repair it' }, APART)),
    ))
      expect(status).toBe(200);
    const answers = new Map<string, string>();
    for (let step = 0; step < STEPS; step++) {
      for (const [run, answer] of (
        await Promise.all(runs.map((run) => logStep(child, run, step)))
      ).entries()) {
        expect(answer.status).toBe(200);
        answers.set(`${run} ${step}`, answer.text);
      }
    }
    await heard;
    await reader.close();
    await child.kill();

    const takeSteps = (from: number) =>
      Promise.all(
        runs.map(async (run) => {
          for (let step = from; step < from + 2; step++)
            answers.set(`${run} ${step}`, (await logStep(child, run, step)).text);
        }),
      );
    env.SERVER_THREADS = '1';
    env.ACTOR_THREADS = '1';
    await child.start();
    await checkAnswers(child, answers);
    await takeSteps(STEPS);
    expect(await child.stop()).toBe(0);

    env.SERVER_THREADS = '3';
    env.ACTOR_THREADS = '2';
    await child.start();
    await takeSteps(STEPS + 2);
    await checkAnswers(child, answers);
    for (const run of runs) {
      const { body } = await child.post(`/v1/monitor/runs/r${run}/finish`, { outcome: 'success' }, APART);
      expect(body).toMatchObject({ steps: STEPS + 4, tokens: 10 * (STEPS + 4) });
    }
    expect(await child.stop()).toBe(0);
  },
  400_000,
);

it(
  'runs are counted when they are answered, whichever server thread answers',
  () =>
    onOneDay(async () => {
      await using child = new ControlPlaneChild({ SERVER_THREADS: '3', ACTOR_THREADS: '1' });
      await child.start();
      const owner = await child.person('owner');
      const key = { authorization: `Bearer ${CHILD_KEY}`, ...APART };
      const { org_id } = owner;
      for (let run = 0; run < RUNS; run++)
        await child.post('/v1/monitor/runs', { run_id: `r${run}`, org_id }, key);
      for (let step = 0; step < STEPS; step++) {
        for (let run = 0; run < RUNS; run++) {
          const body = { step_index: step, action: 'read', tokens: 10, org_id };
          expect((await child.post(`/v1/monitor/runs/r${run}/steps`, body, key)).status).toBe(200);
          const usage = await fetch(`${child.url}/usage/?org_id=${org_id}&days=1`, {
            headers: { authorization: `Bearer ${owner.token}`, ...APART },
          });
          const steps = step * RUNS + run + 1;
          expect(((await usage.json()) as { totals: object }).totals).toMatchObject({
            runs: RUNS,
            steps,
            tokens: 10 * steps,
          });
        }
      }
    }),
  400_000,
);

it.each([
  { SERVER_THREADS: '2', ACTOR_THREADS: '1' },
  { SERVER_THREADS: '5', ACTOR_THREADS: '3' },
])('at a stop, every accepted request of a run gets its answer ($SERVER_THREADS)', async (threads) => {
  await using child = new ApiChild(threads);
  await child.start();
  for (let run = 0; run < RUNS; run++) await child.post('/v1/monitor/runs', { run_id: `r${run}` }, APART);
  const statuses: number[] = [];
  let isEnding = false;
  const sending = Array.from({ length: RUNS }, async (_, run) => {
    for (let step = 0; !isEnding; step++) {
      const answer = await logStep(child, run, step).catch(() => null);
      // A late connection is refused, or is told of the shutdown if it was already open. An accepted request gets its
      // answer.
      if (answer !== null && !answer.text.includes('shutting down')) statuses.push(answer.status);
      if (statuses.length > 10 * RUNS) isEnding = true;
    }
  });
  while (!isEnding) await new Promise((resolve) => setImmediate(resolve));
  expect(await child.stop()).toBe(0);
  await Promise.all(sending);
  expect(new Set(statuses)).toEqual(new Set([200]));
});

/** Checks that each repeated step gets its first answer again. */
async function checkAnswers(child: ApiChild, answers: ReadonlyMap<string, string>): Promise<void> {
  for (const [key, text] of answers) {
    const [run, step] = key.split(' ').map(Number);
    const answer = await logStep(child, run!, step!);
    expect(answer.status).toBe(200);
    expect(answer.text).toBe(text);
  }
}

interface StreamReader {
  /** Rejects if the stream ends before `isEnough`. */
  readUntil(isEnough: (text: string) => boolean): Promise<void>;
  close(): Promise<void>;
}

/** A reader of the live stream that misses no event from now on, because the stream begins with its position. */
async function joinStream(url: string): Promise<StreamReader> {
  for (;;) {
    const response = await fetch(`${url}/v1/monitor/stream`, {
      headers: { authorization: `Bearer ${CHILD_KEY}` },
    });
    expect(response.status).toBe(200);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const readUntil = async (isEnough: (text: string) => boolean) => {
      while (!isEnough(text)) {
        const { value, done } = await reader.read();
        if (done) throw new Error('the stream ended early');
        text += value;
      }
    };
    await readUntil(() => text.includes('\n\n'));
    if (/^id: /m.test(text)) return { readUntil, close: () => reader.cancel() };
    // The hub has not answered yet, so events until its answer would be missed.
    await reader.cancel();
  }
}

/**
 * An agent that measures the time of its calls of `step` and prints the figures as one line of JSON. `client.ts` starts
 * it as a separate process. Between steps the agent pauses for a millisecond, because real agents wait for a model.
 * Only the burst at the end has no pauses.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Understudy } from '../src/client/understudy.ts';
import { Samples } from './quantiles.ts';

const [, , baseUrl = '', apiKey = '', mode = 'streamed', stepsText = '1000', burstText = '0'] = process.argv;
const steps = Number(stepsText);
/** Number of steps without a pause, at the end. */
const burst = Number(burstText);

const understudy = new Understudy({
  apiKey,
  baseUrl,
  timeoutMs: 1_000,
  liveStreamingEnabled: mode !== 'off',
  onWarning: () => {},
});
const thought = 'The parser drops the trailing comma, so the list is one short. '.repeat(6);
const observation = 'ok 12 - reads an empty list\nnot ok 13 - reads a trailing comma\n'.repeat(32);

function makeStep(at: number) {
  return {
    action: 'run_tests',
    actionInput: { path: 'test/list.ts', at },
    thought,
    observation: observation + at,
    tokens: 900,
  };
}

const added = new Samples();
await understudy.run({ task: 'mend the list parser' }, async (run) => {
  const watch = mode === 'unwatched' ? () => {} : (step: object) => run.step(step);
  // These steps are not measured. After them, the code is compiled as after the first seconds of an agent.
  for (let at = 0; at < 200; at++) {
    watch(makeStep(at));
    await delay(1);
  }
  const before = process.cpuUsage();
  for (let at = 0; at < steps; at++) {
    const step = makeStep(at);
    const from = process.hrtime.bigint();
    watch(step);
    added.add(Number(process.hrtime.bigint() - from) / 1e3);
    await delay(1);
  }
  const { user, system } = process.cpuUsage(before);
  globalThis.gc?.();
  const heap = process.memoryUsage().heapUsed;
  const from = performance.now();
  for (let at = 0; at < burst; at++) watch(makeStep(at));
  const burst_us = burst === 0 ? Number.NaN : ((performance.now() - from) * 1e3) / burst;
  globalThis.gc?.();
  const grown_bytes = process.memoryUsage().heapUsed - heap;
  const { dropped, queuedBytes } = understudy.stats().steps;
  const cpu_us = (user + system) / steps;
  console.log(
    JSON.stringify({ added_us: added.quantiles(), cpu_us, burst_us, grown_bytes, dropped, queuedBytes }),
  );
});
await understudy.close({ timeoutMs: 1_000 });

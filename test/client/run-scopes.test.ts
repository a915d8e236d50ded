/**
 * What a run does for the code inside it: it becomes the parent of other runs, labels model calls, and gets the steps
 * of a stream that is read later. Over sockets.
 */

import { expect, it, onTestFinished } from 'vitest';
import { type ClientWarning, Understudy } from '../../src/client/understudy.ts';
import { AgentSteps } from '../../src/integrations/agent-steps.ts';
import { stepsAround } from '../../src/integrations/watched-run.ts';
import { install, runScope } from '../../src/label/label.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { headerOf, startRecorder } from '../label/recorder.ts';
import { startService } from './scripted-service.ts';

const LONG = { timeoutMs: PATIENCE_MS };

async function connect() {
  const service = await startService(200, {});
  const warned: ClientWarning[] = [];
  const understudy = new Understudy({
    apiKey: 'k',
    baseUrl: service.url,
    ...LONG,
    onWarning: (warning) => warned.push(warning),
  });
  onTestFinished(() => void understudy.close({ timeoutMs: 1 }));
  const starts = () =>
    Object.fromEntries(
      service.asked
        .filter(({ path }) => path === '/v1/monitor/runs')
        .map(({ body }) => [body!.run_id, body!]),
    );
  const paths = () => service.asked.map(({ path }) => path.replace('/v1/monitor/runs', ''));
  return { understudy, warned, starts, paths };
}

it('a run names the enclosing run as its parent, in addition to its metadata', async () => {
  const { understudy, starts } = await connect();
  const other = new Understudy({ apiKey: 'k', liveStreamingEnabled: false });
  await understudy.run({ runId: 'outer' }, async () => {
    await understudy.run({ runId: 'inner', metadata: { pr: 7 } }, async () => {
      await Promise.resolve();
      understudy.start({ runId: 'innermost' });
    });
    await understudy.run({ runId: 'own', metadata: { parent_run_id: 'elsewhere' } }, () => {});
  });
  await other.run({}, () => understudy.start({ runId: 'alone' }));
  expect(await understudy.close(LONG)).toBe(true);
  const told = Object.entries<Record<string, unknown>>(starts()).map(([id, { metadata }]) => [id, metadata]);
  expect(Object.fromEntries(told)).toEqual({
    outer: undefined,
    inner: { parent_run_id: 'outer', pr: 7 },
    innermost: { parent_run_id: 'inner' },
    own: { parent_run_id: 'elsewhere' },
    alone: undefined,
  });
});

it('a run has the framework of the integration that logs it', async () => {
  const { understudy, starts } = await connect();
  const langchain = { name: 'l', framework: 'langchain' };
  understudy.within(understudy.start({ runId: 'watched' }), () => stepsAround(langchain, {}));
  understudy.within(understudy.start({ runId: 'own', framework: 'mine' }), () => stepsAround(langchain, {}));
  stepsAround(langchain, { run: understudy.start({ runId: 'given' }) });
  const early = understudy.start({ runId: 'early' });
  early.step({ action: 'look' });
  expect(await understudy.flush(LONG)).toBe(true);
  stepsAround(langchain, { run: early });
  understudy.start({ runId: 'alone' });
  expect(await understudy.flush(LONG)).toBe(true);
  const told = Object.entries<Record<string, unknown>>(starts()).map(([id, { framework }]) => [
    id,
    framework,
  ]);
  expect(Object.fromEntries(told)).toEqual({
    watched: 'langchain',
    own: 'mine',
    given: 'langchain',
    early: 'custom',
    alone: 'custom',
  });
});

it('a run accepts the steps of a stream that is read after its scope, and then ends', async () => {
  const { understudy, warned, paths } = await connect();
  const stream = await understudy.run({ runId: 'r' }, (run) => {
    const steps = AgentSteps.of(run);
    const end = steps.expectStream();
    return { say: (text: string) => steps.answered({ text, thinking: '', calls: [], tokens: 1 }), end };
  });
  stream.say('one');
  expect(await understudy.flush(LONG)).toBe(true);
  expect(paths()).toEqual(['', '/r/steps']);
  stream.say('two');
  stream.end();
  stream.end();
  expect(await understudy.flush(LONG)).toBe(true);
  expect(paths()).toEqual(['', '/r/steps', '/r/steps', '/r/finish']);
  expect(warned).toEqual([]);
  stream.say('three');
  expect(warned).toMatchObject([{ cause: 'closed', message: expect.stringContaining('Run r has ended') }]);
  expect(understudy.stats().steps).toMatchObject({ sent: 2, dropped: 1 });
});

it('a run with a stream ends at once when it fails, and when its client is closed', async () => {
  const { understudy, paths } = await connect();
  const failing = understudy.run({ runId: 'failing' }, (run) => {
    AgentSteps.of(run).expectStream();
    throw new RangeError('too far');
  });
  await expect(failing).rejects.toThrow(RangeError);
  expect(await understudy.flush(LONG)).toBe(true);
  expect(paths()).toEqual(['', '/failing/finish']);
  await understudy.run({ runId: 'left' }, (run) => void AgentSteps.of(run).expectStream());
  expect(await understudy.close(LONG)).toBe(true);
  expect(paths()).toEqual(['', '/failing/finish', '', '/left/finish']);
});

it('a run labels the model calls within it, and none after its end', async () => {
  install();
  const recorder = await startRecorder();
  onTestFinished(() => recorder.close());
  const ask = () => fetch(`http://127.0.0.1:${recorder.port}/v1/messages`, { method: 'POST', body: '{}' });
  const understudy = new Understudy({ apiKey: 'k', liveStreamingEnabled: false });
  let later: Promise<unknown> | null = null;
  let goOn = () => {};
  await runScope('around', async () => {
    await understudy.run({ runId: 'outer' }, async () => {
      await ask();
      await understudy.run({ runId: 'inner' }, ask);
      await ask();
      later = new Promise<void>((resolve) => (goOn = resolve)).then(ask);
    });
    goOn();
    await later;
    await understudy.within(understudy.start({ runId: 'started' }), ask);
    // A name that no header can contain, so the calls have no label.
    await understudy.run({ runId: ' ' }, ask);
  });
  await ask();
  const labels = recorder.requests.map((request) => [
    headerOf(request, 'x-svc-run'),
    headerOf(request, 'x-svc-seq'),
  ]);
  expect(labels).toEqual([
    ['outer', '1'],
    ['inner', '1'],
    ['outer', '2'],
    ['around', '1'],
    ['started', '1'],
    ['around', '2'],
    [null, null],
  ]);
});

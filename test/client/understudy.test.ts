/** The client library's surface against the real service. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { currentRun, Understudy } from '../../src/client/understudy.ts';
import { CLIENT_KEY, ClientService } from '../fixtures/client-service.ts';

let service: ClientService;
let understudy: Understudy;

beforeAll(async () => {
  service = await ClientService.start();
  understudy = new Understudy({ apiKey: CLIENT_KEY, baseUrl: service.url });
});
afterAll(async () => {
  await understudy.close();
  await service.stop();
});

describe('a run', () => {
  it('is a success if it ends without an error, with all its steps', async () => {
    const result = await understudy.run({ task: 'count to three', runId: 'clean' }, async (run) => {
      for (let at = 0; at < 3; at++) run.step({ action: 'count', actionInput: { at }, tokens: 7 });
      return 'three';
    });
    expect(result).toBe('three');
    expect(await understudy.flush()).toBe(true);
    expect(await service.readRun('clean', 'success')).toMatchObject({
      status_code: 200,
      steps: 3,
      tokens: 21,
    });
  });

  it('is a failure if it throws, and the caller gets the error', async () => {
    class OutOfMilk extends Error {}
    const thrown = new OutOfMilk('at all');
    const work = understudy.run({ runId: 'broken' }, () => {
      throw thrown;
    });
    await expect(work).rejects.toBe(thrown);
    expect(await understudy.flush()).toBe(true);
    expect(await service.readRun('broken', 'failure: OutOfMilk')).toMatchObject({ status_code: 200 });
  });

  it('ends with its scope', async () => {
    const scope = async () => {
      await using run = understudy.start({ runId: 'scoped' });
      run.step({ action: 'look' });
    };
    await scope();
    expect(await understudy.flush()).toBe(true);
    expect(await service.readRun('scoped', 'success')).toMatchObject({ status_code: 200, steps: 1 });
  });

  it('can be marked while it runs and after its end', async () => {
    const run = await understudy.run({ runId: 'marked' }, (started) => {
      started.mark('bad', { tags: ['night'], note: 'wrong file' });
      return started;
    });
    expect(await understudy.flush()).toBe(true);
    run.mark({ mark: 'good', tags: ['seen'], feedbackScore: 0.5 });
    expect(await understudy.flush()).toBe(true);
    expect(await understudy.api.readRunMarks({ params: { id: 'marked' } })).toMatchObject({
      mark: 'good',
      tags: ['night', 'seen'],
      note: 'wrong file',
      feedback_score: 0.5,
    });
  });

  it('is known to the code within it, also in nested and concurrent runs', async () => {
    const other = new Understudy({ apiKey: CLIENT_KEY, baseUrl: service.url, liveStreamingEnabled: false });
    const seen: (string | undefined)[] = [];
    const look = async () => {
      await Promise.resolve();
      seen.push(currentRun()?.runId, understudy.current()?.runId, other.current()?.runId);
    };
    await Promise.all([
      understudy.run({ runId: 'outer' }, async () => {
        await other.run({ runId: 'inner' }, look);
        await look();
      }),
      understudy.run({ runId: 'beside' }, async () => expect(currentRun()?.runId).toBe('beside')),
    ]);
    await look();
    expect(seen).toEqual([
      ...['inner', 'outer', 'inner'],
      ...['outer', 'outer', undefined],
      ...[undefined, undefined, undefined],
    ]);
  });

  it('receives each intervention once, the nudge before the stop', async () => {
    await understudy.run({ runId: 'loop', task: 'run the tests' }, async (run) => {
      const said: unknown[] = [];
      for (let at = 0; at < 9; at++) {
        run.step({ action: 'run_tests', actionInput: 'npm test', observation: '1 failed' });
        await understudy.flush();
      }
      for (let next = run.intervention(); next !== null; next = run.intervention()) said.push(next);
      expect(said).toEqual([
        { text: expect.stringContaining('run_tests'), failureType: 'infinite_loop', level: 'nudge' },
        { text: expect.stringContaining('run_tests'), failureType: 'infinite_loop', level: 'stop' },
      ]);
    });
  });
});

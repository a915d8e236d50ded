/** Patterns and the meter in a real process: what the shipped model finds, and what is left after a kill. */
import { describe, expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';
import { onOneDay } from '../fixtures/one-day.ts';

const lesson = (situation: string) => ({
  situation,
  dead_ends: 'raised the timeout',
  unlock: 'asked the health check',
});
const FLAKY = 'The integration test times out now and then while the postgres container is still starting';
const SOCKS = 'Choose a wool for knitting warm winter socks';

describe('the patterns of a process', () => {
  it('are found after a kill, with their counts, by the shipped model', () =>
    onOneDay(async () => {
      await using api = new ApiChild({ VECTOR_STORE_URL: 'embedded:', PLAN_CAPS: '{"free": 3}' });
      await api.start();
      const imported = await api.post('/v1/patterns', {
        org_id: 'o',
        tier: 'e2',
        patterns: [lesson(FLAKY), lesson(SOCKS)],
      });
      expect(imported.body).toMatchObject({ created: 2, merged: 0 });
      const ask = async (context: string) =>
        (await api.post('/v1/traces/retrieve', { org_id: 'o', tier: 'e2', context })).body.traces;
      const context = 'an integration test that times out because the postgres container starts slowly';
      const first = await ask(context);
      expect(first).toHaveLength(1);
      expect(first[0]).toMatchObject({ tier: 'e2', fields: { situation: FLAKY } });
      expect(await ask('quarterly tax return of a bakery')).toEqual([]);
      await api.kill();
      await api.start();
      expect(await ask(context)).toEqual(first);
      await api.kill();
      await api.start();
      const again = await api.post('/v1/patterns', { org_id: 'o', tier: 'e2', patterns: [lesson(FLAKY)] });
      expect(again.body).toMatchObject({ created: 0, merged: 1 });
      expect(await ask(context)).toEqual(first);
      // The fourth retrieval is beyond the cap.
      expect(await ask(context)).toEqual([]);
      const universal = await api.post('/v1/traces/retrieve', {
        org_id: 'other',
        context:
          'The same command fails again and again with the same error and the agent keeps sending it unchanged',
      });
      expect(universal.body.traces[0]).toMatchObject({ tier: 'e3' });
    }));

  it('are neither found nor stored without a vector store', async () => {
    await using api = new ApiChild();
    await api.start();
    expect((await api.post('/v1/traces/retrieve', { context: FLAKY })).body).toEqual({ traces: [] });
    expect((await api.post('/v1/patterns', { tier: 'e2', patterns: [lesson(FLAKY)] })).status).toBe(503);
  });
});

/** Import of patterns over the API's pipeline. */

import { describe, expect, it } from 'vitest';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { createPatternApi } from '../fixtures/pattern-api.ts';

const lesson = (situation: string, more: object = {}) => ({
  situation,
  dead_ends: 'raised the timeout',
  unlock: 'waited for the health check',
  ...more,
});

/** Situations without a common word. */
const manySituations = (count: number) =>
  Array.from({ length: count }, (_, at) => lesson(`alpha${at} beta${at} gamma${at} delta${at}`));

describe('an import of patterns', () => {
  it('stores them, and merges those that exist already', async () => {
    const { post } = createPatternApi();
    const first = await post('/v1/patterns', { tier: 'e1', patterns: manySituations(3) }, 'alice-web');
    expect(first.status).toBe(200);
    expect(first.body).toMatchObject({ created: 3, merged: 0 });
    const again = await post('/v1/patterns', { tier: 'e1', patterns: manySituations(4) }, 'alice-web');
    expect(again.body).toMatchObject({ created: 1, merged: 3 });
    expect(
      again.body.patterns.slice(0, 3).map((pattern: { pattern_id: string }) => pattern.pattern_id),
    ).toEqual(first.body.patterns.map((pattern: { pattern_id: string }) => pattern.pattern_id));
    expect((await post('/patterns', { tier: 'e1', patterns: [] }, 'alice-web')).body).toEqual({
      created: 0,
      merged: 0,
      patterns: [],
    });
  });

  it('has one entry in the organization’s audit log if it changed something', async () => {
    const { post, tables } = createPatternApi();
    await post('/v1/patterns', { tier: 'e1', patterns: manySituations(2) }, 'alice-web');
    await post('/v1/patterns', { tier: 'e1', patterns: [] }, 'alice-web');
    await post('/v1/patterns', { tier: 'e2', org_id: 'alice', patterns: manySituations(1) });
    const { items } = new TableAccounts(tables).audit.list('alice', { limit: 10, offset: 0 });
    expect(items).toMatchObject([
      {
        actor_type: 'operator',
        actor: expect.stringMatching(/^static:/),
        action: 'patterns.import',
        target: 'alice',
        after: { tier: 'e2', created: 1, merged: 0 },
      },
      {
        actor_type: 'key',
        actor: 'key Bearer alice-web',
        action: 'patterns.import',
        target: 'web',
        before: null,
        after: { tier: 'e1', created: 2, merged: 0 },
        address: '127.0.0.1',
      },
    ]);
    expect(JSON.stringify(items)).not.toContain('alpha0');
    expect(new TableAccounts(tables).audit.list('bob', { limit: 10, offset: 0 }).items).toEqual([]);
  });

  it('takes a thousand in one request, and refuses one more', async () => {
    const { post, store } = createPatternApi();
    const reply = await post('/v1/patterns', { tier: 'e2', patterns: manySituations(1_000) }, 'alice-all');
    expect(reply.body).toMatchObject({ created: 1_000 });
    expect(store.state().patterns).toBe(1_000);
    const refused = await post('/v1/patterns', { tier: 'e2', patterns: manySituations(1_001) }, 'alice-all');
    expect(refused).toMatchObject({
      status: 422,
      body: { detail: [{ type: 'too_long', loc: ['body', 'patterns'], ctx: { max_length: 1_000 } }] },
    });
  });

  it('makes universal patterns only for the operator', async () => {
    const { post, store } = createPatternApi();
    for (const key of ['alice-web', 'alice-all']) {
      const refused = await post('/v1/patterns', { tier: 'e3', patterns: manySituations(1) }, key);
      expect(refused.status).toBe(403);
      expect(typeof refused.body.detail).toBe('string');
    }
    expect(store.state().patterns).toBe(0);
    expect((await post('/v1/patterns', { tier: 'e3', patterns: manySituations(1) })).status).toBe(200);
    const found = await post('/v1/traces/retrieve', { context: 'alpha0 beta0 gamma0 delta0' }, 'bob-all');
    expect(found.body.traces).toMatchObject([{ tier: 'e3' }]);
  });

  it('stores them for the tenant that the key, the body or the default names', async () => {
    const { post } = createPatternApi();
    const place = async (key: string | undefined, more: object, context: string) => {
      await post('/v1/patterns', { tier: 'e1', patterns: [lesson(context)], ...more }, key);
    };
    await place('alice-web', { org_id: 'bob', project_id: 'app' }, 'first thing here');
    await place('alice-all', { project_id: 'app' }, 'second item there');
    await place('alice-all', {}, 'third matter elsewhere');
    const see = async (project_id: string, context: string) =>
      (await post('/v1/traces/retrieve', { org_id: 'alice', project_id, context })).body.traces.length;
    expect(await see('web', 'first thing here')).toBe(1);
    expect(await see('app', 'second item there')).toBe(1);
    expect(await see('default', 'third matter elsewhere')).toBe(1);
    const bob = await post('/v1/traces/retrieve', { context: 'first thing here' }, 'bob-all');
    expect(bob.body.traces).toEqual([]);
  });

  it.each([
    [{}, ['missing', 'missing']],
    [{ tier: 'e1', patterns: {} }, ['list_type']],
    [{ tier: 'e9', patterns: [] }, ['literal_error']],
    [{ tier: 'e1', patterns: [{}] }, ['missing', 'missing', 'missing']],
    [{ tier: 'e1', patterns: [lesson('')] }, ['string_too_short']],
    [{ tier: 'e1', patterns: [lesson('s'.repeat(4_001))] }, ['string_too_long']],
    [{ tier: 'e1', patterns: [lesson('s', { unlock: 'u'.repeat(8_001) })] }, ['string_too_long']],
    [{ tier: 'e1', patterns: [lesson('s', { dead_ends: 7 })] }, ['string_type']],
    [{ tier: 'e1', patterns: [lesson('s', { failure_type: 'f'.repeat(65) })] }, ['string_too_long']],
    [{ tier: 'e1', patterns: [null] }, ['model_attributes_type']],
  ])('refuses %j and stores nothing', async (body, types) => {
    const { post, store } = createPatternApi();
    const reply = await post('/v1/patterns', body);
    expect(reply.status).toBe(422);
    expect(reply.body.detail.map(({ type }: { type: string }) => type)).toEqual(types);
    expect(store.state().patterns).toBe(0);
  });

  it('takes every text at its bound, and returns it whole', async () => {
    const { post } = createPatternApi();
    const texts = {
      situation: 'word '.repeat(800).trim(),
      dead_ends: '😀'.repeat(8_000),
      unlock: 'u '.repeat(4_000).trim(),
    };
    expect((await post('/v1/patterns', { tier: 'e1', patterns: [texts] })).status).toBe(200);
    const { body } = await post('/v1/traces/retrieve', { context: 'word' });
    expect(body.traces[0].fields).toEqual(texts);
  });
});

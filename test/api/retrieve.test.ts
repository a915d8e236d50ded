/** Retrieval over the API's pipeline: what is found for whom, what is counted, what is refused. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createPatternApi } from '../fixtures/pattern-api.ts';
import { sharedFile } from '../fixtures/shared.ts';

const CASES = sharedFile('spec/validation-cases.json');

const FLAKY = 'flaky integration test times out while postgres container starts';
const ROUTER = 'react router navigation loses query parameters after redirect';

const lesson = (situation: string, more: object = {}) => ({
  situation,
  dead_ends: 'raised the timeout',
  unlock: 'waited for the health check',
  ...more,
});

describe('a retrieval of patterns', () => {
  it('returns matches in the documented shape', async () => {
    const { post } = createPatternApi();
    await post('/v1/patterns', { tier: 'e1', patterns: [lesson(FLAKY), lesson(ROUTER)] }, 'alice-web');
    const { status, body } = await post('/v1/traces/retrieve', { context: FLAKY }, 'alice-web');
    expect(status).toBe(200);
    expect(body).toEqual({
      traces: [
        {
          tier: 'e1',
          pattern_id: expect.stringMatching(/^pat_[0-9A-Z]{26}$/),
          similarity: 1,
          fields: {
            situation: FLAKY,
            dead_ends: 'raised the timeout',
            unlock: 'waited for the health check',
          },
        },
      ],
    });
    const alias = await post('/traces/retrieve', { context: FLAKY }, 'alice-web');
    expect(alias).toMatchObject({ status: 200, body });
  });

  it('returns an empty list without a match', async () => {
    const { post } = createPatternApi();
    await post('/v1/patterns', { tier: 'e1', patterns: [lesson(FLAKY)] }, 'alice-web');
    for (const context of ['knitting patterns for winter socks', '', ' ', '???', '\u0000'])
      expect(await post('/v1/traces/retrieve', { context }, 'alice-web')).toMatchObject({
        status: 200,
        body: { traces: [] },
      });
  });

  it('never shows patterns of another organization, whatever the body says', async () => {
    const { post } = createPatternApi();
    await post('/v1/patterns', { tier: 'e1', patterns: [lesson(FLAKY)] }, 'alice-web');
    await post('/v1/patterns', { tier: 'e2', patterns: [lesson(`${FLAKY} commons`)] }, 'alice-web');
    const ask = async (key: string, more: object = {}) =>
      (await post('/v1/traces/retrieve', { context: FLAKY, ...more }, key)).body.traces.map(
        (trace: { tier: string }) => trace.tier,
      );
    expect(await ask('alice-web')).toEqual(['e1', 'e2']);
    expect(await ask('alice-app')).toEqual(['e2']);
    expect(await ask('alice-app', { project_id: 'web' })).toEqual(['e2']);
    expect(await ask('alice-all')).toEqual(['e1', 'e2']);
    expect(await ask('alice-all', { project_id: 'app' })).toEqual(['e2']);
    for (const more of [
      {},
      { org_id: 'alice' },
      { org_id: 'alice', project_id: 'web' },
      { project_id: 'web' },
    ])
      expect(await ask('bob-all', more)).toEqual([]);
  });

  it('lets a static key name any organization', async () => {
    const { post } = createPatternApi();
    const scope = { org_id: 'carol', project_id: 'cli' };
    await post('/v1/patterns', { ...scope, tier: 'e1', patterns: [lesson(FLAKY)] });
    expect((await post('/v1/traces/retrieve', { ...scope, context: FLAKY })).body.traces).toHaveLength(1);
    expect((await post('/v1/traces/retrieve', { org_id: 'carol', context: FLAKY })).body.traces).toHaveLength(
      1,
    );
    expect((await post('/v1/traces/retrieve', { context: FLAKY })).body.traces).toEqual([]);
  });

  it('accepts null for optional fields', async () => {
    const { post } = createPatternApi();
    await post('/v1/patterns', { tier: 'e1', patterns: [lesson(FLAKY)] }, 'alice-web');
    const body = { context: FLAKY, tier: null, model: null, failure_type: null, project_id: null };
    expect((await post('/v1/traces/retrieve', body, 'alice-web')).body.traces).toHaveLength(1);
    const empty = { context: FLAKY, model: '', failure_type: '' };
    expect((await post('/v1/traces/retrieve', empty, 'alice-web')).body.traces).toHaveLength(1);
  });

  it('returns nothing without a vector store; storing is refused with the reason', async () => {
    const { post } = createPatternApi({ hasStore: false });
    expect(await post('/v1/traces/retrieve', { context: FLAKY })).toMatchObject({
      status: 200,
      body: { traces: [] },
    });
    const refused = await post('/v1/patterns', { tier: 'e1', patterns: [lesson(FLAKY)] });
    expect(refused.status).toBe(503);
    expect(refused.body.detail).toContain('VECTOR_STORE_URL');
  });

  it('answers 503 while the index or the embedder is down', async () => {
    const { post, embedder, asker } = createPatternApi();
    await post('/v1/patterns', { tier: 'e1', patterns: [lesson(FLAKY)] });
    embedder.isDown = true;
    expect((await post('/v1/traces/retrieve', { context: FLAKY })).status).toBe(503);
    embedder.isDown = false;
    asker.isUp = false;
    expect((await post('/v1/traces/retrieve', { context: FLAKY })).status).toBe(503);
  });
});

describe('the monthly cap', () => {
  it('allows exactly that many retrievals, and then returns empty lists to this organization only', async () => {
    const { post, meter, plan } = createPatternApi({ caps: { free: 3, pro: 5 } });
    await post('/v1/patterns', { tier: 'e3', patterns: [lesson(FLAKY)] });
    const ask = async (key: string, context = FLAKY) =>
      (await post('/v1/traces/retrieve', { context }, key)).body.traces.length;
    expect(await ask('alice-web', 'knitting socks')).toBe(0);
    const served: number[] = [];
    for (const key of ['alice-web', 'alice-app', 'alice-all', 'alice-web', 'alice-all'])
      served.push(await ask(key));
    expect(served).toEqual([1, 1, 1, 0, 0]);
    expect(await ask('bob-all')).toBe(1);
    plan.current = 'pro';
    expect([await ask('alice-web'), await ask('alice-web'), await ask('alice-web')]).toEqual([1, 1, 0]);
    expect(await meter.used('alice')).toBe(5);
    expect(await meter.used('bob')).toBe(1);
  });

  it('is reported in a header each time, and on the live stream once', async () => {
    const { post, events } = createPatternApi({ caps: { free: 1 } });
    await post('/v1/patterns', { tier: 'e3', patterns: [lesson(FLAKY)] });
    const ask = async (context = FLAKY) =>
      (await post('/v1/traces/retrieve', { context }, 'alice-web')).headers.get('x-svc-retrieval');
    expect([await ask(), await ask(), await ask(), await ask('knitting socks')]).toEqual([
      undefined,
      'capped',
      'capped',
      undefined,
    ]);
    expect(events).toEqual([
      {
        event: 'retrieval_capped',
        org_id: 'alice',
        project_id: 'web',
        run_id: null,
        cap: 1,
        at: expect.any(String),
      },
    ]);
  });

  it('is exact when many ask at once', async () => {
    const { post, meter } = createPatternApi({ caps: { free: 7 } });
    await post('/v1/patterns', { tier: 'e3', patterns: [lesson(FLAKY)] });
    const replies = await Promise.all(
      Array.from({ length: 40 }, () => post('/v1/traces/retrieve', { context: FLAKY }, 'alice-web')),
    );
    expect(replies.filter(({ body }) => body.traces.length > 0)).toHaveLength(7);
    expect(replies.every(({ status }) => status === 200)).toBe(true);
    expect(await meter.used('alice')).toBe(7);
  });

  it('is enforced: a retrieval that cannot be counted is not served', async () => {
    const api = createPatternApi({ caps: { free: 3 } });
    await api.post('/v1/patterns', { tier: 'e3', patterns: [lesson(FLAKY)] });
    const { ask } = api.asker;
    api.asker.ask = (to, name, payload) =>
      to.kind === 'usage-meter' ? Promise.reject(new Error('down')) : ask.call(api.asker, to, name, payload);
    expect((await api.post('/v1/traces/retrieve', { context: FLAKY })).status).toBe(503);
    expect((await api.post('/v1/traces/retrieve', { context: 'knitting socks' })).status).toBe(503);
  });
});

describe('the validation of a retrieval', () => {
  it.each([
    [{}, 'missing', 'context'],
    [{ context: 1 }, 'string_type', 'context'],
    [{ context: null }, 'string_type', 'context'],
    [{ context: 'a'.repeat(65_537) }, 'string_too_long', 'context'],
    ['{"context":"\\ud800"}', 'string_unicode', 'context'],
    [{ context: 'c', top_k: 0 }, 'greater_than_equal', 'top_k'],
    [{ context: 'c', top_k: 51 }, 'less_than_equal', 'top_k'],
    [{ context: 'c', top_k: null }, 'int_type', 'top_k'],
    [{ context: 'c', tier: 'e4' }, 'literal_error', 'tier'],
    [{ context: 'c', min_similarity: -0.1 }, 'greater_than_equal', 'min_similarity'],
    [{ context: 'c', min_similarity: 1.1 }, 'less_than_equal', 'min_similarity'],
    [{ context: 'c', min_similarity: 'x' }, 'float_parsing', 'min_similarity'],
    [{ context: 'c', model: 5 }, 'string_type', 'model'],
    [{ context: 'c', failure_type: 'x'.repeat(65) }, 'string_too_long', 'failure_type'],
  ])('%j is refused with %s', async (body, type, field) => {
    const { post } = createPatternApi();
    const reply = await post('/v1/traces/retrieve', body);
    expect(reply.status).toBe(422);
    expect(reply.body.detail).toHaveLength(1);
    expect(reply.body.detail[0]).toMatchObject({ type, loc: ['body', field] });
  });

  it('accepts every field at its bound', async () => {
    const { post } = createPatternApi();
    const body = {
      context: '😀'.repeat(65_536),
      top_k: 50,
      min_similarity: 1,
      model: 'm'.repeat(200),
      failure_type: 'f'.repeat(64),
      tier: 'e2',
    };
    expect((await post('/v1/traces/retrieve', body)).status).toBe(200);
  });

  interface ValidationCase {
    path: string;
    method: string;
    content_type: string;
    body_text: string;
    status: number;
    detail: unknown;
  }
  it.skipIf(!CASES.is_there)(`gets the recorded answers ${CASES.needed}`, async () => {
    const all = JSON.parse(readFileSync(CASES.path, 'utf8')) as ValidationCase[];
    const cases = all.filter(({ path, method }) => method === 'POST' && path === '/v1/traces/retrieve');
    expect(cases.length).toBeGreaterThanOrEqual(10);
    const { post } = createPatternApi();
    for (const { body_text, status, detail } of cases) {
      const reply = await post('/v1/traces/retrieve', body_text);
      expect({ body_text, status: reply.status, detail: reply.body.detail }).toEqual({
        body_text,
        status,
        detail,
      });
    }
  });
});

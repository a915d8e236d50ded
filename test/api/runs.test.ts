/** Runs over HTTP, against the whole product as a child process: answers, refusals, scopes. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RUN_TASK_CHARACTERS, STEP_TEXT_CHARACTERS, STEP_TOKENS_MAX } from '../../src/contract/limits.ts';
import { MONITOR_NAMES } from '../../src/domain/monitors/names.ts';
import { type ApiAnswer, ApiChild } from '../fixtures/api-child.ts';

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const RUNS = '/v1/monitor/runs';
let lastRun = 0;

/** Starts a run with an id that no other test uses. */
async function startRun(fields: object = {}): Promise<string> {
  const run_id = `run-${++lastRun}`;
  const { status } = await api.post(RUNS, { run_id, ...fields });
  expect(status).toBe(200);
  return run_id;
}

function logStep(run: string, step_index: number, fields: object = {}, child = api): Promise<ApiAnswer> {
  const path = `${RUNS}/${encodeURIComponent(run)}/steps`;
  return child.post(path, {
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

function finishRun(run: string, outcome: string, fields: object = {}, child = api): Promise<ApiAnswer> {
  return child.post(`${RUNS}/${encodeURIComponent(run)}/finish`, { outcome, ...fields });
}

describe('a run over HTTP', () => {
  it('goes from start to finish', async () => {
    const run = await startRun({ agent_name: 'fixer', task: 'repair the build', metadata: { a: [1] } });
    const first = await logStep(run, 0);
    expect(first).toMatchObject({ status: 200, body: { fired: [] } });
    expect(Object.keys(first.body)).toEqual(['scores', 'total_score', 'fired', 'max_score', 'alarm']);
    expect(Object.keys(first.body.scores)).toEqual([...MONITOR_NAMES]);
    for (let index = 1; index < 8; index++) await logStep(run, index, LOOP);
    const last = await logStep(run, 8, LOOP);
    expect(last.body.fired.length).toBeGreaterThan(0);
    const finished = await finishRun(run, 'failure: gave up');
    expect(finished).toMatchObject({
      status: 200,
      body: { run_id: run, status: 'finished', outcome: 'failure: gave up', steps: 9, tokens: 63 },
    });
    expect(finished.body.max_total_score).toBeGreaterThanOrEqual(last.body.total_score);
  });

  it('gives every repeated request its first answer, also after the finish', async () => {
    const start = { run_id: 'again', task: 't', metadata: { b: 1, a: { d: 2, c: 3 } }, org_id: 'org_again' };
    const sent = () => api.post(RUNS, start);
    const started = await sent();
    expect(started.body).toEqual({
      run_id: 'again',
      status: 'running',
      started_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
    const scope = { org_id: 'org_again' };
    const steps = await Promise.all([5, 3, 9].map((index) => logStep('again', index, scope)));
    const finished = await finishRun('again', 'success', scope);
    expect((await sent()).text).toBe(started.text);
    const reordered = {
      ...start,
      metadata: { a: { c: 3, d: 2 }, b: 1 },
      agent_name: '',
      task_profile: 'coding',
    };
    expect((await api.post(RUNS, reordered)).text).toBe(started.text);
    const again = await Promise.all(
      [5, 3, 9].map((index) => logStep('again', index, { ...scope, thought: 'other' })),
    );
    expect(again.map(({ text }) => text)).toEqual(steps.map(({ text }) => text));
    expect((await finishRun('again', 'success', scope)).text).toBe(finished.text);
    expect(finished.body.steps).toBe(3);
  });

  it('refuses what its state does not allow', async () => {
    const run = await startRun();
    expect((await api.post(RUNS, { run_id: run, task: 'another' })).status).toBe(409);
    expect((await logStep('unknown', 0)).status).toBe(404);
    expect((await finishRun('unknown', 'success')).status).toBe(404);
    await logStep(run, 4);
    expect((await finishRun(run, 'success')).status).toBe(200);
    expect((await finishRun(run, 'failure')).status).toBe(409);
    expect((await logStep(run, 5)).status).toBe(409);
    expect((await logStep(run, 1)).status).toBe(409);
    expect((await logStep(run, 4)).status).toBe(200);
    expect((await api.post(RUNS, { run_id: run, task: 'another' })).body.detail).toBeTypeOf('string');
  });

  it('does not exist for another organization or another project', async () => {
    const run = await startRun({ org_id: 'org_one', project_id: 'proj_one' });
    await logStep(run, 0, { org_id: 'org_one', project_id: 'proj_one' });
    for (const scope of [{}, { org_id: 'org_two' }, { org_id: 'org_one', project_id: 'proj_two' }]) {
      expect((await logStep(run, 0, scope)).status).toBe(404);
      expect((await logStep(run, 1, scope)).status).toBe(404);
      expect((await finishRun(run, 'success', scope)).status).toBe(404);
      expect((await api.post('/v1/monitors/evaluate', { run_id: run, ...scope })).status).toBe(404);
    }
    expect((await logStep(run, 1, { org_id: 'org_one' })).status).toBe(200);
    // The id may be used in another organization for another run, but not again within the same one.
    expect((await api.post(RUNS, { run_id: run, org_id: 'org_two' })).status).toBe(200);
    expect((await api.post(RUNS, { run_id: run, org_id: 'org_one', project_id: 'proj_two' })).status).toBe(
      409,
    );
  });

  it('may have an id with separators, spaces and an emoji, and has aliases of its paths', async () => {
    const id = 'a/b c?#%20—ü😀';
    expect((await api.post('/monitor/runs', { run_id: id })).status).toBe(200);
    expect((await logStep(id, 0)).status).toBe(200);
    expect((await api.post(`/monitor/runs/${encodeURIComponent(id)}/steps/`, { step_index: 0 })).status).toBe(
      200,
    );
    expect((await finishRun(id, 'success')).body.run_id).toBe(id);
  });

  it.each([
    [{}, 'missing', 'run_id'],
    [{ run_id: '' }, 'string_too_short', 'run_id'],
    [{ run_id: 'x'.repeat(129) }, 'string_too_long', 'run_id'],
    [{ run_id: 'a\u0000b' }, 'string_pattern_mismatch', 'run_id'],
    [{ run_id: 'a\nb' }, 'string_pattern_mismatch', 'run_id'],
    [{ run_id: 7 }, 'string_type', 'run_id'],
    [{ run_id: 'ok', task: 'x'.repeat(RUN_TASK_CHARACTERS + 1) }, 'string_too_long', 'task'],
    [{ run_id: 'ok', agent_name: 'x'.repeat(201) }, 'string_too_long', 'agent_name'],
    [{ run_id: 'ok', arm: 'both' }, 'literal_error', 'arm'],
    [{ run_id: 'ok', metadata: [1] }, 'dict_type', 'metadata'],
    [{ run_id: 'ok', task_profile: 'no-such-profile' }, 'value_error', 'task_profile'],
    [
      {
        run_id: '😀'.repeat(128),
        experiment_id: '😀'.repeat(128),
        project_id: '😀'.repeat(128),
        org_id: '😀'.repeat(128),
      },
      'value_error',
      'run_id',
    ],
  ])('refuses the start %j', async (body, type, field) => {
    const { status, body: answer } = await api.post(RUNS, body);
    expect(status).toBe(422);
    expect(answer.detail[0]).toMatchObject({ type, loc: ['body', field] });
  });

  it.each([
    [{ step_index: undefined }, 'missing', 'step_index'],
    [{ step_index: -1 }, 'greater_than_equal', 'step_index'],
    [{ step_index: 1.5 }, 'int_from_float', 'step_index'],
    [{ tokens: -1 }, 'greater_than_equal', 'tokens'],
    [{ tokens: STEP_TOKENS_MAX + 1 }, 'less_than_equal', 'tokens'],
    [{ is_error: 'perhaps' }, 'bool_parsing', 'is_error'],
    [{ observation: 5 }, 'string_type', 'observation'],
    [{ thought: '\ud800' }, 'string_unicode', 'thought'],
    [{ action_input: 'x'.repeat(STEP_TEXT_CHARACTERS + 1) }, 'string_too_long', 'action_input'],
  ])('refuses a step with %j and keeps nothing of it', async (fields, type, field) => {
    const run = await startRun();
    const { status, body } = await logStep(run, 0, fields);
    expect(status).toBe(422);
    expect(body.detail[0]).toMatchObject({ type, loc: ['body', field] });
    expect((await finishRun(run, 'success')).body.steps).toBe(0);
  });

  it('accepts every field at its bound', async () => {
    const run = await startRun({
      task: 'x'.repeat(RUN_TASK_CHARACTERS),
      agent_name: 'é'.repeat(200),
      experiment_id: 'e'.repeat(128),
      arm: 'on',
      assignment_unit: 'u'.repeat(200),
      svc_version: 'v'.repeat(200),
      metadata: null,
    });
    const step = {
      tokens: STEP_TOKENS_MAX,
      thought: 't'.repeat(STEP_TEXT_CHARACTERS),
      observation: 'o'.repeat(STEP_TEXT_CHARACTERS),
      action_input: 'a'.repeat(STEP_TEXT_CHARACTERS),
      action: 'n'.repeat(STEP_TEXT_CHARACTERS),
    };
    expect((await logStep(run, Number.MAX_SAFE_INTEGER, step)).status).toBe(200);
    expect((await finishRun(run, 'o'.repeat(200))).body.tokens).toBe(STEP_TOKENS_MAX);
    expect((await finishRun(run, 'o'.repeat(201))).status).toBe(422);
    expect((await finishRun(run, '')).status).toBe(422);
  });
});

describe('custom profiles', () => {
  const PROFILES = '/v1/monitor/profiles';

  it('are stored for the organization, and runs and evaluations use them', async () => {
    const scope = { org_id: 'org_profiles' };
    const stored = await api.post(PROFILES, {
      ...scope,
      name: 'mine',
      weights: { infinite_loop: 2 },
      thresholds: { infinite_loop: 0 },
    });
    expect(stored.status).toBe(200);
    expect(stored.body.weights).toMatchObject({ infinite_loop: 2, semantic_loop: 0 });
    expect(stored.body.thresholds).toMatchObject({ infinite_loop: 0, semantic_loop: 0.5 });
    const run = await startRun({ ...scope, task_profile: 'mine' });
    const { body } = await logStep(run, 0, scope);
    expect(body.fired).toContain('infinite_loop');
    expect(body.total_score).toBe(body.scores.infinite_loop);
    const evaluated = await api.post('/v1/monitors/evaluate', {
      ...scope,
      task_profile: 'mine',
      steps: [LOOP],
    });
    expect(evaluated.body.fired).toContain('infinite_loop');
    // A run keeps the profile with which it began.
    await api.post(PROFILES, { ...scope, name: 'mine', weights: { semantic_loop: 1 } });
    expect((await logStep(run, 1, scope)).body.fired).toContain('infinite_loop');
    expect((await api.post(RUNS, { run_id: 'x', task_profile: 'mine' })).status).toBe(422);
  });

  it.each([
    [{ name: 'a' }, 422],
    [{ name: 'a', weights: { speed: 1 } }, 422],
    [{ name: 'a', weights: { infinite_loop: -1 } }, 422],
    [{ name: 'a', weights: {}, thresholds: { infinite_loop: 1.1 } }, 422],
    [{ name: '', weights: {} }, 422],
    [{ name: 'coding', weights: {} }, 409],
  ])('refuse %j with %i', async (body, status) => {
    expect((await api.post(PROFILES, body)).status).toBe(status);
  });
});

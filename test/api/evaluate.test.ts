/** Evaluation over HTTP, of posted steps and of a run's own steps, and how it is counted. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EVALUATE_STEPS_MAX } from '../../src/contract/evaluate.ts';
import { MONITOR_NAMES } from '../../src/domain/monitors/names.ts';
import { createPrng } from '../../src/std/prng.ts';
import { databasePaths } from '../../src/storage/lmdb/stores.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { ApiChild } from '../fixtures/api-child.ts';

const api = new ApiChild();
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const EVALUATE = '/v1/monitors/evaluate';

function loopStep(at: number) {
  return {
    thought: 'search once more',
    action: 'search',
    action_input: '{"query":"needle"}',
    observation: 'no results',
    step_index: at,
  };
}

/** Evaluates this many equal calls of a run with this task, in an organization of the same name. */
function evaluateLoop(task: string, calls: number, more: object = {}) {
  const steps = Array.from({ length: calls }, (_, at) => loopStep(at));
  return api.post(EVALUATE, { org_id: `org_${task}`, task, steps, ...more });
}

/** The usage of the organization of {@link evaluateLoop}. */
async function countedOf(task: string): Promise<unknown> {
  const tables = new LmdbTables(databasePaths(api.dir).runs, 'process');
  const [row] = [...tables.range('usage', { prefix: [`org_${task}`] })];
  await tables.close();
  return row?.value;
}

function freshStep(at: number) {
  const words = ['parser', 'lexer', 'cache', 'router', 'schema', 'index', 'queue', 'mailer'];
  return {
    thought: `the ${words[at % 8]} is next`,
    action: 'read_file',
    action_input: `{"path":"src/${words[at % 8]}/${at}.ts"}`,
    observation: `export class ${words[at % 8]}${at} { run() { return ${at * 37}; } }`,
  };
}

describe('evaluation', () => {
  it('reports a loop: its name, its text, and what to do', async () => {
    const { status, body } = await api.post(EVALUATE, {
      model: 'm',
      task_profile: 'coding',
      steps: Array.from({ length: 6 }, (_, at) => loopStep(at)),
    });
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual([
      'inject',
      'intervention_text',
      'failure_type',
      'level',
      'fired',
      'scores',
      'composite',
      'max_score',
      'alarm',
    ]);
    expect(body.inject).toBe(true);
    expect(['infinite_loop', 'semantic_loop']).toContain(body.failure_type);
    // The agent went on after the nudge at the third call, so the level is higher.
    expect(body.level).toBe('stop');
    expect(body.fired).toContain(body.failure_type);
    expect(body.intervention_text).toContain('search');
    expect(body.intervention_text.length).toBeLessThanOrEqual(1_200);
    expect(Object.keys(body.scores)).toEqual([...MONITOR_NAMES]);
  });

  it('does not intervene while the agent makes progress, or after it has left a loop', async () => {
    const quiet = { inject: false, intervention_text: '', failure_type: '', fired: [] };
    const fresh = Array.from({ length: 8 }, (_, at) => freshStep(at));
    expect((await api.post(EVALUATE, { steps: fresh })).body).toMatchObject(quiet);
    const recovered = [...Array.from({ length: 6 }, (_, at) => loopStep(at)), ...fresh].map(
      (step, step_index) => ({ ...step, step_index }),
    );
    expect((await api.post(EVALUATE, { steps: recovered })).body).toMatchObject({ inject: false });
    const none = (await api.post(EVALUATE, { steps: [] })).body;
    expect(none).toMatchObject({ ...quiet, composite: 0 });
    expect(Object.keys(none.scores)).toEqual([...MONITOR_NAMES]);
  });

  it('gives the same steps the same answer under both paths and for another organization', async () => {
    const request = { steps: Array.from({ length: 7 }, (_, at) => loopStep(at)), task_profile: 'qa' };
    const first = await api.post(EVALUATE, request);
    expect((await api.post('/monitors/evaluate', request)).text).toBe(first.text);
    expect((await api.post(EVALUATE, { ...request, org_id: 'another' })).text).toBe(first.text);
  });

  it('gives the same answer for a run as for its posted steps, after each step', {
    tags: 'long',
  }, async () => {
    const random = createPrng(19);
    const injections: number[] = [];
    for (let run = 0; run < 12; run++) {
      const run_id = `same-${run}`;
      const task = 'find the needle';
      await api.post('/v1/monitor/runs', { run_id, task });
      const steps: ReturnType<typeof loopStep>[] = [];
      let isLoop = true;
      for (let at = 0; at < 16; at++) {
        if (random.chance(0.2)) isLoop = !isLoop;
        const step = { ...(isLoop ? loopStep(at) : freshStep(at)), step_index: at };
        steps.push(step);
        await api.post(`/v1/monitor/runs/${run_id}/steps`, step);
        const posted = await api.post(EVALUATE, { steps, task });
        const own = await api.post(EVALUATE, { run_id });
        expect(own.body).toEqual(posted.body);
        if (posted.body.inject) injections.push(at);
      }
    }
    expect(injections.length).toBeGreaterThan(12);
  });

  it('intervenes twice in a streak, with the current count: a nudge, and then a stop', async () => {
    const said: [calls: number, level: string, text: string][] = [];
    for (let calls = 1; calls <= 9; calls++) {
      const steps = Array.from({ length: calls }, (_, at) => loopStep(at));
      const { body } = await api.post(EVALUATE, { steps });
      if (body.inject) said.push([calls, body.level, body.intervention_text]);
    }
    expect(said.map(([calls, level]) => [calls, level])).toEqual([
      [3, 'nudge'],
      [6, 'stop'],
    ]);
    for (const [calls, , text] of said) expect(text).toContain(`${calls} times`);
  });

  it('returns each text once per level, at the next evaluation', async () => {
    const said: [number, string][] = [];
    for (let calls = 4; calls <= 24; calls += 4) {
      const { body } = await evaluateLoop('every fourth', calls);
      if (body.inject) said.push([calls, body.level]);
    }
    expect(said).toEqual([
      [4, 'nudge'],
      [8, 'stop'],
    ]);
  });

  it('gives the same steps the same answer again, even after longer evaluations', async () => {
    const asked = Array.from({ length: 9 }, (_, at) => at + 1);
    const first: string[] = [];
    for (const calls of asked) first.push((await evaluateLoop('again', calls)).text);
    expect(first.filter((text) => JSON.parse(text).inject)).toHaveLength(2);
    for (const calls of asked) expect((await evaluateLoop('again', calls)).text).toBe(first[calls - 1]);
    expect(await countedOf('again')).toMatchObject({ evaluations: 18, injections_evaluate: 2 });
  });

  it('gives an unknown run the intervention that its streak requires', async () => {
    await evaluateLoop('seen', 9);
    const other = [freshStep(3), ...Array.from({ length: 8 }, (_, at) => loopStep(at + 1))];
    const answer = await api.post(EVALUATE, { org_id: 'org_seen', task: 'seen', steps: other });
    expect(answer.body).toMatchObject({ inject: true, level: 'stop' });
    // Steps with another task, profile or organization belong to another run.
    for (const another of [
      { task: 'other' },
      { task_profile: 'qa' },
      { org_id: 'org_seen_2' },
      { project_id: 'p' },
    ])
      expect((await evaluateLoop('seen', 10, another)).body).toMatchObject({ inject: true });
    expect((await evaluateLoop('seen', 10)).body).toMatchObject({ inject: false });
  });

  it('intervenes again in a new streak of the same run', async () => {
    const steps = (loops: number) =>
      [
        ...Array.from({ length: 4 }, (_, at) => loopStep(at)),
        ...Array.from({ length: 6 }, (_, at) => freshStep(at)),
        ...Array.from({ length: loops }, () => ({ ...loopStep(0), action: 'look', step_index: undefined })),
      ].map((step, step_index) => ({ ...step, step_index }));
    const levels: string[] = [];
    for (const count of [4, 10, 14, 15, 18]) {
      const body = { org_id: 'org_streaks', steps: steps(8).slice(0, count) };
      levels.push((await api.post(EVALUATE, body)).body.level);
    }
    expect(levels).toEqual(['nudge', '', 'nudge', '', 'stop']);
  });

  it('follows a window of the last steps by their indices', async () => {
    const levels: string[] = [];
    for (let end = 4; end <= 16; end += 2) {
      const from = Math.max(0, end - 8);
      const steps = Array.from({ length: end - from }, (_, at) => loopStep(from + at));
      levels.push((await api.post(EVALUATE, { org_id: 'org_windows', steps })).body.level);
    }
    expect(levels).toEqual(['nudge', 'stop', '', '', '', '', '']);
  });

  it('distinguishes steps whose numbers differ only beyond the precision of a double', async () => {
    const steps = Array.from({ length: 6 }, (_, at) => ({
      ...loopStep(at),
      action_input: `{"id":25122920421210000${at.toString().padStart(2, '0')}}`,
      observation: 'ok, archived',
      action: 'archive',
    }));
    expect((await api.post(EVALUATE, { steps })).body).toMatchObject({ inject: false, fired: [] });
  });

  it('returns a run’s intervention at once, and repeats it at a second request', async () => {
    await api.post('/v1/monitor/runs', { run_id: 'mine', task: 'find the needle' });
    const steps = Array.from({ length: 8 }, (_, at) => loopStep(at));
    for (const step of steps) await api.post('/v1/monitor/runs/mine/steps', step);
    const own = await api.post(EVALUATE, { run_id: 'mine' });
    expect(own.body).toMatchObject({ inject: true, level: 'stop' });
    expect((await api.post(EVALUATE, { run_id: 'mine' })).text).toBe(own.text);
    await api.post('/v1/monitor/runs/mine/steps', loopStep(8));
    const later = (await api.post(EVALUATE, { run_id: 'mine' })).body;
    // The text was returned already: it is returned again only if the streak has escalated.
    if (later.inject) expect(later.intervention_text).not.toBe(own.body.intervention_text);
    else expect(later).toMatchObject({ intervention_text: '', failure_type: '' });
    expect((await api.post(EVALUATE, { run_id: 'unknown' })).status).toBe(404);
  });

  it.each([
    [{}, 'missing', ['body', 'steps']],
    [{ steps: 'all' }, 'list_type', ['body', 'steps']],
    [{ steps: [7] }, 'model_attributes_type', ['body', 'steps', 0]],
    [{ steps: [{ thought: 1 }] }, 'string_type', ['body', 'steps', 0, 'thought']],
    [{ steps: [], task_profile: 'unknown' }, 'value_error', ['body', 'task_profile']],
    [{ steps: new Array(EVALUATE_STEPS_MAX + 1).fill({}) }, 'too_long', ['body', 'steps']],
    [{ run_id: '' }, 'string_too_short', ['body', 'run_id']],
  ])('refuses an invalid body, and says where its fault is: case %#', async (body, type, loc) => {
    const answer = await api.post(EVALUATE, body);
    expect(answer.status).toBe(422);
    expect(answer.body.detail[0]).toMatchObject({ type, loc });
  });

  it.each([[{}], [{ run_id: null, task: 'mend it' }], [{ task_profile: 'coding', beyond: [1] }]])(
    'repeats the body if the steps are missing %#',
    async (body) => {
      const answer = await api.post(EVALUATE, body);
      expect(answer.status).toBe(422);
      expect(answer.body).toEqual({
        detail: [{ type: 'missing', loc: ['body', 'steps'], msg: 'Field required', input: body }],
      });
    },
  );

  it('evaluates the documented maximum of steps', async () => {
    const steps = Array.from({ length: EVALUATE_STEPS_MAX }, (_, at) => freshStep(at));
    expect((await api.post(EVALUATE, { steps })).status).toBe(200);
  });

  it('counts calls and interventions', async () => {
    const org_id = 'org_counted';
    const loop = { org_id, steps: Array.from({ length: 6 }, (_, at) => loopStep(at)) };
    // Another evaluation of the same step counts as a call, but not as an intervention.
    for (let asked = 0; asked < 3; asked++) expect((await api.post(EVALUATE, loop)).body.inject).toBe(true);
    await api.post('/v1/monitor/runs', { org_id, run_id: 'counted' });
    for (const step of loop.steps) await api.post('/v1/monitor/runs/counted/steps', { org_id, ...step });
    for (let asked = 0; asked < 3; asked++) {
      expect((await api.post(EVALUATE, { org_id, run_id: 'counted' })).body.inject).toBe(true);
    }
    await api.post(EVALUATE, { org_id, project_id: 'p', steps: [freshStep(0)] });
    await api.post(EVALUATE, { org_id, steps: 'bad' });
    const tables = new LmdbTables(databasePaths(api.dir).runs, 'process');
    const rows = [...tables.range('usage', { prefix: [org_id] })].map(({ row, value }) => [row[2], value]);
    await tables.close();
    expect(rows).toEqual([
      ['default', { runs: 1, steps: 6, tokens: 0, evaluations: 6, injections_evaluate: 2 }],
      ['p', { evaluations: 1, injections_evaluate: 0 }],
    ]);
  });
});

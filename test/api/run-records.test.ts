/** Runs and steps read back over HTTP, against the whole product: lists, filters, pages and access by strangers. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiAnswer, ApiChild } from '../fixtures/api-child.ts';

const RUNS = '/v1/monitor/runs';
const api = new ApiChild();

interface Run {
  run_id: string;
  status: string;
  [key: string]: unknown;
}

const LOOP = { action: 'search', action_input: '{"q":"x"}', thought: 'search', observation: 'no results' };

async function makeRun(run_id: string, fields: object, steps: object[], outcome?: string): Promise<void> {
  expect((await api.post(RUNS, { run_id, ...fields })).status).toBe(200);
  for (const [step_index, step] of steps.entries())
    expect((await api.post(`${RUNS}/${run_id}/steps`, { step_index, ...step })).status).toBe(200);
  if (outcome !== undefined)
    expect((await api.post(`${RUNS}/${run_id}/finish`, { outcome })).status).toBe(200);
}

async function listAll(query = ''): Promise<Run[]> {
  const runs: Run[] = [];
  let cursor = '';
  do {
    const { status, body }: ApiAnswer = await api.get(`${RUNS}?${query}&cursor=${cursor}`);
    expect(status).toBe(200);
    runs.push(...body.runs);
    cursor = body.next_cursor ?? '';
  } while (cursor !== '');
  return runs;
}

const idsOf = (runs: readonly Run[]) => runs.map(({ run_id }) => run_id);

beforeAll(async () => {
  await api.start();
  await makeRun(
    'first',
    { task: 'mend the build', agent_name: 'fixer' },
    [{ action: 'look', tokens: 5 }],
    'success',
  );
  await makeRun('looping', { agent_name: 'finder', project_id: 'p1' }, Array(6).fill(LOOP), 'failure: stuck');
  await makeRun('open', { agent_name: 'fixer', model: 'm' }, [
    { action: 'look', tokens: 3 },
    { action: 'edit' },
  ]);
  for (let at = 0; at < 5; at++) await makeRun(`more-${at}`, { task_profile: 'qa' }, [], 'success');
});
afterAll(() => api[Symbol.asyncDispose]());

describe('the marks of a run', () => {
  const path = (id: string) => `/v1/runs/${id}/marks`;
  const search = async (q: string) => idsOf(await listAll(`q=${encodeURIComponent(q)}`));

  it('are merged, found by a query, shown in lists, and removed', async () => {
    expect((await api.get(path('first'))).body).toEqual({
      run_id: 'first',
      mark: null,
      tags: [],
      note: '',
      feedback_score: null,
      marked_at: null,
      marked_by: null,
    });
    const said = { tags: ['night', 'flaky'], note: 'see line 3', feedback_score: 0.25 };
    expect((await api.post(path('first'), said)).body).toMatchObject({ ...said, mark: null });
    const changed = await api.post(path('first'), {
      mark: 'bad',
      add_tags: ['slow'],
      remove_tags: ['night'],
    });
    expect(changed).toMatchObject({ status: 200, body: { mark: 'bad', tags: ['flaky', 'slow'] } });
    for (const q of [
      'tag:flaky',
      'tag:=slow',
      'has:tag',
      'note:"line 3"',
      'feedback:<0.5',
      'is:bad',
      'has:mark',
    ])
      expect(await search(q), q).toEqual(['first']);
    expect(await search('status:failed sort:started')).toEqual(['looping', 'first']);
    expect(await search('tag:night')).toEqual([]);
    const { body } = await api.get('/v1/monitor/runs/first');
    expect(body).toMatchObject({ mark: 'bad', tags: ['flaky', 'slow'], state: 'failed', ended_by: 'person' });
    expect(await api.delete(path('first'))).toBe(204);
    expect(await search('has:tag')).toEqual([]);
    expect((await api.get(path('first'))).body.marked_at).toBeNull();
  });

  it('refuse an invalid mark and a missing run', async () => {
    const many = Array.from({ length: 20 }, (_, at) => `tag-${at}`);
    for (const wrong of [
      {},
      { mark: 'fine' },
      { tags: 'one' },
      { tags: ['a,b'] },
      { tags: [''] },
      { tags: ['x'.repeat(65)] },
      { feedback_score: 2 },
      { note: 'x'.repeat(4_001) },
      { tags: many, add_tags: many.map((tag) => `more-${tag}`) },
    ])
      expect((await api.post(path('first'), wrong)).status, JSON.stringify(wrong)).toBe(422);
    expect((await api.post(path('none'), { mark: 'good' })).status).toBe(404);
    expect((await api.get(path('none'))).status).toBe(404);
    expect(await api.delete(path('none'))).toBe(404);
  });

  it('are deleted with the run', async () => {
    await makeRun('marked', {}, [], 'success');
    expect((await api.post(path('marked'), { tags: ['gone'] })).status).toBe(200);
    expect(await api.delete(`${RUNS}/marked`)).toBe(204);
    await makeRun('marked', {}, [], 'success');
    expect((await api.get(path('marked'))).body.tags).toEqual([]);
    expect(await api.delete(`${RUNS}/marked`)).toBe(204);
  });
});

describe('a query over runs', () => {
  const search = async (q: string, rest = ''): Promise<string[]> =>
    idsOf(await listAll(`q=${encodeURIComponent(q)}${rest}`));

  it('lists matches, in any order, page by page', async () => {
    const all = idsOf(await listAll());
    for (const [q, found] of [
      ['status:failed', ['looping']],
      ['-status:ok', ['open', 'looping']],
      ['status:running', ['open']],
      ['agent:FIXER', ['open', 'first']],
      ['agent:=fix', []],
      ['build', ['first']],
      ['"mend the build"', ['first']],
      ['"the mend"', []],
      ['outcome:stuck', ['looping']],
      ['has:monitor', ['looping']],
      ['monitor:infinite_loop>1', ['looping']],
      ['monitor:infinite_loop>100', []],
      ['project:p1', ['looping']],
      ['profile:qa -run:more-1,more-2', ['more-4', 'more-3', 'more-0']],
      ['since:1h sort:started', all],
      ['started:<2020-01-01', []],
      ['score:>0.1', ['looping']],
      ['sort:started-asc', [...all].reverse()],
      ['steps:6 sort:steps', ['looping']],
    ] as const)
      for (const limit of [1, 3, 50]) expect(await search(q, `&limit=${limit}`), q).toEqual(found);
    expect((await search('sort:steps')).slice(0, 2)).toEqual(['looping', 'first']);
    expect(await search('fixer', '&status=running&agent_name=fixer')).toEqual(['open']);
    expect(await search('sort:started', '&fired=infinite_loop&project_id=p1')).toEqual(['looping']);
  });

  it('counts matches, in total and by state', async () => {
    const { body } = await api.get(`${RUNS}?limit=2&q=profile:qa`);
    expect(body).toMatchObject({ matched_runs: 5, scanned_runs: 8, is_whole: true });
    const { body: failed } = await api.get(`${RUNS}?q=status:failed`);
    expect(failed.runs).toMatchObject([
      { state: 'failed', ended_by: 'agent', state_words: 'the agent reported: failure: stuck' },
    ]);
    const { body: plain } = await api.get(`${RUNS}?limit=2`);
    expect(plain).toMatchObject({ matched_runs: null, scanned_runs: 2, is_whole: false });
  });

  it('has stable pages while runs arrive, and omits deleted ones', async () => {
    const first = await api.get(`${RUNS}?limit=3&q=sort:started`);
    await makeRun('late', { agent_name: 'late' }, [], 'success');
    const second = await api.get(`${RUNS}?limit=50&q=sort:started&cursor=${first.body.next_cursor}`);
    const ids = [...idsOf(first.body.runs), ...idsOf(second.body.runs)];
    expect(ids).toEqual((await search('-run:late')).filter((id) => id !== 'late'));
    expect(await search('agent:late')).toEqual(['late']);
    expect(await api.delete(`${RUNS}/late`)).toBe(204);
    expect(await search('agent:late')).toEqual([]);
  });

  it('is refused with the word that is wrong', async () => {
    for (const [q, word] of [
      ['statsu:failed', 'statsu'],
      ['status:faild', 'faild'],
    ] as const) {
      const { status, body } = await api.get(`${RUNS}?q=${q}`);
      expect([status, body.detail[0].ctx.word]).toEqual([422, word]);
    }
    const { status, body } = await api.get(`${RUNS}?q=tool:x`);
    expect([status, body.detail[0].msg]).toEqual([
      422,
      'Value error, these fields exist only for captured runs: tool',
    ]);
    expect((await api.get(`${RUNS}?q=sort:steps&cursor=WzFd`)).status).toBe(422);
  });
});

describe('a list of runs', () => {
  it('has runs newest first, page by page, each once', async () => {
    const all = idsOf(await listAll());
    expect(all).toEqual([
      ...Array.from({ length: 5 }, (_, at) => `more-${4 - at}`),
      'open',
      'looping',
      'first',
    ]);
    for (const limit of [1, 3]) expect(idsOf(await listAll(`limit=${limit}`))).toEqual(all);
  });

  it('shows each run’s sums, also while it continues', async () => {
    const { body } = await api.get(`${RUNS}?agent_name=fixer`);
    expect(body.next_cursor).toBeNull();
    expect(body.runs).toMatchObject([
      { run_id: 'open', status: 'running', outcome: '', finished_at: null, steps: 2, tokens: 3, model: 'm' },
      {
        run_id: 'first',
        status: 'finished',
        outcome: 'success',
        steps: 1,
        tokens: 5,
        task: 'mend the build',
      },
    ]);
    expect(body.runs[0]).not.toHaveProperty('org_id');
  });

  it('can be filtered by outcome, status, profile, project, fired monitor, and time', async () => {
    expect(idsOf(await listAll('outcome=failure: stuck'))).toEqual(['looping']);
    expect(idsOf(await listAll('status=running'))).toEqual(['open']);
    expect(idsOf(await listAll('task_profile=qa&limit=2'))).toHaveLength(5);
    expect(idsOf(await listAll('project_id=p1'))).toEqual(['looping']);
    expect(idsOf(await listAll('fired=infinite_loop'))).toEqual(['looping']);
    const [newest, ...older] = (await listAll()) as (Run & { started_at: string })[];
    expect(await listAll(`from=${newest!.started_at}`)).toContainEqual(newest);
    expect(idsOf(await listAll(`to=${older.at(-1)!.started_at}`))).toEqual([]);
    expect(idsOf(await listAll(`to=2999-01-01T00:00:00Z&from=2000-01-01T00:00:00Z`))).toHaveLength(8);
  });

  it.each(['cursor=x', 'cursor=WzFd', 'limit=none', 'status=maybe', 'fired=nothing', 'from=yesterday'])(
    'refuses %s',
    async (query) => {
      expect(await api.get(`${RUNS}?${query}`)).toMatchObject({ status: 422 });
    },
  );
});

describe('one run', () => {
  it('has the same fields as in the list', async () => {
    const [listed] = (await listAll('agent_name=finder')) as Run[];
    expect((await api.get(`${RUNS}/looping`)).body).toEqual(listed);
  });

  it('has its steps with the monitors’ scores, and the intervention’s text once', async () => {
    const { body } = await api.get(`${RUNS}/looping/steps?limit=4`);
    expect(body.steps).toHaveLength(4);
    expect(body.steps[0]).toMatchObject({ step_index: 0, action: 'search', intervention: null, fired: [] });
    const rest = await api.get(`${RUNS}/looping/steps?cursor=${body.next_cursor}`);
    expect(rest.body.steps).toHaveLength(2);
    expect(rest.body.next_cursor).toBeNull();
    const steps = [...body.steps, ...rest.body.steps];
    const told = steps.filter(({ intervention }) => intervention !== null);
    expect(told.length).toBeGreaterThan(0);
    expect(told.length).toBeLessThan(steps.filter(({ fired }) => fired.length > 0).length + 1);
    expect(told[0].intervention.text).toContain('search');
  });

  it('has the same steps and pages after its end, when its steps are stored in one row', async () => {
    const steps = Array.from({ length: 7 }, (_, at) => ({ action: `act ${at}`, tokens: at }));
    await makeRun('gathered', { project_id: 'p2' }, steps);
    const before = await api.get(`${RUNS}/gathered/steps`);
    expect((await api.post(`${RUNS}/gathered/finish`, { outcome: 'success' })).status).toBe(200);
    expect((await api.get(`${RUNS}/gathered/steps`)).body).toEqual(before.body);
    const paged: unknown[] = [];
    for (let cursor = ''; paged.length < 7; ) {
      const { body } = await api.get(`${RUNS}/gathered/steps?limit=3${cursor}`);
      paged.push(...body.steps);
      cursor = `&cursor=${body.next_cursor}`;
    }
    expect(paged).toEqual(before.body.steps);
    expect(await api.delete(`${RUNS}/gathered`)).toBe(204);
  });

  it('is for another tenant like a run that does not exist', async () => {
    for (const path of ['', '/steps']) {
      const unknown = await api.get(`${RUNS}/nowhere${path}`);
      const foreign = await api.get(`${RUNS}/first${path}?org_id=another`);
      expect(unknown.status).toBe(404);
      expect(foreign).toEqual({ ...unknown });
    }
  });
});

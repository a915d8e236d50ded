/**
 * Patterns, profiles, traces, experiments and findings read back over HTTP, against the whole product: lists, pages and
 * access by strangers.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';

const api = new ApiChild({ VECTOR_STORE_URL: 'embedded:' });
const made: Record<string, string[]> = { e1: [], e2: [] };

beforeAll(async () => {
  await api.start();
  for (const [tier, subjects] of [
    ['e1', ['the invoice parser', 'a database migration', 'the login page']],
    ['e2', ['the release of a package', 'a flaky browser test']],
  ] as const) {
    for (const subject of subjects) {
      const patterns = [
        { situation: `stuck at ${subject}`, dead_ends: '', unlock: `look at ${subject} first` },
      ];
      const { status, body } = await api.post('/v1/patterns', { tier, project_id: 'p1', patterns });
      expect(status).toBe(200);
      made[tier]!.push(body.patterns[0].pattern_id);
    }
  }
});
afterAll(() => api[Symbol.asyncDispose]());

describe('patterns', () => {
  const list = async (query: string) => {
    const ids: string[] = [];
    let cursor = '';
    do {
      const { status, body } = await api.get(`/v1/patterns?${query}&cursor=${cursor}`);
      expect(status).toBe(200);
      ids.push(...body.patterns.map(({ pattern_id }: { pattern_id: string }) => pattern_id));
      cursor = body.next_cursor ?? '';
    } while (cursor !== '');
    return ids;
  };

  it('are listed newest first, the project’s before the organization’s and universal ones', async () => {
    const own = [...made.e1!].reverse();
    const shared = [...made.e2!].reverse();
    expect(await list('project_id=p1&tier=e1')).toEqual(own);
    expect(await list('tier=e2&limit=1')).toEqual(shared);
    const all = await list('project_id=p1&limit=2');
    expect(all.slice(0, 5)).toEqual([...own, ...shared]);
    expect(all.length).toBeGreaterThan(5);
    expect(new Set(all).size).toBe(all.length);
    expect(await list('project_id=p2&tier=e1')).toEqual([]);
  });

  it('can be read one by one, and do not exist for other tenants', async () => {
    const [id] = made.e1!;
    const { body } = await api.get(`/v1/patterns/${id}?project_id=p1`);
    expect(body).toMatchObject({ pattern_id: id, tier: 'e1', project_id: 'p1', support: 1 });
    expect(body.fields.situation).toContain('invoice');
    const unknown = await api.get('/v1/patterns/pat_unknown');
    expect(unknown.status).toBe(404);
    expect(await api.get(`/v1/patterns/${id}?project_id=p1&org_id=another`)).toEqual(unknown);
  });

  it('can be filtered by the time of their creation', async () => {
    const { body } = await api.get('/v1/patterns?project_id=p1&tier=e1');
    const times = body.patterns.map(({ created_at }: { created_at: string }) => created_at) as string[];
    const [newest, , oldest] = times;
    const within = async (query: string) => (await list(`project_id=p1&tier=e1&limit=1&${query}`)).length;
    expect(await within(`from=${newest}`)).toBe(times.filter((time) => time >= newest!).length);
    expect(await within(`to=${newest}`)).toBe(times.filter((time) => time < newest!).length);
    expect(await within(`from=${oldest}`)).toBe(3);
    expect(await within(`to=${oldest}`)).toBe(0);
    expect(await within('from=2999-01-01T00:00:00Z')).toBe(0);
  });

  it('refuse an invalid cursor with an error that says so', async () => {
    const { text } = await api.get('/v1/patterns?cursor=WyJlMSJd');
    expect(text).toContain('not a cursor of this list');
  });
});

/** Reads all pages of a list, one after another. */
async function readAll(path: string, field: string, query = ''): Promise<Record<string, unknown>[]> {
  const items: Record<string, unknown>[] = [];
  let cursor = '';
  do {
    const { status, body } = await api.get(`${path}?${query}&cursor=${encodeURIComponent(cursor)}`);
    expect(status).toBe(200);
    items.push(...body[field]);
    cursor = body.next_cursor ?? '';
  } while (cursor !== '');
  return items;
}

describe('traces', () => {
  const ids = async (query = '') =>
    (await readAll('/v1/traces', 'traces', query)).map(({ trace_id }) => trace_id);

  it('are listed newest first, by project, state and time, and can be read one by one', async () => {
    for (let at = 0; at < 5; at++) {
      const place = at % 2 === 0 ? {} : { project_id: 'p1' };
      const trace = { trace_id: `t${at}`, outcome: 'success', steps: [], ...place };
      expect((await api.post('/v1/traces', trace)).status).toBe(200);
    }
    expect(await ids()).toEqual(['t4', 't3', 't2', 't1', 't0']);
    for (const limit of [1, 2, 5]) expect(await ids(`limit=${limit}`)).toEqual(await ids());
    expect(await ids('project_id=p1&limit=1')).toEqual(['t3', 't1']);
    expect(await ids('status=done')).toHaveLength(5);
    expect(await ids('status=failed')).toEqual([]);
    const [newest] = await readAll('/v1/traces', 'traces');
    expect((await api.get('/v1/traces/t4')).body).toEqual(newest);
    expect(await ids(`from=${newest!.submitted_at}`)).toContain('t4');
    expect(await ids(`to=2000-01-01T00:00:00Z`)).toEqual([]);
    expect(await ids('org_id=another')).toEqual([]);
  });
});

describe('experiments', () => {
  it('are listed by their ids; a project sees only its own', async () => {
    for (const [run_id, experiment_id, project_id] of [
      ['x1', '2026-01-first', 'p1'],
      ['x2', '2026-01-first', 'p2'],
      ['x3', '2026-02-second', 'p1'],
      ['x4', '2026-03-third', 'p2'],
    ])
      await api.post('/v1/monitor/runs', { run_id, experiment_id, project_id, arm: 'on' });
    const list = async (query: string) =>
      (await readAll('/v1/monitor/experiments', 'experiments', query)).map(
        (experiment) => experiment.experiment_id,
      );
    for (const limit of [1, 2, 3])
      expect(await list(`limit=${limit}`)).toEqual(['2026-03-third', '2026-02-second', '2026-01-first']);
    expect(await list('project_id=p2&limit=1')).toEqual(['2026-03-third', '2026-01-first']);
    expect(await list('project_id=p3')).toEqual([]);
    expect(await list('org_id=another')).toEqual([]);
  });
});

describe('findings', () => {
  const texts = async (query = '') =>
    (await readAll('/v1/findings/shop', 'findings', query)).map(({ content }) => content);

  it('are listed by code base, newest first, page by page, and can be read one by one', async () => {
    for (let at = 0; at < 5; at++) {
      const project_id = at % 2 === 0 ? 'p1' : 'p2';
      await api.post('/v1/findings/shop', { content: `note ${at}`, project_id });
    }
    await api.post('/v1/findings/bank', { content: 'a vault', project_id: 'p2' });
    for (const limit of [1, 2, 5])
      expect(await texts(`limit=${limit}`)).toEqual(['note 4', 'note 3', 'note 2', 'note 1', 'note 0']);
    expect(await texts('project_id=p2&limit=1')).toEqual(['note 3', 'note 1']);
    const [newest] = await readAll('/v1/findings/shop', 'findings');
    const path = `/v1/findings/shop/${newest!.finding_id}`;
    expect((await api.get(path)).body).toEqual(newest);
    expect((await api.get(`${path}?project_id=p1`)).status).toBe(200);
    const unknown = await api.get('/v1/findings/shop/find_none');
    expect(unknown.status).toBe(404);
    for (const query of ['project_id=p2', 'org_id=another'])
      expect(await api.get(`${path}?${query}`)).toEqual(unknown);
    expect(await texts(`from=${newest!.created_at}`)).toContain('note 4');
    expect(await texts('to=2000-01-01T00:00:00Z')).toEqual([]);
  });

  it('have a list of code bases; a project sees those in which it has findings', async () => {
    const list = (query: string) => readAll('/v1/findings', 'codebases', query);
    const all = [
      { codebase_id: 'shop', findings: 5 },
      { codebase_id: 'bank', findings: 1 },
    ];
    for (const limit of [1, 2]) expect(await list(`limit=${limit}`)).toEqual(all);
    expect(await list('project_id=p1&limit=1')).toEqual([{ codebase_id: 'shop', findings: null }]);
    expect(await list('project_id=p2')).toHaveLength(2);
    expect(await list('org_id=another')).toEqual([]);
  });
});

describe('a forged cursor', () => {
  it.each([
    ['/v1/traces', [1, 'x'.repeat(2_900), '']],
    ['/v1/traces', [1, '\uffee'.repeat(128), '\uffee'.repeat(128)]],
    ['/v1/traces', [1e300, 't', '']],
    ['/v1/monitor/runs', [1, 'x'.repeat(2_900)]],
    ['/v1/monitor/experiments', ['x'.repeat(2_900)]],
    ['/v1/findings', ['x'.repeat(2_900), 3]],
    ['/v1/findings', ['shop', -1.5]],
    ['/v1/findings/shop', [-1.5]],
    ['/v1/monitor/profiles', [1, 'x'.repeat(128)]],
    ['/v1/monitor/profiles', [0, 'unknown']],
    ['/v1/patterns', ['e1', 'x'.repeat(128)]],
  ])('gets a page or a 422 from %s', async (path, place) => {
    // The table's keys have space for the longest identifiers.
    const project = encodeURIComponent('\uffee'.repeat(128));
    const cursor = Buffer.from(JSON.stringify(place)).toString('base64url');
    expect([200, 422]).toContain((await api.get(`${path}?cursor=${cursor}&project_id=${project}`)).status);
  });
});

describe('profiles', () => {
  it('are listed with the built-in ones first', async () => {
    await api.post('/v1/monitor/profiles', { name: 'mine', weights: { infinite_loop: 2 } });
    const { body } = await api.get('/v1/monitor/profiles');
    expect(body.profiles.map(({ name }: { name: string }) => name)).toEqual([
      'coding',
      'pr_review',
      'qa',
      'mine',
    ]);
    expect(body.profiles.at(-1)).toMatchObject({ is_built_in: false, weights: { infinite_loop: 2 } });
    const stranger = await api.get('/v1/monitor/profiles?org_id=another');
    expect(stranger.body.profiles).toHaveLength(3);
    for (const limit of [1, 2, 3, 4]) {
      const paged = await readAll('/v1/monitor/profiles', 'profiles', `limit=${limit}`);
      expect(paged).toEqual(body.profiles);
    }
    // The list continues although the row of the cursor was deleted between two pages.
    const cursor = Buffer.from(JSON.stringify([1, 'm'])).toString('base64url');
    expect((await api.get(`/v1/monitor/profiles?cursor=${cursor}`)).body.profiles).toHaveLength(1);
  });
});

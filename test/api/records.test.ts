/** Patterns and profiles read back over HTTP, against the whole product: lists, pages, strangers. */

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

  it('are listed newest first, the project’s before the organization’s and all others', async () => {
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

  it('are read one by one, and are not there for strangers', async () => {
    const [id] = made.e1!;
    const { body } = await api.get(`/v1/patterns/${id}?project_id=p1`);
    expect(body).toMatchObject({ pattern_id: id, tier: 'e1', project_id: 'p1', support: 1 });
    expect(body.fields.situation).toContain('invoice');
    const unknown = await api.get('/v1/patterns/pat_unknown');
    expect(unknown.status).toBe(404);
    expect(await api.get(`/v1/patterns/${id}?project_id=p1&org_id=another`)).toEqual(unknown);
  });

  it('refuse what is no cursor in words', async () => {
    const { text } = await api.get('/v1/patterns?cursor=WyJlMSJd');
    expect(text).toContain('not a cursor of this list');
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
  });
});

/**
 * How the lists of a real API show exchanges that are not in the index yet: the newest are rows, each is listed once,
 * and they become ordinary rows when they are indexed. This process writes the database and delays the index.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CAPTURES } from '../../src/contract/captures.ts';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { CAPTURE_NEWEST } from '../../src/limits.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { UnindexedCaptures } from '../fixtures/unindexed-captures.ts';
import { checkReply } from './check-reply.ts';

const api = new ApiChild();

beforeAll(() => api.start());

afterAll(() => api[Symbol.asyncDispose]());

const captures = new UnindexedCaptures(api.dir);
const ask = captures.make.bind(captures);
const store = captures.store.bind(captures);
const index = captures.index.bind(captures);

async function read(endpoint: Endpoint, path: string) {
  const answer = await api.get(path);
  expect(answer.status, answer.text).toBe(200);
  checkReply(endpoint, { status: answer.status, body: answer.text });
  return answer.body;
}

const list = (query = '') => read(CAPTURES.listCapturedRuns, `/capture/runs?${query}`);
const idsOf = (rows: { exchange_id: number }[]) => rows.map(({ exchange_id }) => exchange_id);
const runsOf = (page: { runs: { run_id: string }[] }) => page.runs.map(({ run_id }) => run_id);

describe('exchanges that wait for the index', () => {
  it('are rows of the lists, and become ordinary rows', async () => {
    await store(ask('first', 1));
    await index();
    expect(await list()).toMatchObject({ runs: [{ run_id: 'first', exchanges: 1 }], being_indexed: null });

    await store(
      ask('first', 2, { status: 529 }),
      ask('second', 3, { provider: 'other', duration_ms: 7.5 }),
      ask(null, 4, { kind: 'other', shape: null, method: 'GET', path: '/v1/models', aborted: true }),
    );
    const page = await list();
    expect(page.runs).toMatchObject([{ run_id: 'first', exchanges: 1 }]);
    expect(page.being_indexed).toMatchObject({ stored: 3, examined: 3, undecided: 0 });
    const [models, second, first] = page.being_indexed.exchanges;
    expect(models).toMatchObject({ exchange_id: 4, run_id: null, method: 'GET', path: '/v1/models' });
    expect(models).toMatchObject({ kind: 'other', aborted: true, run_is_listed: false });
    expect(second).toMatchObject({ exchange_id: 3, run_id: 'second', run_is_listed: false });
    expect(second).toMatchObject({ provider: 'other', duration_ms: 7.5, failed: false });
    expect(first).toMatchObject({ exchange_id: 2, run_id: 'first', run_is_listed: true });
    expect(first).toMatchObject({ status: 529, failed: true });
    expect(first.started_at).toBe(captures.startOf(2));
    // The exchange itself can be read.
    expect(await read(CAPTURES.readCapturedExchange, '/capture/exchanges/3')).toMatchObject({
      run_id: 'second',
      not_indexed: true,
    });
    // The page of a run shows the exchanges that name this run.
    const run = await read(CAPTURES.readCapturedRun, '/capture/runs/first');
    expect(idsOf(run.turns)).toEqual([1]);
    expect(idsOf(run.being_indexed)).toEqual([2]);
    expect((await api.get('/capture/runs/second')).status).toBe(404);

    await index();
    const after = await list();
    expect(after.being_indexed).toBeNull();
    expect(after.runs).toMatchObject([
      { run_id: 'second', exchanges: 1 },
      { run_id: 'first', exchanges: 2 },
    ]);
    const indexed = await read(CAPTURES.readCapturedRun, '/capture/runs/first');
    expect(idsOf(indexed.turns)).toEqual([1, 2]);
    expect(indexed.being_indexed).toEqual([]);
  });

  it('are shown if the query certainly selects them, and counted if it may select them', async () => {
    await store(
      ask('third', 10, { provider: 'other' }),
      ask(null, 11, { status: 500 }),
      ask('third', 12, { served_by: 'student' }),
    );
    const ask3 = async (q: string) => {
      const { being_indexed } = await list(`q=${encodeURIComponent(q)}`);
      return [being_indexed.undecided, idsOf(being_indexed.exchanges)];
    };
    const [third, failed, student] = idsOf((await list()).being_indexed.exchanges).reverse();
    expect(await ask3('provider:other')).toEqual([0, [third]]);
    expect(await ask3('-provider:other')).toEqual([0, [student, failed]]);
    expect(await ask3('since:1h')).toEqual([0, [student, failed, third]]);
    expect(await ask3('until:1h')).toEqual([0, []]);
    // The exchange without a run id may turn out to belong to this run.
    expect(await ask3('run:third')).toEqual([1, [student, third]]);
    expect(await ask3('run:another')).toEqual([1, []]);
    expect(await ask3('served:student')).toEqual([0, [student]]);
    expect(await ask3('is:captured')).toEqual([0, [student, failed, third]]);
    // The other two may contain failed results of tools, so they are only counted.
    expect(await ask3('has:error')).toEqual([2, [failed]]);
    expect(await ask3('is:golden')).toEqual([3, []]);
    expect(await ask3('cost:>1')).toEqual([3, []]);
    expect(await ask3('-tokens:>1')).toEqual([3, []]);
    expect(await ask3('monitor:loop')).toEqual([3, []]);
    expect(await ask3('model:claude provider:other')).toEqual([1, []]);
    expect(await ask3('words')).toEqual([3, []]);
    // Only the default order is known before an exchange is indexed.
    expect(await ask3('sort:cost')).toEqual([3, []]);
    expect(await ask3('sort:started-asc')).toEqual([3, []]);
    expect(await ask3('provider:other sort:cost')).toEqual([1, []]);
    await index();
  });

  it('are on the first page only, so that no run is listed twice', async () => {
    await store(...Array.from({ length: 6 }, (_, i) => ask(`page-${i}`, 20 + i)));
    await index();
    await store(ask('page-5', 30), ask('late', 31), ask(null, 32));
    const first = await list('limit=2');
    expect(first.runs.map(({ run_id }: { run_id: string }) => run_id)).toEqual(['page-5', 'page-4']);
    expect(first.being_indexed).toMatchObject({ stored: 3, examined: 3 });
    // The page lists at most as many waiting exchanges as it may have rows.
    expect(first.being_indexed.exchanges.map(({ run_id }: { run_id: string }) => run_id)).toEqual([
      null,
      'late',
    ]);
    // The waiting exchanges are indexed between the first and the second page.
    await index();
    const seen = runsOf(first);
    let { next_cursor } = first;
    while (next_cursor !== null) {
      const page = await list(`limit=2&cursor=${encodeURIComponent(next_cursor)}`);
      expect(page.being_indexed).toBeNull();
      seen.push(...runsOf(page));
      ({ next_cursor } = page);
    }
    expect(seen).not.toContain('late');
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen).toEqual(expect.arrayContaining(['page-0', 'page-3', 'first', 'second', 'third']));
    expect(runsOf(await list())).toContain('late');
  });

  it('are listed newest first, up to a bound, and each once while a part of them is indexed', async () => {
    const { being_indexed: none } = await list();
    expect(none).toBeNull();
    await store(...Array.from({ length: 500 }, (_, i) => ask(`many-${i}`, 40 + i)));
    const { being_indexed, runs } = await list('limit=200');
    expect(being_indexed).toMatchObject({ stored: 500, examined: CAPTURE_NEWEST.exchanges, undecided: 0 });
    expect(being_indexed.exchanges).toHaveLength(CAPTURE_NEWEST.exchanges);
    const last = being_indexed.exchanges[0].exchange_id;
    expect(idsOf(being_indexed.exchanges)).toEqual(
      Array.from({ length: CAPTURE_NEWEST.exchanges }, (_, i) => last - i),
    );
    // After a part of them was indexed, each exchange is still in the list once.
    expect(await index(last - 20)).toBe(last - 20);
    const partly = await list('limit=200');
    const waiting = partly.being_indexed.exchanges.map(({ run_id }: { run_id: string }) => run_id);
    expect(waiting).toHaveLength(20);
    expect(partly.being_indexed).toMatchObject({ stored: 20, examined: 20 });
    expect(runsOf(partly).filter((run_id) => waiting.includes(run_id))).toEqual([]);
    expect(runs.length).toBeLessThan(partly.runs.length);
    await index();
    expect((await list()).being_indexed).toBeNull();
  });

  it('are missing in sums and exports, which say how many', async () => {
    const readSums = async () => [
      await read(CAPTURES.readCapturedActivity, '/capture/activity?hours=1'),
      await read(CAPTURES.readTrafficFigures, '/capture/figures?days=2'),
      await read(CAPTURES.sumCacheMisses, '/capture/cache?days=2'),
    ];
    const exportHeader = async (list: string) => {
      const answer = await fetch(`${api.url}/capture/export/${list}`, {
        headers: { authorization: `Bearer ${CHILD_KEY}` },
      });
      await answer.arrayBuffer();
      return answer.headers.get('x-svc-not-indexed');
    };
    const [before] = await readSums();
    await store(ask('summed', 600), ask('summed', 601));
    const sums = await readSums();
    for (const sum of sums) expect(sum.not_indexed).toBe(2);
    expect(sums[0].exchanges).toBe(before.exchanges);
    expect([await exportHeader('runs'), await exportHeader('figures?days=2')]).toEqual(['2', '2']);
    await index();
    const after = await readSums();
    for (const sum of after) expect(sum.not_indexed).toBe(0);
    expect(after[0].exchanges).toBe(before.exchanges + 2);
    expect([await exportHeader('runs'), await exportHeader('figures?days=2')]).toEqual([null, null]);
  });

  it('are not shown to a caller with an unknown credential', async () => {
    await store(ask('private', 700));
    const stranger = await fetch(`${api.url}/capture/runs`, { headers: { authorization: 'Bearer unknown' } });
    expect(stranger.status).toBe(404);
    expect(await stranger.text()).not.toContain('private');
    await index();
  });
});

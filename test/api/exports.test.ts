/** Lists as files over HTTP, against the whole product: what the list shows, all pages, strangers. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { PAGE_LIMIT_MAX } from '../../src/contract/limits.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const api = new ApiChild({ VECTOR_STORE_URL: 'embedded:' });
/** One run more than a page can have. */
const RUNS = PAGE_LIMIT_MAX + 1;

beforeAll(async () => {
  await api.start();
  for (let at = 0; at < RUNS; at++) {
    const { status } = await api.post('/v1/monitor/runs', { run_id: `run-${at}`, task: `=task ${at}` });
    expect(status).toBe(200);
  }
  const situation = { situation: 'a test fails at night', dead_ends: 'to wait', unlock: 'the clock' };
  expect((await api.post('/v1/patterns', { tier: 'e1', patterns: [situation] })).status).toBe(200);
}, 120_000);
afterAll(() => api[Symbol.asyncDispose]());

async function download(path: string, method = 'GET') {
  const response = await fetch(api.url + path, { method, headers: { authorization: `Bearer ${CHILD_KEY}` } });
  return { response, text: await response.text() };
}

it('an export contains every page of the list, in order', async () => {
  const { response, text } = await download('/v1/export/runs?format=jsonl');
  expect(response.headers.get('content-type')).toBe('application/octet-stream');
  expect(response.headers.get('content-disposition')).toBe('attachment; filename="understudy-runs.jsonl"');
  const ids = text
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { run_id: string }).run_id);
  expect(ids).toEqual(Array.from({ length: RUNS }, (_, at) => `run-${RUNS - 1 - at}`));
  const { text: found } = await download('/v1/export/runs?q=run:=run-7&format=csv');
  const [head, row, ...rest] = found.split('\r\n');
  expect(head!.split(',').slice(0, 3)).toEqual(['run_id', 'project_id', 'task']);
  expect(row!.split(',').slice(0, 3)).toEqual(['run-7', 'default', "'=task 7"]);
  expect(rest).toEqual(['']);
});

it('patterns can be exported as JSON lines, and traces as Parquet', async () => {
  const { text } = await download('/v1/export/patterns?format=jsonl');
  const situations = text
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { fields: { situation: string } }).fields.situation);
  // The service also has its starter patterns.
  expect(situations).toContain('a test fails at night');
  const { text: parquet } = await download('/v1/export/traces?format=parquet');
  expect([parquet.slice(0, 4), parquet.slice(-4)]).toEqual(['PAR1', 'PAR1']);
});

it('an export with an invalid format or query, or without a credential, is refused before the file begins', async () => {
  for (const query of ['format=xlsx', 'q=modle:x', 'q=%22'])
    expect((await download(`/v1/export/runs?${query}`)).response.status, query).toBe(422);
  const response = await fetch(`${api.url}/v1/export/runs`);
  expect(response.status).toBe(401);
  await response.text();
  const { response: head, text } = await download('/v1/export/runs', 'HEAD');
  expect([head.status, text]).toEqual([200, '']);
});

it('an export of six pages contains each run once, in order', { tags: 'long' }, async () => {
  const all = Array.from({ length: 5 * PAGE_LIMIT_MAX + 30 }, (_, at) => `run-${at}`);
  for (const run_id of all.slice(RUNS))
    expect((await api.post('/v1/monitor/runs', { run_id })).status).toBe(200);
  const { text } = await download('/v1/export/runs?format=csv');
  const [, ...rows] = text.trimEnd().split('\r\n');
  expect(rows.map((row) => row.split(',')[0])).toEqual(all.reverse());
});

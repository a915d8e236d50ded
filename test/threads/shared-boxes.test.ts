/**
 * Two boxes that share accounts, organizations and keys in one PostgreSQL database. Data that one box acknowledges is
 * known to the other, even if the first box ends. Own processes.
 */
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import type { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { SharedBoxes } from './shared-boxes.ts';

let boxes: SharedBoxes;
let a: ControlPlaneChild;
let b: ControlPlaneChild;
beforeAll(async () => {
  boxes = await SharedBoxes.start();
  a = await boxes.open();
  b = await boxes.open();
});
afterAll(() => boxes[Symbol.asyncDispose]());

const listCodebases = (box: ControlPlaneChild, key: string) => box.call(key, 'GET', '/v1/findings');

/** Waits until a box answers with this status. A box polls the database at least four times a second. */
function until(box: ControlPlaneChild, key: string, status: number) {
  return expect.poll(async () => (await listCodebases(box, key)).status).toBe(status);
}

it('a user who signs up on one box is known on the other, and a key works on both', async () => {
  const ann = await a.person('ann');
  const { body } = await a.call(ann.token, 'POST', '/api-keys/', { name: 'ci' });
  await until(b, body.raw_key, 200);
  const seen = await b.call(ann.token, 'GET', '/auth/me');
  expect(seen.body.id).toBe(ann.id);
  expect((await b.call(ann.token, 'GET', '/organizations/')).body).toEqual(
    (await a.call(ann.token, 'GET', '/organizations/')).body,
  );
});

it('a key that is revoked on one box is refused on the other', async () => {
  const bob = await a.person('bob');
  const { body } = await a.call(bob.token, 'POST', '/api-keys/', { name: 'ci' });
  await until(b, body.raw_key, 200);
  expect((await b.call(bob.token, 'DELETE', `/api-keys/${body.id}`)).status).toBeLessThan(300);
  expect((await listCodebases(b, body.raw_key)).status).toBe(401);
  await until(a, body.raw_key, 401);
});

it('data that a box acknowledged is on the other box after a kill', async () => {
  const box = await boxes.open();
  const eve = await box.person('eve');
  const { body } = await box.call(eve.token, 'POST', '/api-keys/', { name: 'ci' });
  await box.kill();
  await until(b, body.raw_key, 200);
  await box.start();
  expect((await listCodebases(box, body.raw_key)).status).toBe(200);
});

it('a client sees on the other box what it has just written', async () => {
  const dan = await a.person('dan');
  for (let at = 0; at < 10; at++) {
    const [from, to] = at % 2 === 0 ? [a, b] : [b, a];
    const made = await from.call(dan.token, 'POST', '/api-keys/', { name: `k${at}` });
    const position = made.headers.get('x-svc-position')!;
    const response = await fetch(`${to.url}/v1/findings`, {
      headers: { authorization: `Bearer ${made.body.raw_key}`, 'x-svc-position': position },
    });
    expect(response.status).toBe(200);
    expect(Number(response.headers.get('x-svc-position'))).toBeGreaterThanOrEqual(Number(position));
    await response.arrayBuffer();
  }
});

it('findings that one box stores are found on the other, and findings that it removes are not', async () => {
  const fay = await a.person('fay');
  const { raw_key: key } = (await a.call(fay.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  await until(b, key, 200);
  const store = async (box: ControlPlaneChild, content: string) =>
    (
      await box.call(key, 'POST', '/v1/findings/code', {
        finding_type: 'architecture',
        content,
        file_paths: ['src/a.ts'],
      })
    ).body.finding_id;
  const list = async (box: ControlPlaneChild) => {
    const { body } = await box.call(key, 'GET', '/v1/findings/code');
    return body.findings.map(({ content }: { content: string }) => content).sort();
  };
  await store(a, 'first');
  await expect.poll(() => list(b)).toEqual(['first']);
  // Both boxes have the code base in memory, and store findings at the same time.
  const stored = await Promise.all(
    Array.from({ length: 8 }, (_, at) => store(at % 2 === 0 ? a : b, `${at}`)),
  );
  expect(new Set(stored).size).toBe(8);
  const all = ['first', ...Array.from({ length: 8 }, (_, at) => `${at}`)].sort();
  for (const box of [a, b]) await expect.poll(() => list(box)).toEqual(all);
  await b.call(key, 'DELETE', `/v1/findings/code/${stored[0]}`);
  for (const box of [a, b]) await expect.poll(() => list(box)).toEqual(all.filter((word) => word !== '0'));
});

it('patterns that one box stores or merges are found on the other, and patterns that it removes are not', {
  tags: 'long',
}, async () => {
  const env = { VECTOR_STORE_URL: 'embedded:' };
  // Both boxes start at once, so each of them tries to store the universal patterns.
  const [c, d] = await Promise.all([boxes.open(env), boxes.open(env)]);
  const ivy = await c.person('ivy');
  const { raw_key: key } = (await c.call(ivy.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  await until(d, key, 200);
  const pattern = (word: string) => ({
    situation: `the ${word} of the harbour crane reports a wrong angle`,
    dead_ends: `turning the ${word} by hand`,
    unlock: `calibrate the ${word} at low tide`,
  });
  const add = async (box: ControlPlaneChild, word: string) => {
    const { body } = await box.call(key, 'POST', '/v1/patterns', { tier: 'e2', patterns: [pattern(word)] });
    return body.patterns[0].pattern_id as string;
  };
  const find = async (box: ControlPlaneChild, word: string) => {
    const { body } = await box.call(key, 'POST', '/v1/traces/retrieve', {
      context: pattern(word).situation,
      tier: 'e2',
      top_k: 1,
    });
    return body.traces.map(({ pattern_id }: { pattern_id: string }) => pattern_id);
  };
  const first = await add(c, 'encoder');
  for (const box of [c, d]) await expect.poll(() => find(box, 'encoder')).toEqual([first]);
  // The other box gets the same situation, and merges it into the existing pattern.
  expect(await add(d, 'encoder')).toBe(first);
  const read = async (box: ControlPlaneChild) =>
    (await box.call(key, 'GET', `/v1/patterns/${first}`)).body.support;
  await expect.poll(() => read(c)).toBe(2);
  // The first box merges the situation into the pattern that the other box has written.
  expect(await add(c, 'encoder')).toBe(first);
  await expect.poll(() => read(d)).toBe(3);
  expect((await d.call(key, 'DELETE', `/v1/patterns/${first}`)).status).toBe(204);
  for (const box of [c, d]) await expect.poll(() => find(box, 'encoder')).toEqual([]);
  const universal = await c.call(CHILD_KEY, 'GET', '/v1/patterns?tier=e3');
  const situations = universal.body.patterns.map(
    ({ fields }: { fields: { situation: string } }) => fields.situation,
  );
  expect(new Set(situations).size).toBe(situations.length);
  expect(situations.length).toBeGreaterThan(5);
});

it('without the database, reads continue, writes get 503, and nothing acknowledged is lost', async () => {
  if (!boxes.server.isOurs) return;
  const gil = await a.person('gil');
  const { raw_key: key } = (await a.call(gil.token, 'POST', '/api-keys/', { name: 'ci' })).body;
  await until(b, key, 200);
  await boxes.server.kill();
  const refused = await b.call(gil.token, 'POST', '/api-keys/', { name: 'lost' });
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect(refused.body.detail).not.toContain('postgres://');
  expect((await listCodebases(b, key)).status).toBe(200);
  await expect
    .poll(async () => (await listCodebases(b, key)).headers.get('x-svc-stale'))
    .toMatch(/^[1-9]\d*$/);
  await boxes.server.resume();
  await expect
    .poll(async () => (await b.call(gil.token, 'POST', '/api-keys/', { name: 'kept' })).status)
    .toBeLessThan(300);
  await until(a, key, 200);
});

it('the metrics of a box say how old its rows may be', async () => {
  const response = await fetch(`${a.url}/metrics`, { headers: { authorization: `Bearer ${CHILD_KEY}` } });
  const text = await response.text();
  expect(text).toMatch(/^understudy_shared_stale_seconds \d/m);
  expect(Number(/^understudy_shared_position (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(0);
});

it('a box keeps a view instead of a main database', () => {
  const files = readdirSync(a.dir);
  expect(files).toContain('shared.mdb');
  expect(files).not.toContain('main.mdb');
});

/**
 * Patterns of a service with three server threads, over connections that the kernel gives to any of them. After the
 * answer to a write or a deletion, its caller sees the effect on every thread. This holds while others import, delete
 * and retrieve, and after the thread of the pattern index has failed.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Situations } from '../../bench/retrieve-client.ts';
import { WholeService } from '../fixtures/whole-service.ts';

const KEY = 'key-of-many-threads';
const CUSTOMERS = ['alice', 'bob', 'carol'];
const ROUNDS = 12;
/** Number of requests after each write. In all rounds together, they very probably reach each thread. */
const LOOKS = 4;
const folder = mkdtempSync(join(tmpdir(), 'understudy-patterns-'));
const roleFile = join(folder, 'role');
const service = new WholeService(join(folder, 'data'), {
  SERVER_THREADS: '3',
  ACTOR_THREADS: '2',
  SVC_KEYS: KEY,
  PLAN_CAPS: '{"free": null}',
  RATE_LIMIT_PER_SEC: '1000000',
  RATE_LIMIT_BURST: '1000000',
  KILLED_ROLE: roleFile,
  NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, '../fixtures/thread-killer.mjs')).href}`,
});

async function call(method: string, path: string, body: object | null) {
  const response = await fetch(service.api + path, {
    method,
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', connection: 'close' },
    ...(body === null ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  return { status: response.status, body: (text === '' ? null : JSON.parse(text)) as any };
}

interface Stored {
  pattern_id: string;
  situation: string;
}

async function store(org_id: string, situation: string): Promise<Stored | null> {
  const patterns = [{ situation, dead_ends: 'ran it again', unlock: `read the log of ${org_id}` }];
  const { status, body } = await call('POST', '/v1/patterns', { org_id, tier: 'e2', patterns });
  if (status !== 200) return null;
  expect(body).toMatchObject({ created: 1 });
  return { pattern_id: body.patterns[0].pattern_id, situation };
}

/** The patterns for exactly this situation; null while retrieval is not available. */
async function find(org_id: string, situation: string): Promise<string[] | null> {
  const { status, body } = await call('POST', '/v1/traces/retrieve', {
    org_id,
    tier: 'e2',
    context: situation,
    top_k: 5,
  });
  if (status !== 200) {
    expect(status).toBe(503);
    return null;
  }
  // All found patterns belong to this organization.
  for (const { fields } of body.traces) expect(fields.unlock).toBe(`read the log of ${org_id}`);
  return body.traces.map((trace: { pattern_id: string }) => trace.pattern_id);
}

/** Writes and reads as one customer. Adds the patterns whose writes succeeded to `kept`. */
async function live(org_id: string, from: number, kept: Map<string, Stored>): Promise<void> {
  const texts = new Situations(1 + CUSTOMERS.findIndex((name) => org_id.startsWith(name)));
  for (let round = 0; round < ROUNDS; round++) {
    const stored = await store(org_id, texts.situation(from + round));
    if (stored === null) continue;
    kept.set(stored.pattern_id, stored);
    for (const found of await Promise.all(
      Array.from({ length: LOOKS }, () => find(org_id, stored.situation)),
    )) {
      if (found !== null) expect(found[0]).toBe(stored.pattern_id);
    }
    if (round % 3 !== 0) continue;
    const removed = await call('DELETE', `/v1/patterns/${stored.pattern_id}?org_id=${org_id}`, null);
    if (removed.status >= 500) continue;
    expect(removed.status).toBe(204);
    kept.delete(stored.pattern_id);
    for (const found of await Promise.all(
      Array.from({ length: LOOKS }, () => find(org_id, stored.situation)),
    )) {
      if (found !== null) expect(found).not.toContain(stored.pattern_id);
    }
  }
}

async function findAll(kept: ReadonlyMap<string, Map<string, Stored>>): Promise<void> {
  for (const [org_id, patterns] of kept) {
    for (const { pattern_id, situation } of patterns.values()) {
      await expect.poll(() => find(org_id, situation)).not.toBeNull();
      expect((await find(org_id, situation))![0]).toBe(pattern_id);
    }
  }
}

beforeAll(() => service.start());
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

it('patterns are found as soon as they are stored, and not after their deletion, on every thread', async () => {
  const orgs = CUSTOMERS.map((name) => `${name}-${randomUUID()}`);
  const kept = new Map(orgs.map((org_id) => [org_id, new Map<string, Stored>()]));
  await Promise.all(orgs.map((org_id) => live(org_id, 0, kept.get(org_id)!)));
  for (const patterns of kept.values()) expect(patterns.size).toBe(ROUNDS - Math.ceil(ROUNDS / 3));
  await findAll(kept);
  const { pid } = service;
  const living = Promise.all(orgs.map((org_id) => live(org_id, ROUNDS, kept.get(org_id)!)));
  writeFileSync(roleFile, 'actor');
  process.kill(pid, 'SIGUSR2');
  await expect.poll(() => service.stderr).toContain('an actor thread ended');
  await living;
  await Promise.all(orgs.map((org_id) => live(org_id, 2 * ROUNDS, kept.get(org_id)!)));
  await findAll(kept);
  expect(service.pid).toBe(pid);
});

/**
 * The audit log as an organization's admin reads it: changes by a customer's key over `/v1`, and changes by the
 * operator on the command line.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runHere } from '../cli/here.ts';
import { ApiChild } from '../fixtures/api-child.ts';

const api = new ApiChild({ AUTH_DB_URL: 'embedded:', VECTOR_STORE_URL: 'embedded:' });
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

async function send(token: string, method: string, path: string, body?: unknown) {
  const response = await fetch(api.url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  expect(response.status, JSON.stringify(answer)).toBe(200);
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects
  return answer as any;
}

it('the audit log has one entry for each decision of a person, and no entry for reports of agents', async () => {
  const owner = await api.ownerToken();
  const [{ id: org_id }] = await send(owner, 'GET', '/organizations/');
  const key = await send(owner, 'POST', '/api-keys/', { name: 'ci', org_id });
  const put = (weights: object) =>
    send(key.raw_key, 'POST', '/v1/monitor/profiles', { name: 'mine', weights });
  await put({ semantic_loop: 1 });
  await put({ semantic_loop: 1 });
  await put({ semantic_loop: 2 });
  await send(key.raw_key, 'POST', '/v1/monitor/runs', { run_id: 'r1' });
  await send(key.raw_key, 'POST', '/v1/monitor/runs/r1/steps', { step_index: 0 });
  await send(key.raw_key, 'POST', '/v1/findings/shop', { content: 'about the parser' });
  const file = join(api.dir, 'in.jsonl');
  writeFileSync(file, JSON.stringify({ situation: 'a b c', dead_ends: 'd', unlock: 'e' }));
  const imported = await runHere(['patterns', 'import', '--tier', 'e2', '--org', org_id, file], {
    DATA_DIR: api.dir,
  });
  expect(imported.code, imported.stderr).toBe(0);

  const log = await send(owner, 'GET', `/organizations/${org_id}/audit-log`);
  expect(log).toMatchObject([
    {
      actor: 'operator',
      actor_type: 'operator',
      action: 'patterns.import',
      target: org_id,
      after: { tier: 'e2', patterns: 1 },
    },
    {
      actor: key.id,
      actor_type: 'key',
      action: 'profile.put',
      target: 'mine',
      before: { weights: { semantic_loop: 1 } },
      after: { weights: { semantic_loop: 2 } },
      address: '127.0.0.1',
    },
    { action: 'profile.put', before: null, after: { weights: { semantic_loop: 1 } } },
    { action: 'key.create', actor_type: 'user' },
    { action: 'organization.create' },
  ]);
  expect(log).toHaveLength(5);
});

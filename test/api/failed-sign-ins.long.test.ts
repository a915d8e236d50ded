/**
 * Attempts to guess credentials: after a burst an address is refused, on all server threads and every route. A caller
 * with a valid credential notices nothing.
 */
import { SignJWT } from 'jose';
import { Agent, fetch as undiciFetch } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allocateRateTable } from '../../actors/rate-bucket/table.ts';
import { FAILED_SIGN_INS, FailedSignIns, networkOf } from '../../src/api/failed-sign-ins.ts';
import { makeApiKey } from '../../src/auth/api-key.ts';
import { pathsOf } from '../../src/contract/endpoint.ts';
import { CHILD_KEY } from '../fixtures/api-child.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

const CONNECTIONS = 48;
const TRIES = 3_000;
/** A route that any valid key may request. */
const LOOK = '/v1/monitor/experiments/x/report';

/** Wrong credentials of every kind, a new one each time. */
const WRONG: readonly ((at: number) => Promise<string | null> | string | null)[] = [
  (at) => `unknown-static-key-${at}`,
  () => makeApiKey('live').raw,
  (at) =>
    new SignJWT({ email: 'ann@example.com' })
      .setProtectedHeader({ alg: 'HS256' })
      .setSubject(`u${at}`)
      .setExpirationTime('1h')
      .sign(new TextEncoder().encode('a secret that is not the right one at all')),
  (at) => `a.b.${at}`,
  () => null,
];

describe('thousands of wrong credentials from one address', () => {
  const api = new ControlPlaneChild({ AUTH_FAIL_RATE_PER_SEC: '', SERVER_THREADS: '2' });
  const agent = new Agent({ connections: CONNECTIONS });
  let valid: string[] = [];
  let startedMs = 0;

  beforeAll(async () => {
    await api.start();
    const { token } = await api.person('ann');
    const { raw_key } = (await api.call(token, 'POST', '/api-keys', { name: 'ci' })).body;
    valid = [CHILD_KEY, raw_key, token];
  });
  afterAll(async () => {
    await agent.close();
    await api[Symbol.asyncDispose]();
  });

  async function look(credential: string | null) {
    const headers = credential === null ? {} : { authorization: `Bearer ${credential}` };
    const answer = await undiciFetch(`${api.url}${LOOK}`, { headers, dispatcher: agent });
    await answer.arrayBuffer();
    return answer;
  }

  it('are refused beyond the burst, on all server threads together', async () => {
    const counts = new Map<number, number>();
    let next = 0;
    startedMs = performance.now();
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        while (next < TRIES) {
          const at = next++;
          // Every hundredth caller is permitted.
          const isValid = at % 100 === 99;
          const credential = isValid ? valid[(at / 100) & 1]! : await WRONG[at % WRONG.length]!(at);
          const answer = await look(credential);
          if (isValid) expect(answer.status).toBe(200);
          else counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
          if (answer.status === 429) expect(answer.headers.get('retry-after')).toBe('1');
        }
      }),
    );
    const seconds = (performance.now() - startedMs) / 1_000;
    expect([...counts.keys()].sort()).toEqual([401, 429]);
    const refused = counts.get(401)!;
    expect(refused).toBeGreaterThanOrEqual(FAILED_SIGN_INS.burst);
    expect(refused).toBeLessThanOrEqual(FAILED_SIGN_INS.burst + Math.ceil(5 * seconds) + 1);
  }, 120_000);

  it('do not affect valid credentials of any kind', async () => {
    // Some tries may have become available in the meantime.
    let status = 401;
    for (let at = 0; status === 401 && at < 1_000; at++) ({ status } = await look('wrong'));
    expect(status).toBe(429);
    expect((await look(valid[0]!)).status).toBe(200);
    expect((await look(valid[1]!)).status).toBe(200);
    expect((await api.call(valid[2]!, 'GET', '/auth/me')).status).toBe(200);
  });
});

describe('every route that asks for a credential', () => {
  it('counts and limits wrong ones', { timeout: 120_000 }, async () => {
    await using api = new ControlPlaneChild({
      AUTH_FAIL_RATE_PER_SEC: '1',
      VECTOR_STORE_URL: 'embedded:',
      AUTH_DB_CONN_URL: 'embedded:',
    });
    await api.start();
    const use = (method: string, path: string, headers: Record<string, string>) =>
      fetch(`${api.url}${path}`, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) });
    const wrong = { authorization: 'Bearer wrong', 'content-type': 'application/json' };
    const usedUp = async () => {
      for (let at = 0; at < 1_000; at++) if ((await use('GET', LOOK, wrong)).status === 429) return;
      throw new Error('no caller was ever limited');
    };
    const guarded = (await loadDeclaredEndpoints()).filter(
      ({ auth }) => auth === 'bearer' || auth === 'user',
    );
    expect(guarded.length).toBeGreaterThan(30);
    for (const endpoint of guarded) {
      for (const pattern of pathsOf(endpoint)) {
        const path = pattern.replace(/\{\w+\}/g, 'x');
        await usedUp();
        // Another try may have become available in the meantime.
        let status = 401;
        for (let at = 0; status === 401 && at < 10; at++)
          status = (await use(endpoint.method, path, wrong)).status;
        expect(status, `${endpoint.method} ${path}`).toBe(429);
      }
    }
    await usedUp();
    // The header names another machine, so a key is required, and this one is invalid.
    const metrics = await use('GET', '/metrics', { ...wrong, 'x-forwarded-for': '192.0.2.1' });
    expect([metrics.status, metrics.headers.get('retry-after')]).toEqual([429, '1']);
    expect((await use('GET', '/metrics', {})).status).toBe(200);
  });
});

describe('AUTH_FAIL_RATE_PER_SEC=0', () => {
  it('limits no client', async () => {
    await using api = new ControlPlaneChild({ AUTH_FAIL_RATE_PER_SEC: '0' });
    await api.start();
    const statuses = new Set<number>();
    for (let at = 0; at < 3 * FAILED_SIGN_INS.burst; at++)
      statuses.add((await api.call('wrong', 'GET', LOOK)).status);
    expect([...statuses]).toEqual([401]);
  });
});

describe('the limit of an address', () => {
  const memory = () => allocateRateTable(FAILED_SIGN_INS.buckets);
  const failUntilLimited = (failed: FailedSignIns, address: string) => {
    let count = 0;
    while (failed.take(address) && count < 10_000) count++;
    return count;
  };

  it('applies to a whole /64, or to one IPv4 address', () => {
    const six = '2001:0db8:0000:0001:0000:0000:0000:0001';
    expect(networkOf(six)).toBe(networkOf('2001:0db8:0000:0001:ffff:ffff:ffff:ffff'));
    expect(networkOf(six)).not.toBe(networkOf('2001:0db8:0000:0002:0000:0000:0000:0001'));
    expect(networkOf('192.0.2.1')).not.toBe(networkOf('192.0.2.2'));
  });

  it('is shared within a /64 and with no other, on every thread', () => {
    const shared = memory();
    const [first, other] = [new FailedSignIns(shared, 1), new FailedSignIns(shared, 1)];
    for (let at = 0; at < FAILED_SIGN_INS.burst; at++) {
      const address = `2001:0db8:0000:0001:0000:0000:0000:${at.toString(16).padStart(4, '0')}`;
      expect((at % 2 === 0 ? first : other).take(address)).toBe(true);
    }
    expect(first.take('2001:0db8:0000:0001:abcd:0000:0000:0001')).toBe(false);
    expect(other.take('2001:0db8:0000:0001:abcd:0000:0000:0002')).toBe(false);
    expect(first.take('2001:0db8:0000:0002:0000:0000:0000:0001')).toBe(true);
  });

  it('allows at least as many as the permitted requests per second', () => {
    expect(failUntilLimited(new FailedSignIns(memory(), 1), '192.0.2.1')).toBeLessThan(110);
    expect(failUntilLimited(new FailedSignIns(memory(), 2_000), '192.0.2.1')).toBeGreaterThanOrEqual(2_000);
  });

  it('finds a bucket among 200,000 others in a fixed amount of memory', () => {
    const shared = memory();
    const { byteLength } = shared;
    const failed = new FailedSignIns(shared, 1_000_000);
    for (let at = 0; at < 200_000; at++) failed.take(`${at >> 16}.${(at >> 8) & 255}.${at & 255}.1`);
    expect(shared.byteLength).toBe(byteLength);
    expect(byteLength).toBeLessThan(1_048_576);
    const strict = new FailedSignIns(memory(), 1);
    for (let at = 0; at < 200_000; at++) strict.take(`10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`);
    expect(failUntilLimited(strict, '192.0.2.9')).toBeGreaterThan(50);
  });
});

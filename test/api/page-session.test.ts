/** The dashboard's session over real HTTP: a cookie in place of a token, and where it is valid. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ApiChild } from '../fixtures/api-child.ts';

const api = new ApiChild({
  AUTH_DB_URL: 'embedded:',
  AUTH_DB_CONN_URL: 'embedded:',
  PUBLIC_URL: 'https://understudy.example.com',
  AUTH_FAIL_RATE_PER_SEC: '0',
});
let token: string;
beforeAll(async () => {
  await api.start();
  token = await api.ownerToken();
});
afterAll(() => api[Symbol.asyncDispose]());

const OWN_PAGE = { 'sec-fetch-site': 'same-origin' };

function signIn(body: unknown, headers: Record<string, string> = OWN_PAGE): Promise<Response> {
  return fetch(`${api.url}/auth/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

async function openCookie(): Promise<string> {
  const response = await signIn({ token });
  expect(response.status).toBe(204);
  return response.headers.get('set-cookie')!.split(';')[0]!;
}

const me = (headers: Record<string, string>) => fetch(`${api.url}/auth/me`, { headers });

it('a session stores a token in a cookie with HttpOnly and SameSite=Strict, at most until the token expires', async () => {
  const response = await signIn({ token });
  const cookie = response.headers.get('set-cookie')!;
  const { port } = new URL(api.url);
  expect(cookie).toMatch(
    new RegExp(`^understudy_session_${port}=[\\w.-]+; Path=/; Max-Age=\\d+; HttpOnly; SameSite=Strict$`),
  );
  const age_s = Number(/Max-Age=(\d+)/.exec(cookie)![1]);
  expect(age_s).toBeGreaterThan(3_600);
  expect(age_s).toBeLessThanOrEqual(86_400);
  expect(response.headers.get('cache-control')).toBe('no-store');
});

it('a session’s cookie is Secure behind TLS', async () => {
  const behind = await signIn({ token }, { ...OWN_PAGE, 'x-forwarded-proto': 'https' });
  expect(behind.headers.get('set-cookie')).toMatch(/; Secure$/);
});

it('a session reads the profile and the captures that the token may read', async () => {
  const cookie = await openCookie();
  const byCookie = await me({ ...OWN_PAGE, cookie });
  expect(byCookie.status).toBe(200);
  const byToken = await me({ authorization: `Bearer ${token}` });
  expect(await byCookie.json()).toEqual(await byToken.json());
  const captures = await fetch(`${api.url}/capture/runs`, { headers: { ...OWN_PAGE, cookie } });
  expect(captures.status).toBe(200);
});

it('a session opens the live stream, and creates a ticket for it', async () => {
  const headers = { ...OWN_PAGE, cookie: await openCookie() };
  const booted = (await (await fetch(`${api.url}/auth/bootstrap`, { headers })).json()) as {
    organizations: { id: string }[];
  };
  const query = `org_id=${booted.organizations[0]!.id}`;
  const ends = new AbortController();
  const stream = await fetch(`${api.url}/v1/monitor/stream?${query}`, { headers, signal: ends.signal });
  expect(stream.status).toBe(200);
  ends.abort();
  const ticket = await fetch(`${api.url}/v1/monitor/stream/tickets?${query}`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: '{}',
  });
  expect(ticket.status).toBe(200);
  const told = (await ticket.json()) as { ticket: string };
  const again = new AbortController();
  const opened = await fetch(`${api.url}/v1/monitor/stream?ticket=${told.ticket}`, { signal: again.signal });
  expect(opened.status).toBe(200);
  again.abort();
});

it.each([
  ['of another site', { 'sec-fetch-site': 'cross-site' }],
  ['of the same site with another port or name', { 'sec-fetch-site': 'same-site' }],
  ['of another origin, where the browser says no more', { origin: 'http://127.0.0.1:1' }],
  ['that names no origin', {}],
  ['of no origin (a sandboxed frame)', { origin: 'null' }],
])('a page %s can change nothing with a session, and can neither sign in nor sign out', async (_, from) => {
  const cookie = await openCookie();
  const headers = { cookie, 'content-type': 'application/json', ...from };
  const patched = await fetch(`${api.url}/auth/me`, {
    method: 'PATCH',
    headers,
    body: JSON.stringify({ display_name: 'Mallory' }),
  });
  expect(patched.status).toBe(403);
  const named = (await (await me({ ...OWN_PAGE, cookie })).json()) as { display_name: string };
  expect(named.display_name).toBe('Owner');
  expect((await signIn({ token }, from)).status).toBe(403);
  const ended = await fetch(`${api.url}/auth/session`, { method: 'DELETE', headers });
  expect([ended.status, ended.headers.get('set-cookie')]).toEqual([403, null]);
});

it('a session has no effect in requests of pages of another origin', async () => {
  const cookie = await openCookie();
  expect((await me({ cookie, 'sec-fetch-site': 'same-site' })).status).toBe(401);
  expect((await me({ cookie, origin: 'https://other.example.com' })).status).toBe(401);
});

it('a session accepts a change from its own page even if the browser sends only the origin', async () => {
  const cookie = await openCookie();
  const patched = await fetch(`${api.url}/auth/me`, {
    method: 'PATCH',
    headers: { cookie, origin: api.url, 'content-type': 'application/json' },
    body: JSON.stringify({ onboarded: true }),
  });
  expect(patched.status).toBe(200);
});

it('a session has no effect if the request has a credential in its header', async () => {
  const cookie = await openCookie();
  expect((await me({ ...OWN_PAGE, cookie, authorization: 'Bearer unknown' })).status).toBe(401);
});

it('a session ends on request', async () => {
  const cookie = await openCookie();
  const ended = await fetch(`${api.url}/auth/session`, {
    method: 'DELETE',
    headers: { cookie, ...OWN_PAGE },
  });
  expect(ended.headers.get('set-cookie')).toMatch(/=; Path=\/; Max-Age=0; HttpOnly; SameSite=Strict$/);
});

it('a session is refused for a token that does not belong to a user', async () => {
  expect((await signIn({ token: 'unknown' })).status).toBe(401);
  expect((await signIn({ token: 'static-key-of-the-child' })).status).toBe(403);
  expect((await signIn({})).status).toBe(422);
  expect((await signIn({ token, more: 1 })).status).toBe(422);
  expect((await me({ ...OWN_PAGE, cookie: 'understudy_session_1=x; other=y' })).status).toBe(401);
});

/**
 * Signing in over HTTP: with a provider that publishes and changes its keys, with proven and unproven addresses, and
 * with limits on how often a user may do what.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, ControlPlaneChild, signToken } from '../fixtures/control-plane.ts';

describe('a provider that publishes its keys', { tags: 'long' }, () => {
  let issuer: Server;
  let asked = 0;
  let isDown = false;
  let published: { keys: JWK[] } = { keys: [] };
  let api: ControlPlaneChild;

  async function newKey(kid: string) {
    const { publicKey, privateKey } = await generateKeyPair('ES256');
    const jwk: JWK = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' };
    const sign = (sub: string, kidShown = kid) =>
      new SignJWT({ email: `${sub}@example.com` })
        .setProtectedHeader({ alg: 'ES256', kid: kidShown })
        .setSubject(sub)
        .setIssuer('https://id.example')
        .setAudience('understudy')
        .setExpirationTime('1h')
        .sign(privateKey);
    return { jwk, sign };
  }

  beforeAll(async () => {
    issuer = createServer((_request, response) => {
      asked++;
      if (isDown) response.writeHead(500).end();
      else response.writeHead(200).end(JSON.stringify(published));
    });
    await new Promise<void>((resolve) => issuer.listen(0, '127.0.0.1', resolve));
    api = new ControlPlaneChild({
      AUTH_JWKS_URL: `http://127.0.0.1:${(issuer.address() as AddressInfo).port}/keys`,
      AUTH_JWT_ISSUER: 'https://id.example',
      AUTH_JWT_AUDIENCE: 'understudy',
      SERVER_THREADS: '1',
    });
    await api.start();
  });
  afterAll(async () => {
    await api[Symbol.asyncDispose]();
    await new Promise((resolve) => issuer.close(resolve));
  });

  it('is not asked for each token with an unknown key, and identifies the same user with each published key', async () => {
    const [first, second, stranger] = [await newKey('one'), await newKey('two'), await newKey('three')];
    const me = async (token: string) => api.call(token, 'GET', '/auth/me');

    // While the provider does not answer, no user can be identified. The token is not at fault.
    isDown = true;
    const before = await me(await first.sign('ann'));
    expect(before.status).toBe(503);
    expect(before.headers.get('retry-after')).toBe('1');
    isDown = false;

    await api.kill();
    await api.start();
    published = { keys: [first.jwk] };
    asked = 0;
    const ann = (await me(await first.sign('ann'))).body.id;
    expect(ann).toMatch(/^usr_/);
    expect(asked).toBe(1);

    // Many tokens with unpublished keys cause no further requests to the provider.
    const flood = await Promise.all(
      Array.from({ length: 50 }, (_, at) => stranger.sign('ann', `unknown-${at}`)),
    );
    const refused = await Promise.all(flood.map(me));
    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([401]));
    expect(asked).toBe(1);
    // A token that names a published key but was signed with another key is refused, too.
    expect((await me(await stranger.sign('ann', 'one'))).status).toBe(401);

    // The provider publishes a new key beside the old one. A process that starts now accepts both.
    published = { keys: [first.jwk, second.jwk] };
    await api.kill();
    await api.start();
    expect((await me(await second.sign('ann'))).body.id).toBe(ann);
    expect((await me(await first.sign('ann'))).body.id).toBe(ann);

    // The provider stops answering: tokens of known keys stay valid, even for new users.
    isDown = true;
    expect((await me(await second.sign('bob'))).status).toBe(200);
    expect((await me(await stranger.sign('bob'))).status).toBe(401);
    isDown = false;

    // A token that was signed with the process's own secret is refused.
    expect((await me(await signToken('ann'))).status).toBe(401);
  }, 400_000);
});

/** The service of the tests below, except those with a separate limit. */
const api = new ControlPlaneChild({ CORS_ALLOWED_ORIGINS: 'https://dash.example', SERVER_THREADS: '2' });
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

describe('an e-mail address', () => {
  it('that was not verified stays unverified when a later token omits it', async () => {
    const owner = await api.person('host');
    await api.call(owner.token, 'POST', `/organizations/${owner.org_id}/invite`, {
      email: 'victim@example.com',
    });
    const claims = { email: 'victim@example.com', email_verified: false };
    const liar = await api.person('liar', { claims });
    expect(liar.email).toBe('victim@example.com');
    const silent = await signToken('liar', { claims: { email: undefined, email_verified: undefined } });
    const shown = (await api.call(silent, 'GET', '/auth/bootstrap')).body;
    expect(shown.profile.email).toBe('victim@example.com');
    expect(shown.invitations).toEqual([]);
    // A token proves the address, so the invitation is shown.
    const proven = await signToken('liar', { claims: { email: 'victim@example.com', email_verified: true } });
    expect((await api.call(proven, 'GET', '/auth/bootstrap')).body.invitations).toHaveLength(1);
    // The next token says nothing about the address, so it proves nothing.
    expect((await api.call(silent, 'GET', '/auth/bootstrap')).body.invitations).toEqual([]);
  });

  it('is compared without regard to case, but a letter that only looks alike makes another address', async () => {
    const owner = await api.person('inviter');
    const invited = await api.call(owner.token, 'POST', `/organizations/${owner.org_id}/invite`, {
      email: 'Kim@example.com',
    });
    const accept = `/organizations/invitations/${invited.body.id}/accept`;
    const fake = await api.person('fake', { claims: { email: '\u212aim@example.com' } });
    expect((await api.call(fake.token, 'POST', accept)).status).toBe(404);
    const kim = await api.person('kim', { claims: { email: 'kIM@example.com' } });
    expect((await api.call(kim.token, 'POST', accept)).status).toBe(200);
  });

  it.each([
    ['something that is no address', 'no at sign'],
    ['controls and right-to-left marks', 'a\u0000\u202e\u200d@b.co'],
    ['as long as a claim may be', `${'ü'.repeat(240)}@example.com`],
  ])('may be %s, and the person becomes a user all the same', async (name, email) => {
    const person = await api.person(`odd ${name}`, { claims: { email, name: `\u0007${name}`.repeat(9) } });
    expect(person.id).toMatch(/^usr_/);
    const bootstrap = await api.call(person.token, 'GET', '/auth/bootstrap');
    expect(bootstrap.status).toBe(200);
    expect(bootstrap.body.organizations).toHaveLength(1);
    expect([...bootstrap.body.organizations[0].name].length).toBeLessThanOrEqual(100);
  });

  it.each([
    ['missing', undefined],
    ['empty', ''],
    ['no text', 5],
    ['far too long', `${'x'.repeat(5_000)}@example.com`],
    ['half a character', '\ud800@example.com'],
  ])('that is %s refuses a first sign-in, and lets known users continue', async (name, email) => {
    const odd = await signToken(`stranger ${name}`, { claims: { email } });
    const refused = await api.call(odd, 'GET', '/auth/me');
    expect(refused.status).toBe(401);
    expect(refused.body.detail).toContain('e-mail address');
    expect((await api.call(odd, 'GET', '/organizations/')).status).toBe(401);
    const person = await api.person(`stranger ${name}`);
    expect(person.id).toMatch(/^usr_/);
    expect((await api.call(odd, 'GET', '/auth/me')).body).toMatchObject({
      id: person.id,
      email: person.email,
    });
  });
});

it('names keep the letters of any script, and an odd id gets a 404 or a 422', async () => {
  const { token, org_id } = await api.person('letters');
  for (const name of ['\u0000', '🦊'.repeat(100), 'ﷺ', 'e\u0301', '\u202egnp.exe', ' ', '<script>']) {
    const made = await api.call(token, 'POST', '/organizations', { name });
    expect(made.status, JSON.stringify(name)).toBe(200);
    expect(made.body.name).toBe(name);
    const project = await api.call(token, 'POST', `/projects/?org_id=${org_id}`, { name });
    expect(project.body.name).toBe(name);
    expect((await api.call(token, 'PATCH', '/auth/me', { display_name: name })).body.display_name).toBe(name);
  }
  for (const odd of [
    'x'.repeat(128),
    '%F0%9F%A6%8A'.repeat(128),
    '%00',
    '%ff',
    'x'.repeat(5_000),
    '..%2f..',
  ]) {
    for (const path of [`/organizations/${odd}/members`, `/projects/?org_id=${odd}`]) {
      expect([404, 422], path).toContain((await api.call(token, 'GET', path)).status);
    }
  }
});

describe('a request', () => {
  it('may omit the body when it rotates a key, and must send an object when it changes a profile', async () => {
    const { token } = await api.person('bodies');
    const { id } = (await api.call(token, 'POST', '/api-keys/', { name: 'k' })).body;
    const rotated = await api.call(token, 'POST', `/api-keys/${id}/rotate`);
    expect(rotated.status).toBe(200);
    expect(rotated.headers.get('cache-control')).toBe('no-store');
    expect((await api.call(token, 'POST', `/api-keys/${id}/rotate`, '[]')).status).toBe(422);
    for (const body of ['[]', '"x"', '1', 'null', 'true'])
      expect((await api.call(token, 'PATCH', '/auth/me', body)).status, body).toBe(422);
    expect((await api.call(token, 'PATCH', '/auth/me', '{')).status).toBe(400);
    expect((await api.call(token, 'PATCH', '/auth/me', {})).status).toBe(200);
  });

  it('gets the headers that a browser needs, by HEAD as by GET; a 405 names the allowed methods', async () => {
    const { token, org_id } = await api.person('browser');
    const url = `${api.url}/projects/?org_id=${org_id}`;
    const headers = { authorization: `Bearer ${token}`, origin: 'https://dash.example' };
    const get = await fetch(url, { headers });
    const exposed = get.headers.get('access-control-expose-headers');
    for (const name of ['x-total-count', 'ratelimit', 'retry-after', 'x-svc-position', 'x-svc-stale'])
      expect(exposed).toContain(name);
    const preflight = await fetch(url, {
      method: 'OPTIONS',
      headers: { origin: headers.origin, 'access-control-request-method': 'GET' },
    });
    // Clients send back the position that they have seen.
    expect(preflight.headers.get('access-control-allow-headers')).toContain('x-svc-position');
    const head = await fetch(url, { method: 'HEAD', headers });
    expect([head.status, head.headers.get('x-total-count'), await head.text()]).toEqual([200, '0', '']);
    const put = await fetch(url, { method: 'PUT', headers });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
  });

  it('of a removed member gets nothing from /v1 either, from the next request on', async () => {
    const [owner, guest] = [await api.person('host'), await api.person('guest')];
    await api.join(owner, owner.org_id, guest, 'viewer');
    const report = () =>
      api.call(guest.token, 'GET', `/v1/monitor/experiments/x/report?org_id=${owner.org_id}`);
    const start = () =>
      api.call(guest.token, 'POST', `/v1/monitor/runs?org_id=${owner.org_id}`, { run_id: 'r' });
    expect((await report()).status).toBe(200);
    expect((await start()).status).toBe(403);
    const member = `/organizations/${owner.org_id}/members/${guest.id}`;
    await api.call(owner.token, 'PATCH', member, { role: 'member' });
    expect((await start()).status).toBe(200);
    expect((await api.call(guest.token, 'DELETE', member)).status).toBe(200);
    expect((await report()).status).toBe(404);
    expect((await start()).status).toBe(404);
  });
});

describe('the rate of one user’s requests', () => {
  const api = new ControlPlaneChild({ RATE_LIMIT_PER_SEC: '1', RATE_LIMIT_BURST: '5' });
  beforeAll(() => api.start());
  afterAll(() => api[Symbol.asyncDispose]());

  it('is shared by all tokens of that user, and does not affect other users', async () => {
    const tokens = [await signToken('busy'), await signToken('busy', { expires_in_s: 500 })];
    const startedMs = performance.now();
    const answers: Answer[] = [];
    const limited: Answer[] = [];
    while (limited.length < 7) {
      const more = await Promise.all(
        Array.from({ length: 12 }, (_, at) => api.call(tokens[at % 2]!, 'GET', '/auth/me')),
      );
      answers.push(...more);
      limited.push(...more.filter(({ status }) => status === 429));
    }
    // One try becomes free each second. On a busy machine, a few may become free during the requests.
    const backAtMost = Math.ceil((performance.now() - startedMs) / 1_000);
    const passed = answers.filter(({ status }) => status === 200);
    expect(passed.length + limited.length).toBe(answers.length);
    expect(passed.length).toBeGreaterThanOrEqual(5);
    expect(passed.length).toBeLessThanOrEqual(5 + backAtMost);
    for (const { headers } of limited) expect(headers.get('retry-after')).toBe('1');
    for (const { headers } of answers) {
      expect(headers.get('ratelimit-policy')).toBe('"default";q=5;w=5');
      expect(headers.get('ratelimit')).toMatch(/^"default";r=\d+;t=\d+$/);
    }
    expect((await api.call(await signToken('calm'), 'GET', '/auth/me')).status).toBe(200);
  });
});

describe('several server threads', () => {
  /** Does the work many times at once, on so many connections that each thread serves some. */
  const many = <Value>(work: () => Promise<Value>) => Promise.all(Array.from({ length: 24 }, work));

  it('refuse a revoked key at once', async () => {
    const { token } = await api.person('revoker');
    const key = (await api.call(token, 'POST', '/api-keys/', { name: 'k' })).body;
    const use = async () => (await api.call(key.raw_key, 'GET', '/v1/monitor/experiments/x/report')).status;
    expect(new Set(await many(use))).toEqual(new Set([200]));
    await api.call(token, 'DELETE', `/api-keys/${key.id}`);
    expect(new Set(await many(use))).toEqual(new Set([401]));
  });

  it("show a user's change in bootstrap at once", async () => {
    const { token } = await api.person('changer');
    const names = async () =>
      (await api.call(token, 'GET', '/auth/bootstrap')).body.organizations.map(
        (entry: { name: string }) => entry.name,
      );
    await many(names);
    for (const name of ['second', 'third']) {
      await api.call(token, 'POST', '/organizations/', { name });
      for (const shown of await many(names)) expect(shown).toContain(name);
    }
  });
});

/**
 * Tokens of attackers, with a provider that publishes its keys over a real socket: tokens for another application, of
 * another issuer, with another kind of signature, without required claims, and with another user's address.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type JWTHeaderParameters,
  SignJWT,
  UnsecuredJWT,
} from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliChild, runCli } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';

const ISSUER = 'https://id.example/';
const AUDIENCE = 'understudy';

/** The identity provider signs tokens for all of its applications with the same published keys. */
class Provider {
  readonly rsa = generateKeyPair('RS256', { extractable: true });
  readonly ec = generateKeyPair('ES256', { extractable: true });
  #server: Server | null = null;
  url = '';

  async open(): Promise<void> {
    const keys = [
      { ...(await exportJWK((await this.rsa).publicKey)), kid: 'rsa', use: 'sig' },
      { ...(await exportJWK((await this.ec).publicKey)), kid: 'ec', alg: 'ES256', use: 'sig' },
    ];
    this.#server = createServer((_request, response) => response.end(JSON.stringify({ keys })));
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/keys`;
  }

  /** @param claims undefined removes a usual claim */
  async sign(sub: string, claims: Record<string, unknown> = {}): Promise<string> {
    return new SignJWT(claimsOf(sub, claims))
      .setProtectedHeader({ alg: 'ES256', kid: 'ec' })
      .sign((await this.ec).privateKey);
  }

  close(): void {
    this.#server?.close();
  }
}

function claimsOf(sub: string, claims: Record<string, unknown> = {}): Record<string, unknown> {
  const exp = Math.floor(Date.now() / 1_000) + 600;
  const email = `${sub}@example.com`;
  return { sub, iss: ISSUER, aud: AUDIENCE, exp, email, email_verified: true, ...claims };
}

const provider = new Provider();
beforeAll(() => provider.open());
afterAll(() => provider.close());

describe('a service with an issuer and an audience', () => {
  let api: ControlPlaneChild;
  const status = async (token: string) => (await api.call(token, 'GET', '/auth/me')).status;

  beforeAll(async () => {
    api = new ControlPlaneChild({
      AUTH_JWKS_URL: provider.url,
      AUTH_JWT_ISSUER: ISSUER,
      AUTH_JWT_AUDIENCE: AUDIENCE,
    });
    await api.start();
  });
  afterAll(() => api[Symbol.asyncDispose]());

  it('accepts tokens for its audience, also one that names further audiences', async () => {
    expect(await status(await provider.sign('ann'))).toBe(200);
    expect(await status(await provider.sign('ann', { aud: ['billing', AUDIENCE] }))).toBe(200);
  });

  it.each<[string, Record<string, unknown>]>([
    ['of another application', { aud: 'payroll' }],
    ['of several others', { aud: ['payroll', 'billing'] }],
    ['of an application that only begins alike', { aud: `${AUDIENCE}-staging` }],
    ['for any', { aud: 'any' }],
    ['for no audience', { aud: undefined }],
    ['for an empty list', { aud: [] }],
    ['with an audience that is no text', { aud: { [AUDIENCE]: true } }],
    ['of another issuer', { iss: 'https://evil.example/' }],
    ['of an issuer that lacks the slash', { iss: ISSUER.slice(0, -1) }],
    ['of several issuers', { iss: [ISSUER] }],
    ['without an issuer', { iss: undefined }],
    ['without a subject', { sub: undefined }],
    ['without an end', { exp: undefined }],
    ['with an end that is a text', { exp: '9999999999' }],
    ['that has ended', { exp: Math.floor(Date.now() / 1_000) - 1 }],
    ['that has not begun', { nbf: Math.floor(Date.now() / 1_000) + 600 }],
  ])('refuses a token %s', async (_what, claims) => {
    expect(await status(await provider.sign('ann', claims))).toBe(401);
  });

  it('refuses a token whose algorithm uses the published key as a shared secret', async () => {
    const { publicKey } = await provider.rsa;
    const jwk = await exportJWK(publicKey);
    const pem = await exportSPKI(publicKey);
    const secrets = [pem, pem.trim(), JSON.stringify(jwk), jwk.n!].map((text) => Buffer.from(text));
    secrets.push(Buffer.from(jwk.n!, 'base64url'), Buffer.from('a-secret-that-only-the-tests-know'));
    for (const secret of secrets) {
      for (const alg of ['HS256', 'HS384', 'HS512']) {
        for (const kid of ['rsa', 'ec', undefined]) {
          const header = { alg, ...(kid === undefined ? {} : { kid }) } as JWTHeaderParameters;
          const long = Buffer.concat([secret, Buffer.alloc(Math.max(0, 64 - secret.length))]);
          const token = await new SignJWT(claimsOf('ann'))
            .setProtectedHeader(header)
            .sign(alg === 'HS256' && secret.length >= 32 ? secret : long);
          expect(await status(token), `${alg} ${kid}`).toBe(401);
        }
      }
    }
  });

  it('refuses a token without a signature, and one with another token’s header or claims', async () => {
    const good = await provider.sign('ann');
    const [head, , signature] = good.split('.');
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const mallory = encode(claimsOf('mallory'));
    const none = new UnsecuredJWT(claimsOf('mallory')).encode();
    for (const token of [
      none,
      `${none}${signature}`,
      `${encode({ alg: 'None' })}.${mallory}.`,
      `${encode({ alg: 'nOnE', kid: 'ec' })}.${mallory}.AA`,
      `${head}.${mallory}.${signature}`,
      `${head}.${mallory}.`,
      `${encode({ alg: 'RS256', kid: 'ec' })}.${mallory}.${signature}`,
      // A signature of zeros, which careless ECDSA code accepts for any message.
      `${head}.${mallory}.${Buffer.alloc(64).toString('base64url')}`,
    ]) {
      expect(await status(token), token).toBe(401);
    }
  });

  it('refuses a token signed by a key that it contains or links to', async () => {
    const own = await generateKeyPair('ES256', { extractable: true });
    const jwk = await exportJWK(own.publicKey);
    for (const more of [{ jwk }, { jku: provider.url }, { x5u: provider.url }, { kid: '../../keys' }]) {
      const header = { alg: 'ES256', kid: 'ec', ...more } as JWTHeaderParameters;
      const token = await new SignJWT(claimsOf('ann')).setProtectedHeader(header).sign(own.privateKey);
      expect(await status(token), JSON.stringify(more)).toBe(401);
    }
  });

  describe('an invitation', () => {
    let host: string;
    let org_id: string;
    beforeAll(async () => {
      host = await provider.sign('host');
      await api.call(host, 'GET', '/auth/me');
      org_id = (await api.call(host, 'GET', '/organizations/')).body[0].id;
    });
    const invite = async (email: string) =>
      (await api.call(host, 'POST', `/organizations/${org_id}/invite`, { email })).body.id as string;
    const accept = async (token: string, id: string) =>
      (await api.call(token, 'POST', `/organizations/invitations/${id}/accept`)).status;
    const shown = async (token: string) =>
      (await api.call(token, 'GET', '/auth/bootstrap')).body.invitations as { id: string }[];

    it.each<[string, unknown]>([
      ['missing', undefined],
      ['false', false],
      ['the text "true"', 'true'],
      ['1', 1],
      ['null', null],
      ['a list', [true]],
      ['an object', { value: true }],
    ])('is not shown to, nor accepted by, a user whose email_verified is %s', async (what, claim) => {
      const sub = `thief-${what.replaceAll(/\W/g, '-')}`;
      const email = `victim-of-${sub}@example.com`;
      const id = await invite(email);
      const thief = await provider.sign(sub, { email, email_verified: claim });
      expect(await shown(thief)).toEqual([]);
      expect(await accept(thief, id)).toBe(404);
      // A user who proves the address can still accept the invitation.
      const victim = await provider.sign(`true-${sub}`, { email });
      expect((await shown(victim)).map((row) => row.id)).toEqual([id]);
      expect(await accept(victim, id)).toBe(200);
    });

    it('is not accepted with an unverified address that another user has verified', async () => {
      const id = await invite('boss@example.com');
      const claimed = { email: 'boss@example.com', email_verified: undefined };
      await api.call(await provider.sign('mallory', claimed), 'GET', '/auth/me');
      for (const claims of [
        { email: undefined, email_verified: true },
        { email: 'mallory@example.com', email_verified: true },
        claimed,
      ]) {
        const token = await provider.sign('mallory', claims);
        expect(await shown(token), JSON.stringify(claims)).toEqual([]);
        expect(await accept(token, id), JSON.stringify(claims)).toBe(404);
      }
    });

    it('cannot be accepted by a member of the organization for the invited person', async () => {
      const id = await invite('guest@example.com');
      expect(await accept(host, id)).toBe(404);
      expect(await accept(await provider.sign('guest'), id)).toBe(200);
    });
  });
});

describe('a service that signs its own tokens', () => {
  it('shows a user the invitations to the address in the token', { tags: 'long' }, async () => {
    await using api = new ControlPlaneChild({ AUTH_JWT_SECRET: '' });
    await api.start();
    const tokenOf = async (email: string) => {
      const env = { DATA_DIR: api.dir, AUTH_DB_URL: 'embedded:' };
      return (await runHere(['token', '--email', email], env)).stdout.trim();
    };
    const [host, guest] = [await tokenOf('host@example.com'), await tokenOf('guest@example.com')];
    await api.call(host, 'GET', '/auth/me');
    const [{ id: org_id }] = (await api.call(host, 'GET', '/organizations/')).body;
    const invited = await api.call(host, 'POST', `/organizations/${org_id}/invite`, {
      email: 'guest@example.com',
    });
    const { invitations } = (await api.call(guest, 'GET', '/auth/bootstrap')).body;
    expect(invitations.map(({ id }: { id: string }) => id)).toEqual([invited.body.id]);
    const path = `/organizations/invitations/${invited.body.id}/accept`;
    expect((await api.call(guest, 'POST', path)).status).toBe(200);
  });
});

describe('a start with published keys', () => {
  const claims = { AUTH_JWT_ISSUER: ISSUER, AUTH_JWT_AUDIENCE: AUDIENCE };
  const env = (more: Record<string, string>) => ({
    PORT: '0',
    GW_PORT: '0',
    AUTH_JWKS_URL: provider.url,
    ...claims,
    ...more,
  });

  it.each(['AUTH_JWT_ISSUER', 'AUTH_JWT_AUDIENCE'])('is refused without %s', async (name) => {
    const run = name === 'AUTH_JWT_ISSUER' ? runCli : runHere;
    const { code, stdout, stderr } = await run(['up'], env({ [name]: '' }));
    expect({ code, stdout }).toEqual({ code: 78, stdout: '' });
    expect(stderr).toMatch(new RegExp(`^understudy: ${name}="": AUTH_JWKS_URL is set: set ${name} .+\n$`));
  });

  it('warns that any audience is accepted; another issuer is still refused', { tags: 'long' }, async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'understudy-any-'));
    try {
      await using child = new CliChild(['serve'], {
        env: env({ AUTH_DB_URL: 'embedded:', AUTH_JWT_AUDIENCE: 'any', LOG_LEVEL: 'silent', DATA_DIR }),
      });
      const [url] = await child.waitForOutput(/http:\/\/[\d.]+:\d+/);
      const me = async (token: string) =>
        (await fetch(`${url}/auth/me`, { headers: { authorization: `Bearer ${token}` } })).status;
      expect(await me(await provider.sign('ann', { aud: 'payroll' }))).toBe(200);
      expect(await me(await provider.sign('ann', { iss: 'https://evil.example/' }))).toBe(401);
      child.process.kill('SIGTERM');
      const { code, stderr } = await child.ended;
      expect(code).toBe(0);
      expect(stderr).toMatch(/^warning: AUTH_JWT_AUDIENCE=any: .+ any other application sign in here/m);
      expect(stderr).not.toContain('AUTH_JWT_ISSUER');
    } finally {
      rmSync(DATA_DIR, { recursive: true });
    }
  });
});

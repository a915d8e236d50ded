/** Credentials without a server: static keys, per-customer keys, tokens, and what is refused. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { hashApiKey, isApiKey, makeApiKey } from '../../src/auth/api-key.ts';
import { ApiKeys } from '../../src/auth/api-keys.ts';
import { Authenticator } from '../../src/auth/authenticator.ts';
import { loadEmbeddedSecret } from '../../src/auth/embedded-secret.ts';
import { StoredKeys } from '../../src/auth/key-store.ts';
import type { UserPrincipal } from '../../src/auth/principal.ts';
import { Revocations } from '../../src/auth/revocations.ts';
import { StaticKeys } from '../../src/auth/static-keys.ts';
import { UserTokens } from '../../src/auth/user-tokens.ts';
import type { Clock } from '../../src/std/clock.ts';
import { TableAccounts } from '../../src/storage/accounts/table-accounts.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';
import type { Accounts } from '../../src/storage/ports/accounts.ts';
import type { KeyRecord, KeyWork } from '../../src/storage/ports/keys.ts';
import type { Tables } from '../../src/storage/tables.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

/** A clock that changes only when the test moves it. */
class SetClock implements Clock {
  now_ms = Date.now();
  /** How far the wall clock was set forward or back. */
  wall_jump_ms = 0;
  wallMs(): number {
    return this.now_ms + this.wall_jump_ms;
  }
  monotonicMs(): number {
    return this.now_ms;
  }
}

const unauthenticated = expect.objectContaining({ code: 'unauthenticated', status: 401 });

describe('the Authorization header', () => {
  const authenticator = new Authenticator([
    new StaticKeys(['one', 'two-keys', 'svc_live_odd', 'p@ss(word)?{"\\;']),
  ]);
  const authenticate = async (header: string | undefined) => authenticator.authenticate(header);

  it('accepts a static key, with the scheme in any case', async () => {
    const odd = 'Bearer p@ss(word)?{"\\;';
    for (const header of ['Bearer one', 'bearer two-keys', 'BEARER  svc_live_odd ', odd]) {
      expect(await authenticate(header)).toMatchObject({
        type: 'static',
        id: expect.stringMatching(/^static:/),
      });
    }
    expect((await authenticate('Bearer one')).id).not.toBe((await authenticate('Bearer two-keys')).id);
    expect(JSON.stringify(await authenticate('Bearer two-keys'))).not.toContain('two-keys');
  });

  it.each([
    undefined,
    '',
    'one',
    'Bearer',
    'Bearer ',
    'Bearer One',
    'Bearer one, Bearer one',
    'Bearer one two',
    'Basic b25lOg==',
    'Token one',
    `Bearer ${'x'.repeat(10_000)}`,
    'Bearer on\u00e9',
    'Bearer svc_live_000000000000000000000000000000000000',
  ])('refuses %j', async (header) => {
    await expect(authenticate(header)).rejects.toEqual(unauthenticated);
  });

  it('with any token is refused if no keys are configured', async () => {
    const empty = new Authenticator([new StaticKeys([])]);
    await expect(async () => empty.authenticate('Bearer one')).rejects.toEqual(unauthenticated);
  });
});

describe('a key as text', () => {
  it('has the documented form, is found by its hash, and reveals a typing error', () => {
    const seen = new Set<string>();
    for (const mode of ['live', 'test'] as const) {
      for (let round = 0; round < 200; round++) {
        const { raw, hash, prefix, last4 } = makeApiKey(mode);
        expect(raw).toMatch(new RegExp(`^svc_${mode}_[0-9A-Za-z]{36}$`));
        expect(isApiKey(raw)).toBe(true);
        expect({ hash, prefix, last4 }).toEqual({
          hash: hashApiKey(raw),
          prefix: raw.slice(0, 12),
          last4: raw.slice(-4),
        });
        seen.add(raw);
        const at = 9 + (round % 36);
        const typo = raw.slice(0, at) + (raw[at] === 'a' ? 'b' : 'a') + raw.slice(at + 1);
        expect(isApiKey(typo)).toBe(false);
      }
    }
    expect(seen.size).toBe(400);
    for (const text of ['', 'svc_live_', `svc_prod_${'0'.repeat(36)}`, `svc_live_${'0'.repeat(36)}`]) {
      expect(isApiKey(text), text).toBe(false);
    }
  });
});

describe.each(['memory', 'lmdb'])('per-customer keys in %s', (kind) => {
  let folder = '';
  let tables: Tables;
  let accounts: Accounts;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'keys-'));
    tables = kind === 'memory' ? new MemoryTables() : new LmdbTables(join(folder, 'main.mdb'), 'disk');
    accounts = new TableAccounts(tables);
  });
  afterAll(async () => {
    await tables.close();
    rmSync(folder, { recursive: true });
  });

  const end = (id: string, how: Parameters<KeyWork['end']>[1]) =>
    accounts.transact(({ keys }) => keys.end(id, how));

  async function setUp(parts: Partial<KeyRecord> = {}) {
    const clock = new SetClock();
    const store = new StoredKeys(accounts);
    const memory = Revocations.allocate();
    const [revocations, elsewhere] = [new Revocations(memory), new Revocations(memory)];
    const { raw, ...made } = makeApiKey('live');
    const record: KeyRecord = {
      id: `key_${made.hash.slice(0, 26)}`,
      org_id: 'acme',
      project_id: null,
      name: 'ci',
      created_by: null,
      created_at: new Date(clock.now_ms).toISOString(),
      expires_at: null,
      revoked_at: null,
      ...made,
      ...parts,
    };
    await accounts.transact(({ keys }) => keys.insert(record));
    return { clock, store, raw, record, elsewhere, keys: new ApiKeys(store, revocations, clock) };
  }

  it('have their scope, and no other text is accepted in place of the key', async () => {
    const { keys, raw, record } = await setUp({ project_id: 'p1' });
    expect(keys.verify(raw)).toEqual({ type: 'key', id: record.id, org_id: 'acme', project_id: 'p1' });
    expect(keys.verify(raw)).toEqual(keys.verify(raw));
    expect(keys.verify(makeApiKey('live').raw)).toBeNull();
    expect(keys.verify(raw.toUpperCase())).toBeNull();
    expect(keys.verify(record.hash)).toBeNull();
  });

  it('fail at once in every thread of the process that revoked them', async () => {
    const { keys, raw, record, elsewhere } = await setUp();
    expect(keys.verify(raw)).not.toBeNull();
    await end(record.id, { revoked_at: new Date().toISOString() });
    elsewhere.announce('acme');
    expect(keys.verify(raw)).toBeNull();
  });

  it('fail within a minute after another process revoked them', async () => {
    const { keys, raw, record, clock } = await setUp();
    expect(keys.verify(raw)).not.toBeNull();
    await end(record.id, { revoked_at: new Date().toISOString() });
    clock.now_ms += 60_000;
    expect(keys.verify(raw)).toBeNull();
  });

  it('fail within a minute after another process revoked them, also if the clock is set back', async () => {
    const { keys, raw, record, clock } = await setUp();
    expect(keys.verify(raw)).not.toBeNull();
    await end(record.id, { revoked_at: new Date().toISOString() });
    clock.wall_jump_ms = -3_600_000;
    clock.now_ms += 60_000;
    expect(keys.verify(raw)).toBeNull();
  });

  it('are valid until the end of a rotation and not longer, even if they are cached', async () => {
    const { keys, raw, record, clock } = await setUp();
    await end(record.id, { expires_at: new Date(clock.now_ms + 5_000).toISOString() });
    expect(keys.verify(raw)).not.toBeNull();
    clock.now_ms += 4_999;
    expect(keys.verify(raw)).not.toBeNull();
    clock.now_ms += 1;
    expect(keys.verify(raw)).toBeNull();
  });

  it('stay revoked, and are listed', async () => {
    const { record } = await setUp({ org_id: `org-${kind}` });
    const first = await end(record.id, { revoked_at: '2026-01-01T00:00:00.000Z' });
    expect(await end(record.id, { expires_at: '2030-01-01T00:00:00.000Z' })).toEqual(first);
    expect([...accounts.keys.listAll(`org-${kind}`)]).toEqual([first]);
    expect([...accounts.keys.listAll('org')]).toEqual([]);
    expect(await end('key_none', { revoked_at: '2026-01-01T00:00:00.000Z' })).toBeNull();
  });

  it('record their use at most once a minute', async () => {
    const { keys, raw, record, store, clock } = await setUp();
    const writes: number[] = [];
    const counting = {
      findByHash: (hash: string) => store.findByHash(hash),
      touch: async (id: string, nowMs: number) => {
        writes.push(nowMs);
        await store.touch(id, nowMs);
      },
    };
    const counted = new ApiKeys(counting, new Revocations(Revocations.allocate()), clock);
    const startMs = clock.now_ms;
    for (let second = 0; second < 130; second++) {
      counted.verify(raw);
      clock.now_ms += 1_000;
    }
    expect(writes.map((ms) => ms - startMs).length).toBeLessThanOrEqual(5);
    await store.touch(record.id, startMs);
    const noted = accounts.keys.lastUseOf(record.id);
    await store.touch(record.id, Date.parse(noted!) + 59_999);
    expect(accounts.keys.lastUseOf(record.id)).toBe(noted);
    await store.touch(record.id, Date.parse(noted!) + 60_000);
    expect(accounts.keys.lastUseOf(record.id)).not.toBe(noted);
    expect(keys.verify(raw)).not.toBeNull();
  });

  it('record their use also when the clock is set back', async () => {
    const { keys, raw, record, clock } = await setUp();
    for (const jump of [0, 86_400_000, -3_600_000]) {
      clock.wall_jump_ms = jump;
      expect(keys.verify(raw)).not.toBeNull();
      await vi.waitFor(
        () => expect(accounts.keys.lastUseOf(record.id)).toBe(new Date(clock.wallMs()).toISOString()),
        PATIENCE_MS,
      );
    }
  });

  it('are stored only as a hash', async () => {
    const { raw, record } = await setUp();
    expect(JSON.stringify(accounts.keys.find(record.id))).not.toContain(raw.slice(12, -4));
  });
});

describe('per-customer keys while the store fails', () => {
  it('get a retryable error, not a refusal', () => {
    const store = {
      findByHash: () => {
        throw new Error('disk gone');
      },
      touch: async () => {},
    };
    const keys = new ApiKeys(store, new Revocations(Revocations.allocate()));
    expect(() => keys.verify(makeApiKey('live').raw)).toThrow(
      expect.objectContaining({ code: 'unavailable' }),
    );
  });
});

const SECRET = 'a secret with ümlauts';
const secretBytes = Buffer.from(SECRET, 'utf8');
const inAnHour = () => Math.floor(Date.now() / 1000) + 3_600;

function sign(claims: JWTPayload, key: Parameters<SignJWT['sign']>[0] = secretBytes, header: object = {}) {
  return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', ...header }).sign(key);
}

function tokens(parts: Partial<ConstructorParameters<typeof UserTokens>[0]> = {}, clock?: Clock) {
  const options = { trust: { secret: SECRET }, issuer: null, audience: null, ...parts };
  return new UserTokens(options, new Revocations(Revocations.allocate()), clock);
}

describe('tokens signed with a secret', () => {
  it('identify the user', async () => {
    const token = await sign({
      sub: 'u1',
      exp: inAnHour(),
      iss: 'i',
      email: 'a@b.co',
      name: 'A',
      email_verified: false,
    });
    const principal = (await tokens().verify(token)) as UserPrincipal;
    expect(principal).toEqual({
      type: 'user',
      id: expect.stringMatching(/^user:[0-9a-f]{32}$/),
      identity: {
        issuer: 'i',
        subject: 'u1',
        email: 'a@b.co',
        name: 'A',
        email_verified: false,
        issued_at_s: null,
      },
    });
    const other = (await tokens().verify(
      await sign({ sub: 'u1', exp: inAnHour(), iss: 'j' }),
    )) as UserPrincipal;
    expect(other.id).not.toBe(principal.id);
    expect(other.identity).toMatchObject({ email: null, email_verified: false });
  });

  it.each([
    ['true', true, true],
    ['the text "true"', 'true', false],
    ['1', 1, false],
    ['a list', [true], false],
    ['null', null, false],
    ['nothing', undefined, false],
  ])('prove their address with the claim %s: %#', async (_what, email_verified, isProven) => {
    const token = await sign({ sub: 'u1', exp: inAnHour(), email: 'a@b.co', email_verified });
    expect(await tokens().verify(token)).toMatchObject({ identity: { email_verified: isProven } });
  });

  it.each<[string, () => Promise<string> | string]>([
    ['no sub', () => sign({ exp: inAnHour() })],
    ['an empty sub', () => sign({ sub: '', exp: inAnHour() })],
    ['a long sub', () => sign({ sub: 'x'.repeat(256), exp: inAnHour() })],
    ['no exp', () => sign({ sub: 'u' })],
    ['a past exp', () => sign({ sub: 'u', exp: Math.floor(Date.now() / 1000) - 1 })],
    ['an nbf to come', () => sign({ sub: 'u', exp: inAnHour(), nbf: inAnHour() })],
    ['another secret', () => sign({ sub: 'u', exp: inAnHour() }, Buffer.from('another'))],
    ['no signature', () => new UnsecuredJWT({ sub: 'u', exp: inAnHour() }).encode()],
    ['another algorithm', () => sign({ sub: 'u', exp: inAnHour() }, secretBytes, { alg: 'HS384' })],
    ['a damaged header', () => sign({ sub: 'u', exp: inAnHour() }).then((token) => `x${token}`)],
    ['no JSON', () => 'a.b.c'],
    ['two parts', () => 'a.b'],
  ])('are refused with %s', async (_why, make) => {
    expect(await tokens().verify(await make())).toBeNull();
  });

  it('must name the configured issuer and audience', async () => {
    const strict = tokens({ issuer: 'https://id', audience: 'us' });
    const claims = { sub: 'u', exp: inAnHour() };
    expect(
      await strict.verify(await sign({ ...claims, iss: 'https://id', aud: ['them', 'us'] })),
    ).not.toBeNull();
    expect(await strict.verify(await sign({ ...claims, iss: 'https://id', aud: 'them' }))).toBeNull();
    expect(await strict.verify(await sign({ ...claims, iss: 'https://evil', aud: 'us' }))).toBeNull();
    expect(await strict.verify(await sign(claims))).toBeNull();
  });

  it('end at their expiry, also when cached', async () => {
    const clock = new SetClock();
    const verifier = tokens({}, clock);
    const token = await sign({ sub: 'u', exp: Math.floor(clock.now_ms / 1000) + 10 });
    expect(await verifier.verify(token)).not.toBeNull();
    clock.now_ms += 10_001;
    expect(await verifier.verify(token)).toBeNull();
  });

  it('end by the wall clock, also when it jumps', async () => {
    const clock = new SetClock();
    const verifier = tokens({}, clock);
    const token = await sign({ sub: 'u', exp: Math.floor(clock.now_ms / 1000) + 600 });
    expect(await verifier.verify(token)).not.toBeNull();
    clock.wall_jump_ms = 86_400_000;
    expect(await verifier.verify(token)).toBeNull();
    clock.wall_jump_ms = 0;
    expect(await verifier.verify(token)).not.toBeNull();
  });
});

describe('tokens of a provider that publishes its keys', async () => {
  const [rsa, ec, stranger] = await Promise.all([
    generateKeyPair('RS256', { extractable: true }),
    generateKeyPair('ES256'),
    generateKeyPair('ES256'),
  ]);
  const published = {
    keys: [
      { ...(await exportJWK(rsa.publicKey)), kid: 'rsa', alg: 'RS256' },
      { ...(await exportJWK(ec.publicKey)), kid: 'ec', alg: 'ES256' },
    ],
  };
  let server: Server;
  let asked = 0;
  let answer: { status: number; body: string };
  const claims = { sub: 'u', exp: inAnHour() };
  const verifier = (clock?: Clock) => {
    const { port } = server.address() as AddressInfo;
    return tokens({ trust: { jwks_url: `http://127.0.0.1:${port}/keys` } }, clock);
  };

  beforeAll(async () => {
    server = createServer((_request, response) => {
      asked++;
      response.writeHead(answer.status).end(answer.body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => void server.close());

  const publish = (status = 200, body: unknown = published) => {
    asked = 0;
    answer = { status, body: typeof body === 'string' ? body : JSON.stringify(body) };
  };

  it('are verified by the key that they name; one request fetches all keys', async () => {
    publish();
    const keys = verifier();
    for (const [key, alg, kid] of [
      [rsa.privateKey, 'RS256', 'rsa'],
      [ec.privateKey, 'ES256', 'ec'],
    ] as const) {
      expect(await keys.verify(await sign(claims, key, { alg, kid }))).toMatchObject({ type: 'user' });
    }
    expect(asked).toBe(1);
  });

  it('never choose how they are verified', async () => {
    publish();
    const keys = verifier();
    const asSecret = Buffer.from(JSON.stringify(published.keys[0]));
    expect(await keys.verify(await sign(claims, asSecret, { kid: 'rsa' }))).toBeNull();
    expect(await keys.verify(new UnsecuredJWT(claims).encode())).toBeNull();
    expect(
      await keys.verify(await sign(claims, stranger.privateKey, { alg: 'ES256', kid: 'ec' })),
    ).toBeNull();
    // A key that the token contains or refers to is not trusted.
    const own = { alg: 'ES256', jwk: await exportJWK(stranger.publicKey), jku: 'http://127.0.0.1:9/' };
    expect(await keys.verify(await sign(claims, stranger.privateKey, { ...own, kid: 'ec' }))).toBeNull();
    expect(asked).toBe(1);
  });

  it('with unknown keys do not cause repeated requests to the provider', async () => {
    publish();
    const keys = verifier();
    for (let at = 0; at < 20; at++) {
      const token = await sign(claims, stranger.privateKey, { alg: 'ES256', kid: `k${at}` });
      expect(await keys.verify(token)).toBeNull();
    }
    expect(asked).toBe(1);
  });

  it.each([
    ['an error', 500, ''],
    ['a redirect', 302, ''],
    ['no JSON', 200, 'keys'],
    ['no keys', 200, '{}'],
    ['far too much', 200, `{"keys":[],"x":"${'x'.repeat(1_100_000)}"}`],
  ])('cannot be judged while the provider answers %s', async (_what, status, body) => {
    publish(status, body);
    // This clock stands still.
    const keys = verifier(new SetClock());
    const token = await sign(claims, ec.privateKey, { alg: 'ES256', kid: 'ec' });
    for (let round = 0; round < 5; round++) {
      await expect(keys.verify(token)).rejects.toMatchObject({ code: 'unavailable', status: 503 });
    }
    expect(asked).toBeLessThanOrEqual(5);
    expect(status === 200 || asked === 1).toBe(true);
  });

  it('are verified by a key that was published later, after the next fetch', async () => {
    publish(200, { keys: [published.keys[0]] });
    vi.useFakeTimers({ toFake: ['Date'] });
    try {
      const clock = new SetClock();
      const keys = verifier(clock);
      const advance = (ms: number) => {
        clock.now_ms += ms;
        vi.setSystemTime(clock.now_ms);
      };
      const token = await sign(claims, ec.privateKey, { alg: 'ES256', kid: 'ec' });
      expect(await keys.verify(token)).toBeNull();
      publish();
      // The provider is not asked again so soon, because anyone can send tokens with unknown keys.
      expect(await keys.verify(token)).toBeNull();
      expect(asked).toBe(0);
      advance(31_000);
      expect(await keys.verify(token)).toMatchObject({ type: 'user' });
      expect(asked).toBe(1);
      // The old key is withdrawn. It stays valid until the keys are fetched again, ten minutes later at most.
      publish(200, { keys: [published.keys[1]] });
      advance(601_000);
      await keys.verify(await sign({ ...claims, n: 1 }, ec.privateKey, { alg: 'ES256', kid: 'ec' }));
      await vi.waitFor(async () => {
        expect(asked).toBe(1);
        const old = await sign({ ...claims, n: asked }, rsa.privateKey, { alg: 'RS256', kid: 'rsa' });
        expect(await keys.verify(old)).toBeNull();
      }, PATIENCE_MS);
    } finally {
      vi.useRealTimers();
    }
  });

  it('are verified again once the provider is back, also if the clock was set back meanwhile', async () => {
    publish(500, '');
    const clock = new SetClock();
    const keys = verifier(clock);
    const token = await sign(claims, ec.privateKey, { alg: 'ES256', kid: 'ec' });
    await expect(keys.verify(token)).rejects.toMatchObject({ code: 'unavailable' });
    publish();
    clock.wall_jump_ms = -3_600_000;
    clock.now_ms += 2_000;
    expect(await keys.verify(token)).toMatchObject({ type: 'user' });
  });

  it('are verified by the known keys while the provider is down', async () => {
    publish();
    const clock = new SetClock();
    const keys = verifier(clock);
    const exp = Math.floor(clock.now_ms / 1000) + 86_400;
    const token = await sign({ sub: 'u', exp }, ec.privateKey, { alg: 'ES256', kid: 'ec' });
    expect(await keys.verify(token)).not.toBeNull();
    publish(500, '');
    clock.now_ms += 3_600_000;
    expect(await keys.verify(token)).not.toBeNull();
  });
});

describe('the embedded secret', () => {
  it('is created once, stored with mode 0600, and not replaced if it is damaged', () => {
    const folder = mkdtempSync(join(tmpdir(), 'secret-'));
    try {
      const secret = loadEmbeddedSecret(folder);
      expect(Buffer.from(secret, 'base64url')).toHaveLength(32);
      expect(loadEmbeddedSecret(folder)).toBe(secret);
      const file = join(folder, 'secrets', 'jwt-secret');
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(readdirSync(join(folder, 'secrets'))).toEqual(['jwt-secret']);
      writeFileSync(file, 'short');
      expect(() => loadEmbeddedSecret(folder)).toThrow(/256 bits/);
      mkdirSync(join(folder, 'other'));
      expect(loadEmbeddedSecret(join(folder, 'other'))).not.toBe(secret);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

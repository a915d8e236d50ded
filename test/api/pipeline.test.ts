/** The checks before a handler: their order, whose data a request reaches, and what hostile requests get. */

import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createApi } from '../../src/api/api.ts';
import { type ApiDispatch, compileDispatch } from '../../src/api/dispatch.ts';
import { type Checks, guard } from '../../src/api/pipeline.ts';
import { RateHeaders } from '../../src/api/rate-limiter.ts';
import { Authenticator } from '../../src/auth/authenticator.ts';
import type { Membership } from '../../src/auth/membership.ts';
import type { Principal } from '../../src/auth/principal.ts';
import { endpoint } from '../../src/contract/endpoint.ts';
import {
  flag,
  freeObject,
  identifier,
  integer,
  list,
  literal,
  pageFields,
  text,
} from '../../src/contract/fields.ts';
import { bind, type HandlersOf } from '../../src/contract/handler.ts';
import { valueViolation } from '../../src/contract/violation.ts';
import { CatalogueError } from '../../src/errors.ts';
import { JSON_BOUNDS } from '../../src/http/json-body.ts';
import { apiServices } from '../fixtures/api-services.ts';
import { checkReply } from './check-reply.ts';

const echoBody = z.object({
  tenant: z.object({
    org_id: z.string(),
    project_id: z.string().nullable(),
    actor: z.object({ type: z.string(), id: z.string() }),
  }),
  query: z.looseObject({}),
  body: z.looseObject({}).nullable(),
});
const ok = { 200: { description: 'What came in', schema: echoBody } };

const NOTES = {
  writeNote: endpoint({
    id: 'write_note',
    method: 'POST',
    path: '/v1/notes/{note_id}',
    auth: 'bearer',
    summary: 'Write a note',
    tag: 'notes',
    params: z.object({ note_id: identifier() }),
    body: z.object({
      title: text({ min: 1, max: 10 }),
      index: integer({ ge: 0 }).default(0),
      is_error: flag().default(false),
      tier: literal(['e1', 'e2']).nullish(),
      tags: list(text({ max: 5 }), { max: 3 }).default([]),
      metadata: freeObject().optional(),
    }),
    replies: ok,
  }),
  searchNotes: endpoint({
    id: 'search_notes',
    method: 'POST',
    path: '/v1/notes/search',
    auth: 'bearer',
    writes: false,
    summary: 'Search notes',
    tag: 'notes',
    body: z.strictObject({ words: text({ max: 10 }) }),
    replies: ok,
  }),
  listNotes: endpoint({
    id: 'list_notes',
    method: 'GET',
    path: '/v1/notes',
    auth: 'bearer',
    summary: 'Notes',
    tag: 'notes',
    query: z.object(pageFields()),
    replies: ok,
  }),
  deleteNote: endpoint({
    id: 'delete_note',
    method: 'DELETE',
    path: '/v1/notes/{note_id}',
    auth: 'bearer',
    summary: 'Delete a note',
    tag: 'notes',
    params: z.object({ note_id: identifier() }),
    replies: { 204: { description: 'Gone' } },
  }),
};

const handlers: HandlersOf<typeof NOTES> = {
  writeNote: ({ tenant, query, body }) => {
    if (body.title === 'conflict') throw new CatalogueError('conflict', 'There is one');
    if (body.title === 'profile') throw valueViolation(['body', 'title'], 'no such profile', body.title);
    if (body.title === 'broken') throw new TypeError('a secret of ours');
    return { body: { tenant, query, body } };
  },
  searchNotes: async ({ tenant, query, body }) => ({ json: JSON.stringify({ tenant, query, body }) }),
  listNotes: ({ tenant, query }) => ({
    body: { tenant, query, body: null },
    headers: [['x-total-count', '0']],
  }),
  deleteNote: () => ({ status: 204 }),
};

const PRINCIPALS: Record<string, Principal> = {
  operator: { type: 'static', id: 'static:1' },
  org: { type: 'key', id: 'key_org', org_id: 'acme', project_id: null },
  project: { type: 'key', id: 'key_project', org_id: 'acme', project_id: 'p1' },
  ...Object.fromEntries(
    ['member', 'viewer', 'stranger'].map((name) => [
      name,
      {
        type: 'user',
        id: `user:${name}`,
        identity: { issuer: '', subject: name, email: null, name: null, email_verified: true },
      } as const,
    ]),
  ),
};
const MEMBERSHIPS: Record<string, Membership> = {
  member: { user_id: 'usr_1', role: 'member' },
  viewer: { user_id: 'usr_2', role: 'viewer' },
};

/**
 * Checks that take the name of a principal as its credential. @param limited the principals that are over their rate
 */
function createChecks(limited: readonly string[] = []): Checks {
  return {
    authenticator: new Authenticator([{ verify: (token) => PRINCIPALS[token] ?? null }]),
    limiter: {
      take: (key) => {
        const limit = { rate_per_s: 200, burst: 400 };
        const outcome = { allowed: !limited.includes(key), remaining: 7, reset_s: 2, limit };
        // A limiter may answer with a promise or at once.
        return key.startsWith('static') ? Promise.resolve(outcome) : outcome;
      },
    },
    rate_headers: new RateHeaders(),
    memberships: {
      roleOf: async ({ subject }, org_id) => (org_id === 'acme' ? (MEMBERSHIPS[subject] ?? null) : null),
    },
  };
}

interface Sent {
  as?: string | null;
  query?: string;
  body?: unknown;
  bytes?: Uint8Array;
  headers?: Record<string, string>;
  oversized?: boolean;
}

function createCaller(checks = createChecks(), reported: unknown[] = []) {
  const routes = bind(NOTES, handlers).map((bound) => guard(bound, checks));
  const dispatch = compileDispatch(routes, { report: (error) => void reported.push(error.cause) });
  return caller(dispatch);
}

function caller(dispatch: ApiDispatch) {
  return async (method: string, path: string, sent: Sent = {}) => {
    const { as = 'org', query = '', body, bytes, headers = {}, oversized = false } = sent;
    const all = new Map(Object.entries({ 'content-type': 'application/json', ...headers }));
    if (as !== null) all.set('authorization', `Bearer ${as}`);
    const raw = bytes ?? Buffer.from(body === undefined ? '' : JSON.stringify(body));
    const reply = await dispatch({ method, path, query, headers: all, body: raw, address: '::1', oversized });
    const text = reply.body.toString();
    return {
      status: reply.status,
      headers: Object.fromEntries(reply.headers),
      json:
        text === ''
          ? undefined
          : (JSON.parse(text) as { detail?: unknown; tenant?: unknown; body?: unknown }),
      reply,
    };
  };
}

const call = createCaller();
const note = (name: string) => `/v1/notes/${name}`;

describe('the order of checks', () => {
  const limited = createCaller(createChecks(['key_org', 'static:1']));
  const notJson = Buffer.from('{');

  it.each([
    [413, { oversized: true, as: null }],
    [401, { as: null, bytes: notJson }],
    [401, { as: 'anonymous', bytes: notJson }],
    [400, { bytes: notJson }],
    [422, { as: 'stranger', query: 'org_id=acme', body: {} }],
    [404, { as: 'stranger', query: 'org_id=acme', body: { title: 'a' } }],
    [403, { as: 'viewer', query: 'org_id=acme', body: { title: 'conflict' } }],
    [409, { as: 'member', query: 'org_id=acme', body: { title: 'conflict' } }],
    [422, { body: { title: 'profile' } }],
    [200, { body: { title: 'a' } }],
  ] as const)('%i for %j', async (status, sent) => {
    expect((await call('POST', note('n'), sent)).status).toBe(status);
  });

  it('counts a request before validation, after authentication', async () => {
    for (const as of ['org', 'operator']) {
      const refused = await limited('POST', note('n'), { as, bytes: notJson });
      expect(refused).toMatchObject({ status: 429, json: { detail: 'Too many requests' } });
      expect(refused.headers).toMatchObject({
        'retry-after': '1',
        ratelimit: '"default";r=7;t=2',
        'ratelimit-policy': '"default";q=400;w=2',
      });
    }
    expect((await limited('POST', note('n'), { as: 'anonymous', bytes: notJson })).status).toBe(401);
  });

  it('puts the rate into every answer of a limited route but a 401, which has the scheme', async () => {
    for (const sent of [{ body: { title: 'a' } }, { body: {} }, { bytes: notJson }]) {
      expect((await call('POST', note('n'), sent)).headers).toMatchObject({ ratelimit: '"default";r=7;t=2' });
    }
    const { headers } = await call('POST', note('n'), { as: null });
    expect(headers).toMatchObject({ 'www-authenticate': 'Bearer' });
    expect(headers).not.toHaveProperty('ratelimit');
  });

  it('hides internal failures, and logs them', async () => {
    const reported: unknown[] = [];
    const { status, json } = await createCaller(createChecks(), reported)('POST', note('n'), {
      body: { title: 'broken' },
    });
    expect({ status, json }).toEqual({ status: 500, json: { detail: 'Internal Server Error' } });
    expect(reported).toMatchObject([{ message: 'a secret of ours' }]);
  });

  it('answers as the endpoints declare', async () => {
    checkReply(NOTES.writeNote, (await call('POST', note('n'), { body: { title: 'a' } })).reply);
    checkReply(NOTES.searchNotes, (await call('POST', note('search'), { body: { words: 'a' } })).reply);
    checkReply(NOTES.listNotes, (await call('GET', '/v1/notes')).reply);
    checkReply(NOTES.deleteNote, (await call('DELETE', note('n'))).reply);
    checkReply(NOTES.writeNote, (await call('POST', note('n'), { body: {} })).reply);
  });

  it('limits failed authentications by address if that is configured', async () => {
    const seen: string[] = [];
    const checks: Checks = {
      ...createChecks(),
      failed_sign_ins: {
        take: (address) => {
          seen.push(address);
          return seen.length < 2;
        },
      },
    };
    const guarded = createCaller(checks);
    expect((await guarded('GET', '/v1/notes', { as: 'anonymous' })).status).toBe(401);
    expect((await guarded('GET', '/v1/notes', { as: null })).status).toBe(429);
    expect((await guarded('GET', '/v1/notes')).status).toBe(200);
    expect(seen).toEqual(['::1', '::1']);
  });
});

describe('the tenant of a request', () => {
  const tenantOf = async (sent: Sent, method = 'POST', path = note('n')) =>
    (await call(method, path, { ...(method === 'POST' ? { body: { title: 'a' } } : {}), ...sent })).json
      ?.tenant;

  it('is the scope of a key, whatever the request names', async () => {
    const named = {
      query: 'org_id=other&project_id=p2',
      body: { title: 'a', org_id: 'other', project_id: 'p2' },
    };
    expect(await tenantOf({ as: 'project', ...named })).toEqual({
      org_id: 'acme',
      project_id: 'p1',
      actor: { type: 'key', id: 'key_project' },
    });
    expect(await tenantOf({ as: 'org', ...named })).toMatchObject({ org_id: 'acme', project_id: null });
    expect(await tenantOf({ as: 'org', body: { title: 'a', org_id: 5 } })).toMatchObject({ org_id: 'acme' });
  });

  it('is what a static key names in the body, or without a body in the query; else the default', async () => {
    const as = 'operator';
    const inBody = { title: 'a', org_id: 'one', project_id: 'p' };
    expect(await tenantOf({ as, body: inBody, query: 'org_id=two' })).toMatchObject({
      org_id: 'one',
      project_id: 'p',
    });
    expect(await tenantOf({ as, query: 'org_id=two' })).toMatchObject({
      org_id: 'default',
      project_id: null,
    });
    expect(await tenantOf({ as, query: 'org_id=two' }, 'GET', '/v1/notes')).toMatchObject({ org_id: 'two' });
    expect(await tenantOf({ as }, 'GET', '/v1/notes')).toMatchObject({ org_id: 'default' });
    expect(await tenantOf({ as, body: { title: 'a', org_id: null } })).toMatchObject({ org_id: 'default' });
  });

  it.each(['', 'a\u0000', 'x'.repeat(129), 5, '\ud800', '\u202eevil', []])(
    'is never an organization with the invalid name %j',
    async (org_id) => {
      const { status, json } = await call('POST', note('n'), {
        as: 'operator',
        body: { title: 'a', org_id },
      });
      expect(status).toBe(422);
      expect(json?.detail).toMatchObject([{ loc: ['body', 'org_id'] }]);
    },
  );

  it('is refused if the query names an invalid organization, although the body decides', async () => {
    const query = `org_id=${'x'.repeat(129)}`;
    const { status, json } = await call('POST', note('n'), { as: 'operator', body: { title: 'a' }, query });
    expect(status).toBe(422);
    expect(json?.detail).toMatchObject([{ loc: ['query', 'org_id'] }]);
  });

  it("is what a user's token names in the query, if the user is a member", async () => {
    expect(await tenantOf({ as: 'member', query: 'org_id=acme&project_id=p9' })).toEqual({
      org_id: 'acme',
      project_id: 'p9',
      actor: { type: 'user', id: 'usr_1' },
    });
    const unnamed = await call('GET', '/v1/notes', { as: 'member' });
    expect(unnamed.json).toEqual({
      detail: [{ type: 'missing', loc: ['query', 'org_id'], msg: 'Field required', input: null }],
    });
    expect((await call('GET', '/v1/notes', { as: 'member', query: 'org_id=other' })).status).toBe(404);
  });

  it('can be read by a viewer, also by POST, but not written', async () => {
    const query = 'org_id=acme';
    expect((await call('GET', '/v1/notes', { as: 'viewer', query })).status).toBe(200);
    expect((await call('POST', note('search'), { as: 'viewer', query, body: { words: 'a' } })).status).toBe(
      200,
    );
    expect((await call('DELETE', note('n'), { as: 'viewer', query })).status).toBe(403);
  });
});

describe('the validation of a request', () => {
  it('reports all errors at once, in order, those of the path first', async () => {
    const { json } = await call('POST', note('%00'), {
      as: 'operator',
      body: { index: 'x', tags: ['a', 5, 'toolong'], tier: 'E1', org_id: 7, metadata: [] },
    });
    const detail = json?.detail as { type: string; loc: unknown[] }[];
    expect(detail.map(({ type, loc }) => [type, loc])).toEqual([
      ['string_pattern_mismatch', ['path', 'note_id']],
      ['missing', ['body', 'title']],
      ['int_parsing', ['body', 'index']],
      ['literal_error', ['body', 'tier']],
      ['string_type', ['body', 'tags', 1]],
      ['string_too_long', ['body', 'tags', 2]],
      ['dict_type', ['body', 'metadata']],
      ['string_type', ['body', 'org_id']],
    ]);
  });

  it('refuses unknown keys only if the schema says so', async () => {
    expect((await call('POST', note('n'), { body: { title: 'a', more: 1 } })).json?.body).not.toHaveProperty(
      'more',
    );
    const { json } = await call('POST', note('search'), { body: { words: 'a', more: 1, most: 'x' } });
    expect(json).toEqual({
      detail: [
        { type: 'extra_forbidden', loc: ['body', 'more'], msg: 'Extra inputs are not permitted', input: 1 },
        { type: 'extra_forbidden', loc: ['body', 'most'], msg: 'Extra inputs are not permitted', input: 'x' },
      ],
    });
  });

  it.each([
    ['{"title": "a",}', 14],
    ['', null],
    ['{"title": "a"', 13],
    ['nul', 3],
    ['[1, 2', 5],
    ['{"title": "a\nb"}', 12],
    ['{"title": "\\x"}', 11],
    ['{"a": 01}', 7],
    ['NaN', 0],
    ["{'a': 1}", 1],
    ['{"a": 1} x', 9],
    ['   ', 3],
  ])('names where %j stops being JSON', async (text, offset) => {
    const { status, json } = await call('POST', note('n'), { bytes: Buffer.from(text) });
    if (offset === null) {
      expect({ status, json }).toMatchObject({
        status: 422,
        json: { detail: [{ type: 'missing', loc: ['body'] }] },
      });
    } else {
      expect(status).toBe(400);
      expect(json?.detail).toMatch(new RegExp(`offset ${offset}$`));
    }
  });

  it.each([
    [[0xff], 2],
    [[0xc0, 0x80], 2],
    [[0xed, 0xa0, 0x80], 2],
    [[0xe2, 0x82], 2],
    [[0xef, 0xbf, 0x22], 2],
    [[0xf0, 0x9f, 0x98, 0x80, 0xf0, 0x9f, 0x98], 6],
    [[0xef, 0xbf, 0xbd, 0x80], 5],
  ])('names the byte at which %j stops being UTF-8', async (inner, offset) => {
    const bytes = Buffer.concat([Buffer.from('["'), Buffer.from(inner), Buffer.from('"]')]);
    const { status, json } = await call('POST', note('n'), { bytes });
    expect(status).toBe(400);
    expect(json?.detail).toBe(`The body is not valid UTF-8: byte offset ${offset}`);
  });

  it.each(['gzip', 'br', 'deflate', 'zstd', 'GZIP', 'identity, gzip', 'x-made-up', 'identityidentity'])(
    'refuses a body encoded with %s, and says that only an unencoded one is accepted',
    async (encoding) => {
      const headers = { 'content-encoding': encoding };
      const bytes = gzipSync('{"title":"a"}');
      const { status, json, headers: told } = await call('POST', note('n'), { bytes, headers });
      expect({ status, json }).toEqual({
        status: 415,
        json: { detail: 'Bodies with a Content-Encoding are not accepted; send it as it is' },
      });
      expect(told).toMatchObject({ 'accept-encoding': 'identity', ratelimit: '"default";r=7;t=2' });
      // A caller without a credential learns nothing about the body.
      expect((await call('POST', note('n'), { as: null, bytes, headers })).status).toBe(401);
      expect((await call('GET', '/v1/notes', { headers })).status).toBe(200);
      expect((await call('POST', note('n'), { headers })).status).toBe(422);
    },
  );

  it.each(['identity', 'Identity', '', 'identity, identity'])(
    'accepts a body with the content encoding %j',
    async (encoding) => {
      const headers = { 'content-encoding': encoding };
      expect((await call('POST', note('n'), { body: { title: 'a' }, headers })).status).toBe(200);
    },
  );

  it('refuses a body whose media type is not JSON', async () => {
    const body = { title: 'a' };
    for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/vnd.api+json']) {
      expect((await call('POST', note('n'), { body, headers: { 'content-type': type } })).status, type).toBe(
        200,
      );
    }
    for (const type of [
      '',
      'text/plain',
      'application/json, application/json',
      'application/x-www-form-urlencoded',
    ]) {
      const { status, json } = await call('POST', note('n'), { body, headers: { 'content-type': type } });
      expect({ status, json }, type).toMatchObject({
        status: 422,
        json: { detail: [{ type: 'model_attributes_type', loc: ['body'], input: '{"title":"a"}' }] },
      });
    }
  });

  it('repeats no secret of the body in its errors', async () => {
    const key = 'sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl';
    const { status, json } = await call('POST', note('n'), {
      body: { password: 'hunter2', nested: [{ api_key: 'hunter3', text: `see ${key}` }] },
    });
    expect(status).toBe(422);
    const text = JSON.stringify(json);
    for (const secret of ['hunter2', 'hunter3', key]) expect(text).not.toContain(secret);
  });
});

describe('a hostile body gets its status and a short answer', () => {
  const expects = async (text: string | Buffer, status: number) => {
    const got = await call('POST', note('n'), { bytes: Buffer.from(text) });
    expect(got.status).toBe(status);
    expect(got.reply.body.length).toBeLessThan(200_000);
    return got;
  };

  it('if it is deep', async () => {
    await expects(`${'['.repeat(100_000)}${']'.repeat(100_000)}`, 400);
    await expects(`{"title":"a","x":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, 400);
    await expects('['.repeat(5_000_000), 400);
    await expects(`${'['.repeat(JSON_BOUNDS.depth)}${']'.repeat(JSON_BOUNDS.depth)}`.padEnd(5_000), 422);
    // Small bodies are not measured before they are parsed. The echo and the metadata have their own bounds.
    await expects(`${'['.repeat(2_000)}${']'.repeat(2_000)}`, 422);
    await expects(`{"title":"a","metadata":${'{"a":'.repeat(600)}1${'}'.repeat(600)}}`, 422);
  });

  it('if it has a million keys or values', async () => {
    const keys = Array.from({ length: 1_000_000 }, (_, at) => `"${at.toString(36)}":0`).join();
    await expects(`{${keys}}`, 400);
    await expects(`[${'0,'.repeat(1_000_000)}0]`, 400);
    const object = (count: number) =>
      `{"title":"a",${Array.from({ length: count - 1 }, (_, at) => `"k${at}":{"a":1,"b":[1,2]}`).join()}}`;
    await expects(object(JSON_BOUNDS.keys), 200);
    await expects(object(JSON_BOUNDS.keys + 1), 400);
    await expects(`{"title":"a","more":[${Array(60_000).fill('{"a":1,"b":2}').join()}]}`, 200);
    await expects(`${']'.repeat(5_000)}`, 400);
    await expects(`{"title":"a","tags":[${'7,'.repeat(200_000)}7]}`, 422);
    await expects(`{"title":"a","metadata":{"a":[${'7,'.repeat(20_000)}7]}}`, 422);
    await expects(JSON.stringify({ title: 'a', metadata: { a: 'x'.repeat(300_000) } }), 422);
  });

  it('if it has a hundred thousand numbers whose digits are kept', async () => {
    for (const number of ['1e1', '2512292042121000001']) {
      const body = (count: number) => `{"title":"a","more":[${Array(count).fill(number).join()}]}`;
      await expects(body(JSON_BOUNDS.kept_numbers), 200);
      const refused = await expects(body(JSON_BOUNDS.kept_numbers + 1), 400);
      expect(refused.reply.body.toString()).toContain('more than 100000 numbers');
    }
    await expects(`{"title":"a","more":[${'1e1,'.repeat(JSON_BOUNDS.kept_numbers + 5)}`, 400);
  });

  it('if it contains invalid Unicode', async () => {
    await expects(Buffer.from([...Buffer.from('{"title":"'), 0xff, ...Buffer.from('"}')]), 400);
    for (const text of ['{"title":"\\ud800"}', '{"title":"\\udc00x"}']) {
      expect((await expects(text, 422)).json).toMatchObject({ detail: [{ type: 'string_unicode' }] });
    }
    await expects('{"title":"a","metadata":{"\\ud800":1}}', 422);
    await expects('{"title":"a","metadata":{"a":["\\ud800"]}}', 422);
    await expects('{"title":"\\ud83d\\ude00"}', 200);
  });

  it('if it contains the names of prototype properties', async () => {
    await expects('{"title":"a","metadata":{"x":{"__proto__":{"is_admin":true}}}}', 422);
    const { json } = await expects('{"title":"a","__proto__":{"tier":"e1"},"constructor":1}', 200);
    expect(json?.body).toEqual({ title: 'a', index: 0, is_error: false, tags: [] });
    expect(({} as { tier?: unknown }).tier).toBeUndefined();
    await expects('{"__proto__":{"title":"a"}}', 422);
  });

  it('if it is one byte below the maximum, with long texts full of quotes', async () => {
    const body = JSON.stringify({ title: 'a', more: '\\"'.repeat(600_000) });
    await expects(body, 200);
    await expects(JSON.stringify({ title: 'x'.repeat(5_000_000) }), 422);
    await expects(JSON.stringify({ ['k'.repeat(3_000_000)]: 1 }), 422);
  });

  it('if it is a scalar', async () => {
    for (const text of ['5', 'true', '"text"', '[]', '-0', '1e999']) {
      expect((await expects(text, 422)).json).toMatchObject({
        detail: [{ type: 'model_attributes_type', loc: ['body'] }],
      });
    }
    expect((await expects('null', 422)).json).toMatchObject({ detail: [{ type: 'missing', loc: ['body'] }] });
  });
});

describe('every answer', () => {
  const lines: object[] = [];
  const api = caller(
    createApi(
      { version: '1.0.0', probes: {}, ...apiServices() },
      {
        cors_origins: ['https://app.example.com'],
        log: {
          error: (fields) => void lines.push(fields),
          debug: (fields) => void lines.push(fields),
          warn: (fields) => void lines.push(fields),
          info: (fields) => void lines.push(fields),
          isLevelEnabled: () => true,
        },
      },
    ),
  );

  it('has the request’s id, which is the one that the caller sent if that is well-formed', async () => {
    const named = await api('GET', '/health', { headers: { 'x-request-id': 'trace-1/a:b' } });
    expect(named.headers['x-request-id']).toBe('trace-1/a:b');
    for (const bad of ['', 'a b', 'x'.repeat(129), 'a\r\nb: c']) {
      const { headers } = await api('GET', '/health', { headers: { 'x-request-id': bad } });
      expect(headers['x-request-id']).toMatch(/^[0-9A-Z]{26}$/);
    }
  });

  it('has a log line without the query and the credential', async () => {
    lines.length = 0;
    await api('GET', '/health', { query: 'key=hunter2', as: 'hunter3', headers: { 'x-request-id': 'r' } });
    await api('GET', '/no/hunter4');
    expect(lines).toEqual([
      { request_id: 'r', method: 'GET', route: 'health', status: 200, duration_ms: expect.any(Number) },
      expect.objectContaining({ route: null, status: 404 }),
    ]);
    expect(JSON.stringify(lines)).not.toContain('hunter');
  });

  it('allows pages of the listed origins, and no others, to read it', async () => {
    const preflight = {
      headers: { origin: 'https://app.example.com', 'access-control-request-method': 'POST' },
      as: null,
    };
    const allowed = await api('OPTIONS', '/v1/anything', preflight);
    expect(allowed).toMatchObject({
      status: 204,
      headers: {
        vary: 'Origin',
        'access-control-allow-origin': 'https://app.example.com',
        'access-control-allow-methods': expect.stringContaining('DELETE'),
        'access-control-allow-headers': expect.stringContaining('authorization'),
      },
    });
    const other = { headers: { ...preflight.headers, origin: 'https://evil.example.com' }, as: null };
    const refused = await api('OPTIONS', '/v1/anything', other);
    expect(refused.status).toBe(403);
    expect(refused.headers).not.toHaveProperty('access-control-allow-origin');

    const plain = await api('GET', '/health', { headers: { origin: 'https://app.example.com' } });
    expect(plain.headers).toMatchObject({ 'access-control-allow-origin': 'https://app.example.com' });
    const missing = await api('GET', '/nothing', { headers: { origin: 'https://app.example.com' } });
    expect(missing.headers).toMatchObject({ 'access-control-allow-origin': 'https://app.example.com' });
    for (const origin of ['null', '*', 'https://app.example.com.evil.com', 'HTTPS://app.example.com']) {
      const { headers } = await api('GET', '/health', { headers: { origin } });
      expect(headers).not.toHaveProperty('access-control-allow-origin');
      expect(headers.vary).toBe('Origin');
    }
  });
});

describe('aliases', () => {
  it('serve every versioned route without the version in its path', async () => {
    expect((await call('POST', '/notes/n/', { body: { title: 'a' } })).status).toBe(200);
    expect((await call('GET', '/notes')).status).toBe(200);
    expect((await call('PATCH', '/notes')).headers.allow).toBe('GET, HEAD');
  });

  it('match a literal segment before a parameter, for each method', async () => {
    expect((await call('POST', note('search'), { body: { words: 'a' } })).status).toBe(200);
    const refused = await call('DELETE', note('search'));
    expect([refused.status, refused.headers.allow]).toEqual([405, 'POST']);
    expect((await call('DELETE', note('%73earch'))).status).toBe(204);
  });
});

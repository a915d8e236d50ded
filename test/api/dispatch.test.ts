/** The API's table without a server: the answer of each route, and of paths without a route. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { compileDispatch } from '../../src/api/dispatch.ts';
import { apiRoutes } from '../../src/api/routes.ts';
import { endpoint } from '../../src/contract/endpoint.ts';
import { type ApiRoute, jsonReply } from '../../src/contract/route.ts';
import { CatalogueError } from '../../src/errors.ts';
import { apiServices } from '../fixtures/api-services.ts';

const emptyBody = new Uint8Array();
const services = apiServices();

function dispatcher(routes: readonly ApiRoute[], reported: unknown[] = []) {
  const dispatch = compileDispatch(routes, { report: (error) => void reported.push(error.cause) });
  return async (method: string, path: string) => {
    const reply = await dispatch({
      method,
      path,
      query: '',
      headers: new Map(),
      body: emptyBody,
      address: '',
    });
    const type = new Map(reply.headers).get('content-type');
    const body: unknown = type === 'application/json' ? JSON.parse(String(reply.body)) : String(reply.body);
    return { status: reply.status, headers: new Map(reply.headers), body };
  };
}

const call = dispatcher(
  apiRoutes({ version: '9.8.7', ...services, probes: { storage: () => true, actors: async () => true } }),
);

describe('the service routes', () => {
  it('answer /health with the version', async () => {
    expect(await call('GET', '/health')).toMatchObject({
      status: 200,
      body: { status: 'ok', version: '9.8.7' },
    });
  });

  it('give the same answer with a trailing slash, and to HEAD', async () => {
    for (const [method, path] of [
      ['GET', '/health/'],
      ['HEAD', '/health'],
      ['GET', '/openapi.json/'],
    ] as const) {
      expect((await call(method, path)).status, `${method} ${path}`).toBe(200);
    }
  });

  it('report readiness when every probe succeeds, and name the probes that fail', async () => {
    expect((await call('GET', '/ready')).body).toEqual({
      status: 'ready',
      checks: { storage: true, actors: true },
    });
    const probes = {
      storage: () => true,
      actors: () => false,
      writer: () => {
        throw new Error('gone');
      },
      index: () => Promise.reject(new Error('gone')),
    };
    const reply = await dispatcher(apiRoutes({ version: '1.0.0', ...services, probes }))('GET', '/ready');
    expect(reply).toMatchObject({ status: 503, body: { detail: 'Not ready: actors, writer, index' } });
    expect(reply.headers.get('retry-after')).toBe('1');
  });

  it('answer 404 for an unknown path, and 405 with Allow for an unknown method', async () => {
    expect(await call('GET', '/nothing')).toMatchObject({ status: 404, body: { detail: 'Not Found' } });
    expect(await call('GET', '/health//')).toMatchObject({ status: 404 });
    expect(await call('GET', '/')).toMatchObject({ status: 200 });
    const refused = await call('DELETE', '/health');
    expect(refused).toMatchObject({ status: 405, body: { detail: 'Method Not Allowed' } });
    expect(refused.headers.get('allow')).toBe('GET, HEAD');
  });

  it('describe themselves in OpenAPI 3.1, without the routes that only describe', async () => {
    const { body } = await call('GET', '/openapi.json');
    expect(body).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Understudy', version: '9.8.7' },
      paths: {
        '/health': {
          get: {
            operationId: 'health',
            responses: {
              200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Health' } } } },
            },
          },
        },
      },
      components: {
        schemas: { Health: { required: ['status', 'version'] }, Error: { required: ['detail'] } },
      },
    });
    const described = Object.keys((body as { paths: object }).paths);
    expect(described).toEqual(expect.arrayContaining(['/health', '/ready']));
    expect(described).not.toEqual(expect.arrayContaining(['/openapi.json']));
    expect(described).not.toEqual(expect.arrayContaining(['/docs']));
  });

  it('show the description as a page that loads nothing from elsewhere', async () => {
    const { headers, body } = await call('GET', '/docs');
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(body).toContain('<span class="method">GET</span> /health<');
    // The page loads one script, from this service. Addresses in examples are text.
    expect([...String(body).matchAll(/<(?:script|link|img|iframe)[^>]*>/g)].map(([tag]) => tag)).toEqual([
      '<script type="module" src="/dashboard/docs.js">',
    ]);
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
    expect(body).not.toMatch(/@import|url\(|href="https?:/);
  });
});

describe('routes with parameters', () => {
  const params = z.object({ id: z.string() });
  const shape = z.object({ id: z.string(), size: z.number() }).meta({ id: 'Thing' });
  const get = endpoint({
    id: 'thing',
    method: 'GET',
    path: '/v1/things/{id}',
    auth: 'bearer',
    summary: 'One thing',
    tag: 'things',
    params,
    query: z.object({ limit: z.coerce.number().default(50), org_id: z.string() }),
    replies: { 200: { description: 'It', schema: z.object({ things: z.array(shape) }) } },
    aliases: ['/things/{id}'],
  });
  const make = endpoint({
    id: 'make_thing',
    method: 'POST',
    path: '/v1/things/{id}',
    auth: 'bearer',
    summary: 'Make one',
    tag: 'things',
    params,
    body: shape,
    replies: { 201: { description: 'Made' } },
  });
  const routes: ApiRoute[] = [
    { endpoint: get, handle: ({ params: { id } }) => jsonReply(200, { id }) },
    {
      endpoint: make,
      handle: () => {
        throw new CatalogueError('unavailable', 'later');
      },
    },
  ];

  it('decode a segment, serve aliases, and match no parameter across a slash', async () => {
    const ask = dispatcher(routes);
    expect((await ask('GET', '/v1/things/a%20b%2Fc')).body).toEqual({ id: 'a b/c' });
    expect((await ask('GET', '/things/x/')).body).toEqual({ id: 'x' });
    expect((await ask('GET', '/v1/things/a/b')).status).toBe(404);
    expect((await ask('GET', '/v1/things/%ff')).status).toBe(404);
    expect((await ask('DELETE', '/v1/things/x')).headers.get('allow')).toBe('GET, HEAD, POST');
  });

  it('return an error of the catalogue, hide any other error, and log its cause', async () => {
    const reported: unknown[] = [];
    expect(await dispatcher(routes)('POST', '/v1/things/x')).toMatchObject({
      status: 503,
      body: { detail: 'later' },
    });
    const failure = new Error('password is hunter2');
    const broken: ApiRoute = { endpoint: get, handle: () => Promise.reject(failure) };
    const reply = await dispatcher([broken], reported)('GET', '/v1/things/x');
    expect(reply).toMatchObject({ status: 500, body: { detail: 'Internal Server Error' } });
    expect(reported).toEqual([failure]);
  });

  it('answer any path with 200, 404 or 405', async () => {
    const reported: unknown[] = [];
    const ask = dispatcher(routes, reported);
    const odd = fc.constantFrom(
      'v1',
      'things',
      '%',
      '%ff',
      '%2f',
      '',
      '.',
      '..',
      '{id}',
      '__proto__',
      'constructor',
    );
    const path = fc.array(fc.oneof(odd, fc.string()), { maxLength: 6 }).map((steps) => `/${steps.join('/')}`);
    const method = fc.constantFrom('GET', 'HEAD', 'PUT', 'OPTIONS', '__proto__', '');
    await fc.assert(
      fc.asyncProperty(method, path, async (verb, target) => {
        expect([200, 404, 405]).toContain((await ask(verb, target)).status);
      }),
    );
    expect(reported).toEqual([]);
  });

  it('refuse a declaration whose path and parameters disagree', () => {
    expect(() => endpoint({ ...get, path: '/v1/things/{other}' })).toThrow(/path names \(other\)/);
    expect(() => endpoint({ ...get, path: '/v1/things/{id}/' })).toThrow(/must begin but not end/);
  });
});

describe('the description of declared endpoints', async () => {
  const { describeApi } = await import('../../src/api/openapi.ts');
  const thing = z.object({ name: z.string().max(5) }).meta({ id: 'Thing' });
  const declared = endpoint({
    id: 'list',
    method: 'GET',
    path: '/v1/{org}/things',
    auth: 'bearer',
    summary: 'Things',
    tag: 'things',
    params: z.object({ org: z.string() }),
    query: z.object({ limit: z.coerce.number().int().default(50), q: z.string() }),
    replies: { 200: { description: 'Things', schema: z.object({ things: z.array(thing) }) } },
  });

  it('names parameters, required fields, credentials and shared shapes', () => {
    expect(describeApi([declared], '1.0.0')).toMatchObject({
      paths: {
        '/v1/{org}/things': {
          get: {
            security: [{ bearer: [] }],
            parameters: [
              { name: 'org', in: 'path', required: true },
              { name: 'limit', in: 'query', required: false, schema: { default: 50 } },
              { name: 'q', in: 'query', required: true },
              { name: 'org_id', in: 'query', required: false },
              { name: 'project_id', in: 'query', required: false },
            ],
            responses: {
              200: {
                content: {
                  'application/json': {
                    schema: { properties: { things: { items: { $ref: '#/components/schemas/Thing' } } } },
                  },
                },
              },
            },
          },
        },
      },
      components: { schemas: { Thing: { properties: { name: { maxLength: 5 } } } } },
    });
  });

  it('fails when one name stands for two shapes, as with a default that only a request may omit', () => {
    const options = z.object({ top: z.number().default(5) }).meta({ id: 'Options' });
    const echo = endpoint({
      id: 'echo',
      method: 'POST',
      path: '/v1/echo',
      auth: 'bearer',
      summary: 'Echo',
      tag: 'things',
      body: options,
      replies: { 200: { description: 'The same', schema: options } },
    });
    expect(() => describeApi([echo], '1.0.0')).toThrow('two schemas are called Options');
  });
});

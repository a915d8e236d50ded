/**
 * The interface description of all declared endpoints, checked against the rules of OpenAPI 3.1 and document 2.
 */
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { renderDocs } from '../../src/api/docs.ts';
import { describeApi } from '../../src/api/openapi.ts';
import { type Endpoint, pathParameters, pathsOf } from '../../src/contract/endpoint.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';

type Json = Record<string, unknown>;

const METHODS = ['get', 'post', 'patch', 'delete'];
/** Keywords of JSON Schema 2020-12 that zod writes. */
const KEYWORDS = new Set([
  ...['$ref', 'type', 'enum', 'const', 'default', 'description', 'title', 'format', 'pattern', 'examples'],
  ...['properties', 'required', 'additionalProperties', 'propertyNames', 'items', 'prefixItems'],
  ...['anyOf', 'oneOf', 'allOf', 'not', 'minLength', 'maxLength', 'minimum', 'maximum', 'exclusiveMinimum'],
  ...['exclusiveMaximum', 'multipleOf', 'minItems', 'maxItems', 'uniqueItems', 'readOnly', 'deprecated'],
  ...['dependentRequired', 'contentMediaType', 'contentSchema'],
]);

let endpoints: Endpoint[];
let document: Json;
let operations: { path: string; method: string; operation: Json }[];

beforeAll(async () => {
  endpoints = await loadDeclaredEndpoints();
  document = describeApi(endpoints, '1.2.3');
  operations = Object.entries(document.paths as Record<string, Record<string, Json>>).flatMap(
    ([path, item]) => Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
});

/** Every schema in the document, at any depth. */
function* schemasIn(value: unknown): Generator<Json> {
  if (typeof value !== 'object' || value === null) return;
  const schema = value as Json;
  yield schema;
  for (const key of ['items', 'additionalProperties', 'propertyNames', 'not', 'contentSchema'])
    yield* schemasIn(schema[key]);
  for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
    for (const part of (schema[key] as unknown[] | undefined) ?? []) yield* schemasIn(part);
  }
  for (const part of Object.values((schema.properties as Json | undefined) ?? {})) yield* schemasIn(part);
}

function allSchemas(): Json[] {
  const { schemas } = document.components as { schemas: Json };
  const roots: unknown[] = Object.values(schemas);
  for (const { operation } of operations) {
    for (const parameter of (operation.parameters as Json[] | undefined) ?? []) roots.push(parameter.schema);
    const bodies = [operation.requestBody, ...Object.values(operation.responses as Json)] as (
      | Json
      | undefined
    )[];
    for (const body of bodies) {
      for (const content of Object.values((body?.content ?? {}) as Record<string, Json>))
        roots.push(content.schema);
    }
  }
  return roots.flatMap((root) => [...schemasIn(root)]);
}

describe('the description', () => {
  it('contains every declared endpoint that is not hidden, once, and no alias', () => {
    const shown = endpoints.filter(({ hidden }) => hidden !== true);
    expect(operations.length).toBe(shown.length);
    expect(operations.length).toBeGreaterThan(10);
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const places = endpoints.flatMap((declared) =>
      pathsOf(declared).map((path) => `${declared.method} ${path}`),
    );
    expect(new Set(places).size).toBe(places.length);
    const described = endpoints.map((declared) => declared.described_path ?? declared.path);
    for (const { path } of operations) expect(described).toContain(path);
  });

  it('contains the main routes of document 2', () => {
    const places = operations.map(({ method, path }) => `${method} ${path.replaceAll(/\{\w+\}/g, '{}')}`);
    for (const place of [
      'get /health',
      'post /v1/traces/retrieve',
      'post /v1/monitor/runs',
      'post /v1/monitor/runs/{}/steps',
      'post /v1/monitor/runs/{}/finish',
      'post /v1/traces',
      'post /v1/monitors/evaluate',
      'post /v1/findings/{}',
      'get /v1/monitor/experiments/{}/report',
      'get /v1/monitor/stream',
    ]) {
      expect(places).toContain(place);
    }
  });

  it('contains the routes of document 1 as they are written there', () => {
    const places = operations.map(({ method, path }) => `${method} ${path}`);
    for (const place of [
      'get /auth/me',
      'patch /auth/me',
      'get /auth/bootstrap',
      'get /api-keys/',
      'post /api-keys/',
      'delete /api-keys/{key_id}',
      'get /organizations/',
      'post /organizations/',
      'patch /organizations/{org_id}',
      'get /organizations/{org_id}/members',
      'post /organizations/{org_id}/invite',
      'get /organizations/{org_id}/invitations',
      'delete /organizations/{org_id}/invitations/{invitation_id}',
      'patch /organizations/{org_id}/members/{member_user_id}',
      'delete /organizations/{org_id}/members/{member_user_id}',
      'get /projects/',
      'post /projects/',
      'patch /projects/{project_id}',
      'delete /projects/{project_id}',
      'get /usage/stats',
      'get /usage/',
      'get /billing/subscription',
      'get /billing/intervention-usage',
      'post /billing/create-checkout-session',
      'post /billing/create-portal-session',
      'post /billing/webhook',
      'post /billing/webhook/thin',
      'post /feedback/',
    ]) {
      expect(places).toContain(place);
    }
  });

  it('has the records of document 1 under the same names, with the same fields', () => {
    const { schemas } = document.components as {
      schemas: Record<string, { properties: Record<string, Json>; required?: string[] }>;
    };
    // Required fields first, then optional ones.
    const records: Record<string, [string[], string[]]> = {
      UserOut: [
        ['id', 'email'],
        ['display_name', 'account_type', 'onboarded'],
      ],
      OrgOut: [['id', 'name', 'created_at'], ['created_by']],
      OrgCreate: [['name'], []],
      OrgMemberOut: [['user_id', 'email', 'role', 'joined_at'], []],
      InviteRequest: [['email'], ['role']],
      ProjectOut: [
        ['id', 'org_id', 'name', 'created_at'],
        ['created_by', 'key_count'],
      ],
      ProjectCreate: [['name'], []],
      ApiKeyCreate: [['name'], ['org_id', 'project_id', 'mode']],
      ApiKeyCreated: [['id', 'name', 'raw_key', 'prefix', 'last4'], []],
      ApiKeyOut: [
        ['id', 'name', 'prefix', 'last4', 'scope', 'created_at', 'last_used_at', 'revoked'],
        ['project_id', 'project_name'],
      ],
      FeedbackCreate: [['message'], ['page']],
      HTTPValidationError: [['detail'], []],
      ValidationError: [
        ['loc', 'msg', 'type'],
        ['input', 'ctx'],
      ],
    };
    for (const [name, [required, optional]] of Object.entries(records)) {
      expect([...(schemas[name]?.required ?? [])].sort(), name).toEqual([...required].sort());
      expect(Object.keys(schemas[name]!.properties).sort(), name).toEqual([...required, ...optional].sort());
    }
    const bounds = (name: string, field: string) => schemas[name]!.properties[field];
    expect(bounds('OrgCreate', 'name')).toMatchObject({ minLength: 1, maxLength: 100 });
    expect(bounds('ProjectCreate', 'name')).toMatchObject({ minLength: 1, maxLength: 100 });
    expect(bounds('ApiKeyCreate', 'name')).toMatchObject({ minLength: 1, maxLength: 50 });
    expect(bounds('FeedbackCreate', 'message')).toMatchObject({ minLength: 1, maxLength: 5000 });
    expect(bounds('InviteRequest', 'email')).toMatchObject({ format: 'email' });
    expect(bounds('UserOut', 'account_type')).toMatchObject({ default: 'developer' });
    expect(bounds('ProjectOut', 'key_count')).toMatchObject({ type: 'integer', default: 0 });
  });

  it('says what a body must contain where that depends on its shape', () => {
    const { schemas } = document.components as { schemas: Record<string, Json> };
    expect(schemas.Trace!.anyOf).toEqual([
      { required: ['manifest', 'calls'] },
      { required: ['trace_id', 'steps'] },
    ]);
    expect(schemas.Evaluate!.anyOf).toMatchObject([{ required: ['steps'] }, { required: ['run_id'] }]);
    const page = renderDocs(document, '1.2.3');
    expect(page).toContain('Needs <code>manifest</code> and <code>calls</code>, or <code>trace_id</code>');
    expect(schemas.FindingNote!.properties).toMatchObject({ content: { type: 'string', minLength: 1 } });
  });

  it('describes each operation as OpenAPI 3.1 requires', () => {
    expect(document.openapi).toBe('3.1.0');
    for (const { path, method, operation } of operations) {
      const where = `${method} ${path}`;
      expect(METHODS, where).toContain(method);
      expect(path, where).toMatch(/^\/[^?#]*$/);
      expect(operation.summary, where).toMatch(/\S/);
      const parameters = (operation.parameters ?? []) as {
        name: string;
        in: string;
        required: boolean;
        schema: Json;
      }[];
      const inPath = parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.map(({ name }) => name).sort(), where).toEqual(pathParameters(path).sort());
      expect(
        inPath.every(({ required }) => required),
        where,
      ).toBe(true);
      const names = parameters.map((parameter) => `${parameter.in} ${parameter.name}`);
      expect(new Set(names).size, where).toBe(names.length);
      for (const parameter of parameters) expect(parameter.schema, where).toBeTypeOf('object');
      const responses = Object.entries(operation.responses as Record<string, Json>);
      expect(
        responses.some(([status]) => status.startsWith('2')),
        where,
      ).toBe(true);
      for (const [status, response] of responses) {
        expect(status, where).toMatch(/^[1-5]\d\d$/);
        expect(response.description, `${where} ${status}`).toMatch(/\S/);
      }
      if (method === 'get' || method === 'delete') expect(operation.requestBody, where).toBeUndefined();
    }
  });

  it('says for each guarded operation which credential it accepts and what the checks may answer', () => {
    const { securitySchemes } = document.components as { securitySchemes: Json };
    expect(securitySchemes).toEqual({ bearer: { type: 'http', scheme: 'bearer' } });
    for (const declared of endpoints.filter(({ hidden }) => hidden !== true)) {
      const { operation } = operations.find(({ operation: { operationId } }) => operationId === declared.id)!;
      expect(operation.security, declared.id).toEqual(declared.auth === 'open' ? [] : [{ bearer: [] }]);
      if (declared.auth === 'open') continue;
      const responses = operation.responses as Record<string, { content?: Record<string, { schema: Json }> }>;
      // A caller who is not an operator gets 404, with any credential or without one.
      const refusals = declared.auth === 'operator' ? [404] : [401, 403, 404];
      for (const status of [...refusals, 422, 429, ...(declared.body === undefined ? [] : [400, 413])]) {
        expect(Object.keys(responses), declared.id).toContain(String(status));
      }
      expect(responses[422]?.content?.['application/json']?.schema, declared.id).toEqual({
        $ref: '#/components/schemas/HTTPValidationError',
      });
    }
  });

  it('says at each org_id with which credentials it has an effect', () => {
    const described: string[] = [];
    for (const { operation, path, method } of operations) {
      if (!path.startsWith('/v1/')) continue;
      const parameters = (operation.parameters ?? []) as { name: string; schema: Json }[];
      const { schema } = parameters.find(({ name }) => name === 'org_id')!;
      described.push(path);
      const where = `${method} ${path}`;
      if (operation.requestBody === undefined)
        expect(schema.description, where).toContain('static key: `default`');
      else
        expect(schema.description, where).toMatch(
          /JWT must name.*a static key names the organization in the body/,
        );
    }
    expect(described.length).toBeGreaterThan(15);
    const { schemas } = document.components as { schemas: Record<string, Json> };
    const { org_id } = schemas.TenantFields!.properties as Record<string, Json>;
    expect(org_id!.description).toContain('static key: `default`');
  });

  it('names the validation errors as document 1 does', () => {
    const { schemas } = document.components as { schemas: Record<string, Json> };
    expect(schemas.HTTPValidationError).toMatchObject({
      properties: { detail: { type: 'array', items: { $ref: '#/components/schemas/ValidationError' } } },
    });
    expect(schemas.ValidationError).toMatchObject({ required: ['loc', 'msg', 'type'] });
  });

  it('has references only to existing parts, and known keywords and patterns', () => {
    const { schemas } = document.components as { schemas: Json };
    for (const name of Object.keys(schemas)) expect(name).toMatch(/^[A-Za-z0-9._-]+$/);
    for (const schema of allSchemas()) {
      for (const key of Object.keys(schema)) expect(KEYWORDS, `keyword ${key}`).toContain(key);
      if (typeof schema.$ref === 'string') {
        const [, name] = /^#\/components\/schemas\/(.+)$/.exec(schema.$ref) ?? [];
        expect(Object.keys(schemas), schema.$ref).toContain(name);
      }
      if (typeof schema.pattern === 'string') {
        expect(() => new RegExp(schema.pattern as string, 'u')).not.toThrow();
        // Python's regular expressions, among others, have no Unicode classes.
        expect(schema.pattern).not.toMatch(/\\[pPu]\{/);
      }
      const { required = [], properties } = schema as { required?: string[]; properties?: Json };
      // A branch may require fields of the enclosing object.
      if (properties === undefined) continue;
      const branches = (schema.anyOf ?? []) as { required?: string[] }[];
      for (const name of [...required, ...branches.flatMap((branch) => branch.required ?? [])])
        expect(Object.keys(properties)).toContain(name);
    }
  });
});

describe('a linter', () => {
  it('finds nothing wrong with the description', { tags: 'long' }, async () => {
    const config = await createConfig({
      extends: ['recommended-strict'],
      rules: {
        // Document 1 has some paths with a trailing slash.
        'no-path-trailing-slash': 'off',
        // Some operations refuse no request.
        'operation-4xx-response': 'off',
        'no-invalid-media-type-examples': { severity: 'error' },
        'no-invalid-schema-examples': 'error',
        'no-unused-components': 'error',
        'operation-operationId-unique': 'error',
        'operation-singular-tag': 'error',
        'operation-tag-defined': 'error',
        'parameter-description': 'error',
        'tag-description': 'error',
      },
    });
    const lint = async (linted: Json) =>
      (await lintFromString({ source: JSON.stringify(linted), config, absoluteRef: 'openapi.json' })).map(
        ({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`,
      );
    expect(await lint(document)).toEqual([]);
    expect(await lint({ ...document, servers: [] })).not.toEqual([]);
  });

  it('finds a description for each field', () => {
    const missing: string[] = [];
    const { schemas } = document.components as { schemas: Record<string, Json> };
    const look = (schema: Json, place: string): void => {
      for (const part of schemasIn(schema)) {
        for (const [name, field] of Object.entries((part.properties ?? {}) as Record<string, Json>)) {
          if (field.description === undefined && field.$ref === undefined) missing.push(`${place}: ${name}`);
        }
      }
    };
    for (const [name, schema] of Object.entries(schemas)) look(schema, name);
    for (const { operation } of operations) {
      const place = String(operation.operationId);
      const {
        parameters = [],
        requestBody,
        responses,
      } = operation as {
        parameters?: { name: string; description?: string }[];
        requestBody?: Json;
        responses: Record<string, Json>;
      };
      for (const { name, description } of parameters) if (!description) missing.push(`${place}: ?${name}`);
      for (const body of [requestBody, ...Object.values(responses)]) {
        for (const { schema } of Object.values((body?.content ?? {}) as Record<string, { schema?: Json }>)) {
          if (schema !== undefined) look(schema, place);
        }
      }
    }
    // Add the words to src/contract/words.ts, or as `.describe(…)` at the field.
    expect(missing).toEqual([]);
  });
});

describe('the page of the description', () => {
  it('shows every operation and every shape, and links only to these', () => {
    const page = renderDocs(document, '1.2.3');
    for (const { path, method, operation } of operations) {
      expect(page).toContain(
        `id="op-${String(operation.operationId)}"><code><span class="method">${method.toUpperCase()}</span> ${path}<`,
      );
    }
    // A route that requires a credential only from other machines is described as such, not as open.
    expect(page).toContain('A request from another machine needs a static key.</p>');
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) expect(ids, target).toContain(target);
    expect(page.replaceAll(/<pre[\s\S]*?<\/pre>/g, '')).not.toMatch(
      /https?:\/\/|src="(?!\/dashboard\/docs\.js")/,
    );
  });
});

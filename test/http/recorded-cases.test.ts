/**
 * What a real FastAPI server answered (`../shared/spec/validation-cases.json`), compared with our validation. The
 * control plane's schemas are written here as in its document; those of /v1 are the API's own.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Router } from '../../src/api/dispatch.ts';
import { type Endpoint, endpoint } from '../../src/contract/endpoint.ts';
import { email, integer, literal, pageFields, text } from '../../src/contract/fields.ts';
import { jsonReply } from '../../src/contract/route.ts';
import { checkInput, readInput, ViolationList } from '../../src/http/validation.ts';
import { sharedFile } from '../fixtures/shared.ts';

interface RecordedCase {
  method: Endpoint['method'];
  path: string;
  content_type: string | null;
  body_text: string | null;
  status: number;
  detail: { type: string; loc: unknown[]; msg: string; input: unknown; ctx?: object }[] | null;
}

const CASES = sharedFile('spec/validation-cases.json');

const name = (max: number) => z.object({ name: text({ min: 1, max }) });
const orgPath = z.object({ org_id: text({ max: 200 }) });
const page = z.object(pageFields());
const anyText = text({ max: 200 });

const ENDPOINTS = [
  declare('POST', '/organizations', { body: name(100) }),
  declare('PATCH', '/organizations/{org_id}', { params: orgPath, body: name(100) }),
  declare('GET', '/organizations/{org_id}/members', { params: orgPath, query: page }),
  declare('POST', '/organizations/{org_id}/invite', { params: orgPath, body: z.object({ email: email() }) }),
  declare('GET', '/projects', { query: z.object({ org_id: anyText, ...pageFields() }) }),
  declare('POST', '/projects', { query: z.object({ org_id: anyText }), body: name(100) }),
  declare('GET', '/api-keys', { query: page }),
  declare('POST', '/api-keys', {
    body: name(50).extend({ org_id: anyText.nullish(), project_id: anyText.nullish() }),
  }),
  declare('POST', '/feedback', {
    body: z.object({ message: text({ min: 1, max: 5000 }), page: text({ max: 500 }).nullish() }),
  }),
  declare('GET', '/usage', { query: z.object({ days: integer({ ge: 1, le: 365 }).default(30) }) }),
  declare('GET', '/billing/intervention-usage', { query: z.object({ days: integer().default(0) }) }),
  declare('POST', '/v1/traces/retrieve', {
    body: z.object({
      context: text({ max: 100_000 }),
      tier: literal(['e1', 'e2', 'e3']).nullish(),
      top_k: integer({ ge: 1, le: 50 }).default(5),
    }),
  }),
];

function declare(
  method: Endpoint['method'],
  path: string,
  parts: Pick<Endpoint, 'params' | 'query' | 'body'>,
): Endpoint {
  const id = `${method} ${path}`;
  return endpoint({ id, method, path, auth: 'bearer', summary: id, tag: 'test', replies: {}, ...parts });
}

const router = new Router(
  ENDPOINTS.map((declared) => ({ endpoint: declared, handle: () => jsonReply(200, null) })),
);

function judge({ method, path, content_type, body_text }: RecordedCase): { status: number; detail: unknown } {
  const [bare = '', query = ''] = path.split('?');
  const { route, params } = router.find(method, bare);
  const headers = new Map(content_type === null ? [] : [['content-type', content_type]]);
  const body = Buffer.from(body_text ?? '');
  const request = { method, path: bare, query, headers, body, params, address: '' };
  const found = new ViolationList();
  checkInput(route.endpoint, readInput(route.endpoint, request), found);
  try {
    found.throwAny();
    return { status: 200, detail: null };
  } catch (thrown) {
    return { status: 422, detail: (thrown as { violations: unknown }).violations };
  }
}

describe.skipIf(!CASES.is_there)(`the recorded cases ${CASES.needed}`, () => {
  const cases = CASES.is_there ? (JSON.parse(readFileSync(CASES.path, 'utf8')) as RecordedCase[]) : [];

  it('are complete', () => {
    expect(cases.length).toBe(143);
  });

  it.each(cases.map((recorded) => [label(recorded), recorded] as const))('%s', (_label, recorded) => {
    const { status, detail } = judge(recorded);
    expect({ status, detail }).toEqual({ status: recorded.status, detail: recorded.detail });
  });
});

function label({ method, path, body_text }: RecordedCase): string {
  return `${method} ${path.slice(0, 80)} ${(body_text ?? '').slice(0, 60)}`;
}

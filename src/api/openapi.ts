/**
 * The interface description: OpenAPI 3.1 (whose schemas are JSON Schema 2020-12) made from the declared endpoints.
 * Made once at start. Server threads.
 */

import { z } from 'zod';
import { type Endpoint, type EndpointReply, errorBody } from '../contract/endpoint.ts';
import { jwtQuery, tenantFields, tenantQuery } from '../contract/tenant-fields.ts';
import { violationsBody } from '../contract/violation.ts';

type Json = Record<string, unknown>;

/**
 * @param endpoints every declared route; hidden ones and aliases are left out
 * @returns the document, ready to be serialized
 */
export function describeApi(endpoints: readonly Endpoint[], version: string): Json {
  const components = new Map<string, Json>();
  const paths: Record<string, Json> = {};
  for (const declared of endpoints) {
    if (declared.hidden === true) continue;
    const path = declared.described_path ?? declared.path;
    paths[path] ??= {};
    paths[path][declared.method.toLowerCase()] = describeOperation(declared, components);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Understudy', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths,
    components: {
      schemas: Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function describeOperation(declared: Endpoint, components: Map<string, Json>): Json {
  const parameters = [
    ...describeParameters('path', declared.params, components),
    ...describeParameters('query', withTenant(declared), components),
  ];
  return {
    operationId: declared.id,
    summary: declared.summary,
    tags: [declared.tag],
    ...(declared.auth !== 'open' ? { security: [{ bearer: [] }] } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(declared.body === undefined
      ? {}
      : { requestBody: describeBody(declared, declared.body, components) }),
    responses: Object.fromEntries(
      Object.entries({ ...impliedReplies(declared), ...declared.replies }).map(([status, reply]) => [
        status,
        describeReply(reply, components),
      ]),
    ),
  };
}

/** What the checks before the handler may answer. */
function impliedReplies({ auth, body }: Endpoint): Record<number, EndpointReply> {
  const refusal = (description: string) => ({ description, schema: errorBody });
  const tooLarge = { 413: refusal('The body is larger than MAX_BODY_BYTES') };
  if (auth === 'open') return body === undefined ? {} : tooLarge;
  const encoded = { 415: refusal('The body has a Content-Encoding') };
  return {
    ...(body === undefined ? {} : { 400: refusal('The body is not JSON'), ...tooLarge, ...encoded }),
    401: refusal('Missing or invalid credential'),
    403: refusal('Not allowed to do this here'),
    404: refusal('No such thing, or one of another tenant'),
    422: { description: 'Not what the schema says', schema: violationsBody },
    429: refusal('Too many requests with this key; see Retry-After and RateLimit'),
  };
}

/** `org_id` and `project_id` stand in the query unless a static key names them in the body. */
function withTenant({ auth, query, body }: Endpoint): z.ZodObject | undefined {
  if (auth !== 'bearer') return query;
  const fields = body === undefined ? tenantQuery.shape : jwtQuery.shape;
  return z.object({ ...query?.shape, ...withoutKeysOf(fields, query) });
}

function withoutKeysOf<Shape extends object>(fields: Shape, schema: z.ZodObject | undefined): Partial<Shape> {
  const known = schema?.shape ?? {};
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !(name in known))) as Partial<Shape>;
}

function describeBody({ auth }: Endpoint, body: z.ZodType, components: Map<string, Json>): Json {
  const own = toSchema(body, 'input', components);
  const namesTenant = body instanceof z.ZodObject && 'org_id' in body.shape;
  const schema =
    auth !== 'bearer' || namesTenant ? own : { allOf: [own, toSchema(tenantFields, 'input', components)] };
  const required = !body.safeParse(undefined).success;
  return { required, content: { 'application/json': { schema } } };
}

function describeReply(reply: EndpointReply, components: Map<string, Json>): Json {
  if (reply.media_type !== undefined)
    return { description: reply.description, content: { [reply.media_type]: {} } };
  if (reply.schema === undefined) return { description: reply.description };
  return { description: reply.description, content: jsonContent(reply.schema, 'output', components) };
}

function describeParameters(
  place: 'path' | 'query',
  schema: z.ZodObject | undefined,
  components: Map<string, Json>,
): Json[] {
  return Object.entries(schema?.shape ?? {}).map(([name, field]) => ({
    name,
    in: place,
    required: place === 'path' || !(field as z.ZodType).safeParse(undefined).success,
    schema: toSchema(field as z.ZodType, 'input', components),
  }));
}

function jsonContent(schema: z.ZodType, io: 'input' | 'output', components: Map<string, Json>): Json {
  return { 'application/json': { schema: toSchema(schema, io, components) } };
}

/**
 * One schema as JSON Schema. Those with an id (`.meta({id})`), wherever they stand in it, go to the components.
 * @throws Error when one id stands for two different schemas
 */
function toSchema(schema: z.ZodType, io: 'input' | 'output', components: Map<string, Json>): Json {
  const {
    $schema: _,
    $defs = {},
    ...own
  } = pointAtComponents(z.toJSONSchema(schema, { io, override: describeDefault }) as Json);
  for (const [id, definition] of Object.entries($defs as Record<string, Json>))
    register(id, definition, components);
  if (typeof own.id !== 'string') return own;
  register(own.id, own, components);
  return { $ref: `#/components/schemas/${own.id}` };
}

/** What a field is when it is left out; for fields that are read leniently zod does not say. */
function describeDefault({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodTypes; jsonSchema: Json }): void {
  const { def } = zodSchema._zod;
  if (def.type === 'default' && !('default' in jsonSchema)) jsonSchema.default = def.defaultValue;
}

function register(id: string, { id: _, ...definition }: Json, components: Map<string, Json>): void {
  const known = components.get(id);
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(definition)) {
    throw new Error(`two schemas are called ${id}`);
  }
  components.set(id, definition);
}

/** Rewrites `#/$defs/X` to `#/components/schemas/X`, at any depth. */
function pointAtComponents(schema: Json): Json {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === '$ref' && typeof value === 'string' ? value.replace('#/$defs/', '#/components/schemas/') : value,
  );
  return JSON.parse(text) as Json;
}

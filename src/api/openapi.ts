/**
 * The interface description: OpenAPI 3.1 (whose schemas are JSON Schema 2020-12) made from the declared
 * endpoints. Made once, at the first request. Server threads.
 */

import { z } from 'zod';
import { type Endpoint, type EndpointReply, errorBody, type HeaderName } from '../contract/endpoint.ts';
import { EXAMPLES } from '../contract/examples.ts';
import { jwtQuery, tenantFields, tenantQuery } from '../contract/tenant-fields.ts';
import { violationsBody } from '../contract/violation.ts';
import { HEADER_WORDS, TAG_WORDS, wordsFor, wordsForOperation, wordsForSchema } from '../contract/words.ts';

type Json = Record<string, unknown>;

const ABOUT =
  'Calls need `Authorization: Bearer …`: an API key or a signed-in user’s token under `/v1`, such a token ' +
  'elsewhere. Errors are `{"detail": …}`. ' +
  'Times are RFC 3339 in UTC with milliseconds. A list with further pages has a `next_cursor`; send it back as `cursor`. If an answer ' +
  'was lost, a request may be repeated without harm if its operation says so. Requests over the rate limit get 429 with `Retry-After`.';

/**
 * Describes the endpoints.
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
  const tags = new Set(endpoints.flatMap(({ hidden, tag }) => (hidden === true ? [] : [tag])));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Understudy',
      version,
      description: ABOUT,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This service' }],
    tags: [...tags].map((name) => ({ name, description: TAG_WORDS[name] ?? name })),
    paths,
    components: {
      schemas: Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))),
      headers: Object.fromEntries(
        Object.entries(HEADER_WORDS).map(([name, { words, type, always }]) => [
          name,
          { description: words, required: always, schema: { type } },
        ]),
      ),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  };
}

function describeOperation(declared: Endpoint, components: Map<string, Json>): Json {
  const parameters = [
    ...describeParameters('path', declared, declared.params, components),
    ...describeParameters('query', declared, withTenant(declared), components),
  ];
  const description = wordsForOperation(declared.id);
  return {
    operationId: declared.id,
    summary: declared.summary,
    ...(description === undefined ? {} : { description }),
    tags: [declared.tag],
    security: declared.auth === 'open' ? [] : [{ bearer: [] }],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(declared.body === undefined
      ? describeRawBody(declared)
      : { requestBody: describeBody(declared, declared.body, components) }),
    responses: Object.fromEntries(
      Object.entries({ ...impliedReplies(declared), ...declared.replies }).map(([status, reply]) => [
        status,
        describeReply(declared, Number(status), reply, components),
      ]),
    ),
  };
}

/** Describes the answers that the checks before the handler give. */
function impliedReplies({ auth, body }: Endpoint): Record<number, EndpointReply> {
  const refusal = (description: string) => ({ description, schema: errorBody });
  const tooLarge = { 413: refusal('The body is larger than MAX_BODY_BYTES') };
  if (auth === 'open') return body === undefined ? {} : tooLarge;
  const encoded = { 415: refusal('The body has a Content-Encoding') };
  const ofBody = body === undefined ? {} : { 400: refusal('The body is not JSON'), ...tooLarge, ...encoded };
  if (auth === 'operator')
    return {
      ...ofBody,
      401: refusal('The account was deleted, or its sessions were ended everywhere'),
      404: refusal('The requested object does not exist, or you are not an operator'),
      422: { description: 'The request does not match the schema', schema: violationsBody },
      429: refusal('Too many requests with this credential; see Retry-After and RateLimit'),
    };
  return {
    ...ofBody,
    401: refusal('Missing or invalid credential'),
    403: refusal('The caller lacks the permission for this'),
    404: refusal('The requested object does not exist, or belongs to another tenant'),
    422: { description: 'The request does not match the schema', schema: violationsBody },
    429: refusal('Too many requests with this key; see Retry-After and RateLimit'),
  };
}

/**
 * Adds the names of the tenant to the described query of a `bearer` endpoint: `org_id` and `project_id`, or only
 * `org_id` if there is a body, in which static keys name the tenant.
 */
function withTenant({ auth, query, body }: Endpoint): z.ZodObject | undefined {
  if (auth !== 'bearer') return query;
  const fields = body === undefined ? tenantQuery.shape : jwtQuery.shape;
  return z.object({ ...query?.shape, ...withoutKeysOf(fields, query) });
}

function withoutKeysOf<Shape extends object>(fields: Shape, schema: z.ZodObject | undefined): Partial<Shape> {
  const known = schema?.shape ?? {};
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !(name in known))) as Partial<Shape>;
}

function describeBody({ id, auth }: Endpoint, body: z.ZodType, components: Map<string, Json>): Json {
  const own = toSchema(body, 'input', components);
  const namesTenant = body instanceof z.ZodObject && 'org_id' in body.shape;
  const schema =
    auth !== 'bearer' || namesTenant ? own : { allOf: [own, toSchema(tenantFields, 'input', components)] };
  const required = !body.safeParse(undefined).success;
  const example = EXAMPLES[id]?.request;
  const content = { 'application/json': { schema } };
  return { required, content: example === undefined ? content : withExample(content, example) };
}

function describeRawBody({ id, raw_body: raw }: Endpoint): Json {
  if (raw === undefined) return {};
  const describe = (type: string) =>
    type === 'application/json'
      ? { type: 'object', description: raw.words }
      : { type: 'string', format: 'binary', description: raw.words };
  const content = raw.media_types.map((type) => [type, { schema: describe(type) }]);
  const example = EXAMPLES[id]?.request;
  const described = Object.fromEntries(content) as Json;
  return {
    requestBody: {
      required: true,
      description: raw.words,
      content: example === undefined ? described : { ...described, ...withExample(described, example) },
    },
  };
}

function describeReply(
  declared: Endpoint,
  status: number,
  reply: EndpointReply,
  components: Map<string, Json>,
): Json {
  const { description, media_type, schema } = reply;
  const headers = Object.fromEntries(
    headersOf(declared, status, reply).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  );
  const told = { description, headers };
  if (media_type !== undefined)
    return { ...told, content: { [media_type]: describeEvents(reply, components) } };
  if (schema === undefined) return told;
  const example = EXAMPLES[declared.id]?.replies[status];
  const content = jsonContent(schema, 'output', components);
  return { ...told, content: example === undefined ? content : withExample(content, example) };
}

/**
 * Describes the events of a stream with their fields, as OpenAPI 3.2 does; `data` is the JSON of an event's
 * schema. {} for a reply that is not such a stream.
 */
function describeEvents({ events }: EndpointReply, components: Map<string, Json>): Json {
  if (events === undefined) return {};
  const describe = (name: string, contentSchema: Json) => ({
    type: 'object',
    properties: {
      event: { type: 'string', const: name, description: 'Name of the event' },
      id: {
        type: 'string',
        description: 'Increasing number; send it as `Last-Event-ID` to continue after this event',
      },
      data: {
        type: 'string',
        contentMediaType: 'application/json',
        contentSchema,
        description: 'Fields of the event, as JSON',
      },
    },
    required: ['event', 'data'],
  });
  const named = Object.entries(events).map(([name, schema]) =>
    describe(name, toSchema(schema, 'output', components)),
  );
  const reset = describe('reset', { type: 'object', properties: {}, additionalProperties: false });
  return { schema: { description: 'One event', anyOf: [...named, reset] } };
}

function withExample(content: Json, example: unknown): Json {
  return { 'application/json': { ...(content['application/json'] as Json), example } };
}

function headersOf({ auth, body }: Endpoint, status: number, { headers = [] }: EndpointReply): HeaderName[] {
  const isLimited = auth === 'bearer' && (status < 300 || status === 429);
  return [
    'x-request-id',
    ...(isLimited ? (['ratelimit', 'ratelimit-policy'] as const) : []),
    ...(status === 429 || status === 503 ? (['retry-after'] as const) : []),
    ...(body !== undefined && status < 300 ? (['x-svc-warning'] as const) : []),
    ...headers,
  ];
}

function describeParameters(
  place: 'path' | 'query',
  { id }: Endpoint,
  schema: z.ZodObject | undefined,
  components: Map<string, Json>,
): Json[] {
  return Object.entries(schema?.shape ?? {}).map(([name, field]) => {
    const described = toSchema(field as z.ZodType, 'input', components);
    const description = described.description ?? wordsFor([id, name]);
    return {
      name,
      in: place,
      ...(description === undefined ? {} : { description }),
      required: place === 'path' || !(field as z.ZodType).safeParse(undefined).success,
      schema: described,
    };
  });
}

function jsonContent(schema: z.ZodType, io: 'input' | 'output', components: Map<string, Json>): Json {
  return { 'application/json': { schema: toSchema(schema, io, components) } };
}

/**
 * Converts a schema to JSON Schema. The schema and the schemas inside it become components if they have an id
 * (`.meta({id})`).
 * @throws Error if two different schemas have the same id
 */
function toSchema(schema: z.ZodType, io: 'input' | 'output', components: Map<string, Json>): Json {
  const {
    $schema: _,
    $defs = {},
    ...own
  } = pointAtComponents(z.toJSONSchema(schema, { io, override: describeDefault }) as Json);
  for (const [id, definition] of Object.entries($defs as Record<string, Json>))
    register(id, definition, components);
  if (typeof own.id !== 'string') {
    addWords(own, []);
    return own;
  }
  register(own.id, own, components);
  return { $ref: `#/components/schemas/${own.id}` };
}

/**
 * Adds defaults, which zod omits for leniently read fields, and the lengths of tuples, because client
 * generators ignore `items: false`.
 */
function describeDefault({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodTypes; jsonSchema: Json }): void {
  const { def } = zodSchema._zod;
  if (def.type === 'default' && !('default' in jsonSchema)) jsonSchema.default = def.defaultValue;
  if (jsonSchema.items === false) delete jsonSchema.items;
}

function register(id: string, { id: _, ...definition }: Json, components: Map<string, Json>): void {
  const words = wordsForSchema(id);
  if (words !== undefined) definition.description ??= words;
  addWords(definition, [id]);
  const known = components.get(id);
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(definition)) {
    throw new Error(`two schemas are called ${id}`);
  }
  components.set(id, definition);
}

/** Adds descriptions to fields whose schemas have none. */
function addWords(schema: Json, place: readonly string[]): void {
  for (const [name, field] of Object.entries((schema.properties ?? {}) as Record<string, Json>)) {
    const at = [...place, name];
    if (field.description === undefined && field.$ref === undefined) {
      const description = wordsFor(at);
      if (description !== undefined) field.description = description;
    }
    addWords(field, at);
  }
  for (const part of [schema.items, ...((schema.anyOf ?? []) as unknown[])]) {
    if (typeof part === 'object' && part !== null) addWords(part as Json, place);
  }
}

/** Rewrites `#/$defs/X` to `#/components/schemas/X`, at any depth. */
function pointAtComponents(schema: Json): Json {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === '$ref' && typeof value === 'string' ? value.replace('#/$defs/', '#/components/schemas/') : value,
  );
  return JSON.parse(text) as Json;
}

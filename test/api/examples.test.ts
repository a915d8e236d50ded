/**
 * Sends the examples of the interface description to a real service. The answers must have the shape of the examples
 * and the headers that the description promises. The fixture checks each answer against its schema.
 */
import { Validator } from '@cfworker/json-schema';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeApi } from '../../src/api/openapi.ts';
import type { Endpoint } from '../../src/contract/endpoint.ts';
import { EXAMPLES } from '../../src/contract/examples.ts';
import { LIVE_EVENTS } from '../../src/contract/stream.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import { loadDeclaredEndpoints } from '../fixtures/declared-endpoints.ts';
import {
  type ExampleAnswer,
  makeExampleCalls,
  pickExamples,
  writeExamples,
} from '../fixtures/example-calls.ts';
import { makeOperatorCalls } from '../fixtures/operator-calls.ts';

type Json = Record<string, unknown>;

/** Operations whose answers are not JSON of this API. */
const WITHOUT_EXAMPLE = new Set([
  'metrics',
  'live_stream',
  'downloadCapturedRequest',
  'downloadCapturedResponse',
  'exportCapturedRuns',
  'exportCapturedTurns',
  'exportFindings',
  'exportPatterns',
  'exportRuns',
  'exportTraces',
  'exportTrafficFigures',
]);

const api = new ControlPlaneChild({ VECTOR_STORE_URL: 'embedded:', AUTH_DB_CONN_URL: 'embedded:' });
let answers: ExampleAnswer[];
let endpoints: Endpoint[];
let document: Json;

beforeAll(async () => {
  endpoints = (await loadDeclaredEndpoints()).filter(({ hidden }) => hidden !== true);
  document = describeApi(endpoints, '1.2.3');
  await api.start();
  answers = [...(await makeExampleCalls(api)), ...(await makeOperatorCalls())];
  if (process.env.RECORD_EXAMPLES === 'on') writeExamples(pickExamples(answers));
});
afterAll(() => api[Symbol.asyncDispose]());

/** Instructions in the message of a failure, for a developer who changed the API. */
const RECORD =
  'RECORD_EXAMPLES=on npx vitest run test/api/examples.test.ts records new examples; the next run checks them';

/** Fields whose content has no fixed shape. */
const FREE = new Set(['before', 'after', 'metadata']);

/**
 * The places where two values have different shapes. null matches any shape, and an empty list any list. Other lists
 * are compared by their first items. Fields with the names in `FREE` are not compared.
 */
function differences(left: unknown, other: unknown, at: string): string[] {
  if (left === null || other === null) return [];
  if (Array.isArray(left) && Array.isArray(other)) {
    return left.length === 0 || other.length === 0 ? [] : differences(left[0], other[0], `${at}[]`);
  }
  if (typeof left !== typeof other || Array.isArray(left) !== Array.isArray(other)) return [at];
  if (typeof left !== 'object') return [];
  const [a, b] = [left as Json, other as Json];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => {
    if (FREE.has(name)) return [];
    if (Object.hasOwn(a, name) !== Object.hasOwn(b, name)) return [`${at}.${name}`];
    return differences(a[name], b[name], `${at}.${name}`);
  });
}

/** Every operation of the document by its id. */
function operations(): Map<string, Json> {
  const paths = document.paths as Record<string, Record<string, Json>>;
  return new Map(
    Object.values(paths).flatMap((item) =>
      Object.values(item).map((operation): [string, Json] => [operation.operationId as string, operation]),
    ),
  );
}

describe('the examples', () => {
  it('exist for every operation that answers with JSON', () => {
    const missing = endpoints.filter(({ id }) => EXAMPLES[id] === undefined).map(({ id }) => id);
    expect(new Set(missing)).toEqual(WITHOUT_EXAMPLE);
  });

  it('are valid requests, and the service’s answers have their shape', () => {
    const now = pickExamples(answers);
    expect(Object.keys(now).sort(), RECORD).toEqual(Object.keys(EXAMPLES).sort());
    const found = Object.entries(EXAMPLES).flatMap(([id, { request, replies }]) => [
      ...differences(request, now[id]!.request, `${id} request`),
      ...differences(replies, now[id]!.replies, `${id} answer`),
    ]);
    expect(found, RECORD).toEqual([]);
    expect(differences({ a: [{ b: 1 }] }, { a: [{ b: '1', c: 2 }] }, '')).toEqual(['.a[].b', '.a[].c']);
  });

  it('match the described requests and answers', () => {
    const found = operations();
    const check = (schema: unknown, example: unknown, where: string) => {
      const rooted = { ...(schema as object), components: document.components };
      const { valid, errors } = new Validator(rooted, '2020-12', false).validate(example);
      expect(valid, `${where}: ${JSON.stringify(errors)}; ${RECORD}`).toBe(true);
    };
    let checked = 0;
    for (const [id, operation] of found) {
      const bodies = [operation.requestBody, ...Object.values(operation.responses as Json)] as (
        | { content?: Record<string, { schema?: unknown; example?: unknown }> }
        | undefined
      )[];
      for (const body of bodies) {
        for (const { schema, example } of Object.values(body?.content ?? {})) {
          if (example === undefined) continue;
          check(schema, example, id);
          checked++;
        }
      }
    }
    expect(checked).toBeGreaterThan(70);
    expect(() => check({ type: 'string' }, 1, 'here')).toThrow('here');
  });

  it('contain no key', () => {
    expect(JSON.stringify(EXAMPLES)).not.toMatch(/svc_(live|test)_(?!EXAMPLE)/);
  });
});

/** Reads stored events of the organization's stream until there is one of each name. */
async function readEvents(
  credential: string,
  names: readonly string[],
): Promise<{ name: string; data: unknown }[]> {
  const gone = new AbortController();
  const response = await fetch(`${api.url}/v1/monitor/stream?last_event_id=0`, {
    headers: { authorization: `Bearer ${credential}` },
    signal: gone.signal,
  });
  expect(response.status).toBe(200);
  const missing = new Set(names);
  const events: { name: string; data: unknown }[] = [];
  let text = '';
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (name === undefined || data === undefined) continue;
      missing.delete(name);
      events.push({ name, data: JSON.parse(data) });
    }
    if (missing.size === 0) break;
  }
  gone.abort();
  return events;
}

describe('the events of the stream', () => {
  it('contain exactly what the description says', async () => {
    const owner = await api.person('ann');
    const { body } = await api.call(owner.token, 'POST', '/api-keys/', { name: 'stream' });
    // An earlier test deleted the example's run and project together with their events.
    const send = async (path: string, example: string, more: object) => {
      const sent = { ...(EXAMPLES[example]!.request as object), ...more };
      const { status, text } = await api.call(body.raw_key, 'POST', path, sent);
      expect(status, text).toBe(200);
    };
    await send('/v1/monitor/runs', 'startRun', { run_id: 'watched' });
    for (let step_index = 0; step_index < 5; step_index++)
      await send('/v1/monitor/runs/watched/steps', 'logStep', { step_index });
    await send('/v1/monitor/runs/watched/finish', 'finishRun', {});
    await send('/v1/traces', 'submitTrace', { trace_id: 'watched' });
    const names = ['run_start', 'step', 'intervention', 'run_finish', 'pattern_created'] as const;
    for (const { name, data } of await readEvents(body.raw_key, names)) {
      const schema = LIVE_EVENTS[name as keyof typeof LIVE_EVENTS];
      expect(schema, name).toBeDefined();
      expect(schema.parse(data), name).toEqual(data);
    }
  });
});

describe('the headers of an answer', () => {
  it('include each header that the description requires', () => {
    const { headers: described } = document.components as { headers: Record<string, { required: boolean }> };
    const found = operations();
    for (const { id, status, headers } of answers) {
      const { responses } = found.get(id)! as { responses: Record<string, { headers: object }> };
      for (const name of Object.keys(responses[status]!.headers)) {
        if (described[name]!.required) expect([id, name, headers.has(name)]).toEqual([id, name, true]);
      }
    }
  });
});

/** Numbers that a double cannot represent, in JSON bodies that senders wrote themselves, over real sockets. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { evaluateBody } from '../../src/contract/evaluate.ts';
import { findingBody } from '../../src/contract/findings.ts';
import { holdsFreeJson } from '../../src/contract/free-json.ts';
import { runStartBody, stepBody } from '../../src/contract/runs.ts';
import { traceBody } from '../../src/contract/traces.ts';
import { fingerprintBody, readCallTrace } from '../../src/domain/trace.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';

const api = new ApiChild({ VECTOR_STORE_URL: 'embedded:' });
beforeAll(() => api.start());
afterAll(() => api[Symbol.asyncDispose]());

const BIG = '2512292042121000001';
const OTHER = '2512292042121000002';

describe('a body', () => {
  it.each<[string, z.ZodType, boolean]>([
    ['has a field of any JSON: a start', runStartBody, true],
    ['has a field of any JSON: a trace', traceBody, true],
    ['has a field of any JSON: a finding', findingBody, true],
    ['has no field of any JSON: a step', stepBody, false],
    ['has no field of any JSON: an evaluation', evaluateBody, false],
    ['has no field of any JSON: one that may itself be any JSON', z.unknown(), false],
  ])('%s', (_name, schema, holds) => {
    expect(holdsFreeJson(schema)).toBe(holds);
  });

  it('is compared and echoed with the exact digits of its numbers', async () => {
    const start = (index: string) => `{"run_id":"ways","metadata":{"n":${index}},"task":"t"}`;
    expect((await api.post('/v1/monitor/runs', start('1'))).status).toBe(200);
    expect((await api.post('/v1/monitor/runs', start('9e999'))).status).toBe(409);
    const wrong = await api.post('/v1/monitor/runs', `{"run_id":"wrong","metadata":${BIG}}`);
    expect(wrong).toMatchObject({
      status: 422,
      body: { detail: [{ type: 'dict_type', loc: ['body', 'metadata'] }] },
    });
    expect(wrong.text).toContain(`"input":${BIG}`);
    const trace = (seq: string) =>
      `{"manifest":{"trace_id":"seq ${seq}"},"calls":[{"seq":${seq},"request":{},"response":{}}]}`;
    expect((await api.post('/v1/traces', trace('3.0'))).status).toBe(202);
    expect((await api.post('/v1/traces', trace(BIG))).status).toBe(422);
  });
});

it('exact numbers come back with all digits in a finding’s metadata', async () => {
  const body = `{"content":"The archive keeps messages by id.","metadata":{"id":${BIG},"list":[1.50,-0.0]}}`;
  const stored = await api.post('/v1/findings/c', body);
  expect(stored.status).toBe(200);
  const answer = await fetch(`${api.url}/v1/findings/c`, {
    headers: { authorization: `Bearer ${CHILD_KEY}` },
  });
  expect(await answer.text()).toContain(`"metadata":{"id":${BIG},"list":[1.50,-0.0]}`);
});

it('two starts that differ only beyond the precision of a double are different', async () => {
  const start = (id: string) => api.post('/v1/monitor/runs', `{"run_id":"exact","metadata":{"id":${id}}}`);
  const statuses = [(await start(BIG)).status, (await start(BIG)).status, (await start(OTHER)).status];
  expect(statuses).toEqual([200, 200, 409]);
});

it('exact numbers are kept in the calls of a trace, and distinguish two traces', () => {
  const call = (id: string) =>
    parseExact(
      `{"request":{"messages":[{"role":"user","content":"Archive it"}]},"response":{"content":[{"type":"tool_use","id":"t","name":"archive","input":{"id":${id}}}]}}`,
    ) as { request: unknown; response: unknown };
  const head = { trace_id: 't', run_id: '', task: '', model: '', task_profile: '', outcome: '' };
  const trace = readCallTrace(head, [{ ...call(BIG), seq: 0, model: '', is_error: false }]);
  expect(trace.steps).toMatchObject([{ action: 'archive', action_input: `{"id":${BIG}}` }]);
  const names = [BIG, BIG, OTHER].map((id) => fingerprintBody({ calls: [call(id)] }));
  expect(names[0]).toBe(names[1]);
  expect(names[0]).not.toBe(names[2]);
  expect(fingerprintBody({ n: parseExact('1.0') })).toBe(fingerprintBody({ n: 1 }));
});

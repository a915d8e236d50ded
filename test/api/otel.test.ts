/**
 * Telemetry of agents over real sockets: OpenTelemetry's own exporters send the data of each instrumentation, and the
 * tool calls in it become steps of runs. Also invalid bodies.
 */

import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { OpenTelemetry } from '@ai-sdk/otel';
import { ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import { generateText, stepCountIs, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { OTLP_BOUNDS } from '../../src/otel/limits.ts';
import { ControlPlaneChild } from '../fixtures/control-plane.ts';
import {
  exportLogs,
  exportSpans,
  type MadeEvent,
  makeLogs,
  makeSpans,
  type OtlpTarget,
} from '../fixtures/otel-sdk.ts';

// biome-ignore lint/suspicious/noExplicitAny: generated code
const otlp: any = createRequire(import.meta.url)('otlp-decoder/build/src/generated/root.js');
const api = new ControlPlaneChild();
let key: string;
let otherKey: string;
let viewerToken: string;
let org: string;

beforeAll(async () => {
  await api.start();
  const owner = await api.person('otel-owner');
  org = owner.org_id;
  const newKey = async (person: { token: string; org_id: string }) =>
    (await api.call(person.token, 'POST', '/api-keys/', { name: 'k', org_id: person.org_id })).body.raw_key;
  key = await newKey(owner);
  otherKey = await newKey(await api.person('otel-stranger'));
  const viewer = await api.person('otel-viewer');
  await api.join(owner, org, viewer, 'viewer');
  viewerToken = viewer.token;
});
afterAll(() => api[Symbol.asyncDispose]());

const target = (changes: Partial<OtlpTarget> = {}): OtlpTarget => ({
  endpoint: `${api.url}/otel`,
  key,
  ...changes,
});

async function readRun(run_id: string, credential = key) {
  const run = await api.call(credential, 'GET', `/v1/monitor/runs/${run_id}`);
  const { body } = await api.call(credential, 'GET', `/v1/monitor/runs/${run_id}/steps`);
  return { status: run.status, run: run.body, steps: body.steps as Record<string, unknown>[] | undefined };
}

/** The records that Claude Code 2.1.330 sends about a shell call, as observed. */
function claudeCodeEvents(session: string, call = 'toolu_1'): MadeEvent[] {
  const common = { 'session.id': session, 'user.id': 'u', 'terminal.type': 'non-interactive' };
  const event = (name: string, sequence: number, attributes: MadeEvent['attributes']): MadeEvent => ({
    body: `claude_code.${name}`,
    at_ms: 1_795_459_738_000 + sequence * 10,
    attributes: { ...common, 'event.name': name, 'event.sequence': sequence, ...attributes },
  });
  return [
    event('user_prompt', 4, { prompt: 'Where is it?', prompt_length: '12' }),
    event('tool_decision', 5, { tool_name: 'Bash', tool_use_id: call, decision: 'accept' }),
    event('api_request', 6, { model: 'claude-demo-large', request_id: 'req_1', input_tokens: 12_223 }),
    event('assistant_response', 7, { response: 'Let me look.', request_id: 'req_1' }),
    event('tool_result', 8, {
      tool_name: 'Bash',
      tool_use_id: call,
      success: 'false',
      error: 'Shell command failed',
      tool_input: '{"command":"false"}',
      request_id: 'req_1',
    }),
  ];
}

/** A time in the past. The SDK would take a small number for a time of the process's monotonic clock. */
const STARTED_MS = Date.UTC(2026, 2, 1, 12);

describe.each([
  ['protobuf', 'none'],
  ['protobuf', 'gzip'],
  ['json', 'none'],
  ['json', 'gzip'],
] as const)('telemetry as %s with compression %s', (form, compression) => {
  it("makes steps of Claude Code's events", async () => {
    const session = `claude-${form}-${compression}`;
    const logs = await makeLogs('com.anthropic.claude_code.events', {}, claudeCodeEvents(session));
    expect(await exportLogs(logs, target({ form, compression }))).toEqual({ code: 0, error: '' });
    const { run, steps } = await readRun(session);
    expect(run).toMatchObject({
      agent_name: 'claude-code',
      framework: 'claude-code',
      model: 'claude-demo-large',
      task: 'Where is it?',
      steps: 1,
    });
    expect(steps).toMatchObject([
      {
        action: 'Bash',
        action_input: '{"command":"false"}',
        thought: 'Let me look.',
        observation: 'Shell command failed',
        is_error: true,
      },
    ]);
  });

  it('names the model of a run whose prompt came in an earlier request', async () => {
    for (const [at, parts] of [
      [
        'step',
        [
          [0, 1],
          [1, 5],
        ],
      ],
      [
        'answer',
        [
          [0, 1],
          [1, 4],
          [4, 5],
        ],
      ],
    ] as const) {
      const session = `later-${at}-${form}-${compression}`;
      for (const [from, to] of parts) {
        const events = claudeCodeEvents(session).slice(from, to);
        const logs = await makeLogs('com.anthropic.claude_code.events', {}, events);
        expect(await exportLogs(logs, target({ form, compression }))).toEqual({ code: 0, error: '' });
      }
      const { run } = await readRun(session);
      expect(run, at).toMatchObject({ model: 'claude-demo-large', task: 'Where is it?', steps: 1 });
    }
  });

  it('makes steps of tool spans of the GenAI conventions, in order of time', async () => {
    const session = `genai-${form}-${compression}`;
    const spans = await makeSpans('an.agent', { 'svc.task_profile': 'qa' }, (tracer) => {
      for (const [name, at] of [
        ['second', STARTED_MS + 1_000],
        ['first', STARTED_MS],
      ] as const) {
        const span = tracer.startSpan(`execute_tool ${name}`, { startTime: at }, ROOT_CONTEXT);
        span.setAttributes({
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': name,
          'gen_ai.conversation.id': session,
          'gen_ai.tool.call.arguments': '{"a":1}',
          'gen_ai.tool.call.result': `of ${name}`,
        });
        if (name === 'second') span.setStatus({ code: SpanStatusCode.ERROR, message: 'no' });
        span.end(at + 5);
      }
    });
    expect(await exportSpans(spans, target({ form, compression }))).toEqual({ code: 0, error: '' });
    const { run, steps } = await readRun(session);
    expect(run).toMatchObject({ task_profile: 'qa', framework: 'an.agent' });
    expect(steps).toMatchObject([
      { step_index: 0, action: 'first', action_input: '{"a":1}', observation: 'of first', is_error: false },
      { step_index: 1, action: 'second', observation: 'of second', is_error: true },
    ]);
  });
});

/** A tool span as each instrumentation makes it, with the conversation `session`. */
const INSTRUMENTATIONS: Record<
  string,
  { scope: string; name: string; attributes: (session: string) => object }
> = {
  'AI SDK 5 and 6': {
    scope: 'ai',
    name: 'ai.toolCall',
    attributes: (session) => ({
      'ai.operationId': 'ai.toolCall',
      'ai.toolCall.name': 'search',
      'ai.toolCall.id': 'call_9',
      'ai.toolCall.args': '{"q":"x"}',
      'ai.toolCall.result': '"found"',
      'ai.telemetry.metadata.sessionId': session,
    }),
  },
  OpenInference: {
    scope: '@arizeai/openinference-instrumentation-langchain',
    name: 'search',
    attributes: (session) => ({
      'openinference.span.kind': 'TOOL',
      'tool.name': 'search',
      'input.value': '{"q":"x"}',
      'output.value': '"found"',
      'session.id': session,
    }),
  },
  OpenLLMetry: {
    scope: '@traceloop/instrumentation-langchain',
    name: 'execute_tool search',
    attributes: (session) => ({
      'traceloop.span.kind': 'tool',
      'traceloop.entity.name': 'search',
      'traceloop.entity.input': '{"q":"x"}',
      'traceloop.entity.output': '"found"',
      'traceloop.association.properties.session_id': session,
    }),
  },
  LangSmith: {
    scope: 'langsmith',
    name: 'search',
    attributes: (session) => ({
      'langsmith.span.kind': 'tool',
      'gen_ai.tool.name': 'search',
      'gen_ai.prompt': '{"q":"x"}',
      'gen_ai.completion': '"found"',
      'langsmith.metadata.thread_id': session,
    }),
  },
};

describe.each(Object.entries(INSTRUMENTATIONS))(
  'a tool span of %s',
  (name, { scope, name: span, attributes }) => {
    it('is a step', async () => {
      const session = `by ${name}`;
      const spans = await makeSpans(scope, {}, (tracer) => {
        tracer.startSpan(span, { attributes: { ...attributes(session) } }, ROOT_CONTEXT).end();
      });
      expect(await exportSpans(spans, target())).toEqual({ code: 0, error: '' });
      expect((await readRun(encodeURIComponent(session))).steps).toMatchObject([
        { action: 'search', action_input: '{"q":"x"}', observation: '"found"', is_error: false },
      ]);
    });
  },
);

it('spans of the AI SDK become steps, with the first prompt as the task', async () => {
  const spans = await makeSpans('ai', {}, async (tracer) => {
    let calls = 0;
    const model = new MockLanguageModelV4({
      doGenerate: async () => {
        const usage = {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 },
        };
        return calls++ === 0
          ? {
              content: [
                {
                  type: 'tool-call' as const,
                  toolCallId: 'call_1',
                  toolName: 'look',
                  input: '{"where":"here"}',
                },
              ],
              finishReason: { unified: 'tool-calls' as const, raw: undefined },
              usage,
              warnings: [],
            }
          : {
              content: [{ type: 'text' as const, text: 'Done.' }],
              finishReason: { unified: 'stop' as const, raw: undefined },
              usage,
              warnings: [],
            };
      },
    });
    const look = tool({
      inputSchema: z.object({ where: z.string() }),
      execute: async ({ where }) => `nothing ${where}`,
    });
    await generateText({
      model,
      prompt: 'Find the key.',
      tools: { look },
      stopWhen: stepCountIs(3),
      telemetry: { integrations: [new OpenTelemetry({ tracer: tracer as never })] },
    });
  });
  const { traceId } = spans[0]!.spanContext();
  expect(await exportSpans(spans, target())).toEqual({ code: 0, error: '' });
  const { run, steps } = await readRun(traceId);
  expect(run).toMatchObject({ task: 'Find the key.', framework: 'ai-sdk' });
  expect(steps).toMatchObject([
    { action: 'look', action_input: '{"where":"here"}', observation: '"nothing here"', is_error: false },
  ]);
});

it('a result that the model received becomes a step, if the tool has no span', async () => {
  const messages = [
    { role: 'user', parts: [{ type: 'text', content: 'Mend it.' }] },
    {
      role: 'assistant',
      parts: [
        { type: 'text', content: 'I try.' },
        { type: 'tool_call', id: 'c1', name: 'run', arguments: { command: 'make' } },
      ],
    },
    { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'made' }] },
  ];
  const spans = await makeSpans('opentelemetry.instrumentation.anthropic', {}, (tracer) => {
    for (let times = 0; times < 2; times++)
      tracer
        .startSpan('chat claude-demo', {
          attributes: {
            'gen_ai.operation.name': 'chat',
            'gen_ai.request.model': 'claude-demo',
            'gen_ai.conversation.id': 'told',
            'gen_ai.input.messages': JSON.stringify(messages),
          },
        })
        .end();
  });
  await exportSpans(spans, target());
  const { run, steps } = await readRun('told');
  expect(run).toMatchObject({ task: 'Mend it.', model: 'claude-demo', steps: 1 });
  expect(steps).toMatchObject([
    { action: 'run', action_input: '{"command":"make"}', thought: 'I try.', observation: 'made' },
  ]);
});

describe('the same call', () => {
  it('is one step, however often and in whatever form it arrives', async () => {
    const session = 'again';
    const logs = await makeLogs('com.anthropic.claude_code.events', {}, claudeCodeEvents(session));
    const spans = await makeSpans('com.anthropic.claude_code.tracing', {}, (tracer) => {
      const span = tracer.startSpan('claude_code.tool', {
        attributes: {
          'session.id': session,
          tool_name: 'Bash',
          'gen_ai.operation.name': 'execute_tool',
          tool_use_id: 'toolu_1',
          'gen_ai.tool.call.id': 'toolu_1',
        },
      });
      span.addEvent('tool.output', { output: 'found' });
      span.end();
    });
    const ends = await Promise.all([
      exportLogs(logs, target()),
      exportSpans(spans, target()),
      exportLogs(logs, target({ form: 'json' })),
      exportSpans([...spans, ...spans], target({ form: 'json' })),
    ]);
    expect(ends.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect((await readRun(session)).run).toMatchObject({ steps: 1 });
  });

  it('is a step of each of two runs, but not of a finished run', async () => {
    const send = async (session: string) =>
      exportLogs(await makeLogs('com.anthropic.claude_code.events', {}, claudeCodeEvents(session)), target());
    await send('one');
    await send('two');
    expect((await readRun('two')).run).toMatchObject({ steps: 1 });
    await api.call(key, 'POST', '/v1/monitor/runs/two/finish', { outcome: 'success' });
    // Repeated events of a finished run are accepted. New events are refused permanently.
    expect(await send('two')).toMatchObject({ code: 0 });
    const body = JSON.stringify({
      resourceLogs: [{ scopeLogs: [{ logRecords: [eventAsJson('two', 'toolu_new')] }] }],
    });
    const answer = await post('/otel/v1/logs', body);
    expect(answer).toMatchObject({
      status: 200,
      text: JSON.stringify({
        partialSuccess: { rejectedLogRecords: '1', errorMessage: 'Run two: The run is finished' },
      }),
    });
  });
});

it('steps from telemetry are scored like posted ones, so that monitors fire in a loop', async () => {
  const events = Array.from({ length: 12 }, (_, at) => ({
    ...claudeCodeEvents('loop', `toolu_${at}`).at(-1)!,
    at_ms: 1_795_459_738_000 + at * 1_000,
  }));
  await exportLogs(await makeLogs('com.anthropic.claude_code.events', {}, events), target());
  const { run } = await readRun('loop');
  expect(run).toMatchObject({ steps: 12 });
  expect(run.max_total_score).toBeGreaterThan(0);
  const { body } = await api.call(key, 'POST', '/v1/monitors/evaluate', { run_id: 'loop' });
  expect(body).toMatchObject({ inject: true });
});

it('telemetry keeps tenants apart, and credentials that may not write are refused', async () => {
  const send = async (credential: string, session: string) =>
    exportLogs(
      await makeLogs('com.anthropic.claude_code.events', {}, claudeCodeEvents(session)),
      target({ key: credential }),
    );
  expect(await send(key, 'shared-name')).toMatchObject({ code: 0 });
  expect((await readRun('shared-name', otherKey)).status).toBe(404);
  expect(await send(otherKey, 'shared-name')).toMatchObject({ code: 0 });
  expect((await readRun('shared-name', otherKey)).run).toMatchObject({ steps: 1 });
  expect((await readRun('shared-name')).run).toMatchObject({ steps: 1 });
  for (const [credential, query, status] of [
    ['', '', 401],
    ['svc_live_nonsense', '', 401],
    [viewerToken, `?org_id=${org}`, 403],
  ] as const) {
    const body = JSON.stringify({
      resourceLogs: [{ scopeLogs: [{ logRecords: [eventAsJson('unknown', 't')] }] }],
    });
    expect((await post(`/otel/v1/logs${query}`, body, {}, credential)).status).toBe(status);
  }
  expect((await readRun('unknown')).status).toBe(404);
});

function eventAsJson(session: string, call: string) {
  const attributes = Object.entries({
    'session.id': session,
    'event.name': 'tool_result',
    tool_name: 'Bash',
    tool_use_id: call,
    success: 'true',
  }).map(([name, stringValue]) => ({ key: name, value: { stringValue } }));
  return {
    timeUnixNano: '1795459738000000000',
    body: { stringValue: 'claude_code.tool_result' },
    attributes,
  };
}

async function post(
  path: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
  credential = key,
) {
  const answer = await fetch(api.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(credential === '' ? {} : { authorization: `Bearer ${credential}` }),
      ...headers,
    },
    body: typeof body === 'string' ? body : Buffer.from(body),
  });
  return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() };
}

describe('metrics', () => {
  const points = [{ asDouble: 1.5, timeUnixNano: 1 }, { asDouble: 2 }];
  const request = {
    resourceMetrics: [
      {
        scopeMetrics: [
          {
            metrics: [
              { name: 'a.count', sum: { dataPoints: points, isMonotonic: true } },
              { name: 'b', gauge: { dataPoints: points } },
              { name: 'c', histogram: { dataPoints: [{ count: 3 }] } },
              { name: 'd', exponentialHistogram: { dataPoints: [{ count: 3 }] } },
              { name: 'e', summary: { dataPoints: [{ count: 3 }] } },
              { name: 'f' },
            ],
          },
          { metrics: [{ name: 'g', sum: { dataPoints: [] } }] },
        ],
      },
    ],
  };
  const words = 'Metrics are not kept here; set OTEL_METRICS_EXPORTER=none to stop sending them';

  it('are answered as a success without stored data, in either encoding', async () => {
    expect(await post('/otel/v1/metrics', JSON.stringify(request))).toEqual({
      status: 200,
      type: 'application/json',
      text: JSON.stringify({ partialSuccess: { rejectedDataPoints: '7', errorMessage: words } }),
    });
    const { ExportMetricsServiceRequest, ExportMetricsServiceResponse } =
      otlp.opentelemetry.proto.collector.metrics.v1;
    const body = gzipSync(ExportMetricsServiceRequest.encode(request).finish());
    const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' };
    const answer = await post('/otel/v1/metrics', body, headers);
    expect(answer).toMatchObject({ status: 200, type: 'application/x-protobuf' });
    expect(
      ExportMetricsServiceResponse.toObject(ExportMetricsServiceResponse.decode(Buffer.from(answer.text)), {
        longs: Number,
      }),
    ).toEqual({ partialSuccess: { rejectedDataPoints: 7, errorMessage: words } });
    expect(await post('/otel/v1/metrics', '{}')).toMatchObject({ status: 200, text: '{}' });
  });

  it('are refused like the other signals', async () => {
    expect(await post('/otel/v1/metrics', '{}', {}, '')).toMatchObject({ status: 401 });
    for (const body of [
      '[]',
      '{"resourceMetrics":7}',
      '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":7}]}]}]}',
    ])
      expect([body, (await post('/otel/v1/metrics', body)).status]).toEqual([body, 400]);
    const { ExportMetricsServiceRequest } = otlp.opentelemetry.proto.collector.metrics.v1;
    const dataPoints = Array.from({ length: OTLP_BOUNDS.values + 1 }, () => ({}));
    const many = { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ sum: { dataPoints } }] }] }] };
    const body = ExportMetricsServiceRequest.encode(many).finish();
    const headers = { 'content-type': 'application/x-protobuf' };
    expect(await post('/otel/v1/metrics', body, headers)).toMatchObject({ status: 413 });
  });
});

describe('a hostile body', () => {
  const PROTOBUF = { 'content-type': 'application/x-protobuf' };
  const varint = (value: number): number[] =>
    value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
  const wrap = (field: number, inner: Uint8Array): Buffer =>
    Buffer.concat([Buffer.from([(field << 3) | 2, ...varint(inner.length)]), inner]);

  it('gets an answer in its own encoding, as OTLP requires', async () => {
    const all = await post('/otel/v1/traces', '', PROTOBUF);
    expect(all).toEqual({ status: 200, type: 'application/x-protobuf', text: '' });
    expect(await post('/otel/v1/traces', '{}')).toEqual({
      status: 200,
      type: 'application/json',
      text: '{}',
    });
    const fault = await post('/otel/v1/traces', Buffer.from([0xff]), PROTOBUF);
    expect(fault).toMatchObject({ status: 400, type: 'application/x-protobuf' });
    expect(fault.text).toContain('not the protobuf message');
    expect(await post('/otel/v1/traces', 'x', { 'content-type': 'text/plain' })).toMatchObject({
      status: 415,
    });
    expect(await post('/otel/v1/traces', 'x', { 'content-encoding': 'br' })).toMatchObject({ status: 415 });
  });

  it('is a 400 or 413 if it is cut off, too deep, too large or of another type', async () => {
    const spans = await makeSpans('s', {}, (tracer) => {
      const parent = tracer.startSpan('execute_tool x', {
        attributes: { 'gen_ai.operation.name': 'execute_tool', list: ['a', 'b'], number: 1.5 },
      });
      tracer.startSpan('child', {}, trace.setSpan(ROOT_CONTEXT, parent)).end();
      parent.end();
    });
    const whole = await captureBody(spans);
    const statuses = new Set<number>();
    for (let length = 1; length < whole.length; length += 7)
      statuses.add((await post('/otel/v1/traces', whole.subarray(0, length), PROTOBUF)).status);
    expect(statuses).toEqual(new Set([400]));

    let nested: Uint8Array = Buffer.from([0x0a, 1, 0x61]);
    for (let level = 0; level < OTLP_BOUNDS.depth + 2; level++) nested = wrap(5, wrap(1, nested));
    const deep = wrap(
      1,
      wrap(2, wrap(2, wrap(9, Buffer.concat([wrap(1, Buffer.from('k')), wrap(2, nested)])))),
    );
    expect(await post('/otel/v1/traces', deep, PROTOBUF)).toMatchObject({ status: 400 });
    const groups = Buffer.alloc(1_000_000, 0x0b);
    expect(await post('/otel/v1/traces', groups, PROTOBUF)).toMatchObject({ status: 400 });
    // Two million empty messages.
    const empty = Buffer.alloc(4_000_000);
    for (let at = 0; at < empty.length; at += 2) empty[at] = 0x0a;
    expect(await post('/otel/v1/traces', empty, PROTOBUF)).toMatchObject({ status: 413 });

    for (const body of [
      '',
      'null',
      '[]',
      '{"resourceSpans":{}}',
      '{"resourceSpans":[null]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":7}]}]}]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"soon"}]}]}]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":1}]}]}]}]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"a","value":{"arrayValue":{"values":7}}}]}]}]}]}',
      '{"resourceSpans":',
      '"\\ud800"',
    ])
      expect([body, (await post('/otel/v1/traces', body)).status]).toEqual([body, 400]);
    const levels = 5_000;
    const json = `{"resourceSpans":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    expect(await post('/otel/v1/traces', json)).toMatchObject({ status: 400 });
  });

  it('is not decompressed beyond the maximum of a body', async () => {
    const bomb = gzipSync(Buffer.alloc(100 << 20));
    expect(await post('/otel/v1/traces', bomb, { ...PROTOBUF, 'content-encoding': 'gzip' })).toMatchObject({
      status: 413,
    });
    const notGzip = await post('/otel/v1/traces', 'plain', { 'content-encoding': 'gzip' });
    expect(notGzip).toMatchObject({ status: 400 });
    const large = await post('/otel/v1/traces', Buffer.alloc(6 << 20), PROTOBUF);
    expect(large).toMatchObject({ status: 413 });
  });

  it('makes a limited number of steps, and does not affect later requests', async () => {
    const attributes = (call: number) => eventAsJson('many', `toolu_${call}`);
    const logRecords = Array.from({ length: OTLP_BOUNDS.steps + 3 }, (_, call) => attributes(call));
    const answer = await post(
      '/otel/v1/logs',
      JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] }),
    );
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ partialSuccess: { rejectedLogRecords: '3' } });
    expect((await readRun('many')).run).toMatchObject({ steps: OTLP_BOUNDS.steps });
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const input = `[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"n","arguments":${deep}}]},
      {"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":${deep}}]}]`;
    const spans = await makeSpans('s', {}, (tracer) => {
      tracer
        .startSpan('chat', {
          attributes: { 'gen_ai.conversation.id': 'deep', 'gen_ai.input.messages': input },
        })
        .end();
    });
    expect(await exportSpans(spans, target())).toMatchObject({ code: 0 });
    expect((await readRun('deep')).run).toMatchObject({ steps: 1 });
  });
});

/** The bytes that the SDK's own exporter sends. */
async function captureBody(spans: Awaited<ReturnType<typeof makeSpans>>): Promise<Buffer> {
  const { createServer } = await import('node:http');
  const { buffer } = await import('node:stream/consumers');
  let body: Buffer = Buffer.alloc(0);
  const server = createServer(async (request, response) => {
    body = await buffer(request);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await exportSpans(spans, { endpoint: `http://127.0.0.1:${port}`, key: 'k' });
  server.close();
  return body;
}

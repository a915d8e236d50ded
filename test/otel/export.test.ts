/**
 * The export of captured turns to a collector. The gateway is a process, and the provider is a fake. The collector
 * decodes with OpenTelemetry's own code; in some tests it does not answer, or is stopped.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { Script } from '../../src/demo/script.ts';
import { CliChild } from '../cli/child.ts';
import { Canaries } from '../fixtures/canaries.ts';
import { OtlpCollector } from '../fixtures/otlp-collector.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { longFrom } from '../long-parts.ts';

const settled = { timeout: PATIENCE_MS, interval: 20 };

interface Service {
  url: string;
  provider: Awaited<ReturnType<typeof startFakeProvider>>;
  collector: OtlpCollector;
  stats(): Promise<{ otel: Record<string, unknown> }>;
  stop(): Promise<void>;
  start(env?: Record<string, string>): Promise<void>;
}

const callTwice: Script = ({ calls_before }) =>
  calls_before % 2 === 0
    ? {
        text: 'I look.',
        tool_calls: [{ name: 'look', input: { where: 'here' } }],
        usage: { input: 10, output: 5, cache_read: 3, cache_write: 2 },
      }
    : { text: 'Done.', usage: { input: 20, output: 7 } };

async function startService(env: Record<string, string> = {}, script: Script = callTwice): Promise<Service> {
  const dir = mkdtempSync(join(tmpdir(), 'understudy-otel-'));
  const collector = new OtlpCollector();
  const endpoint = await collector.start();
  const provider = await startFakeProvider({ script });
  let child: CliChild | null = null;
  const service: Service = {
    url: '',
    provider,
    collector,
    stats: async () => (await fetch(`${service.url}/__gw/stats`)).json() as never,
    start: async (more = {}) => {
      child = new CliChild(['gateway', '--port', '0'], {
        env: {
          DATA_DIR: dir,
          GW_UPSTREAM_BASE: provider.url,
          OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
          ...env,
          ...more,
        },
      });
      service.url = (await child.waitForOutput(/http:\/\/[\d.]+:\d+/))[0];
    },
    stop: async () => {
      child!.process.kill('SIGTERM');
      await child!.ended;
    },
  };
  onTestFinished(async () => {
    await child?.[Symbol.asyncDispose]();
    await collector[Symbol.asyncDispose]();
    await provider.close();
    rmSync(dir, { recursive: true, force: true });
  });
  await service.start();
  return service;
}

/** A typical agent's conversation of two turns with one tool call. */
async function converse(
  { url }: Service,
  run: string,
  {
    headers = {},
    prompt = 'Find it.',
    result = 'nothing here',
  }: { headers?: Record<string, string>; prompt?: string; result?: string } = {},
): Promise<void> {
  const messages: object[] = [{ role: 'user', content: prompt }];
  for (let turn = 0; turn < 2; turn++) {
    const answer = await fetch(`${url}/v1/messages`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-api-key': 'k',
        'anthropic-version': '2023-06-01',
        'x-svc-run': run,
        ...headers,
      },
      body: JSON.stringify({
        model: 'claude-demo',
        max_tokens: 100,
        tools: [{ name: 'look', input_schema: { type: 'object' } }],
        messages,
        stream: turn === 1,
      }),
    });
    if (turn === 1) return void (await answer.text());
    const { content } = (await answer.json()) as { content: { type: string; id: string }[] };
    const call = content.find(({ type }) => type === 'tool_use')!;
    messages.push({ role: 'assistant', content });
    messages.push({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: call.id, content: result, is_error: true }],
    });
  }
}

for (const [at, protocol] of ['http/protobuf', 'http/json'].entries())
  describe(`the export as ${protocol}`, longFrom(at, 1), () => {
    it('sends a trace for a run, a span for an exchange, and one for a tool call', async () => {
      const service = await startService({
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-team=a%20b',
        OTEL_EXPORTER_OTLP_COMPRESSION: protocol === 'http/json' ? 'gzip' : 'none',
        OTEL_SERVICE_NAME: 'my-gateway',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=other',
      });
      await converse(service, 'run-1');
      const { collector } = service;
      await expect.poll(() => collector.spans.length, settled).toBe(3);
      expect(collector.requests[0]).toMatchObject({ path: '/v1/traces', headers: { 'x-team': 'a b' } });
      const [first, second] = collector.spans.filter(({ name }) => name === 'chat claude-demo');
      const [tool] = collector.spans.filter(({ name }) => name === 'execute_tool look');
      const { port } = new URL(service.provider.url);
      expect(first).toMatchObject({
        kind: 3,
        status: 0,
        parentSpanId: '',
        resource: { 'service.name': 'my-gateway', 'deployment.environment.name': 'test' },
        attributes: {
          'gen_ai.operation.name': 'chat',
          'gen_ai.provider.name': 'anthropic',
          'gen_ai.request.model': 'claude-demo',
          'gen_ai.request.max_tokens': 100,
          'gen_ai.conversation.id': 'run-1',
          'gen_ai.response.finish_reasons': ['tool_use'],
          'gen_ai.usage.input_tokens': 15,
          'gen_ai.usage.output_tokens': 5,
          'gen_ai.usage.cache_read.input_tokens': 3,
          'gen_ai.usage.cache_creation.input_tokens': 2,
          'http.response.status_code': 200,
          'server.address': '127.0.0.1',
          'server.port': Number(port),
          'understudy.served_by': 'upstream',
          'understudy.run.id': 'run-1',
        },
      });
      expect(second!.traceId).toBe(first!.traceId);
      expect(second!.attributes).toMatchObject({
        'gen_ai.request.stream': true,
        'gen_ai.response.time_to_first_chunk': expect.any(Number),
        'gen_ai.response.finish_reasons': ['end_turn'],
      });
      expect(tool).toMatchObject({
        traceId: first!.traceId,
        parentSpanId: first!.spanId,
        kind: 1,
        status: 2,
        attributes: {
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': 'look',
          'error.type': 'tool_error',
        },
      });
      expect(tool!.start_ms).toBeGreaterThanOrEqual(first!.end_ms - 1);
      expect(tool!.end_ms).toBe(second!.start_ms);
      expect(first!.end_ms).toBeGreaterThan(first!.start_ms);
      const read = async () => (await service.stats()).otel;
      await expect.poll(read, settled).toMatchObject({ exchanges: 2, spans: 3, waiting: 0, failing: null });
    });
  });

it('the export contains no text by default, and the whole text of a turn on request', {
  tags: 'long',
}, async () => {
  const canaries = new Canaries();
  const script: Script = ({ calls_before }) =>
    calls_before % 2 === 0
      ? {
          text: canaries.make('answer'),
          tool_calls: [{ name: 'look', input: { where: canaries.make('input') } }],
        }
      : { text: canaries.make('end') };
  const service = await startService({}, script);
  const secrets = () => ({
    prompt: canaries.make('prompt'),
    result: canaries.make('result'),
    headers: { 'x-api-key': canaries.make('key'), authorization: `Bearer ${canaries.make('token')}` },
  });
  await converse(service, 'quiet', secrets());
  await expect.poll(() => service.collector.spans.length, settled).toBe(3);
  const found = service.collector.requests.flatMap(({ body }) =>
    canaries.find(body, 'what the collector got'),
  );
  expect(found).toEqual([]);

  await service.stop();
  await service.start({ GW_OTEL_CONTENT: 'on' });
  const keys = new Canaries();
  const { prompt, result } = { prompt: 'say the prompt', result: 'the result of it' };
  await converse(service, 'told', { prompt, result, headers: { 'x-api-key': keys.make('key') } });
  await expect.poll(() => service.collector.spans.length, settled).toBe(6);
  const told = service.collector.spans.filter(({ attributes }) => attributes['understudy.run.id'] === 'told');
  const tool = told.find(({ name }) => name === 'execute_tool look')!;
  expect(tool.attributes['gen_ai.tool.call.result']).toBe(result);
  const last = told.filter(({ name }) => name.startsWith('chat')).at(-1)!;
  const input = JSON.parse(last.attributes['gen_ai.input.messages'] as string);
  expect(input).toMatchObject([
    { role: 'user', parts: [{ type: 'text', content: prompt }] },
    { role: 'assistant', parts: [{ type: 'text' }, { type: 'tool_call', name: 'look' }] },
    { role: 'tool', parts: [{ type: 'tool_call_response', response: result }] },
  ]);
  expect(JSON.parse(last.attributes['gen_ai.output.messages'] as string)).toMatchObject([
    { role: 'assistant', parts: [{ type: 'text' }], finish_reason: 'end_turn' },
  ]);
  expect(service.collector.requests.flatMap(({ body }) => keys.find(body, 'the collector'))).toEqual([]);
});

it("a span has the client's span as parent, which is forwarded unchanged", { tags: 'long' }, async () => {
  const service = await startService();
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  await converse(service, 'traced', { headers: { traceparent, tracestate: 'a=1' } });
  await expect.poll(() => service.collector.spans.length, settled).toBe(3);
  for (const span of service.collector.spans) expect(span.traceId).toBe('4bf92f3577b34da6a3ce929d0e0e4736');
  const chats = service.collector.spans.filter(({ name }) => name.startsWith('chat'));
  expect(chats).toMatchObject([
    { parentSpanId: '00f067aa0ba902b7', traceState: 'a=1' },
    { parentSpanId: '00f067aa0ba902b7' },
  ]);
  for (const { raw_headers } of service.provider.requests) {
    expect(raw_headers).toContain(traceparent);
    expect(raw_headers).toContain('a=1');
  }
  const errors = await startService({}, () => ({ error: { status: 529, message: 'too much' } }));
  const refused = await fetch(`${errors.url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'k', traceparent: 'nonsense' },
    body: JSON.stringify({ model: 'claude-demo', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
  });
  expect(refused.status).toBe(529);
  await expect.poll(() => errors.collector.spans.length, settled).toBe(1);
  expect(errors.collector.spans[0]).toMatchObject({
    status: 2,
    parentSpanId: '',
    attributes: { 'error.type': '529', 'http.response.status_code': 529 },
  });
});

describe('a collector', () => {
  it('that refuses spans gets the same ones later, even after a restart, and traffic continues', {
    tags: 'long',
  }, async () => {
    const service = await startService();
    const { collector } = service;
    collector.answer = (response) => response.writeHead(503, { 'retry-after': '1' }).end();
    await converse(service, 'kept');
    await expect.poll(async () => (await service.stats()).otel.failing, settled).toBe('status 503');
    await converse(service, 'kept');
    const before = new Set(collector.spans.map(({ spanId }) => spanId));
    await service.stop();
    collector.requests.length = 0;
    collector.answer = (response) => response.end();
    await service.start();
    await expect.poll(() => collector.spans.length, settled).toBe(6);
    const after = new Set(collector.spans.map(({ spanId }) => spanId));
    for (const id of before) expect(after).toContain(id);
    await expect
      .poll(async () => (await service.stats()).otel, settled)
      .toMatchObject({
        exchanges: 4,
        spans: 6,
        waiting: 0,
        failing: null,
        given_up_by_cause: { refused: 0, rejected: 0, unreadable: 0, behind: 0 },
      });
  });

  it('loses no span when the collector is killed and restarted under traffic, because waiting spans are on the disk', {
    tags: 'long',
  }, async () => {
    // In this test, 120 MB of texts wait on the disk.
    const result = 'a line of a long result\n'.repeat(5_200);
    const service = await startService({ GW_OTEL_CONTENT: 'on' });
    const { collector } = service;
    const { port } = new URL(collector.url);
    let conversations = 0;
    const goOn = async (many: number) => {
      for (let made = 0; made < many; made++, conversations++)
        await converse(service, `outage-${conversations}`, { result });
    };
    const read = async () => (await service.stats()).otel;
    await goOn(2);
    await expect.poll(read, settled).toMatchObject({ exchanges: 4, spans: 6, waiting: 0 });
    const { pid } = (await read()).process as { pid: number };
    const memory = () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1e3;

    // The collector is killed during a request.
    const { promise: isAsked, resolve } = Promise.withResolvers<void>();
    collector.answer = () => resolve();
    await goOn(1);
    await isAsked;
    const before_mb = process.platform === 'linux' ? memory() : 0;
    await collector.kill();
    collector.answer = (response) => response.end();
    await goOn(1_000);
    await expect.poll(async () => (await read()).failing, settled).toBe('ECONNREFUSED');
    await expect
      .poll(async () => {
        const { waiting, position } = await read();
        return (waiting as number) + (position as number);
      }, settled)
      .toBe(conversations * 2);
    expect(await read()).toMatchObject({ exchanges: 4, spans: 6, position: 4 });
    if (process.platform === 'linux') expect(memory() - before_mb).toBeLessThan(80);

    await collector.start(Number(port));
    await goOn(2);
    await expect.poll(read, settled).toMatchObject({
      exchanges: conversations * 2,
      spans: conversations * 3,
      waiting: 0,
      failing: null,
      given_up_by_cause: { refused: 0, rejected: 0, unreadable: 0, behind: 0 },
      process: { pid, restarts: 0 },
    });
    expect(collector.spans).toHaveLength(conversations * 3);
    const runs = new Set(collector.spans.map(({ attributes }) => attributes['understudy.run.id']));
    expect(runs).toHaveLength(conversations);
  });

  it('does not get the spans again that it has rejected, and each of them counts as given up', {
    tags: 'long',
  }, async () => {
    const service = await startService();
    const { collector } = service;
    collector.answer = (response) => response.writeHead(400).end();
    await converse(service, 'refused');
    await expect
      .poll(
        async () => ((await service.stats()).otel.given_up_by_cause as { refused: number }).refused,
        settled,
      )
      .toBe(3);
    const sent = collector.requests.length;
    // ExportTraceServiceResponse { partial_success { rejected_spans: 2 } }
    collector.answer = (response) => response.end(Buffer.from([0x0a, 2, 0x08, 2]));
    await converse(service, 'rejected');
    await expect.poll(async () => (await service.stats()).otel.position, settled).toBe(4);
    expect(await service.stats()).toMatchObject({
      otel: { given_up_by_cause: { refused: 3, rejected: 2 } },
    });
    const later = collector.requests.slice(sent).flatMap(({ spans }) => spans);
    expect(later.every(({ attributes }) => attributes['understudy.run.id'] !== 'refused')).toBe(true);
  });

  it('gets the last captures when the service stops; the service does not wait for a collector that hangs', {
    tags: 'long',
  }, async () => {
    const service = await startService();
    await converse(service, 'last');
    await service.stop();
    expect(service.collector.spans).toHaveLength(3);
    await service.start();
    service.collector.answer = () => {};
    await converse(service, 'hung');
    // The process ends without an answer; the next start sends the rest.
    await service.stop();
    service.collector.answer = (response) => response.end();
    await service.start();
    await expect
      .poll(
        () =>
          service.collector.spans.filter(({ attributes }) => attributes['understudy.run.id'] === 'hung')
            .length,
        settled,
      )
      .toBe(3);
  });
});

it('no spans are sent while the export is off, and later only spans of exchanges that were captured after it was on again', {
  tags: 'long',
}, async () => {
  const service = await startService({ OTEL_SDK_DISABLED: 'true' });
  await converse(service, 'before');
  expect(await service.stats()).not.toHaveProperty('otel');
  await service.stop();
  await service.start({ OTEL_SDK_DISABLED: 'false' });
  await converse(service, 'after');
  await expect.poll(() => service.collector.spans.length, settled).toBe(3);
  expect(service.collector.spans.every(({ attributes }) => attributes['understudy.run.id'] === 'after')).toBe(
    true,
  );
});

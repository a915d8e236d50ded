/**
 * The real Claude Code sends its telemetry to the service: its tool calls become steps of a run, sent as events, as
 * spans, or as both. The model is a fake, the service is real.
 */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startFakeProvider } from '../../src/demo/fake-provider.ts';
import { ApiChild, CHILD_KEY } from '../fixtures/api-child.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';
import { ClientHome } from './client-session.ts';
import { claudeCode } from './known-client.ts';

const service = new ApiChild();
beforeAll(() => service.start());
afterAll(() => service[Symbol.asyncDispose]());

const client = await claudeCode();
const settled = { timeout: PATIENCE_MS, interval: 50 };

const SIGNALS = {
  events: { OTEL_LOGS_EXPORTER: 'otlp', OTEL_TRACES_EXPORTER: 'none' },
  spans: { OTEL_LOGS_EXPORTER: 'none', OTEL_TRACES_EXPORTER: 'otlp' },
  both: { OTEL_LOGS_EXPORTER: 'otlp', OTEL_TRACES_EXPORTER: 'otlp' },
};

describe.skipIf(client.installed.entry === null)(`claude-code ${client.installed.needed}`, () => {
  it.each([
    ['events', 'http/json'],
    ['events', 'http/protobuf'],
    ['spans', 'http/protobuf'],
    ['both', 'http/protobuf'],
  ] as const)('has its tool calls as steps when it sends %s as %s', async (signals, protocol) => {
    const { url, close } = await startFakeProvider({
      script: ({ calls_before }) =>
        calls_before < 2
          ? { text: 'Let me look.', tool_calls: [client.shell(calls_before === 0 ? 'echo found' : 'false')] }
          : { text: 'It is here.' },
    });
    onTestFinished(() => close());
    const home = new ClientHome();
    onTestFinished(() => home[Symbol.dispose]());
    const session = await client.ask(home, 'Where is it?', url, {
      CLAUDE_CODE_ENABLE_TELEMETRY: '1',
      CLAUDE_CODE_ENHANCED_TELEMETRY_BETA: '1',
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_ENDPOINT: `${service.url}/otel`,
      OTEL_EXPORTER_OTLP_HEADERS: `Authorization=Bearer ${CHILD_KEY}`,
      OTEL_LOG_USER_PROMPTS: '1',
      OTEL_LOG_TOOL_DETAILS: '1',
      OTEL_LOG_TOOL_CONTENT: '1',
      ...SIGNALS[signals],
    });
    expect(session).toMatchObject({ code: 0, answer: 'It is here.' });
    const read = async (path: string) => (await service.get(`/v1/monitor/runs/${session.id}${path}`)).body;
    await expect.poll(async () => (await read('')).steps, settled).toBe(2);
    expect(await read('')).toMatchObject({
      framework: 'claude-code',
      task: 'Where is it?',
      model: 'claude-demo-large',
    });
    const { steps } = await read('/steps');
    expect(steps).toMatchObject([
      { action: 'Bash', action_input: expect.stringContaining('echo found'), is_error: false },
      { action: 'Bash', action_input: expect.stringContaining('false'), is_error: true },
    ]);
    if (signals === 'spans') expect(steps[0].observation).toBe('found');
    if (signals === 'events') expect(steps[0].thought).toBe('Let me look.');
  });
});

/** Decisions of the export: made-up exchanges, and a collector on a real socket. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { ExchangeRecord } from '../../src/domain/exchange.ts';
import type { NormalTurn } from '../../src/domain/turn.ts';
import type { ExportProgress } from '../../src/otel/export-progress.ts';
import { OTEL_EXPORT } from '../../src/otel/limits.ts';
import { SpanExport, type SpanExportOptions, type TurnSource } from '../../src/otel/span-export.ts';
import { OtlpCollector } from '../fixtures/otlp-collector.ts';
import { PATIENCE_MS } from '../fixtures/patience.ts';

const settled = { timeout: PATIENCE_MS, interval: 10 };

function makeRecord(id: number, changes: Partial<ExchangeRecord> = {}): ExchangeRecord {
  return {
    id,
    run_id: `run-${id % 3}`,
    seq: null,
    note: '',
    provider: 'openai',
    kind: 'turn',
    shape: 'chat_completions',
    method: 'POST',
    path: '/v1/chat/completions',
    query: '',
    status: 200,
    started_at: new Date(1_795_459_738_000 + id * 1_000).toISOString(),
    first_byte_ms: 10,
    duration_ms: 20.125,
    aborted: false,
    truncated: false,
    undecodable: false,
    served_by: 'upstream',
    model: 'demo',
    stop_reason: 'stop',
    usage: {
      input_tokens: 5,
      output_tokens: 2,
      cache_read_tokens: null,
      cache_write_tokens: null,
      cache_write_1h_tokens: null,
    },
    request: { headers: [], bytes: 1 },
    response: { headers: [], bytes: 1 },
    ...changes,
  };
}

/** Exchanges with ids from 1 on; some are missing, and some are not turns. */
class MadeTurns implements TurnSource {
  last_id = 0;
  readonly missing = new Set<number>();
  readonly damaged = new Set<number>();
  kind: ExchangeRecord['kind'] = 'turn';
  changes: Partial<ExchangeRecord> = {};

  refresh(): number {
    return this.last_id;
  }

  *from(id: number) {
    for (let at = id; at <= this.last_id; at++) if (!this.missing.has(at)) yield { id: at, kind: this.kind };
  }

  record(id: number): ExchangeRecord | null {
    return this.damaged.has(id) ? null : makeRecord(id, this.changes);
  }

  turn(_id: number): NormalTurn | null {
    return null;
  }
}

async function open(turns: MadeTurns, changes: Partial<SpanExportOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-otel-'));
  const collector = new OtlpCollector();
  const url = `${await collector.start()}/v1/traces`;
  const sums = { exchanges: 0, spans: 0, position: 0, failing: null as string | null };
  const given_up: Record<string, number> = {};
  const tell = (progress: ExportProgress) => {
    sums.exchanges += progress.exchanges;
    sums.spans += progress.spans;
    sums.position = progress.position;
    sums.failing = progress.failing;
    for (const [cause, count] of Object.entries(progress.given_up))
      given_up[cause] = (given_up[cause] ?? 0) + count;
  };
  const position_path = join(folder, 'position');
  const start = (more: Partial<SpanExportOptions> = {}) => {
    const running = new SpanExport(
      {
        collector: { url, encoding: 'protobuf', headers: {}, timeout_ms: PATIENCE_MS, compresses: false },
        source: { resource: { 'service.name': 's' }, scope: { name: 'n', version: '1' } },
        has_content: false,
        servers: [{ prefix: '/', base: 'https://api.example.com:8443/x', provider: 'openai' }],
        position_path,
        after_id: turns.last_id,
        gives_up_first: false,
        ...changes,
        ...more,
      },
      turns,
      tell,
    );
    const ended = running.run();
    return async () => {
      running.stop();
      await ended;
    };
  };
  onTestFinished(async () => {
    await collector[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  return { collector, sums, given_up, start, position_path };
}

it('the export continues where it stopped, and omits exchanges from before its first start', {
  tags: 'long',
}, async () => {
  const turns = new MadeTurns();
  turns.last_id = 5;
  const { collector, sums, start, position_path } = await open(turns);
  const stop = start();
  turns.last_id = 8;
  await expect.poll(() => sums.position, settled).toBe(8);
  await stop();
  const ids = () => collector.spans.map(({ attributes }) => attributes['understudy.exchange.id']);
  expect(ids()).toEqual([6, 7, 8]);
  expect(collector.spans[0]).toMatchObject({
    name: 'chat demo',
    attributes: { 'server.address': 'api.example.com', 'server.port': 8443, 'gen_ai.usage.input_tokens': 5 },
  });
  expect(collector.spans[0]!.end_ms - collector.spans[0]!.start_ms).toBeCloseTo(20.125, 2);
  turns.last_id = 9;
  await start()();
  expect(ids()).toEqual([6, 7, 8, 9]);
  // A database that was restored from a backup has fewer exchanges; nothing is sent again.
  turns.last_id = 3;
  await start()();
  expect(ids()).toEqual([6, 7, 8, 9]);
  expect(JSON.parse(readFileSync(position_path, 'utf8'))).toMatchObject({ id: 3 });
});

it('spans of the proxy name the host of the request as server', async () => {
  const turns = new MadeTurns();
  turns.changes = { provider: 'other', request: { headers: [['Host', 'api.other.example']], bytes: 1 } };
  const { collector, sums, start } = await open(turns, { after_id: 0 });
  turns.last_id = 1;
  const stop = start();
  await expect.poll(() => sums.position, settled).toBe(1);
  await stop();
  expect(collector.spans[0]!.attributes).toMatchObject({
    'gen_ai.provider.name': 'other',
    'server.address': 'api.other.example',
    'server.port': 443,
  });
});

it('missing and unreadable exchanges are counted, and so are those of a batch that ended its process', async () => {
  const turns = new MadeTurns();
  const { collector, sums, given_up, start } = await open(turns, { after_id: 0 });
  turns.last_id = OTEL_EXPORT.batch_exchanges + 10;
  turns.missing.add(OTEL_EXPORT.batch_exchanges + 2);
  turns.damaged.add(OTEL_EXPORT.batch_exchanges + 4);
  const stop = start({ gives_up_first: true });
  await expect.poll(() => sums.position, settled).toBe(turns.last_id);
  await stop();
  expect(given_up).toEqual({ unreadable: OTEL_EXPORT.batch_exchanges + 2 });
  expect(collector.spans).toHaveLength(8);
});

it('the oldest exchanges are given up when too many wait', async () => {
  const turns = new MadeTurns();
  turns.kind = 'other';
  turns.last_id = OTEL_EXPORT.waiting_exchanges + 7;
  const { collector, sums, given_up, start, position_path } = await open(turns);
  writeFileSync(position_path, JSON.stringify({ version: 1, instance: '0123456789abcdef', id: 0 }));
  const stop = start();
  await expect.poll(() => sums.position, settled).toBe(turns.last_id);
  await stop();
  expect(given_up).toEqual({ behind: 7 });
  // An exchange that is not a turn has no span.
  expect(collector.requests).toEqual([]);
});

it('the span of a tool call is a child of the turn that requested it, also when the batch is repeated', {
  tags: 'long',
}, async () => {
  const turns = new MadeTurns();
  turns.changes = { run_id: 'one' };
  // Each turn but the first contains the result of the call of the turn before.
  turns.turn = (id) => {
    const call = { type: 'tool_call', id: `call-${id - 1}`, name: 'look', input: {} };
    const result = { type: 'tool_result', call_id: call.id, name: 'look', is_error: false, content: [] };
    const messages = [
      { role: 'assistant', content: [call] },
      { role: 'tool', content: [result] },
    ];
    const request = { model: 'demo', messages: id === 1 ? [] : messages };
    const answer = { error: null, stop_reason: 'tool_use', id: null, model: null, content: [] };
    return { request, answer } as unknown as NormalTurn;
  };
  const { collector, sums, start } = await open(turns, { after_id: 0 });
  turns.last_id = 1;
  const stop = start();
  await expect.poll(() => sums.position, settled).toBe(1);
  let refusals = 0;
  collector.answer = (response) => {
    if (refusals++ === 0) response.writeHead(503).end();
    else response.end();
  };
  turns.last_id = 3;
  await expect.poll(() => sums.position, settled).toBe(3);
  await stop();
  const [first, again] = collector.requests.slice(1).map(({ spans }) => spans);
  expect(again).toEqual(first);
  const chats = collector.spans.filter(({ name }) => name.startsWith('chat'));
  const tools = collector.spans.filter(({ name }) => name.startsWith('execute_tool'));
  expect(tools.map(({ parentSpanId }) => parentSpanId)).toEqual(
    chats.slice(0, 2).map(({ spanId }) => spanId),
  );
});

it('the export waits for an unreachable collector, and ends without it', async () => {
  const turns = new MadeTurns();
  const { sums, given_up, start } = await open(turns, {
    after_id: 0,
    collector: {
      url: 'http://127.0.0.1:9/v1/traces',
      encoding: 'json',
      headers: {},
      timeout_ms: PATIENCE_MS,
      compresses: false,
    },
  });
  turns.last_id = 2;
  const stop = start();
  await expect.poll(() => sums.failing, settled).toBe('ECONNREFUSED');
  await stop();
  expect(sums).toMatchObject({ exchanges: 0, position: 0 });
  expect(given_up).toEqual({});
});

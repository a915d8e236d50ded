/** The official messages-API SDK through a gateway whose student serves known steps. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Message,
  makeOrder,
  OrderRun,
  orderScript,
  publishOrderStudent,
} from '../../bench/order-agent.ts';
import { createPrng } from '../../src/std/prng.ts';
import { CANARY_KEY, type ClientBench, collect, startClientBench } from './client-bench.ts';

let bench: ClientBench;
let directory: string;
const prng = createPrng(3);
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'understudy-student-'));
  await publishOrderStudent(directory);
  bench = await startClientBench(
    {
      SVC_DISTILL_DIR: directory,
      GW_RELEGATION_AUDIT: '0',
      SVC_STUDENT_KEYS: CANARY_KEY,
      // A long time limit, so that the upstream serves no step because the machine is slow.
      GW_STUDENT_TIMEOUT_MS: '20000',
      GW_PRICES: '{"claude-demo": {"input": 3, "output": 15}}',
    },
    orderScript,
  );
  for (let isReady = false; !isReady; ) isReady = (await relegation()).student === 'exemplar';
});
afterAll(async () => {
  await bench.close();
  await rm(directory, { recursive: true, force: true });
});

interface RelegationStats {
  enabled: boolean;
  student: string | null;
  served: number;
  fallback: number;
  errors: number;
  fallbacks: Record<string, number>;
  tokens_saved: { input: number; output: number };
  money_saved_usd: number | null;
}

async function relegation(): Promise<RelegationStats> {
  const stats = (await (await fetch(`${bench.gateway_url}/__gw/stats`)).json()) as {
    relegation: RelegationStats;
  };
  return stats.relegation;
}

const client = () => new Anthropic({ apiKey: CANARY_KEY, baseURL: bench.gateway_url, maxRetries: 0 });

/** A message without its random parts and without the fields that the SDK adds to streamed messages. */
const plain = (message: Anthropic.Message) => ({
  ...message,
  id: '',
  parsed_output: null,
  content: message.content.map((block) => (block.type === 'tool_use' ? { ...block, id: '' } : block)),
});

describe('the messages-API SDK with a student', () => {
  it.each(['shipped', 'open'] as const)(
    'runs a whole task with it, streamed and not, with the same result: %s',
    async (status) => {
      const order = makeOrder(prng, status);
      const asked = bench.provider.requests.length;
      const before = await relegation();
      const whole = new OrderRun(order);
      const streamed = new OrderRun(order, true);
      const ids = new Set<string>();
      let last = '';
      for (let isOver = false; !isOver; ) {
        const { data, response } = await client()
          .messages.create(whole.body() as unknown as Anthropic.MessageCreateParamsNonStreaming)
          .withResponse();
        expect(response.headers.get('x-svc-served-by')).toBe('student');
        expect(response.headers.get('request-id')).toMatch(/^req_\w+$/);
        const stream = client().messages.stream(streamed.body() as unknown as Anthropic.MessageStreamParams);
        const events = await collect(stream);
        const final = await stream.finalMessage();
        expect(events[0]!.type).toBe('message_start');
        expect(events.at(-1)!.type).toBe('message_stop');
        expect(plain(final)).toEqual(plain(data));
        for (const message of [data, final]) {
          expect(message.id).toMatch(/^msg_\w+$/);
          ids.add(message.id);
          for (const block of message.content) {
            if (block.type !== 'tool_use') continue;
            expect(block.id).toMatch(/^toolu_\w+$/);
            expect(ids.has(block.id)).toBe(false);
            ids.add(block.id);
          }
        }
        expect(data).toMatchObject({ type: 'message', role: 'assistant', stop_sequence: null });
        expect(data.usage).toMatchObject({ input_tokens: 900, output_tokens: 40 });
        last = data.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
        isOver = whole.take(data.content as never);
        expect(streamed.take(final.content as never)).toBe(isOver);
        expect(data.stop_reason).toBe(isOver ? 'end_turn' : 'tool_use');
      }
      expect(last).toContain(status === 'shipped' ? order.city : order.name);
      if (status === 'open') {
        const [, second] = whole.messages.filter(({ role }) => role === 'assistant') as Message[];
        expect((second!.content as unknown[]).length).toBe(3);
      }
      expect(bench.provider.requests.length).toBe(asked);
      const after = await relegation();
      expect(after.served - before.served).toBe(6);
      expect(after.fallback).toBe(before.fallback);
      expect(after.money_saved_usd! - before.money_saved_usd!).toBeCloseTo(
        (6 * (900 * 3 + 40 * 15)) / 1e6,
        9,
      );
    },
  );

  it('is captured as one run that the student served, with or without a label', async () => {
    await bench.expectCaptured(expect.any(Array) as unknown as unknown[]);
    for (const label of ['a-run', null]) {
      const run = new OrderRun(makeOrder(prng, 'shipped'));
      let seq = 0;
      for (let isOver = false; !isOver; ) {
        seq++;
        const headers = label === null ? {} : { 'x-svc-run': label, 'x-svc-seq': String(seq) };
        const message = await client().messages.create(
          run.body() as unknown as Anthropic.MessageCreateParamsNonStreaming,
          { headers },
        );
        isOver = run.take(message.content as never);
      }
    }
    const served = { served_by: 'student', status: 200, kind: 'turn', aborted: false, truncated: false };
    const answered = (stop_reason: string) => ({ ...served, stop_reason, usage: { output_tokens: 40 } });
    const found = { run_id: expect.stringMatching(/^conv_\d+$/) };
    await bench.expectCaptured([
      { run_id: 'a-run', seq: 1, ...answered('tool_use') },
      { run_id: 'a-run', seq: 2, ...answered('tool_use') },
      { run_id: 'a-run', seq: 3, ...answered('end_turn') },
      { ...found, ...answered('tool_use') },
      { ...found, ...answered('tool_use') },
      { ...found, ...answered('end_turn') },
    ]);
  });

  it('goes to the upstream for unknown steps, and back to the student later in the run', async () => {
    const params = {
      model: 'claude-demo-large',
      max_tokens: 100,
      messages: [{ role: 'user' as const, content: 'Write a poem' }],
    };
    const before = await relegation();
    const { data, response } = await client()
      .messages.create(params, { headers: { 'x-svc-run': 'poem' } })
      .withResponse();
    expect(response.headers.get('x-svc-served-by')).toBeNull();
    expect(data.content).toEqual([{ type: 'text', text: 'About Write a poem I know nothing.' }]);
    const known = new OrderRun(makeOrder(prng, 'shipped')).body();
    const later = await client()
      .messages.create(known as unknown as Anthropic.MessageCreateParamsNonStreaming, {
        headers: { 'x-svc-run': 'poem' },
      })
      .withResponse();
    expect(later.response.headers.get('x-svc-served-by')).toBe('student');
    const { fallbacks } = await relegation();
    expect(fallbacks.unknown_agent).toBe((before.fallbacks.unknown_agent ?? 0) + 1);
    expect(fallbacks.taken_over).toBe(before.fallbacks.taken_over);
  });

  it('leaves no credential in any file', () => bench.expectNoCanary());
});

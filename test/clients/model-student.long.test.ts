/**
 * The official SDKs of three wire formats through a gateway whose student asks a model, which uses one of two wire
 * formats. A round measures on golden runs of all three formats what the model answers well, and then the student
 * serves that. The expected results are those of the same requests sent directly to the provider.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { RelegationWire } from '../../src/domain/exchange.ts';
import { runHere } from '../cli/here.ts';
import { BasketRun, basketScript } from '../fixtures/basket-agent.ts';
import { longFrom } from '../long-parts.ts';
import { CANARY_KEY, type ClientBench, startClientBench, type Way } from './client-bench.ts';

const WIRES = ['messages', 'chat_completions', 'responses'] as const;
const MODEL_KEY = 'sk-model-2Kd8Qz5Vw1Xn7Lc4Tb9Rm3Gy6Hp0Js';
/** A round holds out 45 of these runs. A call that no later call confirms needs 31 runs without an error. */
const RUNS = 75;
const SYSTEM = 'You settle baskets.';
const TOOLS = new BasketRun(0).body().tools;

/** A run of the agent in one wire format, with its official SDK. */
interface Conversation {
  /** Requests the next answer. @returns its text and calls, who gave it, and whether the run has ended */
  step(way: Way, isStream: boolean): Promise<{ said: unknown; by: string; isOver: boolean }>;
}

let bench: ClientBench;
let directory: string;
let model: FakeProvider;

const options = (way: Way) => ({ apiKey: CANARY_KEY, maxRetries: 0, baseURL: bench.base(way) });
const serverOf = (response: Response): string => response.headers.get('x-svc-served-by') ?? 'upstream';
const resultOf = (id: string, name: string): string =>
  name === 'get_basket'
    ? JSON.stringify({ basket_id: id, items: Number(id.slice(2)) % 7 })
    : JSON.stringify({ state: 'settled' });

function converse(wire: RelegationWire, at: number): Conversation {
  const { id, messages: first } = new BasketRun(at);
  const task = String(first[0]!.content);
  if (wire === 'messages') {
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: task }];
    return {
      step: async (way, isStream) => {
        const body = {
          model: 'large',
          max_tokens: 900,
          system: SYSTEM,
          tools: TOOLS as Anthropic.Tool[],
          messages,
        };
        const client = new Anthropic(options(way));
        const { data, response } = isStream
          ? await (async () => {
              const { data: stream, response } = await client.messages.stream(body).withResponse();
              return { data: await stream.finalMessage(), response };
            })()
          : await client.messages.create(body).withResponse();
        const calls = data.content.filter((block) => block.type === 'tool_use');
        messages.push({ role: 'assistant', content: data.content });
        if (calls.length > 0)
          messages.push({
            role: 'user',
            content: calls.map((call) => ({
              type: 'tool_result',
              tool_use_id: call.id,
              content: resultOf(id, call.name),
            })),
          });
        const text = data.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
        const said = {
          text,
          calls: calls.map(({ name, input }) => ({ name, input })),
          stop: data.stop_reason,
        };
        return { said, by: serverOf(response), isOver: calls.length === 0 };
      },
    };
  }
  const clientOf = (way: Way) =>
    new OpenAI({ ...options(way), baseURL: `${bench.base(way)}/v1`, organization: null, project: null });
  if (wire === 'chat_completions') {
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'system', content: SYSTEM },
      { role: 'user', content: task },
    ];
    const tools = TOOLS.map(({ name, description, input_schema: parameters }) => ({
      type: 'function' as const,
      function: { name, description, parameters },
    }));
    return {
      step: async (way, isStream) => {
        const body = { model: 'large', messages, tools };
        const client = clientOf(way);
        const { data, response } = isStream
          ? await (async () => {
              const stream = client.chat.completions.stream(body);
              const data = await stream.finalChatCompletion();
              // The SDK does not show the headers of a stream, so the captured copy says who served it.
              return { data, response: new Response(null, { headers: { 'x-svc-served-by': '?' } }) };
            })()
          : await client.chat.completions.create(body).withResponse();
        const { message, finish_reason: stop } = data.choices[0]!;
        const calls = (message.tool_calls ?? []).flatMap((call) => (call.type === 'function' ? [call] : []));
        const { role, content } = message;
        messages.push(calls.length > 0 ? { role, content, tool_calls: calls } : { role, content });
        for (const call of calls)
          messages.push({ role: 'tool', tool_call_id: call.id, content: resultOf(id, call.function.name) });
        const said = {
          text: content ?? '',
          calls: calls.map(({ function: { name, arguments: given } }) => ({
            name,
            input: JSON.parse(given) as unknown,
          })),
          stop,
        };
        return { said, by: serverOf(response), isOver: calls.length === 0 };
      },
    };
  }
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: task }];
  const tools = TOOLS.map(({ name, description, input_schema: parameters }) => ({
    type: 'function' as const,
    name,
    description,
    parameters,
    strict: false,
  }));
  return {
    step: async (way, isStream) => {
      const body = { model: 'large', instructions: SYSTEM, input, tools, store: false };
      const client = clientOf(way);
      let data: OpenAI.Responses.Response;
      let by = '?';
      if (isStream) data = await client.responses.stream(body).finalResponse();
      else {
        const whole = await client.responses.create(body).withResponse();
        data = whole.data;
        by = serverOf(whole.response);
      }
      input.push(...(data.output as OpenAI.Responses.ResponseInputItem[]));
      const calls = data.output.filter((item) => item.type === 'function_call');
      for (const { call_id, name } of calls)
        input.push({ type: 'function_call_output', call_id, output: resultOf(id, name) });
      const said = {
        text: data.output_text,
        calls: calls.map(({ name, arguments: given }) => ({ name, input: JSON.parse(given) as unknown })),
        stop: data.status,
      };
      return { said, by, isOver: calls.length === 0 };
    },
  };
}

async function run(wire: RelegationWire, at: number, way: Way, isStream: boolean): Promise<unknown[]> {
  const conversation = converse(wire, at);
  const said: unknown[] = [];
  for (;;) {
    const step = await conversation.step(way, isStream);
    said.push(step.said);
    servers.push(step.by);
    if (step.isOver) return said;
  }
}
const servers: string[] = [];

interface RelegationStats {
  student: string | null;
  served: number;
  fallbacks: Record<string, number>;
}
const relegation = async (): Promise<RelegationStats> =>
  ((await (await fetch(`${bench.gateway_url}/__gw/stats`)).json()) as { relegation: RelegationStats })
    .relegation;

const env = () => ({
  DATA_DIR: bench.dir,
  GW_RELEGATION_WIRES: WIRES.join(','),
  SVC_STUDENT_KEY: MODEL_KEY,
  EMBED_MODEL: 'off',
});

/** Publishes a student that asks the model. @returns what the round printed */
async function publish(path: string): Promise<string> {
  const argv = ['distill', '--db', bench.db, '--out', directory, '--student', 'http', '--model', 'small'];
  const round = await runHere([...argv, '--endpoint', `${model.url}${path}`], env());
  expect(round.code, round.stdout + round.stderr).toBe(0);
  return round.stdout + round.stderr;
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'understudy-model-'));
  model = await startFakeProvider({ script: basketScript });
  bench = await startClientBench(
    {
      SVC_DISTILL_DIR: directory,
      GW_RELEGATION_AUDIT: '0',
      GW_RELEGATION_WIRES: WIRES.join(','),
      SVC_STUDENT_KEYS: CANARY_KEY,
      SVC_STUDENT_KEY: MODEL_KEY,
      GW_STUDENT_TIMEOUT_MS: '60000',
    },
    basketScript,
  );
  for (let at = 0; at < RUNS; at++) for (const wire of WIRES) await run(wire, at, 'gateway', at % 2 === 0);
  await bench.waitForStats((stats) => stats.exchanges.in_flight === 0);
  await fetch(`${bench.gateway_url}/__gw/flush`);
});
afterAll(async () => {
  await bench?.close();
  await model?.close();
  await rm(directory, { recursive: true, force: true });
});

for (const [at, path] of ['/v1/chat/completions', '/v1/messages'].entries())
  describe(`a model behind the student, asked at ${path}`, longFrom(at, 1), () => {
    let report = '';
    beforeAll(async () => {
      report = await publish(path);
      const { version } = JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')) as {
        version: number;
      };
      for (;;) {
        const { student, version: served } = (await relegation()) as RelegationStats & { version: number };
        if (student === 'http' && served === version) break;
      }
    });

    it.each(WIRES)('serves whole runs of %s, streamed and not, as the upstream would', async (wire) => {
      for (const isStream of [false, true]) {
        const at = 1_000 + Number(isStream);
        const before = await relegation();
        const [asked, upstream] = [model.requests.length, bench.provider.requests.length];
        servers.length = 0;
        const served = await run(wire, at, 'gateway', isStream);
        if (!isStream) expect(servers).toEqual(['student', 'student', 'student']);
        expect(bench.provider.requests.length).toBe(upstream);
        expect((await relegation()).served - before.served).toBe(3);
        expect(served).toEqual(await run(wire, at, 'direct', isStream));
        const requests = model.requests.slice(asked);
        expect(requests.map(({ url }) => url)).toEqual([path, path, path]);
        for (const { raw_headers, body } of requests) {
          expect(raw_headers.join('\n')).toContain(MODEL_KEY);
          expect(raw_headers.join('\n') + body).not.toContain(CANARY_KEY);
          expect(JSON.parse(String(body))).toMatchObject({ model: 'small', stream: false });
        }
      }
    });

    it('does not reveal its key', async () => {
      for (const place of [
        report,
        await readFile(join(directory, 'manifest.json'), 'utf8'),
        bench.child.stdout,
        bench.child.stderr,
      ])
        expect(place).not.toContain(MODEL_KEY);
      for (const path of ['/__gw/stats', '/__gw/routes', '/metrics'])
        expect(await (await fetch(`${bench.gateway_url}${path}`)).text()).not.toContain(MODEL_KEY);
    });
  });

it('a student with a model leaves no credential in any file', () => bench.expectNoCanary());

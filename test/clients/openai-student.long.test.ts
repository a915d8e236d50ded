/**
 * The official chat-completions and responses SDK through a gateway with a student, which a round has made from
 * captured, unlabelled runs of that SDK. The expected results are those of the same requests sent directly to the
 * provider.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeOrder, type Order, orderScript, runTool, TOOLS } from '../../bench/order-agent.ts';
import { createPrng } from '../../src/std/prng.ts';
import { runHere } from '../cli/here.ts';
import { CANARY_KEY, type ClientBench, collect, startClientBench, type Way } from './client-bench.ts';

const MODEL = 'gpt-demo-large';
const WIRES = 'messages,chat_completions,responses';
const SYSTEM = 'You answer questions about orders. Use the tools; never guess.';
/** A kind of answer that no later call confirms needs 31 runs without an error. Half of these runs have that kind. */
const RUNS = 64;

let bench: ClientBench;
let directory: string;
const prng = createPrng(11);
const client = (way: Way) =>
  new OpenAI({
    apiKey: CANARY_KEY,
    baseURL: `${bench.base(way)}/v1`,
    maxRetries: 0,
    organization: null,
    project: null,
  });
const task = (order: Order) => `What is the state of order ${order.order_id}, please?`;

interface RelegationStats {
  student: string | null;
  served: number;
  fallbacks: Record<string, number>;
}
const relegation = async () =>
  ((await (await fetch(`${bench.gateway_url}/__gw/stats`)).json()) as { relegation: RelegationStats })
    .relegation;

type ChatMessage = OpenAI.ChatCompletionMessageParam;
const chatTools = TOOLS.map(
  ({ name, description, input_schema: parameters }): OpenAI.ChatCompletionTool => ({
    type: 'function',
    function: { name, description, parameters },
  }),
);
const chatBody = (messages: ChatMessage[]) => ({
  model: MODEL,
  messages: structuredClone(messages),
  tools: chatTools,
});

/** Adds an answer to the conversation. @returns whether the run has ended */
function takeChat(order: Order, messages: ChatMessage[], answer: OpenAI.ChatCompletionMessage): boolean {
  messages.push(answer);
  for (const call of answer.tool_calls ?? []) {
    if (call.type !== 'function') throw new Error('not a function');
    messages.push({ role: 'tool', tool_call_id: call.id, content: runTool(order, call.function.name) });
  }
  return answer.tool_calls === undefined || answer.tool_calls.length === 0;
}

type Item = OpenAI.Responses.ResponseInputItem;
const responseTools = TOOLS.map(
  ({ name, description, input_schema: parameters }): OpenAI.Responses.Tool => ({
    type: 'function',
    name,
    description,
    parameters,
    strict: false,
  }),
);
const responseBody = (input: Item[]) => ({
  model: MODEL,
  instructions: SYSTEM,
  input: structuredClone(input),
  tools: responseTools,
  store: false,
});
function takeResponse(order: Order, input: Item[], answer: OpenAI.Responses.Response): boolean {
  input.push(...(answer.output as Item[]));
  const calls = answer.output.filter((item) => item.type === 'function_call');
  for (const { call_id, name } of calls)
    input.push({ type: 'function_call_output', call_id, output: runTool(order, name) });
  return calls.length === 0;
}

const startChat = (order: Order): ChatMessage[] => [
  { role: 'system', content: SYSTEM },
  { role: 'user', content: task(order) },
];
const startInput = (order: Order): Item[] => [{ role: 'user', content: task(order) }];

async function teach(): Promise<void> {
  for (let at = 0; at < RUNS; at++) {
    const order = makeOrder(prng, at % 2 === 0 ? 'shipped' : 'open');
    const messages = startChat(order);
    for (let isOver = false; !isOver; ) {
      const answer =
        at % 4 < 2
          ? await client('gateway').chat.completions.create(chatBody(messages))
          : await client('gateway').chat.completions.stream(chatBody(messages)).finalChatCompletion();
      isOver = takeChat(order, messages, answer.choices[0]!.message);
    }
    const input = startInput(order);
    for (let isOver = false; !isOver; ) {
      const answer =
        at % 4 < 2
          ? await client('gateway').responses.create(responseBody(input))
          : await client('gateway').responses.stream(responseBody(input)).finalResponse();
      isOver = takeResponse(order, input, answer);
    }
  }
}

let report = '';
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'understudy-student-'));
  bench = await startClientBench(
    {
      SVC_DISTILL_DIR: directory,
      GW_RELEGATION_AUDIT: '0',
      GW_RELEGATION_WIRES: WIRES,
      SVC_STUDENT_KEYS: CANARY_KEY,
      GW_STUDENT_TIMEOUT_MS: '20000',
    },
    orderScript,
  );
  await teach();
  await bench.waitForStats((stats) => stats.exchanges.in_flight === 0);
  await fetch(`${bench.gateway_url}/__gw/flush`);
  const round = await runHere(['loop', '--once', '--db', bench.db, '--out', directory], {
    DATA_DIR: bench.dir,
    GW_RELEGATION_WIRES: WIRES,
    EMBED_MODEL: 'off',
  });
  report = round.stdout + round.stderr;
  expect(round.code, report).toBe(0);
  for (let isReady = false; !isReady; ) isReady = (await relegation()).student === 'exemplar';
}, 240_000);
afterAll(async () => {
  await bench?.close();
  await rm(directory, { recursive: true, force: true });
});

/** Everything except the fields that are random in each answer. */
function plain(value: unknown): unknown {
  const own = new Set(['id', 'call_id', 'item_id', 'created', 'created_at', 'completed_at', '_request_id']);
  return JSON.parse(
    JSON.stringify(value, (key, item: unknown) => {
      // For an answer with only calls, the API streams null, but the fake provider streams an empty text.
      if (key === 'content' && item === '') return null;
      return own.has(key) && item !== null ? '' : item;
    }),
  );
}

/** Expects all fields of the provider's answer in the student's answer, which may have more of the API's fields. */
const holdsAll = (mine: unknown, direct: unknown) =>
  expect(plain(mine)).toMatchObject(plain(direct) as object);

async function servedBy<T>(asked: { withResponse(): Promise<{ data: T; response: Response }> }) {
  const { data, response } = await asked.withResponse();
  expect(response.headers.get('x-svc-served-by')).toBe('student');
  expect(response.headers.get('x-request-id')).toMatch(/^req_\w+$/);
  return data;
}

describe('a student of chat-completions', () => {
  it.each(['shipped', 'open'] as const)('serves a whole task as the provider would: %s', async (status) => {
    const order = makeOrder(prng, status);
    const messages = startChat(order);
    const ids = new Set<string>();
    const before = (await relegation()).served;
    let steps = 0;
    for (let isOver = false; !isOver; steps++) {
      const body = chatBody(messages);
      const direct = await client('direct').chat.completions.create(body);
      const mine = await servedBy(client('gateway').chat.completions.create(body));
      holdsAll(mine, direct);
      expect(mine.id).toMatch(/^chatcmpl-\w+$/);
      const asked = { ...body, stream_options: { include_usage: true } };
      const streamed = client('gateway').chat.completions.stream(asked);
      const chunks = await collect(streamed);
      const final = await streamed.finalChatCompletion();
      const theirFinal = await client('direct').chat.completions.stream(asked).finalChatCompletion();
      holdsAll(final, theirFinal);
      expect(plain(final.choices[0]!.message)).toEqual(plain(theirFinal.choices[0]!.message));
      expect(chunks.at(-1)!.choices).toEqual([]);
      // The stream has no usage unless the client requests it.
      const quiet = await collect(await client('gateway').chat.completions.create({ ...body, stream: true }));
      expect(quiet.every(({ usage }) => usage === undefined)).toBe(true);
      for (const { message } of [mine.choices[0]!, final.choices[0]!])
        for (const { id } of message.tool_calls ?? []) {
          expect(id).toMatch(/^call_\w{24}$/);
          expect(ids.has(id)).toBe(false);
          ids.add(id);
        }
      isOver = takeChat(order, messages, mine.choices[0]!.message);
    }
    expect(steps).toBe(3);
    expect((await relegation()).served - before).toBe(9);
  });

  it('leaves unsupported requests to the upstream', async () => {
    const before = await relegation();
    const order = makeOrder(prng, 'open');
    const body = chatBody(startChat(order));
    for (const more of [{ n: 2 }, { store: true }, { logprobs: true }, { temperature: 0.1 }]) {
      const { response } = await client('gateway')
        .chat.completions.create({ ...body, ...more })
        .withResponse();
      expect(response.headers.get('x-svc-served-by'), JSON.stringify(more)).toBeNull();
    }
    const after = await relegation();
    expect(after.served).toBe(before.served);
    expect(after.fallbacks.unsupported! - (before.fallbacks.unsupported ?? 0)).toBe(3);
    expect(after.fallbacks.unknown_agent! - (before.fallbacks.unknown_agent ?? 0)).toBe(1);
  });
});

describe('a student of responses', () => {
  it.each(['shipped', 'open'] as const)('serves a whole task as the provider would: %s', async (status) => {
    const order = makeOrder(prng, status);
    const input = startInput(order);
    const before = (await relegation()).served;
    let steps = 0;
    for (let isOver = false; !isOver; steps++) {
      const body = responseBody(input);
      const direct = await client('direct').responses.create(body);
      const mine = await servedBy(client('gateway').responses.create(body));
      holdsAll(mine, direct);
      expect(mine.output_text).toBe(direct.output_text);
      expect(mine.id).toMatch(/^resp_\w+$/);
      const stream = async (way: Way) => {
        const events = client(way).responses.stream(body);
        const told = (await collect(events)).map(({ type }) => type);
        return {
          types: told.filter((type, at) => type !== told[at - 1]),
          final: await events.finalResponse(),
        };
      };
      const streamed = await stream('gateway');
      const theirStream = await stream('direct');
      expect(streamed.types).toEqual(theirStream.types);
      holdsAll(streamed.final, theirStream.final);
      isOver = takeResponse(order, input, mine);
    }
    expect(steps).toBe(3);
    expect((await relegation()).served - before).toBe(6);
  });

  it('leaves an answer that the provider must store to the upstream', async () => {
    const { store: _store, ...body } = responseBody(startInput(makeOrder(prng, 'open')));
    const { response } = await client('gateway').responses.create(body).withResponse();
    expect(response.headers.get('x-svc-served-by')).toBeNull();
  });
});

it('the round reports what it used, from runs without labels', () => {
  expect(report).toMatch(new RegExp(`golden +${2 * RUNS}\\n`));
  expect(report).not.toContain('too few golden runs');
});

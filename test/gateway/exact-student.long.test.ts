/**
 * An agent whose tools take ids of 19 digits as numbers, in a real process: a round teaches it, and every served call
 * has the exact id. The upstream answers in raw JSON, so it does not round ids either.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseExact } from '../../src/std/exact-json.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { flush } from '../fixtures/capture-gateway.ts';

const folder = mkdtempSync(join(tmpdir(), 'understudy-exact-student-'));
const directory = join(folder, 'student');
const db = join(folder, 'capture.mdb');
const GOLDEN = 90;
const LIVE = 80;
/** Golden runs whose arguments are streamed as objects. */
const STREAMED = 45;

const orderOf = (at: number): string => String(2_512_292_042_121_000_001n + BigInt(14 * at));
/** Ids that, read as doubles, would equal the id of this order or of another one. */
const paymentOf = (order: string): string => String(BigInt(order) + 3n);
const refundOf = (order: string): string =>
  `{"payment_id":${paymentOf(order)},"amount":${Number(order.slice(-4)) % 97}.50}`;
const resultOf = (order: string): string =>
  `{"order_id":${order},"payment":{"id":${paymentOf(order)},"amount":${Number(order.slice(-4)) % 97}.50},"status":"paid"}`;

/** The answer of an agent's model: a call with its arguments as JSON text, or words. */
type Said = { name: string; input: string } | { text: string };

/** The model's answer to a request. @param body the unparsed body */
function answer(body: string): Said {
  const order = /order (\d+)/.exec(body)![1]!;
  if (body.includes('refunded')) return { text: 'The refund is made.' };
  if (body.includes('\\"payment\\"')) return { name: 'refund', input: refundOf(order) };
  return { name: 'get_order', input: `{"order_id":${order}}` };
}

const ID = { type: 'integer' };
const SCHEMAS = {
  get_order: { type: 'object', properties: { order_id: ID }, required: ['order_id'] },
  refund: {
    type: 'object',
    properties: { payment_id: ID, amount: { type: 'number' } },
    required: ['payment_id', 'amount'],
  },
};

/** A wire format: the requests of its client and the answers of its upstream, all as JSON texts. */
interface Side {
  path: string;
  ask(order: string, turns: readonly { raw: string; said: Said; id: string }[]): string;
  reply(said: Said, id: string): string;
  /** Reads the text or the call in an answer. */
  read(body: string): { said: Said; id: string; raw: string };
}

const USAGE = 120;
const resultFor = (said: Said, order: string): string =>
  'text' in said ? '' : said.name === 'get_order' ? resultOf(order) : '{"state":"refunded"}';

const messages: Side = {
  path: '/v1/messages',
  ask: (order, turns) => {
    const tools = Object.entries(SCHEMAS).map(([name, input_schema]) => ({
      name,
      description: name,
      input_schema,
    }));
    const said = turns.map(
      ({ raw, said: call, id }) =>
        `,{"role":"assistant","content":${raw}},{"role":"user","content":[{"type":"tool_result","tool_use_id":"${id}","content":${JSON.stringify(resultFor(call, order))}}]}`,
    );
    return `{"model":"claude-demo-large","max_tokens":1000,"temperature":1.0,"system":"You look after orders.","tools":${JSON.stringify(tools)},"messages":[{"role":"user","content":"Please look after order ${order}, thanks."}${said.join('')}]}`;
  },
  reply: (said, id) => {
    const content =
      'text' in said
        ? `{"type":"text","text":"${said.text}"}`
        : `{"type":"tool_use","id":"${id}","name":"${said.name}","input":${said.input}}`;
    return `{"id":"msg_${id}","type":"message","role":"assistant","model":"claude-demo-large","content":[${content}],"stop_reason":"${'text' in said ? 'end_turn' : 'tool_use'}","stop_sequence":null,"usage":{"input_tokens":${USAGE},"output_tokens":20}}`;
  },
  read: (body) => {
    const { content } = parseExact(body) as {
      content: { type: string; text: string; id: string; name: string; input: unknown }[];
    };
    const [{ type, text, id, name, input }] = content as [(typeof content)[number]];
    const said = type === 'text' ? { text } : { name, input: JSON.stringify(input) };
    return { said, id, raw: JSON.stringify(content) };
  },
};

const completions: Side = {
  path: '/v1/chat/completions',
  ask: (order, turns) => {
    const tools = Object.entries(SCHEMAS).map(([name, parameters]) => ({
      type: 'function',
      function: { name, description: name, parameters },
    }));
    const said = turns.map(
      ({ raw, said: call, id }) =>
        `,${raw},{"role":"tool","tool_call_id":"${id}","content":${JSON.stringify(resultFor(call, order))}}`,
    );
    return `{"model":"demo-large","temperature":0.0,"tools":${JSON.stringify(tools)},"messages":[{"role":"system","content":"You look after orders."},{"role":"user","content":"Please look after order ${order}, thanks."}${said.join('')}]}`;
  },
  reply: (said, id) => {
    const message =
      'text' in said
        ? `{"role":"assistant","content":"${said.text}"}`
        : `{"role":"assistant","content":null,"tool_calls":[{"id":"${id}","type":"function","function":{"name":"${said.name}","arguments":${JSON.stringify(said.input)}}}]}`;
    return `{"id":"chatcmpl-${id}","object":"chat.completion","created":1790000000,"model":"demo-large","choices":[{"index":0,"message":${message},"finish_reason":"${'text' in said ? 'stop' : 'tool_calls'}"}],"usage":{"prompt_tokens":${USAGE},"completion_tokens":20,"total_tokens":140}}`;
  },
  read: (body) => {
    interface Message {
      content: string;
      tool_calls?: [{ id: string; function: { name: string; arguments: string } }];
    }
    const { choices } = JSON.parse(body) as { choices: [{ message: Message }] };
    const { message } = choices[0];
    const call = message.tool_calls?.[0];
    const said =
      call === undefined
        ? { text: message.content }
        : { name: call.function.name, input: call.function.arguments };
    return { said, id: call?.id ?? '', raw: JSON.stringify(message) };
  },
};

const eventsOf = (body: string): Record<string, unknown>[] =>
  [...body.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => parseExact(json!) as Record<string, unknown>);
const argumentsOf = (pieces: readonly unknown[]): string =>
  pieces.map((piece) => (typeof piece === 'string' ? piece : JSON.stringify(piece))).join('');

/** Streams whose arguments come as an object, as some compatible servers send them. */
const objectChunks: Side = {
  path: completions.path,
  ask: (order, turns) => completions.ask(order, turns).replace('"demo-large"', '"demo-object","stream":true'),
  reply: (said, id) => {
    const chunk = (delta: string, reason = 'null'): string =>
      `data: {"id":"chatcmpl-${id}","object":"chat.completion.chunk","created":1790000000,"model":"demo-object","choices":[{"index":0,"delta":${delta},"finish_reason":${reason}}]}\n\n`;
    const delta =
      'text' in said
        ? `{"role":"assistant","content":"${said.text}"}`
        : `{"role":"assistant","tool_calls":[{"index":0,"id":"${id}","type":"function","function":{"name":"${said.name}","arguments":${said.input}}}]}`;
    return `${chunk(delta)}${chunk('{}', 'text' in said ? '"stop"' : '"tool_calls"')}data: [DONE]\n\n`;
  },
  read: (body) => {
    const deltas = eventsOf(body).flatMap(({ choices }) =>
      (choices as { delta: Record<string, unknown> }[]).map(({ delta }) => delta),
    );
    const text = deltas.map(({ content }) => content ?? '').join('');
    const pieces = deltas.flatMap(
      ({ tool_calls }) =>
        (tool_calls as { id?: string; function: { name?: string; arguments?: unknown } }[] | undefined) ?? [],
    );
    const id = pieces[0]?.id ?? '';
    const name = pieces.map((piece) => piece.function.name ?? '').join('');
    const input = argumentsOf(pieces.map((piece) => piece.function.arguments ?? ''));
    if (pieces.length === 0) return { said: { text }, id, raw: `{"role":"assistant","content":"${text}"}` };
    const call = `{"id":"${id}","type":"function","function":{"name":"${name}","arguments":${JSON.stringify(input)}}}`;
    return { said: { name, input }, id, raw: `{"role":"assistant","content":null,"tool_calls":[${call}]}` };
  },
};

/** Messages streams whose arguments come as an object, as some compatible servers send them. */
const objectDeltas: Side = {
  path: messages.path,
  ask: (order, turns) =>
    messages.ask(order, turns).replace('"claude-demo-large"', '"claude-demo-object","stream":true'),
  reply: (said, id) => {
    const isText = 'text' in said;
    const block = isText
      ? '{"type":"text","text":""}'
      : `{"type":"tool_use","id":"${id}","name":"${said.name}","input":{}}`;
    const delta = isText
      ? `{"type":"text_delta","text":"${said.text}"}`
      : `{"type":"input_json_delta","partial_json":${said.input}}`;
    return [
      `{"type":"message_start","message":{"id":"msg_${id}","type":"message","role":"assistant","model":"claude-demo-object","content":[],"stop_reason":null,"usage":{"input_tokens":${USAGE},"output_tokens":1}}}`,
      `{"type":"content_block_start","index":0,"content_block":${block}}`,
      `{"type":"content_block_delta","index":0,"delta":${delta}}`,
      '{"type":"content_block_stop","index":0}',
      `{"type":"message_delta","delta":{"stop_reason":"${isText ? 'end_turn' : 'tool_use'}","stop_sequence":null},"usage":{"output_tokens":20}}`,
      '{"type":"message_stop"}',
    ]
      .map((data) => `event: ${/"type":"(\w+)"/.exec(data)![1]}\ndata: ${data}\n\n`)
      .join('');
  },
  read: (body) => {
    const events = eventsOf(body) as {
      content_block?: Record<string, string>;
      delta?: Record<string, unknown>;
    }[];
    const begun = events.find(({ content_block }) => content_block !== undefined)!.content_block!;
    const text = events.map(({ delta }) => delta?.text ?? '').join('');
    const input = argumentsOf(events.map(({ delta }) => delta?.partial_json ?? ''));
    if (begun.type === 'text') return { said: { text }, id: '', raw: `[{"type":"text","text":"${text}"}]` };
    const { id = '', name = '' } = begun;
    return {
      said: { name, input },
      id,
      raw: `[{"type":"tool_use","id":"${id}","name":"${name}","input":${input}}]`,
    };
  },
};

async function readBody(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString('utf8');
}

let upstream: Server;
let child: CliChild;
let url = '';
let report = '';

beforeAll(async () => {
  mkdirSync(directory);
  let count = 0;
  upstream = createServer((request, reply) => {
    void readBody(request).then((body) => {
      const isStream = body.includes('"stream":true');
      const [whole, stream] =
        request.url === messages.path ? [messages, objectDeltas] : [completions, objectChunks];
      const side = isStream ? stream : whole;
      const id = `call_${++count}`;
      reply.setHeader('content-type', isStream ? 'text/event-stream' : 'application/json');
      reply.end(side.reply(answer(body), id));
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const base = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  child = new CliChild(['gateway', '--port', '0', '--db', db], {
    env: {
      GW_UPSTREAM_BASE: base,
      GW_OPENAI_BASE: base,
      GW_RELEGATION_WIRES: 'messages,chat_completions',
      DATA_DIR: folder,
      SVC_DISTILL_DIR: directory,
      GW_RELEGATION_AUDIT: '0',
      SERVER_THREADS: '1',
      GW_STUDENT_TIMEOUT_MS: '60000',
    },
  });
  [, url = ''] = await child.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
  for (let at = 0; at < GOLDEN; at++) for (const side of [messages, completions]) await run(side, at);
  for (let at = 0; at < STREAMED; at++) for (const side of [objectChunks, objectDeltas]) await run(side, at);
  await flush(url);
  const round = await runHere(['loop', '--once', '--db', db, '--out', directory], {
    DATA_DIR: folder,
    EMBED_MODEL: 'off',
    GW_RELEGATION_WIRES: 'messages,chat_completions',
  });
  report = round.stdout + round.stderr;
  expect(round.code, report).toBe(0);
  for (let isReady = false; !isReady; ) isReady = (await relegation()).student === 'exemplar';
});
afterAll(async () => {
  // The service must end first, so that it writes no more files into the folder.
  child.process.kill('SIGTERM');
  await child.ended;
  upstream.closeAllConnections();
  upstream.close();
  rmSync(folder, { recursive: true, force: true });
});

async function relegation() {
  const stats = (await (await fetch(`${url}/__gw/stats`)).json()) as {
    relegation: { student: string | null; served: number; fallbacks: Record<string, number> };
  };
  return stats.relegation;
}

const NAMES = new Map([
  [messages, 'messages'],
  [completions, 'completions'],
  [objectChunks, 'chunks'],
  [objectDeltas, 'deltas'],
]);

/** Runs the agent. @returns the answer to each step, and who gave it */
async function run(side: Side, at: number): Promise<{ said: Said; by: string }[]> {
  const order = orderOf(at);
  const turns: { raw: string; said: Said; id: string }[] = [];
  const steps: { said: Said; by: string }[] = [];
  for (;;) {
    const reply = await fetch(`${url}${side.path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'anthropic-version': '2023-06-01',
        'x-api-key': 'a-client',
        authorization: 'Bearer a-client',
        'x-svc-run': `${NAMES.get(side)}-${at}`,
        'x-svc-seq': String(turns.length + 1),
      },
      body: side.ask(order, turns),
    });
    const read = side.read(await reply.text());
    steps.push({ said: read.said, by: reply.headers.get('x-svc-served-by') ?? 'upstream' });
    if ('text' in read.said) return steps;
    turns.push(read);
  }
}

describe.each([
  ['messages', messages],
  ['chat-completions', completions],
] as const)('an agent with ids of 19 digits over %s', (_, side) => {
  it('is served with exact ids', async () => {
    let served = 0;
    for (let at = 1_000; at < 1_000 + LIVE; at++) {
      const steps = await run(side, at);
      const order = orderOf(at);
      const inputs = steps.flatMap(({ said }) => ('text' in said ? [] : [said.input]));
      expect(inputs).toEqual([`{"order_id":${order}}`, refundOf(order)]);
      served += steps.filter(({ by }) => by === 'student').length;
    }
    const { fallbacks } = await relegation();
    expect(served, `${report}\n${JSON.stringify(fallbacks)}`).toBeGreaterThan(2 * LIVE);
  });
});

it.each([
  ['chat-completions', objectChunks],
  ['messages', objectDeltas],
] as const)(
  'a call is never served without arguments where %s streams them as an object',
  async (_, side) => {
    for (let at = 2_000; at < 2_020; at++) {
      const steps = await run(side, at);
      const inputs = steps.flatMap(({ said }) => ('text' in said ? [] : [said.input]));
      expect(inputs).toEqual([`{"order_id":${orderOf(at)}}`, refundOf(orderOf(at))]);
      if (at > 2_001) expect(steps.map(({ by }) => by)).toContain('student');
    }
  },
);

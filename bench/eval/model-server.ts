/**
 * A model for students of kind `http`, on loopback. It answers requests in the wire format chat completions, and knows
 * the frontier model's answer to each step that was registered with it. Its quality can be set: always right, wrong at
 * a rate that differs by kind of answer, or broken in several ways in turn. Bench process.
 */

import { createHash } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type NormalAnswer, textOf } from '../../src/domain/turn.ts';

export const QUALITIES = ['perfect', 'mediocre', 'poor', 'hostile'] as const;
export type Quality = (typeof QUALITIES)[number];

/** Shares of wrong answers that a kind of answer may have, drawn for each kind. */
const ERROR_RATES: Readonly<Record<Exclude<Quality, 'hostile'>, readonly number[]>> = {
  perfect: [0],
  mediocre: [0, 0, 0.02, 0.08, 0.3],
  poor: [0.2, 0.5, 0.9],
};

/** The faults of a hostile model's answers, used in turn. */
const HOSTILE_WAYS = [
  'no answer',
  'no JSON',
  'malformed arguments',
  'status 500',
  'endless stream',
  'another tool',
  'huge arguments',
  'cut by length',
  'half a body',
] as const;

type Content = NormalAnswer['content'];

interface Known {
  content: Content;
  kind: string;
}

/** Draws a number from 0 to 1 that depends only on the words. The numbers are evenly distributed. */
function draw(...words: readonly string[]): number {
  return createHash('sha256').update(words.join('\n')).digest().readUIntBE(0, 6) / 2 ** 48;
}

export class ModelServer {
  quality: Quality = 'perfect';
  /** Decides which kinds of answers the model often gets wrong, and in which steps it is wrong. */
  seed = 1;
  requests = 0;
  readonly #known = new Map<string, Known>();
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      this.requests += 1;
      const body = JSON.parse(Buffer.concat(chunks).toString()) as { messages: unknown };
      this.#answer(nameStep(body.messages), response);
    });
  });

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /**
   * Records the right answer to a request that will arrive later.
   * @param kind the kind of the right answer
   */
  learn(request: { messages?: unknown }, content: Content, kind: string): void {
    this.#known.set(nameStep(request.messages), { content, kind });
  }

  #answer(step: string, response: ServerResponse): void {
    const known = this.#known.get(step);
    if (known === undefined) throw new Error('an unknown step');
    if (this.quality === 'hostile') {
      harm(response, HOSTILE_WAYS[this.requests % HOSTILE_WAYS.length]!, known.content);
      return;
    }
    const rates = ERROR_RATES[this.quality];
    const rate = rates[Math.floor(draw('rate', `${this.seed}`, known.kind) * rates.length)]!;
    const isWrong = draw('step', `${this.seed}`, step) < rate;
    send(response, complete(isWrong ? spoil(known.content) : known.content));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function nameStep(messages: unknown): string {
  return createHash('sha256').update(JSON.stringify(messages)).digest('base64url');
}

/** Makes a plausible but wrong answer: another value in the first call or in the text. */
function spoil(content: Content): Content {
  const [call] = content.filter((block) => block.type === 'tool_call');
  if (call === undefined)
    return [{ type: 'text', text: `${textOf(content).replaceAll(/\d/g, '7')} It is not so: see 471177.` }];
  const input = { ...(call.input as Record<string, unknown>) };
  const [name = 'value'] = Object.keys(input);
  input[name] = typeof input[name] === 'number' ? Number(input[name]) + 1 : `${String(input[name])}-7`;
  return [{ ...call, input }];
}

function complete(content: Content, more: object = {}): object {
  const calls = content.flatMap((block, at) => {
    if (block.type !== 'tool_call') return [];
    const called = { name: block.name, arguments: JSON.stringify(block.input) };
    return [{ id: `call_${at}`, type: 'function', function: called }];
  });
  const message = {
    role: 'assistant',
    content: textOf(content) || null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  const finish_reason = calls.length > 0 ? 'tool_calls' : 'stop';
  return {
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason, ...more }],
    usage: { prompt_tokens: 500, completion_tokens: 40 },
  };
}

function send(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function harm(response: ServerResponse, way: (typeof HOSTILE_WAYS)[number], content: Content): void {
  const call = (name: string, given: string): object => {
    const tool_calls = [{ id: 'c', type: 'function', function: { name, arguments: given } }];
    const message = { role: 'assistant', content: null, tool_calls };
    return { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] };
  };
  const name = content.find((block) => block.type === 'tool_call')?.name ?? 'look';
  switch (way) {
    case 'no answer':
      return;
    case 'no JSON':
      response.end('<html>it works</html>');
      return;
    case 'malformed arguments':
      return send(response, call(name, '{"value": '));
    case 'status 500':
      return send(response, { error: { message: 'no' } }, 500);
    case 'endless stream': {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const line = `data: ${JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(10_000) } }] })}\n\n`;
      const pour = (): void => {
        while (!response.destroyed && response.write(line));
      };
      response.on('drain', pour);
      pour();
      return;
    }
    case 'another tool':
      return send(response, call('destroy_everything', '{}'));
    case 'huge arguments':
      return send(response, call(name, JSON.stringify({ value: 'x'.repeat(900_000) })));
    case 'cut by length':
      return send(response, complete(content, { finish_reason: 'length' }));
    case 'half a body':
      response.writeHead(200, { 'content-length': '1000' });
      response.write('{"choices":');
      setImmediate(() => response.destroy());
      return;
  }
}

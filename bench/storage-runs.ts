/**
 * Makes agent runs for the storage bench: Messages-style requests whose conversation grows turn by turn, streamed
 * answers, the headers that a provider and an SDK send. The text, except for `shared_bytes`, is new in every run. A
 * seeded generator draws it from a vocabulary, so that gzip compresses it about as well as real agent traffic. Pure.
 */
import type { CapturedExchange } from '../src/domain/exchange.ts';

export interface RunPlan {
  runs: number;
  turns: number;
  /** Approximate size of the first request and of the last one. */
  first_bytes: number;
  last_bytes: number;
  /** Part of the first request (system prompt, tools) that all runs have in common. */
  shared_bytes: number;
  /** Adds two cache markers that move with every turn, and the time of day in the system prompt. */
  markers: boolean;
  /** Send x-svc-run. */
  labelled: boolean;
  seed: number;
}

/** Makes a small seeded generator: mulberry32, whose 32 bits of state are enough to draw words. */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const SYLLABLES =
  'ba ko re ti sa mu len dor vi pel an ger su mi tor ex ca ly no per ing tion al en st ra de fo ne ti us'.split(
    ' ',
  );

/** Text that reads like a mixture of prose, code and listings. */
export class TextSource {
  readonly #random: () => number;
  readonly #words: string[];
  readonly #lines: string[] = [];

  constructor(seed: number, vocabularySeed: number) {
    this.#random = makeRandom(seed);
    const draw = makeRandom(vocabularySeed);
    this.#words = Array.from({ length: 4_000 }, () => {
      let word = '';
      const syllables = 1 + Math.floor(draw() * 3.2);
      for (let i = 0; i < syllables; i++) word += SYLLABLES[Math.floor(draw() * SYLLABLES.length)];
      return word;
    });
  }

  pick(count: number): number {
    return Math.floor(this.#random() * count);
  }

  /** Draws a word. Common words are drawn far more often than rare ones. */
  word(): string {
    return this.#words[Math.floor(this.#random() ** 3 * this.#words.length)]!;
  }

  id(prefix: string, length: number): string {
    const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz123456789';
    let id = prefix;
    for (let i = 0; i < length; i++) id += alphabet[this.pick(alphabet.length)];
    return id;
  }

  #line(): string {
    // Tool results quote the same files again and again.
    if (this.#lines.length > 20 && this.#random() < 0.35) return this.#lines[this.pick(this.#lines.length)]!;
    const kind = this.#random();
    const words = Array.from({ length: 4 + this.pick(9) }, () => this.word());
    let line: string;
    if (kind < 0.35)
      line = `    const ${words[0]} = await this.${words[1]}.${words[2]}(${words.slice(3).join(', ')});`;
    else if (kind < 0.5)
      line = `src/${words[0]}/${words[1]}-${words[2]}.ts:${this.pick(900)}: ${words.slice(3).join(' ')}`;
    else if (kind < 0.6)
      line = `  "${words[0]}_${words[1]}": ${this.pick(100_000)}, // ${words.slice(2).join(' ')}`;
    else line = `${words.join(' ')}.`;
    this.#lines.push(line);
    return line;
  }

  text(size: number): string {
    const lines: string[] = [];
    let length = 0;
    while (length < size) {
      const line = this.#line();
      lines.push(line);
      length += line.length + 1;
    }
    return lines.join('\n').slice(0, size);
  }
}

type Message = { role: string; content: Record<string, unknown>[] };

function makeEvents(source: TextSource, text: string, toolId: string, input: string, usage: object): Buffer {
  const events: object[] = [
    {
      type: 'message_start',
      message: {
        id: source.id('msg_01', 22),
        type: 'message',
        role: 'assistant',
        model: 'claude-sonnet-4-5-20250929',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage,
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'ping' },
  ];
  const cut = (whole: string, each: (part: string) => void): void => {
    for (let at = 0; at < whole.length; ) {
      const size = 8 + source.pick(24);
      each(whole.slice(at, at + size));
      at += size;
    }
  };
  cut(text, (part) =>
    events.push({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: part } }),
  );
  events.push({ type: 'content_block_stop', index: 0 });
  events.push({
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'tool_use', id: toolId, name: 'run_command', input: {} },
  });
  cut(input, (part) =>
    events.push({
      type: 'content_block_delta',
      index: 1,
      delta: { type: 'input_json_delta', partial_json: part },
    }),
  );
  events.push({ type: 'content_block_stop', index: 1 });
  events.push({
    type: 'message_delta',
    delta: { stop_reason: 'tool_use', stop_sequence: null },
    usage: { output_tokens: 60 + source.pick(400) },
  });
  events.push({ type: 'message_stop' });
  return Buffer.from(
    events
      .map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`)
      .join(''),
  );
}

function requestHeaders(run: string, seq: number, bytes: number): string[] {
  return [
    'host',
    '127.0.0.1:8787',
    'accept',
    'application/json',
    'x-stainless-retry-count',
    '0',
    'x-stainless-timeout',
    '600',
    'x-stainless-lang',
    'js',
    'x-stainless-package-version',
    '0.65.0',
    'x-stainless-os',
    'Linux',
    'x-stainless-arch',
    'x64',
    'x-stainless-runtime',
    'node',
    'x-stainless-runtime-version',
    'v22.20.0',
    'anthropic-version',
    '2023-06-01',
    'anthropic-beta',
    'fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14',
    'x-api-key',
    'sk-ant-api03-benchbenchbenchbenchbenchbenchbenchbench',
    'x-app',
    'cli',
    'user-agent',
    'agent/1.0.117 (external, cli)',
    'content-type',
    'application/json',
    'content-length',
    String(bytes),
    'accept-language',
    '*',
    'sec-fetch-mode',
    'cors',
    'accept-encoding',
    'br, gzip, deflate',
    ...(run === '' ? [] : ['x-svc-run', run, 'x-svc-seq', String(seq)]),
  ];
}

function responseHeaders(source: TextSource, atMs: number): string[] {
  const reset = new Date(atMs + 60_000).toISOString();
  return [
    'date',
    new Date(atMs).toUTCString(),
    'content-type',
    'text/event-stream; charset=utf-8',
    'transfer-encoding',
    'chunked',
    'cache-control',
    'no-cache',
    'anthropic-ratelimit-input-tokens-limit',
    '2000000',
    'anthropic-ratelimit-input-tokens-remaining',
    String(1_900_000 + source.pick(100) * 1_000),
    'anthropic-ratelimit-input-tokens-reset',
    reset,
    'anthropic-ratelimit-output-tokens-limit',
    '400000',
    'anthropic-ratelimit-output-tokens-remaining',
    String(380_000 + source.pick(20) * 1_000),
    'anthropic-ratelimit-output-tokens-reset',
    reset,
    'anthropic-ratelimit-requests-limit',
    '4000',
    'anthropic-ratelimit-requests-remaining',
    String(3_900 + source.pick(100)),
    'anthropic-ratelimit-requests-reset',
    reset,
    'request-id',
    source.id('req_011C', 20),
    'strict-transport-security',
    'max-age=31536000; includeSubDomains; preload',
    'anthropic-organization-id',
    '0f3c2a7e-52f1-4d0e-9f65-d1f4b9a0c7e2',
    'server',
    'cloudflare',
    'via',
    '1.1 google',
    'cf-cache-status',
    'DYNAMIC',
    'x-robots-tag',
    'none',
    'cf-ray',
    `${source.id('9', 15).toLowerCase()}-FRA`,
  ];
}

/** Adds cache markers to the last two messages of the user. */
function markForCache(messages: readonly Message[]): Message[] {
  return messages.map((message, i) =>
    i % 2 === 0 && i >= messages.length - 3
      ? {
          ...message,
          content: message.content.map((part) => ({ ...part, cache_control: { type: 'ephemeral' } })),
        }
      : message,
  );
}

function makeRequestBody(system: string, tools: readonly object[], messages: readonly Message[]): Buffer {
  return Buffer.from(
    JSON.stringify({
      model: 'claude-sonnet-4-5-20250929',
      max_tokens: 32_000,
      stream: true,
      metadata: { user_id: 'user_0d8f_account__session_4b1c' },
      system: [{ type: 'text', text: system }],
      tools,
      messages,
    }),
  );
}

/** Makes the model's answer with its call, and the call's result. */
function makeNextMessages(answer: string, toolId: string, input: string, result: string): Message[] {
  return [
    {
      role: 'assistant',
      content: [
        { type: 'text', text: answer },
        { type: 'tool_use', id: toolId, name: 'run_command', input: JSON.parse(input) as object },
      ],
    },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: toolId, content: [{ type: 'text', text: result }] }],
    },
  ];
}

/** Yields the exchanges of all runs, turn by turn, so that the runs advance side by side. */
export function* makeRuns(plan: RunPlan): Generator<CapturedExchange> {
  const shared = new TextSource(plan.seed, plan.seed);
  const prompt = shared.text(Math.round(plan.shared_bytes * 0.6));
  const tools = [
    {
      name: 'run_command',
      description: shared.text(Math.round(plan.shared_bytes * 0.3)),
      input_schema: { type: 'object', properties: { command: { type: 'string' } } },
    },
  ];
  const growth = (plan.last_bytes - plan.first_bytes) / (plan.turns - 1);
  const runs = Array.from({ length: plan.runs }, (_, run) => {
    const source = new TextSource(plan.seed + 1 + run, plan.seed);
    const task = source.text(plan.first_bytes - plan.shared_bytes);
    const messages: Message[] = [{ role: 'user', content: [{ type: 'text', text: task }] }];
    return { source, messages, name: source.id('run-', 12) };
  });
  let at = 1_760_000_000_000;
  for (let turn = 0; turn < plan.turns; turn++) {
    for (const { source, messages, name } of runs) {
      at += 900 + source.pick(4_000);
      const system = plan.markers
        ? `${prompt.slice(0, 900)}\nIt is ${new Date(at).toISOString()}.\n${prompt.slice(900)}`
        : prompt;
      const marked = plan.markers ? markForCache(messages) : messages;
      const body = makeRequestBody(system, tools, marked);
      const answer = source.text(Math.round(growth * 0.2));
      const toolId = source.id('toolu_01', 22);
      const input = JSON.stringify({ command: source.text(Math.round(growth * 0.08)) });
      const response = makeEvents(source, answer, toolId, input, {
        input_tokens: 4 + source.pick(900),
        cache_read_input_tokens: 10_000 + source.pick(20_000),
        cache_creation_input_tokens: source.pick(2_000),
        output_tokens: 1,
      });
      const durationMs = 900 + source.pick(9_000) + source.pick(1_000) / 1_000;
      yield {
        run_id: plan.labelled ? name : null,
        seq: plan.labelled ? turn + 1 : null,
        note: '',
        provider: 'anthropic',
        kind: 'turn',
        shape: 'messages',
        method: 'POST',
        path: '/v1/messages',
        query: 'beta=true',
        status: 200,
        started_at_ms: at,
        first_byte_ms: durationMs / 3,
        duration_ms: durationMs,
        aborted: false,
        truncated: false,
        served_by: 'upstream',
        request_headers: requestHeaders(plan.labelled ? name : '', turn + 1, body.length),
        response_headers: responseHeaders(source, at),
        request_bytes: body.length,
        response_bytes: response.length,
        request_body: body,
        response_body: response,
      };
      messages.push(...makeNextMessages(answer, toolId, input, source.text(Math.round(growth * 0.6))));
    }
  }
}

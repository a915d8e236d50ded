/**
 * Encoders of turns, one for each wire format and dialect. They write like servers and clients. The round-trip test
 * reads their output back. They share no code with the readers.
 */

import { EventStreamCodec } from '@smithy/core/event-streams';
import type { ApiShape } from '../../src/domain/exchange.ts';

interface Call {
  id: string;
  name: string;
  /** An object whose numbers keep their digits. */
  input: object;
}

/** The parts of a model's answer, in order. Empty texts are parts without content. */
export interface Said {
  thinking: string;
  text: string;
  calls: Call[];
}

export interface Counts {
  /** Input tokens without cached ones. */
  input: number;
  output: number;
  read: number;
  written: number;
}

/**
 * The conversation of a request: the system prompt, the user's text, and at most one earlier answer with its results.
 */
export interface Asked {
  system: string;
  user: string;
  /** An earlier answer with a result for each of its calls; null at the beginning of a conversation. */
  before: { said: Said; results: string[] } | null;
}

/** Cuts a text between any two code units. No piece is empty. */
type Cut = (text: string) => string[];

export interface Body {
  bytes: Uint8Array;
  content_type: string;
}

export interface Codec {
  shape: ApiShape;
  path: string;
  /** The wire format sends calls without ids. */
  drops_ids?: true;
  /** The wire format has only texts. */
  only_text?: true;
  request(asked: Asked): unknown;
  whole(said: Said, counts: Counts): unknown;
  stream(said: Said, counts: Counts, cut: Cut): Body;
}

const utf8 = new TextEncoder();
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === 'string' ? bytes : new TextDecoder().decode(bytes)),
  (text) => utf8.encode(text),
);

/** Server-sent events, in one of the forms that the standard allows. */
function sse(events: readonly (readonly [name: string, data: unknown])[], end: string, space = ' '): Body {
  const lines = events.flatMap(([name, data]) => [
    ...(name === '' ? [] : [`event:${space}${name}`]),
    `data:${space}${typeof data === 'string' ? data : JSON.stringify(data)}`,
    '',
  ]);
  return {
    bytes: utf8.encode(`: hello${end}${end}${lines.join(end)}${end}`),
    content_type: 'text/event-stream',
  };
}

function eventStream(events: readonly (readonly [name: string, data: unknown])[]): Body {
  const messages = events.map(([name, data]) =>
    codec.encode({
      headers: {
        ':message-type': { type: 'string', value: 'event' },
        ':event-type': { type: 'string', value: name },
      },
      body: utf8.encode(JSON.stringify(data)),
    }),
  );
  return { bytes: Buffer.concat(messages), content_type: 'application/vnd.amazon.eventstream' };
}

const json = (value: unknown): string => JSON.stringify(value);

const messagesBlocks = ({ thinking, text, calls }: Said): object[] => [
  { type: 'thinking', thinking },
  { type: 'text', text },
  ...calls.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input })),
];
const messagesUsage = ({ input, output, read, written }: Counts): object => ({
  input_tokens: input,
  output_tokens: output,
  cache_read_input_tokens: read,
  cache_creation_input_tokens: written,
});
const messagesStop = ({ calls }: Said): string => (calls.length > 0 ? 'tool_use' : 'end_turn');

function messagesEvents(said: Said, counts: Counts, cut: Cut): (readonly [string, object])[] {
  const events: (readonly [string, object])[] = [];
  const add = (event: { type: string } & Record<string, unknown>): void => {
    events.push([event.type, event]);
  };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [] };
  add({ type: 'message_start', message: { ...message, usage: messagesUsage({ ...counts, output: 1 }) } });
  const block = (index: number, start: object, deltas: object[]): void => {
    add({ type: 'content_block_start', index, content_block: start });
    for (const delta of deltas) add({ type: 'content_block_delta', index, delta });
    add({ type: 'content_block_stop', index });
  };
  const thinking = cut(said.thinking).map((piece) => ({ type: 'thinking_delta', thinking: piece }));
  block(0, { type: 'thinking', thinking: '' }, thinking);
  add({ type: 'ping' });
  block(
    1,
    { type: 'text', text: '' },
    cut(said.text).map((text) => ({ type: 'text_delta', text })),
  );
  for (const [at, { id, name, input }] of said.calls.entries()) {
    const deltas = cut(json(input)).map((partial_json) => ({ type: 'input_json_delta', partial_json }));
    block(at + 2, { type: 'tool_use', id, name, input: {} }, deltas);
  }
  // The second usage has zeros for the values that the first one reported.
  const usage = { ...messagesUsage({ input: 0, output: counts.output, read: 0, written: 0 }) };
  add({ type: 'message_delta', delta: { stop_reason: messagesStop(said) }, usage });
  add({ type: 'message_stop' });
  return events;
}

const messagesRequest = ({ system, user, before }: Asked): object => ({
  model: 'm',
  max_tokens: 9,
  system,
  messages: [
    { role: 'user', content: user },
    ...(before === null
      ? []
      : [
          { role: 'assistant', content: messagesBlocks(before.said) },
          {
            role: 'user',
            content: [
              ...before.said.calls.map(({ id }, at) => ({
                type: 'tool_result',
                tool_use_id: id,
                content: before.results[at],
              })),
              { type: 'text', text: 'Go on.' },
            ],
          },
        ]),
  ],
});
const messagesWhole = (said: Said, counts: Counts): object => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: messagesBlocks(said),
  stop_reason: messagesStop(said),
  usage: messagesUsage(counts),
});

const messages: Codec = {
  shape: 'messages',
  path: '/v1/messages',
  request: messagesRequest,
  whole: messagesWhole,
  stream: (said, counts, cut) => sse(messagesEvents(said, counts, cut), '\n'),
};

/** The form of a server's streamed calls. */
type ChatForm =
  | 'openai'
  | 'one_index'
  | 'no_index'
  | 'null_index'
  | 'names_repeated'
  | 'objects'
  | 'no_ids'
  | 'lists'
  | 'interleaved';

const chatCall = ({ id, name, input }: Call, form: ChatForm): object => ({
  ...(form === 'no_ids' ? {} : { id }),
  type: 'function',
  function: { name, arguments: form === 'objects' ? input : json(input) },
});

function chatPieces({ calls }: Said, form: ChatForm, cut: Cut): object[] {
  const pieces = calls.map((call, at) => {
    const place =
      form === 'no_index' ? {} : { index: form === 'null_index' ? null : form === 'one_index' ? 0 : at };
    if (form === 'objects' || form === 'no_ids' || form === 'no_index' || form === 'null_index')
      return [{ ...place, ...chatCall(call, form) }];
    const texts = cut(json(call.input));
    const head = { ...place, id: call.id, type: 'function', function: { name: call.name, arguments: '' } };
    return [
      head,
      ...texts.map((piece) => ({
        ...place,
        ...(form === 'names_repeated' ? { id: call.id } : {}),
        function: { ...(form === 'names_repeated' ? { name: call.name } : {}), arguments: piece },
      })),
    ];
  });
  if (form !== 'interleaved') return pieces.flat();
  const mixed: object[] = [];
  for (let at = 0; pieces.some((list) => list.length > at); at += 1)
    for (const list of pieces) if (list.length > at) mixed.push(list[at]!);
  return mixed;
}

function chat(form: ChatForm, reasoning: string, end: string): Codec {
  const usage = ({ input, output, read, written }: Counts): object => ({
    prompt_tokens: input + read + written,
    completion_tokens: output,
    total_tokens: input + read + written + output,
    prompt_tokens_details: { cached_tokens: read, cache_write_tokens: written },
  });
  const part = (type: 'text' | 'thinking', text: string): object =>
    type === 'text' ? { type, text } : { type, thinking: [{ type: 'text', text }] };
  const message = (said: Said): object =>
    form === 'lists'
      ? {
          role: 'assistant',
          content: [part('thinking', said.thinking), part('text', said.text)],
          tool_calls: said.calls.map((call) => chatCall(call, form)),
        }
      : {
          role: 'assistant',
          [reasoning]: said.thinking,
          content: said.text === '' ? null : said.text,
          ...(said.calls.length === 0 ? {} : { tool_calls: said.calls.map((call) => chatCall(call, form)) }),
        };
  const finish = ({ calls }: Said): string => (calls.length > 0 ? 'tool_calls' : 'stop');
  return {
    shape: 'chat_completions',
    path: '/v1/chat/completions',
    ...(form === 'no_ids' ? { drops_ids: true as const } : {}),
    request: ({ system, user, before }) => ({
      model: 'm',
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: user },
        ...(before === null
          ? []
          : [
              message(before.said),
              ...before.said.calls.map(({ id, name }, at) => ({
                role: 'tool',
                ...(form === 'no_ids' ? { name } : { tool_call_id: id }),
                content: before.results[at],
              })),
              { role: 'user', content: 'Go on.' },
            ]),
      ],
    }),
    whole: (said, counts) => ({
      id: 'c',
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message: message(said), finish_reason: finish(said) }],
      usage: usage(counts),
    }),
    stream: (said, counts, cut) => {
      const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
        [
          '',
          {
            id: 'c',
            object: 'chat.completion.chunk',
            model: 'm',
            choices: [{ index: 0, delta, finish_reason }],
            ...more,
          },
        ] as const;
      const content = (type: 'text' | 'thinking', text: string): object =>
        form === 'lists'
          ? { content: [part(type, text)] }
          : { [type === 'text' ? 'content' : reasoning]: text };
      return sse(
        [
          chunk({ role: 'assistant', content: '' }),
          ...cut(said.thinking).map((piece) => chunk(content('thinking', piece))),
          ...cut(said.text).map((piece) => chunk(content('text', piece))),
          ...chatPieces(said, form, cut).map((piece) => chunk({ content: null, tool_calls: [piece] })),
          chunk({}, finish(said)),
          ['', { id: 'c', choices: [], usage: usage(counts) }],
          ['', '[DONE]'],
        ],
        end,
        form === 'no_index' ? '' : ' ',
      );
    },
  };
}

const item = {
  reasoning: (text: string) => ({ type: 'reasoning', id: 'rs', summary: [{ type: 'summary_text', text }] }),
  message: (text: string) => ({
    type: 'message',
    id: 'm',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text, annotations: [] }],
  }),
  call: ({ id, name, input }: Call) => ({
    type: 'function_call',
    id: `fc_${id}`,
    call_id: id,
    name,
    arguments: json(input),
    status: 'completed',
  }),
};
const itemsOf = ({ thinking, text, calls }: Said): object[] => [
  item.reasoning(thinking),
  item.message(text),
  ...calls.map(item.call),
];

/** @param keeps_output the last event contains the whole answer */
function responses(keeps_output: boolean): Codec {
  const whole = (said: Said, { input, output, read, written }: Counts): object => ({
    id: 'resp_1',
    object: 'response',
    model: 'm',
    status: 'completed',
    output: itemsOf(said),
    usage: {
      input_tokens: input + read + written,
      output_tokens: output,
      input_tokens_details: { cached_tokens: read, cache_write_tokens: written },
      total_tokens: input + read + written + output,
    },
  });
  return {
    shape: 'responses',
    path: '/v1/responses',
    request: ({ system, user, before }) => ({
      model: 'm',
      instructions: system,
      input: [
        { role: 'user', content: [{ type: 'input_text', text: user }] },
        ...(before === null
          ? []
          : [
              ...itemsOf(before.said),
              ...before.said.calls.map(({ id }, at) => ({
                type: 'function_call_output',
                call_id: id,
                output: before.results[at],
              })),
              { role: 'user', content: 'Go on.' },
            ]),
      ],
    }),
    whole,
    stream: (said, counts, cut) => {
      const answer = whole(said, counts);
      const events: [string, object][] = [];
      const add = (type: string, more: object): void => {
        events.push([type, { type, ...more }]);
      };
      add('response.created', { response: { id: 'resp_1', model: 'm', status: 'in_progress', output: [] } });
      const texts = [said.thinking, said.text, ...said.calls.map(({ input }) => json(input))];
      for (const [output_index, answerItem] of itemsOf(said).entries()) {
        const { type } = answerItem as { type: string };
        const kind =
          type === 'message'
            ? 'output_text'
            : type === 'reasoning'
              ? 'reasoning_summary_text'
              : 'function_call_arguments';
        add('response.output_item.added', {
          output_index,
          item: {
            ...answerItem,
            ...(type === 'function_call' ? { arguments: '' } : { content: [], summary: [] }),
          },
        });
        for (const delta of cut(texts[output_index]!)) add(`response.${kind}.delta`, { output_index, delta });
        add('response.output_item.done', { output_index, item: answerItem });
      }
      add('response.completed', { response: keeps_output ? answer : { ...answer, output: [] } });
      return sse(events, '\n');
    },
  };
}

const geminiParts = ({ thinking, text, calls }: Said): object[] => [
  { text: thinking, thought: true },
  { text },
  ...calls.map(({ id, name, input }) => ({ functionCall: { id, name, args: input } })),
];

function gemini(framing: 'array' | 'sse'): Codec {
  const usage = ({ input, output, read }: Counts): object => ({
    promptTokenCount: input + read,
    candidatesTokenCount: output,
    cachedContentTokenCount: read,
    totalTokenCount: input + read + output,
  });
  const chunk = (parts: object[], more: object = {}): object => ({
    candidates: [{ index: 0, content: { role: 'model', parts }, ...more }],
    responseId: 'r',
  });
  return {
    shape: 'gemini',
    path: '/v1beta/models/m:streamGenerateContent',
    request: ({ system, user, before }) => ({
      systemInstruction: { parts: [{ text: system }] },
      contents: [
        { role: 'user', parts: [{ text: user }] },
        ...(before === null
          ? []
          : [
              { role: 'model', parts: geminiParts(before.said) },
              {
                role: 'user',
                parts: before.said.calls.map(({ id, name }, at) => ({
                  functionResponse: { id, name, response: { output: before.results[at] } },
                })),
              },
              { role: 'user', parts: [{ text: 'Go on.' }] },
            ]),
      ],
    }),
    whole: (said, counts) => ({
      ...chunk(geminiParts(said), { finishReason: 'STOP' }),
      usageMetadata: usage(counts),
    }),
    stream: (said, counts, cut) => {
      const chunks = [
        ...cut(said.thinking).map((text) => chunk([{ text, thought: true }])),
        ...cut(said.text).map((text) => chunk([{ text }])),
        ...geminiParts({ ...said, thinking: '', text: '' })
          .slice(2)
          .map((part) => chunk([part])),
        { ...chunk([{ text: '' }], { finishReason: 'STOP' }), usageMetadata: usage(counts) },
      ];
      if (framing === 'sse')
        return sse(
          chunks.map((chunk) => ['', chunk] as const),
          '\r\n',
        );
      return { bytes: utf8.encode(`[${chunks.map(json).join(',\r\n')}]`), content_type: 'application/json' };
    },
  };
}

const converseBlocks = ({ thinking, text, calls }: Said): object[] => [
  { reasoningContent: { reasoningText: { text: thinking } } },
  { text },
  ...calls.map(({ id, name, input }) => ({ toolUse: { toolUseId: id, name, input } })),
];
const converseUsage = ({ input, output, read, written }: Counts): object => ({
  inputTokens: input,
  outputTokens: output,
  cacheReadInputTokens: read,
  cacheWriteInputTokens: written,
});
const converse: Codec = {
  shape: 'bedrock_converse',
  path: '/model/m/converse-stream',
  request: ({ system, user, before }) => ({
    system: [{ text: system }],
    messages: [
      { role: 'user', content: [{ text: user }] },
      ...(before === null
        ? []
        : [
            { role: 'assistant', content: converseBlocks(before.said) },
            {
              role: 'user',
              content: [
                ...before.said.calls.map(({ id }, at) => ({
                  toolResult: { toolUseId: id, content: [{ text: before.results[at] }] },
                })),
                { text: 'Go on.' },
              ],
            },
          ]),
    ],
  }),
  whole: (said, counts) => ({
    output: { message: { role: 'assistant', content: converseBlocks(said) } },
    stopReason: messagesStop(said),
    usage: converseUsage(counts),
  }),
  stream: (said, counts, cut) => {
    const events: [string, object][] = [['messageStart', { role: 'assistant' }]];
    const deltas = (contentBlockIndex: number, list: object[]): void => {
      for (const delta of list) events.push(['contentBlockDelta', { contentBlockIndex, delta }]);
    };
    deltas(
      0,
      cut(said.thinking).map((text) => ({ reasoningContent: { text } })),
    );
    deltas(
      1,
      cut(said.text).map((text) => ({ text })),
    );
    for (const [at, { id, name, input }] of said.calls.entries()) {
      const contentBlockIndex = at + 2;
      events.push(['contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId: id, name } } }]);
      deltas(
        contentBlockIndex,
        cut(json(input)).map((piece) => ({ toolUse: { input: piece } })),
      );
    }
    events.push(
      ['messageStop', { stopReason: messagesStop(said) }],
      ['metadata', { usage: converseUsage(counts) }],
    );
    return eventStream(events);
  },
};

/** Bedrock's InvokeModel, whose bodies are those of another wire format (`inner`). */
function invoke(inner: Codec): Codec {
  return {
    ...inner,
    shape: 'bedrock_invoke',
    path: '/model/m/invoke',
    request: (asked) => ({
      ...(inner.request(asked) as object),
      ...(inner.shape === 'messages' ? { anthropic_version: 'bedrock-2023-05-31' } : {}),
    }),
    stream: (said, counts, cut) => {
      const { bytes } = inner.stream(said, counts, cut);
      const chunks = new TextDecoder()
        .decode(bytes)
        .split('\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => ['chunk', { bytes: Buffer.from(line.slice(6)).toString('base64') }] as const);
      return eventStream(chunks);
    },
  };
}

const completion: Codec = {
  shape: 'completion',
  path: '/v1/completions',
  only_text: true,
  request: ({ user }) => ({ model: 'm', prompt: user }),
  whole: ({ text }, { input, output }) => ({
    object: 'text_completion',
    model: 'm',
    choices: [{ index: 0, text, finish_reason: 'stop' }],
    usage: { prompt_tokens: input, completion_tokens: output },
  }),
  stream: ({ text }, { input, output }, cut) =>
    sse(
      [
        ...cut(text).map((piece) => ['', { model: 'm', choices: [{ index: 0, text: piece }] }] as const),
        [
          '',
          {
            choices: [{ index: 0, text: '', finish_reason: 'eos' }],
            usage: { prompt_tokens: input, completion_tokens: output },
          },
        ],
      ],
      '\n',
    ),
};

/** The codecs of each wire format, by name. The type makes a wire format without an entry an error of the compiler. */
export const CODECS: Record<ApiShape, Record<string, Codec>> = {
  messages: { Anthropic: messages },
  chat_completions: {
    OpenAI: chat('openai', 'reasoning_content', '\n'),
    'one index for all calls': chat('one_index', 'reasoning', '\r\n'),
    'no index': chat('no_index', 'reasoning_content', '\r'),
    'index null': chat('null_index', 'reasoning', '\n'),
    'names in each piece': chat('names_repeated', 'reasoning_text', '\n'),
    'arguments as objects': chat('objects', 'reasoning_content', '\n'),
    'no ids': chat('no_ids', 'reasoning', '\n'),
    'lists as content': chat('lists', '', '\n'),
    'interleaved calls': chat('interleaved', 'reasoning_content', '\n'),
  },
  responses: { OpenAI: responses(true), 'a last event without output': responses(false) },
  completion: { OpenAI: completion },
  gemini: { 'a JSON array': gemini('array'), events: gemini('sse') },
  bedrock_converse: { Converse: converse },
  bedrock_invoke: {
    Claude: invoke(messages),
    'chat-completions': invoke(chat('openai', 'reasoning_content', '\n')),
  },
};

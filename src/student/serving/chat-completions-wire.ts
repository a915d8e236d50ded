/**
 * The chat-completions wire: reads its requests, and writes a student's answer as the API would have sent it, as one
 * JSON body or as all chunks of a stream in one burst. Pure except for ids and the clock; teaching and the student's
 * thread. Source: OpenAI's API reference, "Chat completions" and "Streaming".
 */

import { readNormalChat } from '../../providers/chat-completions/request.ts';
import { asArray, asObject, type JsonObject } from '../../providers/json-reading.ts';
import { systemClock } from '../../std/clock.ts';
import type { CallForm, CallForms, StudentAnswer } from '../model/decision.ts';
import { areStrings, checkOpenAiSettings, checkOpenAiTools } from './openai-rules.ts';
import { Breaches, cutText, drawId, otherFields, type Wire, type WireAnswer } from './wire.ts';

/** Fields that the normal form holds, or that do not affect the answer. */
const LEFT_OUT = new Set([
  'model',
  'messages',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'reasoning_effort',
  'reasoning',
  'response_format',
  'max_tokens',
  'max_completion_tokens',
  'stream',
  'stream_options',
  'metadata',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'store',
  'n',
]);
const ROLES = new Set(['system', 'developer', 'user', 'assistant', 'tool']);
const STOPS_MAX = 4;

export const chatCompletionsWire: Wire = {
  name: 'chat_completions',
  result_id_key: 'tool_call_id',
  readRequest: readNormalChat,
  findBreaches,
  readSettings: (body) => otherFields(body, LEFT_OUT),
  findUnsupported,
  endsWithUser: (body) => asObject(asArray(body.messages).at(-1)).role !== 'assistant',
  stopWords: ({ stop }) =>
    typeof stop === 'string' ? [stop] : asArray(stop).filter((word) => typeof word === 'string'),
  callable,
  writeAnswer,
};

/** Lists the functions. Calls of custom tools have another form. */
function callable(body: JsonObject): CallForms {
  const forms = new Map<string, CallForm>();
  for (const { type, function: declared } of asArray(body.tools).map(asObject)) {
    const { name } = asObject(declared);
    if (type === 'function' && typeof name === 'string') forms.set(name, 'arguments');
  }
  return forms;
}

function findUnsupported(body: JsonObject): string {
  if (body.n != null && body.n !== 1) return 'asks for several answers';
  if (body.store === true) return 'asks the provider to keep the answer';
  if (body.logprobs === true || body.top_logprobs != null) return 'asks for probabilities of tokens';
  if (body.functions != null || body.function_call != null) return 'uses functions of the older form';
  if (body.audio != null || asArray(body.modalities).includes('audio')) return 'asks for sound';
  if (body.web_search_options != null) return 'asks the provider to search';
  return '';
}

function findBreaches(body: JsonObject): string[] {
  const breaches = new Breaches();
  checkOpenAiSettings(body, ['max_tokens', 'max_completion_tokens'], breaches);
  const { stop } = body;
  const isStop = typeof stop === 'string' || (areStrings(stop) && stop.length <= STOPS_MAX);
  breaches.expect('stop', stop == null || isStop);
  breaches.expect('stream_options', body.stream_options == null || body.stream === true);
  const tools = asArray(body.tools).map((tool) => ({
    ...asObject(asObject(tool).function),
    type: asObject(tool).type,
  }));
  checkOpenAiTools(body, tools, asObject(asObject(body.tool_choice).function).name, breaches);
  checkMessages(body.messages, breaches);
  return breaches.list();
}

/** Checks messages, and that each call of an answer has exactly one result after the answer. */
function checkMessages(value: unknown, breaches: Breaches): void {
  breaches.expect('messages', Array.isArray(value) && value.length > 0);
  let waiting = new Set<string>();
  for (const item of asArray(value)) {
    const { role, content, tool_calls, tool_call_id } = asObject(item);
    if (!ROLES.has(String(role))) {
      breaches.expect(`role ${String(role).slice(0, 64)}`, false);
      continue;
    }
    if (role === 'tool') {
      breaches.expect('results', waiting.delete(String(tool_call_id)));
      breaches.expect('content', typeof content === 'string' || Array.isArray(content));
      continue;
    }
    breaches.expect('results', waiting.size === 0);
    waiting = new Set();
    const hasContent = typeof content === 'string' || (Array.isArray(content) && content.length > 0);
    if (role !== 'assistant') {
      breaches.expect('content', hasContent);
      continue;
    }
    const calls = asArray(tool_calls).map(asObject);
    breaches.expect(
      'empty message',
      hasContent || calls.length > 0 || typeof asObject(item).refusal === 'string',
    );
    for (const { id, type, function: called } of calls) {
      breaches.expect('calls', typeof id === 'string' && id !== '' && !waiting.has(id));
      const { name, arguments: given } = asObject(called);
      breaches.expect(
        'calls',
        type !== 'function' || (typeof name === 'string' && typeof given === 'string'),
      );
      waiting.add(String(id));
    }
  }
  breaches.expect('results', waiting.size === 0);
}

interface ChatCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

function writeAnswer(answer: StudentAnswer, body: JsonObject): WireAnswer {
  const calls: ChatCall[] = [];
  let text: string | null = null;
  for (const block of answer.content) {
    if (block.type === 'text') text = (text ?? '') + block.text;
    else {
      const called = { name: block.name, arguments: JSON.stringify(block.input) };
      calls.push({ id: drawId('call_', 24), type: 'function', function: called });
    }
  }
  const base = {
    id: drawId('chatcmpl-', 29),
    created: Math.floor(systemClock.wallMs() / 1_000),
    model: String(body.model),
    service_tier: 'default',
    system_fingerprint: null,
  };
  const finish = calls.length > 0 ? 'tool_calls' : 'stop';
  const written =
    body.stream === true
      ? writeChunks(
          base,
          text,
          calls,
          finish,
          asObject(body.stream_options).include_usage === true ? usageOf(answer) : null,
        )
      : writeWhole(base, text, calls, finish, usageOf(answer));
  return {
    body: new TextEncoder().encode(written),
    request_id: drawId('req_', 32),
    call_ids: calls.map(({ id }) => id),
  };
}

function usageOf({ input_tokens, output_tokens }: StudentAnswer) {
  const [prompt, completion] = [Math.round(input_tokens), Math.round(output_tokens)];
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

function writeWhole(
  base: object,
  text: string | null,
  calls: ChatCall[],
  finish: string,
  usage: object,
): string {
  const message = {
    role: 'assistant',
    content: text,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    refusal: null,
    annotations: [],
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: finish };
  return JSON.stringify({ ...base, object: 'chat.completion', choices: [choice], usage });
}

/**
 * Writes the chunks of a stream.
 * @param usage null when the client did not ask for it
 */
function writeChunks(
  base: object,
  text: string | null,
  calls: ChatCall[],
  finish: string,
  usage: object | null,
): string {
  let written = '';
  const add = (choices: object[], counted: object | null = null): void => {
    const chunk = {
      ...base,
      object: 'chat.completion.chunk',
      choices,
      ...(usage === null ? {} : { usage: counted }),
    };
    written += `data: ${JSON.stringify(chunk)}\n\n`;
  };
  const delta = (value: object, finish_reason: string | null = null): void =>
    add([{ index: 0, delta: value, logprobs: null, finish_reason }]);
  delta({ role: 'assistant', content: text === null ? null : '', refusal: null });
  for (const content of cutText(text ?? '')) delta({ content });
  for (const [index, call] of calls.entries()) {
    delta({ tool_calls: [{ index, ...call, function: { ...call.function, arguments: '' } }] });
    for (const piece of cutText(call.function.arguments))
      delta({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  delta({}, finish);
  if (usage !== null) add([], usage);
  return `${written}data: [DONE]\n\n`;
}

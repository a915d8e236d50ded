/**
 * Translates a step for a service with the chat-completions API, and translates the service's answer back. Pure; the
 * round's own thread and the student's. Source: OpenAI's API reference, "Chat completions", as compatible services
 * implement it.
 *
 * The answer's length is sent as `max_tokens`, because all compatible services accept this field.
 */

import { asArray, asCount, asObject, asText, type JsonObject } from '../../providers/json-reading.ts';
import { tierOf } from '../../providers/service-tier.ts';
import { parseExact } from '../../std/exact-json.ts';
import type { StudentAnswer, StudentBlock } from '../model/decision.ts';
import { type PlainMessage, writeChatMessages, writeChatTools } from './plain-conversation.ts';
import { type ServiceStep, UntranslatableStep } from './service-step.ts';

/** Maximum number of stop words that services with this API accept. */
const STOPS_MAX = 4;

/**
 * Writes the request to the service.
 * @throws UntranslatableStep for anything that chat-completions cannot express
 */
export function toChatRequest(step: ServiceStep, model: string): JsonObject {
  if (step.stops.length > STOPS_MAX) throw new UntranslatableStep('more stop words than the service takes');
  if (step.top_k !== null) throw new UntranslatableStep('top_k');
  const messages: JsonObject[] = step.system === '' ? [] : [{ role: 'system', content: step.system }];
  for (const message of step.messages) messages.push(...toChatMessages(message));
  const asked: JsonObject = { model, stream: false, messages };
  if (step.max_tokens !== null) asked.max_tokens = step.max_tokens;
  if (step.tools.length > 0) {
    asked.tools = writeChatTools(step.tools);
    if (step.choice !== null) {
      const { mode, names, parallel } = step.choice;
      asked.tool_choice =
        mode === 'tool'
          ? { type: 'function', function: { name: names[0] } }
          : mode === 'any'
            ? 'required'
            : mode;
      if (parallel === false) asked.parallel_tool_calls = false;
    }
  }
  if (step.stops.length > 0) asked.stop = step.stops;
  for (const name of ['temperature', 'top_p', 'frequency_penalty', 'presence_penalty', 'seed'] as const)
    if (step[name] !== null) asked[name] = step[name];
  return asked;
}

function toChatMessages(message: PlainMessage): JsonObject[] {
  for (const block of message.content)
    if (block.type === 'tool_result' && block.content.some(({ type }) => type === 'media'))
      throw new UntranslatableStep('an image in a result');
  const written = writeChatMessages(message);
  // The prompt templates of small models read `content` even when there is no text.
  return message.role === 'assistant' ? written.map((entry) => ({ content: null, ...entry })) : written;
}

/**
 * Reads the service's answer.
 * @returns null for anything but a whole answer of text and calls
 */
export function fromChatAnswer(value: unknown): StudentAnswer | null {
  const body = asObject(value);
  const choice = asObject(asArray(body.choices)[0]);
  const message = asObject(choice.message);
  if (message.role !== 'assistant' || asText(message.refusal) !== null) return null;
  const finish = choice.finish_reason;
  if (finish !== 'stop' && finish !== 'tool_calls') return null;
  const content: StudentBlock[] = [];
  const text = asText(message.content);
  // Some services would refuse a client that sends blank text back.
  if (text !== null && text.trim() !== '') content.push({ type: 'text', text });
  const calls = asArray(message.tool_calls);
  for (const item of calls) {
    const { type, function: called } = asObject(item);
    const { name, arguments: given } = asObject(called);
    if ((type !== undefined && type !== 'function') || typeof name !== 'string') return null;
    const input = parseArguments(given);
    if (input === undefined) return null;
    content.push({ type: 'tool_call', id: '', name, input });
  }
  // Some services end a forced call with `stop`. An answer that ends with `tool_calls` but has no calls is incomplete.
  if (finish === 'tool_calls' && calls.length === 0) return null;
  const usage = asObject(body.usage);
  const tier = tierOf(body.service_tier);
  return {
    content,
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    input_tokens: asCount(usage.prompt_tokens) ?? 0,
    output_tokens: asCount(usage.completion_tokens) ?? 0,
    ...(tier === undefined ? {} : { tier }),
  };
}

/**
 * Reads the arguments of a call.
 * @returns undefined for anything but JSON
 */
function parseArguments(given: unknown): unknown {
  if (typeof given !== 'string') return given ?? {};
  if (given.trim() === '') return {};
  try {
    return parseExact(given);
  } catch {
    return undefined;
  }
}

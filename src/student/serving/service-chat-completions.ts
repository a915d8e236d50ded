/**
 * A step for a service that speaks chat-completions, and its answer back. Pure; the student's thread. Source: OpenAI's
 * API reference, "Chat completions", as the services that imitate it understand it.
 *
 * Results of tools become messages of their own before what the user says beside them. The word for an answer's length
 * is `max_tokens`, which all of these services know.
 */

import { asArray, asCount, asObject, asText, type JsonObject } from '../../providers/json-reading.ts';
import type { StudentAnswer, StudentBlock } from '../model/decision.ts';
import { ownTools, plainBlocks, systemText, UntranslatableStep } from './service-messages.ts';

/** Stop words that these services take. */
const STOPS_MAX = 4;

/** @throws UntranslatableStep for images, documents, provider's tools and what chat-completions has no word for */
export function toChatRequest(body: JsonObject, model: string): JsonObject {
  const messages: JsonObject[] = [];
  const system = systemText(body.system);
  if (system !== '') messages.push({ role: 'system', content: system });
  for (const item of asArray(body.messages)) {
    const { role, content } = asObject(item);
    if (role === 'assistant') messages.push(toAssistantMessage(plainBlocks(content)));
    else messages.push(...toUserMessages(plainBlocks(content)));
  }
  const asked: JsonObject = { model, max_tokens: body.max_tokens, stream: false, messages };
  const tools = ownTools(body.tools);
  if (tools.length > 0) {
    asked.tools = tools.map(({ name, description, input_schema }) => ({
      type: 'function',
      function: { name, ...(description === undefined ? {} : { description }), parameters: input_schema },
    }));
    const choice = asObject(body.tool_choice);
    const word = toChoice(choice);
    if (word !== null) asked.tool_choice = word;
    if (choice.disable_parallel_tool_use === true) asked.parallel_tool_calls = false;
  }
  const stops = asArray(body.stop_sequences);
  if (stops.length > STOPS_MAX) throw new UntranslatableStep('more stop words than the service takes');
  if (stops.length > 0) asked.stop = stops;
  if (typeof body.temperature === 'number') asked.temperature = body.temperature;
  if (typeof body.top_p === 'number') asked.top_p = body.top_p;
  // The user's own sampling among the k best has no counterpart.
  if (typeof body.top_k === 'number') throw new UntranslatableStep('top_k');
  return asked;
}

function toChoice({ type, name }: JsonObject): unknown {
  if (type === 'any') return 'required';
  if (type === 'tool') return { type: 'function', function: { name } };
  return type === 'auto' || type === 'none' ? type : null;
}

function toAssistantMessage(blocks: readonly JsonObject[]): JsonObject {
  const text = joinTexts(blocks);
  const calls = blocks
    .filter(({ type }) => type === 'tool_use')
    .map(({ id, name, input }) => ({
      id,
      type: 'function',
      function: { name, arguments: JSON.stringify(input ?? {}) },
    }));
  if (text === '' && calls.length === 0) throw new UntranslatableStep('a message of which nothing is left');
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function toUserMessages(blocks: readonly JsonObject[]): JsonObject[] {
  const messages: JsonObject[] = [];
  for (const block of blocks) {
    if (block.type !== 'tool_result') continue;
    // There is no mark for a failed call: its words must say so.
    const content = block.is_error === true ? `Error: ${block.content}` : block.content;
    messages.push({ role: 'tool', tool_call_id: block.tool_use_id, content });
  }
  const text = joinTexts(blocks);
  if (text !== '') messages.push({ role: 'user', content: text });
  if (messages.length === 0) throw new UntranslatableStep('a message of which nothing is left');
  return messages;
}

function joinTexts(blocks: readonly JsonObject[]): string {
  return blocks
    .filter(({ type }) => type === 'text')
    .map(({ text }) => text)
    .join('\n\n');
}

/** @returns null for what is no whole answer of text and calls */
export function fromChatAnswer(value: unknown): StudentAnswer | null {
  const body = asObject(value);
  const choice = asObject(asArray(body.choices)[0]);
  const message = asObject(choice.message);
  if (message.role !== 'assistant' || asText(message.refusal) !== null) return null;
  const finish = choice.finish_reason;
  if (finish !== 'stop' && finish !== 'tool_calls') return null;
  const content: StudentBlock[] = [];
  const text = asText(message.content);
  if (text !== null) content.push({ type: 'text', text });
  const calls = asArray(message.tool_calls);
  for (const item of calls) {
    const { type, function: called } = asObject(item);
    const { name, arguments: given } = asObject(called);
    if ((type !== undefined && type !== 'function') || typeof name !== 'string') return null;
    const input = parseArguments(given);
    if (input === undefined) return null;
    content.push({ type: 'tool_call', id: '', name, input });
  }
  // Some services end a forced call with `stop`; none ends an answer without calls with `tool_calls`.
  if (finish === 'tool_calls' && calls.length === 0) return null;
  const usage = asObject(body.usage);
  return {
    content,
    stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
    input_tokens: asCount(usage.prompt_tokens) ?? 0,
    output_tokens: asCount(usage.completion_tokens) ?? 0,
  };
}

/** @returns undefined for what is no JSON */
function parseArguments(given: unknown): unknown {
  if (typeof given !== 'string') return given ?? {};
  if (given.trim() === '') return {};
  try {
    return JSON.parse(given) as unknown;
  } catch {
    return undefined;
  }
}

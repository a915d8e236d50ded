/**
 * Translates a step for a service with the Messages API, and translates the service's answer back. Pure; the round's
 * own thread and the student's.
 */

import { asCount, asObject, type JsonObject } from '../../providers/json-reading.ts';
import { tierOf } from '../../providers/service-tier.ts';
import type { StudentAnswer, StudentBlock } from '../model/decision.ts';
import { writeMessages, writeTools } from './plain-conversation.ts';
import { type ServiceStep, UntranslatableStep } from './service-step.ts';

/** Maximum length of an answer when the client sets none, because this API requires one. Every model allows it. */
const SERVICE_ANSWER_TOKENS = 4_096;

/** Highest temperature of the Messages API; other wires allow more. */
const TEMPERATURE_MAX = 1;
const CALL_ID = /^[\w-]+$/;

/**
 * Writes the request to the service.
 * @throws UntranslatableStep for anything that Messages cannot express
 */
export function toMessagesRequest(step: ServiceStep, model: string): JsonObject {
  if (step.frequency_penalty || step.presence_penalty) throw new UntranslatableStep('a penalty');
  if ((step.temperature ?? 0) > TEMPERATURE_MAX) throw new UntranslatableStep('a temperature above 1');
  const messages = writeMessages(step.messages);
  if (messages[0]?.role !== 'user') throw new UntranslatableStep('a conversation that no user begins');
  for (const { content } of messages)
    for (const { type, id } of content)
      if (type === 'tool_use' && !CALL_ID.test(String(id))) throw new UntranslatableStep('an id of a call');
  const asked: JsonObject = {
    model,
    // The API requires this field. An answer that reaches the limit is truncated, and is not served.
    max_tokens: step.max_tokens ?? SERVICE_ANSWER_TOKENS,
    stream: false,
    messages,
  };
  if (step.system !== '') asked.system = step.system;
  if (step.tools.length > 0) {
    asked.tools = writeTools(step.tools);
    if (step.choice !== null) {
      const { mode, names, parallel } = step.choice;
      asked.tool_choice = {
        type: mode,
        ...(mode === 'tool' ? { name: names[0] } : {}),
        ...(parallel === false && mode !== 'none' ? { disable_parallel_tool_use: true } : {}),
      };
    }
  }
  if (step.stops.length > 0) asked.stop_sequences = step.stops;
  for (const name of ['temperature', 'top_p', 'top_k'] as const)
    if (step[name] !== null) asked[name] = step[name];
  return asked;
}

/**
 * Reads the service's answer.
 * @returns null for anything but a whole answer of text and calls
 */
export function fromMessagesAnswer(value: unknown): StudentAnswer | null {
  const message = asObject(value);
  if (message.type !== 'message' || message.role !== 'assistant' || !Array.isArray(message.content))
    return null;
  const stop = message.stop_reason;
  if (stop !== 'end_turn' && stop !== 'tool_use') return null;
  const content: StudentBlock[] = [];
  for (const item of message.content) {
    const block = asObject(item);
    if (block.type === 'thinking' || block.type === 'redacted_thinking') continue;
    if (block.type === 'text') {
      if (typeof block.text !== 'string') return null;
      // The API would refuse a client that sends blank text back.
      if (block.text.trim() !== '') content.push({ type: 'text', text: block.text });
    } else if (block.type === 'tool_use') {
      if (typeof block.name !== 'string') return null;
      content.push({ type: 'tool_call', id: '', name: block.name, input: block.input });
    } else return null;
  }
  const usage = asObject(message.usage);
  const input =
    (asCount(usage.input_tokens) ?? 0) +
    (asCount(usage.cache_read_input_tokens) ?? 0) +
    (asCount(usage.cache_creation_input_tokens) ?? 0);
  const tier = tierOf(usage.service_tier, usage.speed, usage.inference_geo);
  return {
    content,
    stop_reason: stop,
    input_tokens: input,
    output_tokens: asCount(usage.output_tokens) ?? 0,
    ...(tier === undefined ? {} : { tier }),
  };
}

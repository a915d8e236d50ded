/**
 * A step for a service that speaks the Messages API, and its answer back. The request is made anew from harmless fields
 * alone: no field goes along in which a client may have put a credential or a setting of its own provider.
 * Pure; the student's thread.
 */

import { asArray, asCount, asObject, asText, type JsonObject } from '../../providers/json-reading.ts';
import type { StudentAnswer, StudentBlock } from '../model/decision.ts';

/** Settings that go along as they are. */
const SETTINGS = ['temperature', 'top_p', 'top_k', 'stop_sequences'] as const;

/** A step that cannot be put to the service: it holds what would be lost. */
export class UntranslatableStep extends Error {}

/** @throws UntranslatableStep for images, documents and provider's tools */
export function toMessagesRequest(body: JsonObject, model: string): JsonObject {
  const asked: JsonObject = {
    model,
    max_tokens: body.max_tokens,
    stream: false,
    messages: asArray(body.messages).map((message) => toMessage(asObject(message))),
  };
  const system = systemText(body.system);
  if (system !== '') asked.system = system;
  const tools = ownTools(body.tools);
  if (tools.length > 0) asked.tools = tools;
  const choice = asObject(body.tool_choice);
  if (tools.length > 0 && typeof choice.type === 'string') {
    const { type, name, disable_parallel_tool_use: single } = choice;
    asked.tool_choice = {
      type,
      ...(typeof name === 'string' ? { name } : {}),
      ...(typeof single === 'boolean' ? { disable_parallel_tool_use: single } : {}),
    };
  }
  for (const name of SETTINGS) if (body[name] !== undefined && body[name] !== null) asked[name] = body[name];
  return asked;
}

/** A system prompt as one text. */
export function systemText(system: unknown): string {
  if (typeof system === 'string') return system;
  return asArray(system)
    .map((block) => asText(asObject(block).text) ?? '')
    .filter((text) => text !== '')
    .join('\n\n');
}

/** @throws UntranslatableStep for a tool that the provider runs */
export function ownTools(tools: unknown): { name: unknown; description?: string; input_schema: unknown }[] {
  return asArray(tools).map((item) => {
    const { type, name, description, input_schema } = asObject(item);
    if (type !== undefined && type !== null && type !== 'custom')
      throw new UntranslatableStep('a provider’s tool');
    const words = asText(description);
    return { name, ...(words === null ? {} : { description: words }), input_schema };
  });
}

/** Content as blocks; thinking, which is its own provider's, left out. @throws UntranslatableStep */
export function plainBlocks(content: unknown): JsonObject[] {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }];
  const blocks: JsonObject[] = [];
  for (const item of asArray(content)) {
    const block = asObject(item);
    switch (block.type) {
      case 'text':
        blocks.push({ type: 'text', text: block.text });
        break;
      case 'tool_use':
        blocks.push({ type: 'tool_use', id: block.id, name: block.name, input: block.input });
        break;
      case 'tool_result':
        blocks.push({
          type: 'tool_result',
          tool_use_id: block.tool_use_id,
          content: resultText(block.content),
          ...(block.is_error === true ? { is_error: true } : {}),
        });
        break;
      case 'thinking':
      case 'redacted_thinking':
        break;
      default:
        throw new UntranslatableStep(`a block of type ${String(block.type).slice(0, 40)}`);
    }
  }
  return blocks;
}

/** @throws UntranslatableStep for a result with more than text */
function resultText(content: unknown): string {
  if (typeof content === 'string') return content;
  return asArray(content)
    .map((item) => {
      const { type, text } = asObject(item);
      if (type !== 'text' || typeof text !== 'string')
        throw new UntranslatableStep('a result that is no text');
      return text;
    })
    .join('\n');
}

function toMessage({ role, content }: JsonObject): JsonObject {
  const blocks = plainBlocks(content);
  if (blocks.length === 0) throw new UntranslatableStep('a message of which nothing is left');
  return { role, content: blocks };
}

/** @returns null for what is no whole answer of text and calls */
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
      if (block.text !== '') content.push({ type: 'text', text: block.text });
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
  return {
    content,
    stop_reason: stop,
    input_tokens: input,
    output_tokens: asCount(usage.output_tokens) ?? 0,
  };
}

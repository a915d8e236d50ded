/**
 * Writes a conversation of texts, calls, results and images as chat-completions or as Messages. Both the requests to
 * the service behind a student and the training lines for a model are written here, so a model is asked in the same
 * words in which it was taught. Pure; teaching and the student's thread.
 */

import { type TurnBlock, type TurnTool, textOf } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';

/** The blocks that both request formats of a service (Messages, chat-completions) can express. */
export type PlainBlock = Extract<TurnBlock, { type: 'text' | 'tool_call' | 'tool_result' | 'media' }>;

/** A message of either side. Results of tools belong to the user's side. */
export interface PlainMessage {
  role: 'system' | 'user' | 'assistant';
  content: readonly PlainBlock[];
}

/** The system prompt as one text. */
export function joinSystem(system: readonly TurnBlock[]): string {
  return joinTexts(system, '\n\n');
}

/** Writes one message; results become separate messages, before the user's other content. */
export function writeChatMessages(message: PlainMessage): JsonObject[] {
  const { role, content } = message;
  if (role === 'assistant') return [writeChatAnswer(content)];
  const messages: JsonObject[] = [];
  const said: PlainBlock[] = [];
  for (const block of content)
    if (block.type === 'tool_result')
      messages.push({ role: 'tool', tool_call_id: block.call_id, content: resultText(block) });
    else said.push(block);
  if (said.length > 0) messages.push({ role, content: writeChatContent(said) });
  return messages;
}

function writeChatAnswer(content: readonly PlainBlock[]): JsonObject {
  const text = textOf(content);
  const calls = content.flatMap((block) => {
    if (block.type !== 'tool_call') return [];
    const called = { name: block.name, arguments: JSON.stringify(block.input) };
    return [{ id: block.id, type: 'function', function: called }];
  });
  return {
    role: 'assistant',
    ...(text === '' ? {} : { content: text }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Writes a message's content, as a plain string when there is only text. */
function writeChatContent(content: readonly PlainBlock[]): unknown {
  if (!content.some(({ type }) => type === 'media')) return joinTexts(content, '\n\n');
  return content.flatMap((block): object[] => {
    if (block.type === 'text') return [{ type: 'text', text: block.text }];
    if (block.type !== 'media') return [];
    const url = block.source === 'url' ? block.data : `data:${block.media_type};base64,${block.data}`;
    return [{ type: 'image_url', image_url: { url } }];
  });
}

/** The text of a result. Chat-completions has no mark for a failed call, so the text says that it failed. */
function resultText(block: Extract<PlainBlock, { type: 'tool_result' }>): string {
  const text = joinTexts(block.content, '\n');
  return block.is_error && !/^error/i.test(text) ? `Error: ${text}` : text;
}

function joinTexts(content: readonly TurnBlock[], between: string): string {
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(between);
}

/** Groups messages into turns: consecutive messages of one side become one, results first. */
export function writeMessages(
  messages: readonly PlainMessage[],
): { role: PlainMessage['role']; content: JsonObject[] }[] {
  const joined: { role: PlainMessage['role']; content: PlainBlock[] }[] = [];
  for (const { role, content } of messages) {
    const last = joined.at(-1);
    if (last?.role === role) last.content.push(...content);
    else joined.push({ role, content: [...content] });
  }
  return joined.map(({ role, content }) => {
    const isResult = ({ type }: PlainBlock): boolean => type === 'tool_result';
    const sorted = [...content.filter(isResult), ...content.filter((block) => !isResult(block))];
    return { role, content: sorted.map(writeBlock) };
  });
}

function writeBlock(block: PlainBlock): JsonObject {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'tool_call':
      return { type: 'tool_use', id: block.id, name: block.name, input: block.input };
    case 'tool_result':
      return {
        type: 'tool_result',
        tool_use_id: block.call_id,
        content: block.content.some(({ type }) => type === 'media')
          ? block.content.flatMap((part) =>
              part.type === 'text' || part.type === 'media' ? [writeBlock(part)] : [],
            )
          : joinTexts(block.content, '\n'),
        ...(block.is_error ? { is_error: true } : {}),
      };
    case 'media':
      return {
        type: 'image',
        source:
          block.source === 'url'
            ? { type: 'url', url: block.data }
            : { type: 'base64', media_type: block.media_type, data: block.data },
      };
  }
}

/** Tools that the client runs, in the form of chat-completions. */
export function writeChatTools(tools: readonly TurnTool[]): JsonObject[] {
  return tools.map(({ name, description, input_schema }) => ({
    type: 'function',
    function: { name, ...(description === '' ? {} : { description }), parameters: toSchema(input_schema) },
  }));
}

/** Tools that the client runs, in the form of Messages. */
export function writeTools(tools: readonly TurnTool[]): JsonObject[] {
  return tools.map(({ name, description, input_schema }) => ({
    name,
    ...(description === '' ? {} : { description }),
    input_schema: toSchema(input_schema),
  }));
}

/**
 * Sets the type of a tool's schema to `object`. A tool without a schema gets one without properties, because both
 * request formats of a service require a schema.
 */
function toSchema(schema: unknown): object {
  return isPlainObject(schema) ? { ...schema, type: 'object' } : { type: 'object', properties: {} };
}

/** Whether a value is an object, as a call's input must be. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

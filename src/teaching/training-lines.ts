/**
 * Golden runs as lines to fine-tune a model with: whole conversations with their tools, in the form of chat-completions
 * or of Messages. Thinking and cache markers are left out of a conversation, and conversations with images are left out
 * as a whole. Pure; command line.
 *
 * A client sends its whole conversation with each request, so the last request and its answer make one line for the
 * whole conversation. A line teaches only what the upstream answered in this run. Other answers come from a student or
 * from the client, or are masked. In the form of chat-completions, which has weights, they get the weight 0. In the
 * form of Messages, a conversation with such an answer is left out.
 */

import { createHash } from 'node:crypto';
import { canonicalInput } from '../domain/echo.ts';
import {
  type NormalRequest,
  type NormalTurn,
  type TurnBlock,
  type TurnTool,
  textOf,
} from '../domain/turn.ts';
import { canonicalJson } from '../std/exact-json.ts';
import { holdsMask } from '../student/model/answer.ts';
import {
  isPlainObject,
  joinSystem,
  type PlainMessage,
  writeChatMessages,
  writeChatTools,
  writeMessages,
  writeTools,
} from '../student/serving/plain-conversation.ts';

export const TRAINING_FORMS = ['openai', 'anthropic'] as const;
export type TrainingForm = (typeof TRAINING_FORMS)[number];

/** Why a conversation is left out. */
const LEFT_OUT = ['media', 'provider_tool', 'other_block', 'other_answers', 'shape', 'no_answer'] as const;
export type LeftOut = (typeof LEFT_OUT)[number];

/** Identifies an answer in later conversations: by its text and calls, whose arguments are compared by value. */
export function markAnswer(content: readonly TurnBlock[]): string {
  const calls = content.flatMap((block) =>
    block.type === 'tool_call' ? [[block.name, canonicalInput(block.input)]] : [],
  );
  return hash(JSON.stringify([textOf(content).trim(), calls]));
}

/** Hashes of a conversation after each message: equal for the same beginning, apart from thinking and cache points. */
export function hashPrefixes({ messages }: NormalRequest): string[] {
  let last = '';
  return messages.map(({ role, content }) => {
    const said = content.filter(({ type }) => type !== 'thinking' && type !== 'cache_point');
    last = hash(`${last}\n${role}\n${canonicalJson(said)}`);
    return last;
  });
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}

/**
 * Makes the line of a conversation.
 * @param answered marks of the upstream's answers in the run
 * @returns the line's value, or the reason why it is left out
 */
export function makeTrainingLine(
  form: TrainingForm,
  { request, answer }: NormalTurn,
  answered: ReadonlySet<string>,
): object | LeftOut {
  const messages = [...request.messages, { role: 'assistant' as const, content: answer.content }];
  for (const { content } of messages) {
    const reason = findUnteachable(content);
    if (reason !== null) return reason;
  }
  if (request.tools.some(({ kind }) => kind !== 'function')) return 'provider_tool';
  const pieces = messages.flatMap(({ role, content }): Piece[] => {
    const said = content.filter(isSaid);
    if (said.length === 0) return [];
    if (role === 'assistant') {
      const teaches = answered.has(markAnswer(content)) && !holdsMask(said);
      return [{ role, content: said, teaches }];
    }
    return [{ role: role === 'tool' ? 'user' : role, content: said, teaches: false }];
  });
  if (pieces.at(-1)?.role !== 'assistant' || !pieces.some(({ teaches }) => teaches)) return 'no_answer';
  const system = joinSystem(request.system);
  return form === 'openai'
    ? toChatLine(system, pieces, request)
    : toMessagesLine(system, pieces, request.tools);
}

/** The parts of a message that go into a line. */
type Said = Extract<TurnBlock, { type: 'text' | 'tool_call' | 'tool_result' }>;

interface Piece extends PlainMessage {
  content: Said[];
  /** Whether this is an unmasked answer that the upstream gave in this run. */
  teaches: boolean;
}

function isSaid(block: TurnBlock): block is Said {
  return (
    (block.type === 'text' && block.text !== '') || block.type === 'tool_call' || block.type === 'tool_result'
  );
}

function findUnteachable(content: readonly TurnBlock[]): LeftOut | null {
  for (const block of content) {
    if (block.type === 'media') return 'media';
    if (block.type === 'other' || block.type === 'refusal') return 'other_block';
    if (block.type === 'tool_call' && !isPlainObject(block.input)) return 'shape';
    if (block.type === 'tool_result') {
      const within = findUnteachable(block.content);
      if (within !== null) return within;
      if (block.call_id === null) return 'shape';
    }
  }
  return null;
}

/** Maximum number of tools in a line that OpenAI's fine-tuning of chat models accepts. */
const CHAT_TOOLS_MAX = 128;

function toChatLine(
  system: string,
  pieces: readonly Piece[],
  { tools, tool_choice }: NormalRequest,
): object | LeftOut {
  if (tools.length > CHAT_TOOLS_MAX) return 'shape';
  const messages: object[] = system === '' ? [] : [{ role: 'system', content: system }];
  for (const piece of pieces)
    for (const written of writeChatMessages(piece))
      messages.push(piece.role === 'assistant' ? { ...written, weight: piece.teaches ? 1 : 0 } : written);
  const line: Record<string, unknown> = { messages };
  if (tools.length > 0) {
    line.tools = writeChatTools(tools);
    line.parallel_tool_calls = tool_choice?.parallel ?? true;
  }
  return line;
}

function toMessagesLine(
  system: string,
  pieces: readonly Piece[],
  tools: readonly TurnTool[],
): object | LeftOut {
  if (pieces.some(({ role, teaches }) => role === 'assistant' && !teaches)) return 'other_answers';
  const messages = writeMessages(
    pieces.map(({ role, content }) => ({ role: role === 'assistant' ? role : 'user', content })),
  );
  if (messages[0]?.role !== 'user') return 'shape';
  return {
    ...(system === '' ? {} : { system }),
    ...(tools.length === 0 ? {} : { tools: writeTools(tools) }),
    messages: messages.map(({ role, content }) => ({ role, content: flatten(content) })),
  };
}

/** A message with a single text is written as that text. */
function flatten(content: readonly object[]): unknown {
  const [only] = content as { type: string; text?: string }[];
  return content.length === 1 && only!.type === 'text' ? only!.text : content;
}

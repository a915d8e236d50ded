/**
 * Fingerprints of a conversation's prefixes, so that requests can be grouped into runs without a label.
 * Pure; runs where stored copies are read, never on a front thread. Cost: one SHA-256 over the conversation.
 *
 * What is hashed, one after the other: the system prompt's fingerprint; then, message by message, role and kind of each
 * part with its meaning. After each message the state so far is taken as that prefix's hash (22 characters of base64url,
 * 132 bits). So the n-th hash of two requests is equal when their first n messages mean the same.
 *
 * What does not matter: cache markers and where they stand, key order, a string against a list of one text, text cut
 * into several blocks or messages of the same role, thinking and its signatures (clients drop them when they send the
 * answer back), arguments of a tool call as text or as JSON, fields that are null. What does: the ids of tool calls,
 * which tell apart runs that began with the same words; but not for Gemini, which mostly gives none, so that clients
 * make up their own.
 *
 * System prompt: only a fingerprint of its beginning (256 characters, digits levelled, provider billing lines left
 * out) goes in. Agents with different prompts that get the same first message are then different conversations, while
 * a date, a directory listing or a note further down may change between the turns of one run. Tools are left out: they
 * come and go within a run.
 *
 * Requests that go on from an answer that the provider keeps (`previous_response_id`) start from that answer's id
 * instead: the first hash stands for all that came before.
 */

import { createHash, type Hash } from 'node:crypto';
import type { Message, Part, TurnAnswer, TurnRequest } from './turn.ts';

/** How much of the system prompt counts. */
const SYSTEM_PREFIX_CHARS = 256;

/** Deeper JSON than this is hashed as its text, key order and all. */
const MAX_CANONICAL_DEPTH = 64;

/** Length of a hash in base64url characters. */
const HASH_CHARS = 22;

/** The fingerprints of one turn. */
export interface Conversation {
  /** One for each prefix, as ExchangeFacts.conversation says; with a previous answer, its link comes first. */
  prefixes: string[];
  /**
   * What a request that continues this very answer has among its prefixes: the request plus the answer, or null
   * without a finished answer. Where two runs began alike, it tells which of them a request goes on with.
   */
  answered: string | null;
  /** The same by the answer's id, for providers that keep answers; else null. */
  answered_id: string | null;
}

/**
 * Fingerprints a turn.
 * @param withIds whether the ids of tool calls are the provider's and so count
 */
export function fingerprintConversation(
  request: TurnRequest,
  answer: TurnAnswer | null,
  withIds: boolean,
): Conversation {
  const prefixes: string[] = [];
  const chain = createHash('sha256');
  const state: ChainState = { chain, mark: '', withIds };
  if (request.previous_answer_id !== null) {
    const link = linkToAnswer(request.previous_answer_id);
    prefixes.push(link);
    chain.update(link);
  } else if (request.messages.length > 0) {
    chain.update(fingerprintSystem(request.system));
  }
  for (const message of request.messages) {
    addMessage(state, message);
    prefixes.push(takeHash(chain));
  }
  let answered: string | null = null;
  if (answer !== null && prefixes.length > 0 && answer.stop_reason !== null && answer.error === null) {
    addMessage(state, { role: 'assistant', parts: answer.parts });
    answered = takeHash(chain);
  }
  const answeredId =
    answered !== null && answer !== null && answer.id !== null ? linkToAnswer(answer.id) : null;
  return { prefixes, answered, answered_id: answeredId };
}

interface ChainState {
  chain: Hash;
  /** Role and kind of the text that is running; text of the same role and kind goes on without a new mark. */
  mark: string;
  withIds: boolean;
}

function addMessage(state: ChainState, message: Message): void {
  for (const part of message.parts) {
    switch (part.type) {
      case 'thinking':
        break;
      case 'text':
        if (part.text === '') break;
        addMark(state, message.role);
        state.chain.update(part.text);
        break;
      default:
        state.mark = '';
        state.chain.update(`\u0000${part.type === 'tool_result' ? 'tool' : message.role}\u0000`);
        state.chain.update(describePart(part, state.withIds));
    }
  }
}

function addMark(state: ChainState, role: string): void {
  if (state.mark === role) return;
  state.mark = role;
  state.chain.update(`\u0000${role}\u0000text\u0000`);
}

/** A part that is no text in canonical words. */
function describePart(part: Exclude<Part, { type: 'text' | 'thinking' }>, withIds: boolean): string {
  switch (part.type) {
    case 'tool_call':
      return canonicalJson([part.type, withIds ? part.id : null, part.name, part.arguments]);
    case 'tool_result':
      return canonicalJson([part.type, withIds ? part.call_id : null, part.is_error, joinTexts(part.parts)]);
    case 'media':
      return canonicalJson([part.type, part.media_type, part.data]);
    case 'other':
      return canonicalJson([part.type, part.name, part.value]);
  }
}

/** A tool result's parts with neighbouring texts joined: a string and a list of texts are the same. */
function joinTexts(parts: Part[]): unknown[] {
  const joined: unknown[] = [];
  let text = '';
  for (const part of parts) {
    if (part.type === 'thinking') continue;
    if (part.type === 'text') {
      text += part.text;
      continue;
    }
    if (text !== '') joined.push(text);
    text = '';
    joined.push(part);
  }
  if (text !== '') joined.push(text);
  return joined;
}

function fingerprintSystem(blocks: string[]): string {
  let beginning = '';
  for (const block of blocks) {
    // A line that a well-known coding agent puts first, with a checksum that changes from request to request.
    if (block.startsWith('x-anthropic-billing-header')) continue;
    beginning += block.slice(0, SYSTEM_PREFIX_CHARS - beginning.length);
    if (beginning.length >= SYSTEM_PREFIX_CHARS) break;
  }
  return `system\u0000${beginning.replace(/\d+/g, '0')}`;
}

function linkToAnswer(id: string): string {
  return createHash('sha256').update(`answer\u0000${id}`).digest('base64url').slice(0, HASH_CHARS);
}

function takeHash(chain: Hash): string {
  return chain.copy().digest('base64url').slice(0, HASH_CHARS);
}

/** JSON with sorted keys, and without cache markers and fields that are null. */
export function canonicalJson(value: unknown, depth = 0): string {
  if (typeof value !== 'object' || value === null || depth >= MAX_CANONICAL_DEPTH) {
    return JSON.stringify(value) ?? 'null';
  }
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item, depth + 1)).join(',')}]`;
  const entries: string[] = [];
  for (const key of Object.keys(value).sort()) {
    if (key === 'cache_control') continue;
    const item = (value as Record<string, unknown>)[key];
    if (item !== undefined && item !== null)
      entries.push(`${JSON.stringify(key)}:${canonicalJson(item, depth + 1)}`);
  }
  return `{${entries.join(',')}}`;
}

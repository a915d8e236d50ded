/**
 * Fingerprints of a conversation, so that requests can be grouped into runs without a label.
 * Pure; runs where stored copies are read, never on a server thread. Cost: one SHA-256 over the conversation.
 *
 * Prefixes. Message by message, role and kind of each part are hashed with its meaning. After each message the state so
 * far is taken as that prefix's hash (22 characters of base64url, 132 bits). So the n-th hash of two requests is equal
 * when their first n messages mean the same.
 *
 * What does not matter: cache markers and where they stand, key order, a string against a list of one text, text cut
 * into several blocks or messages of the same role, thinking and its signatures (clients drop them when they send the
 * answer back), arguments of a tool call as text or as JSON, fields that are null. What does: the ids of tool calls,
 * which tell apart runs that began with the same words; but not for Gemini, which mostly gives none, so that clients
 * make up their own.
 *
 * An answer alone. Clients rewrite what they have sent before: they drop old messages, cut old results, move a reminder
 * along. Then no prefix is shared, and yet the last answer stands in the request. So the answer is fingerprinted by
 * itself as well, and so is the last one in the request: by its calls with their ids, else by its words; not a short one
 * without a call, which many turns give.
 *
 * The system prompt is no part of the hashes: a date, a session's id, a listing of files may change in it from request
 * to request. A sketch of it (src/domain/prompt-sketch.ts) tells agents apart whose conversations begin alike. Tools are
 * left out: they come and go within a run.
 *
 * Requests that go on from an answer that the provider keeps (`previous_response_id`, a `conversation`, a `thread`) start from
 * that answer's id, or the conversation's, instead: the first hash stands for all that came before.
 */

import { createHash, type Hash, hash } from 'node:crypto';
import { sketchPrompt } from '../domain/prompt-sketch.ts';
import type { Message, Part, TurnAnswer, TurnRequest } from './turn.ts';

/** An answer of this many characters is known again by its words alone; shorter ones ("Done.") many turns give. */
const TELLING_TEXT_CHARS = 64;

/** The same for one that calls tools: names, arguments and ids together. */
const TELLING_CALL_CHARS = 40;

/** Deeper JSON than this is hashed as its text, key order and all. */
const MAX_CANONICAL_DEPTH = 64;

/** Length of a hash in base64url characters. */
const HASH_CHARS = 22;

/** The fingerprints of one turn. */
export interface Conversation {
  /** One for each prefix, as ExchangeEntry.conversation says; with a previous answer, its link comes first. */
  prefixes: string[];
  /**
   * What a request that continues this very answer has among its prefixes: the request plus the answer, or null
   * without a finished answer. Where two runs began alike, it tells which of them a request goes on with.
   */
  answered: string | null;
  /** The same by the answer's id, where the provider keeps the answer; else null. */
  answered_id: string | null;
  /** The answer by itself; null without a finished answer, and for one that says too little to be known again. */
  answer_alone: string | null;
  /** The last answer in the request by itself, likewise. */
  last_answer_alone: string | null;
  /** Place of that answer's end among the prefixes; -1 when the request holds no answer. */
  last_answer_at: number;
  /** Makes the sketch of the system prompt; a function, since few turns need one. */
  sketchSystem(): string;
}

/** Of a turn that cannot be read. */
export const NO_CONVERSATION: Conversation = Object.freeze({
  prefixes: [],
  answered: null,
  answered_id: null,
  answer_alone: null,
  last_answer_alone: null,
  last_answer_at: -1,
  sketchSystem: () => '',
});

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
  const state: ChainState = { chain: createHash('sha256'), mark: '', withIds, alone: null };
  const { messages, previous_answer_id: previousId } = request;
  if (previousId !== null) {
    const link = linkToAnswer(previousId);
    prefixes.push(link);
    state.chain.update(link);
  }
  const [from, to] = findLastAnswer(messages);
  let lastAnswerAlone: string | null = null;
  let lastAnswerAt = -1;
  for (let i = 0; i < messages.length; i += 1) {
    if (i === from) state.alone = new AnswerAlone();
    addMessage(state, messages[i]!);
    prefixes.push(takeHash(state.chain));
    if (i !== to) continue;
    lastAnswerAlone = state.alone?.finish() ?? null;
    lastAnswerAt = prefixes.length - 1;
    state.alone = null;
  }
  let answered: string | null = null;
  let answerAlone: string | null = null;
  if (answer !== null && prefixes.length > 0 && answer.stop_reason !== null && answer.error === null) {
    const alone = new AnswerAlone();
    state.alone = alone;
    addMessage(state, { role: 'assistant', parts: answer.parts });
    answered = takeHash(state.chain);
    answerAlone = alone.finish();
  }
  const answeredId = request.is_kept === true ? (request.kept_in ?? answer?.id ?? null) : null;
  return {
    prefixes,
    answered,
    answered_id: answered === null || answeredId === null ? null : linkToAnswer(answeredId),
    answer_alone: answerAlone,
    last_answer_alone: lastAnswerAlone,
    last_answer_at: lastAnswerAt,
    sketchSystem: () => sketchPrompt(leaveOutBilling(request.system)),
  };
}

/** First and last message of the last answer in a request; shapes that list items cut one answer into several. */
function findLastAnswer(messages: readonly Message[]): [from: number, to: number] {
  let to = messages.length - 1;
  while (to >= 0 && messages[to]!.role !== 'assistant') to -= 1;
  let from = to;
  while (from > 0 && messages[from - 1]!.role === 'assistant') from -= 1;
  return [from, to];
}

/** Well-known coding agents put a line first with a checksum that changes from request to request. */
function leaveOutBilling(blocks: readonly string[]): readonly string[] {
  const isBilling = (block: string): boolean => block.startsWith('x-anthropic-billing-header');
  return blocks.some(isBilling) ? blocks.filter((block) => !isBilling(block)) : blocks;
}

interface ChainState {
  chain: Hash;
  /** Role and kind of the text that is running; text of the same role and kind goes on without a new mark. */
  mark: string;
  withIds: boolean;
  /** Takes what is hashed as well, while an answer goes by. */
  alone: AnswerAlone | null;
}

/**
 * One answer, hashed by itself. Calls that carry the provider's ids say who gave it, whatever a client has made of the
 * words around them; else all counts but white space at its ends, which clients trim.
 */
class AnswerAlone {
  #words = '';
  #calls = '';

  addText(text: string): void {
    this.#words += text;
  }

  addPart(words: string, isCallWithId: boolean): void {
    if (isCallWithId) this.#calls += `\u0000${words}`;
    else this.#words += `\u0000${words}`;
  }

  finish(): string | null {
    const telling = this.#calls === '' ? this.#words.trim() : this.#calls;
    if (telling.length < (this.#calls === '' ? TELLING_TEXT_CHARS : TELLING_CALL_CHARS)) return null;
    return hash('sha256', `alone\u0000${telling}`, 'base64url').slice(0, HASH_CHARS);
  }
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
        state.alone?.addText(part.text);
        break;
      default: {
        const words = describePart(part, state.withIds);
        state.mark = '';
        state.chain.update(`\u0000${part.type === 'tool_result' ? 'tool' : message.role}\u0000`);
        state.chain.update(words);
        state.alone?.addPart(words, part.type === 'tool_call' && state.withIds && part.id !== null);
      }
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

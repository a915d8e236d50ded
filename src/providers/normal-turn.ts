/**
 * Reads the stored copy of an exchange into the normal form of `src/domain/turn.ts`. The wire's own reader (`wires.ts`)
 * reads request and answer, each in one pass over its JSON; the index entry (`decode.ts`) is derived from the result.
 * Pure; runs where stored copies are read, and on the student's thread; never on a server thread. Never throws:
 * unreadable parts are flagged with the reason, and the rest is returned.
 *
 * Bounds: a body is decoded to at most DECODED_BODY_BYTES, and a turn has at most NORMAL_TURN_ITEMS blocks, tools and
 * events. Time and memory are linear in those.
 */

import type { TokenUsage } from '../domain/exchange.ts';
import type { NormalAnswer, NormalTurn } from '../domain/turn.ts';
import { decodeContent, readHeader } from './content-encoding.ts';
import { type Conversation, fingerprintConversation, NO_CONVERSATION } from './conversation.ts';
import { readFrames } from './framing.ts';
import { parseJson, readErrorWords } from './json-reading.ts';
import { NormalReading, pairCalls } from './normal-reading.ts';
import { RepeatedRequests } from './repeated-requests.ts';
import type { StoredExchange } from './stored-exchange.ts';
import { leaveOutCache } from './usage-counts.ts';
import { emptyAnswer, normalizeStop, unreadRequest, type Wire, type WireAnswer } from './wire.ts';
import { WIRES } from './wires.ts';

/** A turn in normal form, and further fields for the index. */
export interface ReadTurn extends NormalTurn {
  conversation: Conversation;
  /** The provider's own stop word; null without one, and after an error. */
  stop_word: string | null;
  /** Counts as the provider reported them. The wire's `usage` says what they include. */
  told_usage: TokenUsage;
  /** Whether the answer's frames are truncated. */
  is_cut_off: boolean;
  /** False for an embedding, which uses a turn's path. */
  is_turn: boolean;
}

/** Maximum number of characters of an error answer that are kept if it is not JSON. */
const ERROR_WORDS_CHARS = 500;

/** Reads a stored exchange in normal form; null when it is not a turn. */
export function normalizeTurn(exchange: StoredExchange): NormalTurn | null {
  const turn = readTurn(exchange, 'content');
  if (turn === null || !turn.is_turn) return null;
  const { request, answer, problem } = turn;
  return { request, answer, problem };
}

/**
 * The purpose of reading a turn. `content` leaves out the fingerprints of the conversation, which need a hash over all
 * of it. `index` reads numbers as doubles, which are exact enough for the index and the fingerprints; checking for
 * digits that a double loses takes a fifth of the time. `all` has fingerprints and exact numbers.
 */
type ReadPurpose = 'all' | 'content' | 'index';

/** Reads a stored exchange; null if it has no shape. */
export function readTurn(exchange: StoredExchange, purpose: ReadPurpose = 'all'): ReadTurn | null {
  if (exchange.shape === null) return null;
  const isPlain = purpose === 'index';
  const wire: Wire = WIRES[exchange.shape];
  const problems: string[] = [];
  if (exchange.truncated) problems.push('the stored copy is truncated');
  const reading = new NormalReading();
  const asked =
    guard(problems, 'request', () =>
      wire.readRequest(readRequestBody(exchange, problems, isPlain), reading, exchange.path),
    ) ?? unreadRequest();
  const { answer, is_cut_off } = readAnswer(wire, exchange, reading, problems, isPlain);
  if (answer.is_pending) problems.push('answer: it is made in the background, and another call fetches it');
  const is_turn = !asked.embeds && !answer.embeds;
  // After an error the stop word is meaningless: proxies close a failed stream with `stop`.
  if (answer.error !== null) answer.stop_word = null;
  const conversation =
    purpose !== 'content' && is_turn
      ? guard(problems, 'conversation', () => fingerprintConversation(asked, answer, wire.has_call_ids))
      : null;
  const { normal: request } = asked;
  guard(problems, 'pairing', () => pairCalls(request.messages, answer.content));
  if (reading.isOver) problems.push('more blocks, tools or events than are read');
  return {
    request,
    answer: normalizeAnswer(wire, answer),
    problem: problems.join('; '),
    conversation: conversation ?? NO_CONVERSATION,
    stop_word: answer.stop_word,
    told_usage: answer.usage,
    is_cut_off,
    is_turn,
  };
}

function normalizeAnswer(
  wire: Wire,
  { id, model, content, stop_word, usage, error }: WireAnswer,
): NormalAnswer {
  return {
    id,
    model,
    content,
    stop_reason: normalizeStop(wire, stop_word, content),
    usage: wire.usage.includes_cache ? leaveOutCache(usage) : usage,
    error,
  };
}

const repeatedRequests = new RepeatedRequests();

function readRequestBody(exchange: StoredExchange, problems: string[], isPlain: boolean): unknown {
  const content = decodeContent(exchange.request_body, exchange.request_headers);
  if (content.problem !== '') {
    problems.push(`request: ${content.problem}`);
    return null;
  }
  if (content.bytes.byteLength === 0) {
    if (exchange.status >= 200 && exchange.status < 300) problems.push('request: empty');
    return null;
  }
  try {
    const { request_place: place } = exchange;
    if (isPlain && place !== undefined && content.bytes === exchange.request_body)
      return repeatedRequests.parse(content.bytes, place);
    return parseJson(new TextDecoder().decode(content.bytes), isPlain);
  } catch (error) {
    problems.push(`request: not JSON (${(error as Error).message.slice(0, 120)})`);
    return null;
  }
}

function readAnswer(
  wire: Wire,
  exchange: StoredExchange,
  reading: NormalReading,
  problems: string[],
  isPlain: boolean,
): { answer: WireAnswer; is_cut_off: boolean } {
  const { status, response_headers: headers } = exchange;
  const content = decodeContent(exchange.response_body, headers);
  const reader = wire.startAnswer(reading, exchange.path, headers);
  let is_cut_off = false;
  if (status >= 200 && status < 300) {
    const frames = guard(problems, 'answer', () =>
      readFrames(content.bytes, readHeader(headers, 'content-type'), reader, isPlain),
    );
    is_cut_off = frames?.is_cut_off ?? false;
    if (content.problem !== '') problems.push(`answer: ${content.problem}`);
    else if (frames !== null && frames.problem !== '') problems.push(`answer: ${frames.problem}`);
  }
  const answer = guard(problems, 'answer', () => reader.finish()) ?? emptyAnswer();
  if (status >= 200 && status < 300) return { answer, is_cut_off };
  const error = status === 0 ? null : (readErrorAnswer(content.bytes) ?? `status ${status}`);
  return { answer: { ...emptyAnswer(), usage: answer.usage, error }, is_cut_off };
}

/**
 * Reads the message of an error answer, or the beginning of its body if the body is not JSON.
 * @returns null for an empty body, and for JSON without a message
 */
function readErrorAnswer(bytes: Uint8Array): string | null {
  const text = new TextDecoder().decode(bytes);
  try {
    return readErrorWords(JSON.parse(text));
  } catch {
    return text === '' ? null : text.slice(0, ERROR_WORDS_CHARS);
  }
}

/**
 * Runs a reader. If the reader throws, the exception is recorded as a problem, and the result is null. No reader should
 * throw; this guards against hostile JSON that is too deep for the stack.
 */
function guard<T>(problems: string[], what: string, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    problems.push(`${what}: ${(error as Error).message.slice(0, 120)}`);
    return null;
  }
}

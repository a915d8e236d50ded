/**
 * Reads the stored copy of an exchange: what was asked, what was answered, by which model, at what cost.
 * Pure; runs on the capture writer's thread after the bytes are safe, and in the command line; never on a server thread. Nothing here throws: what cannot be read is flagged, with the reason, and the rest is given all the same.
 *
 * Bounds: a body is decoded to at most 128 MiB (DECODED_BODY_BYTES); time and memory are linear in that.
 * What the numbers mean, per provider: README.md beside this file.
 */

import type { SideKind } from '../domain/client-run.ts';
import type { ApiShape, ExchangeEntry } from '../domain/exchange.ts';
import { bedrockConverseShape } from './bedrock-converse/shape.ts';
import { bedrockInvokeShape, fillUsageFromHeaders } from './bedrock-invoke/shape.ts';
import { chatCompletionsShape } from './chat-completions/shape.ts';
import { completionShape } from './completion/shape.ts';
import { decodeContent, readHeader } from './content-encoding.ts';
import { type Conversation, fingerprintConversation, NO_CONVERSATION } from './conversation.ts';
import { readFrames } from './framing.ts';
import { geminiShape } from './gemini/shape.ts';
import { parseJson, readErrorWords } from './json-reading.ts';
import { messagesShape } from './messages/shape.ts';
import { responsesShape } from './responses/shape.ts';
import { findSideCall } from './side-call.ts';
import { tellShape } from './tell-shape.ts';
import {
  emptyAnswer,
  type StoredExchange,
  type TurnAnswer,
  type TurnRequest,
  type TurnShape,
  unknownUsage,
} from './turn.ts';

export type { StoredExchange } from './turn.ts';

/** A stored turn, read. */
export interface DecodedTurn {
  request: TurnRequest;
  answer: TurnAnswer;
  conversation: Conversation;
  /** In words, what could not be read; '' when everything could. */
  problem: string;
}

/** The index entry, and beyond it what links the turns of a run. */
export interface DecodedExchange extends ExchangeEntry {
  /** Conversation.answered: a later request that continues this answer has it among its `conversation`. */
  answered: string | null;
  /** Conversation.answered_id: the same for a request that names this answer's id. */
  answered_id: string | null;
  /** Conversation.answer_alone, last_answer_alone, last_answer_at, sketchSystem. */
  answer_alone: string | null;
  last_answer_alone: string | null;
  last_answer_at: number;
  sketchSystem: () => string;
  /** Whether it is a call beside the work (side-call.ts). */
  findSideCall: (offersTools: boolean) => SideKind | null;
  /** Told by the bodies, of an exchange whose path tells no shape; else null. */
  told_shape: ApiShape | null;
  /** The answer's stream broke off, or ended with an error. */
  broke_off: boolean;
  /** False for an embedding, which comes by InvokeModel's path and is no turn. */
  is_turn: boolean;
}

const SHAPES: Record<ApiShape, TurnShape> = {
  messages: messagesShape,
  chat_completions: chatCompletionsShape,
  responses: responsesShape,
  completion: completionShape,
  gemini: geminiShape,
  bedrock_converse: bedrockConverseShape,
  bedrock_invoke: bedrockInvokeShape,
};

/** How much of an error answer that is no JSON is kept as its words. */
const ERROR_WORDS_CHARS = 500;

/**
 * The index entry of a stored exchange. It is empty where neither its path nor its bodies tell a shape. Such an exchange is not undecodable, nor is an
 * error answer, whatever its body, nor a stream that ended early between two events (its stop reason stays null).
 */
export function decodeExchange(stored: StoredExchange): DecodedExchange {
  const told_shape = stored.shape === null ? tellShape(stored) : null;
  const exchange = told_shape === null ? stored : { ...stored, shape: told_shape };
  const turn = decodeTurn(exchange);
  if (turn === null) {
    const { prefixes: conversation, ...links } = NO_CONVERSATION;
    return {
      model: null,
      usage: unknownUsage(),
      stop_reason: null,
      undecodable: false,
      reason: '',
      conversation,
      ...links,
      findSideCall: () => null,
      told_shape,
      broke_off: false,
      is_turn: true,
    };
  }
  const { request, answer, problem } = turn;
  const isTurn = request.embeds !== true && answer.embeds !== true;
  const { prefixes: conversation, ...links } = isTurn ? turn.conversation : NO_CONVERSATION;
  const contentType = readHeader(exchange.response_headers, 'content-type');
  const isStream = contentType.includes('stream');
  return {
    model: answer.model ?? request.model,
    usage: answer.usage,
    stop_reason: answer.stop_reason,
    undecodable: problem !== '',
    reason: problem,
    conversation,
    ...links,
    findSideCall: (offersTools) => findSideCall(request, offersTools),
    told_shape,
    broke_off: answer.error !== null || (isStream && answer.stop_reason === null),
    is_turn: isTurn,
  };
}

/** A stored exchange read in full; null when it has no shape. Never throws. */
export function decodeTurn(exchange: StoredExchange): DecodedTurn | null {
  if (exchange.shape === null) return null;
  const shape = SHAPES[exchange.shape];
  const problems: string[] = [];
  if (exchange.truncated) problems.push('the stored copy is cut off');
  const request = guard(problems, 'request', () => readRequest(shape, exchange, problems)) ?? {
    model: null,
    system: [],
    messages: [],
    tools: [],
    previous_answer_id: null,
  };
  const answer = guard(problems, 'answer', () => readAnswer(shape, exchange, problems)) ?? emptyAnswer();
  if (exchange.shape === 'bedrock_invoke') fillUsageFromHeaders(answer, exchange.response_headers);
  const conversation =
    guard(problems, 'conversation', () =>
      fingerprintConversation(request, answer, exchange.shape !== 'gemini'),
    ) ?? NO_CONVERSATION;
  return { request, answer, conversation, problem: problems.join('; ') };
}

function readRequest(shape: TurnShape, exchange: StoredExchange, problems: string[]): TurnRequest {
  const content = decodeContent(exchange.request_body, exchange.request_headers);
  let body: unknown = null;
  if (content.problem !== '') problems.push(`request: ${content.problem}`);
  else if (content.bytes.byteLength === 0) {
    if (exchange.status >= 200 && exchange.status < 300) problems.push('request: empty');
  } else {
    try {
      body = parseJson(new TextDecoder().decode(content.bytes));
    } catch (error) {
      problems.push(`request: not JSON (${(error as Error).message.slice(0, 120)})`);
    }
  }
  return shape.readRequest(body, exchange.path);
}

function readAnswer(shape: TurnShape, exchange: StoredExchange, problems: string[]): TurnAnswer {
  const reader = shape.startAnswer(exchange.path);
  const content = decodeContent(exchange.response_body, exchange.response_headers);
  if (exchange.status < 200 || exchange.status >= 300) {
    const answer = emptyAnswer();
    if (exchange.status !== 0) answer.error = readErrorAnswer(content.bytes) ?? `status ${exchange.status}`;
    return answer;
  }
  let problem = readFrames(content.bytes, readHeader(exchange.response_headers, 'content-type'), reader);
  if (content.problem !== '') problem = content.problem;
  if (problem !== '') problems.push(`answer: ${problem}`);
  return reader.finish();
}

/** Words of an error answer: the provider's message, or the beginning of whatever text there is. */
export function readErrorAnswer(bytes: Uint8Array): string | null {
  const text = new TextDecoder().decode(bytes);
  try {
    return readErrorWords(JSON.parse(text));
  } catch {
    return text === '' ? null : text.slice(0, ERROR_WORDS_CHARS);
  }
}

/** Runs a reader; what it throws (no reader should: this is for hostile JSON, too deep for the stack) is a problem. */
export function guard<T>(problems: string[], what: string, read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    problems.push(`${what}: ${(error as Error).message.slice(0, 120)}`);
    return null;
  }
}

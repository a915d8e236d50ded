/**
 * The wire format of an exchange whose path tells none: a proxy, a tenant's prefix or a server of one's own may serve a provider's
 * API under any path. What the request asks and the answer's beginning must agree. Pure; where stored copies are indexed.
 */
import type { ApiShape } from '../domain/exchange.ts';
import { classifyRequest } from './classify.ts';
import { decodeContent, readHeader } from './content-encoding.ts';
import { readFrames } from './framing.ts';
import { asArray, asObject, asText, type JsonObject, parseJson } from './json-reading.ts';
import type { StoredExchange } from './turn.ts';

/** What lives beside turns and asks alike: their answers are none. */
const NO_TURN = /\/(?:count_tokens|batches|embeddings|moderations|tokenize|rerank)$|[:A]countTokens$|embed/i;

/** Larger requests and answers than those are told by their paths alone. */
const TOLD_BYTES = 8 << 20;

/**
 * @param exchange a stored copy without a shape; of requests other than POST nothing is told
 * @returns null where the two bodies do not say the same
 */
export function tellShape(exchange: StoredExchange): ApiShape | null {
  const { path, status, request_body, response_body, request_headers, truncated } = exchange;
  if (status < 200 || status >= 300 || truncated || NO_TURN.test(path)) return null;
  if (request_body.byteLength > TOLD_BYTES || response_body.byteLength > TOLD_BYTES) return null;
  const content = decodeContent(request_body, request_headers);
  if (content.problem !== '' || content.bytes[0] !== 0x7b) return null;
  let asked: JsonObject;
  try {
    asked = asObject(parseJson(new TextDecoder().decode(content.bytes)));
  } catch {
    return null;
  }
  // Bedrock's verbs are plain words, which count where the bodies are of its kind.
  const { shape } = classifyRequest('bedrock', 'POST', path);
  const answer = readFirst(exchange);
  if (answer === null) return null;
  if (shape === 'bedrock_converse' || shape === 'bedrock_invoke')
    return Array.isArray(asked.messages) ? shape : null;
  const told = tellAnswer(answer);
  return told !== null && asksFor(told, asked) ? told : null;
}

/** The answer, or the first event of its stream; null when there is none that can be read. */
function readFirst(exchange: StoredExchange): JsonObject | null {
  const content = decodeContent(exchange.response_body, exchange.response_headers);
  if (content.problem !== '') return null;
  let first: JsonObject | null = null;
  const take = (value: unknown) => {
    first ??= asObject(value);
  };
  readFrames(content.bytes, readHeader(exchange.response_headers, 'content-type'), {
    readWhole: take,
    readEvent: (_name, value) => take(value),
  });
  return first;
}

function tellAnswer(answer: JsonObject): ApiShape | null {
  const type = asText(answer.type) ?? '';
  const object = asText(answer.object) ?? '';
  if (type === 'message' || type === 'message_start') return 'messages';
  if (object === 'response' || type.startsWith('response.')) return 'responses';
  if (object === 'text_completion') return 'completion';
  const [choice] = asArray(answer.choices).map(asObject);
  if (object.startsWith('chat.completion') || choice?.message !== undefined || choice?.delta !== undefined)
    return 'chat_completions';
  return Array.isArray(answer.candidates) ? 'gemini' : null;
}

function asksFor(shape: ApiShape, asked: JsonObject): boolean {
  switch (shape) {
    case 'messages':
    case 'chat_completions':
      return Array.isArray(asked.messages);
    case 'responses':
      return Array.isArray(asked.input) || typeof asked.input === 'string';
    case 'completion':
      return asked.prompt !== undefined;
    case 'gemini':
      return Array.isArray(asked.contents);
    default:
      return false;
  }
}

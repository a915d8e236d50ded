/**
 * Finds the wire format of an exchange whose path shows none: a proxy, a tenant's prefix or a private server may serve
 * a provider's API under any path. The request and the beginning of the answer must agree. Pure; runs where stored
 * copies are indexed.
 */
import type { ApiShape } from '../domain/exchange.ts';
import { classifyRequest } from './classify.ts';
import { decodeContent, readHeader } from './content-encoding.ts';
import { readFrames } from './framing.ts';
import { asObject, type JsonObject } from './json-reading.ts';
import type { StoredExchange } from './stored-exchange.ts';
import { WIRE_LIST, WIRES } from './wires.ts';

/** Paths whose requests resemble those of turns, but whose answers are not turns. */
const NO_TURN = /\/(?:count_tokens|batches|embeddings|moderations|tokenize|rerank)$|[:A]countTokens$|embed/i;

/** Maximum size of a body that is examined. An exchange with a larger one is classified by its path alone. */
const TOLD_BYTES = 8 << 20;

/**
 * Finds the wire format that both bodies show. For a path of Bedrock, only the request's body must have the path's
 * format, and the answer must be readable.
 * @param exchange a stored copy without a shape
 * @returns null if the bodies show none or disagree; also for an answer other than 2xx, a truncated copy, large or
 *   unreadable bodies, and paths of requests that only resemble turns
 */
export function tellShape(exchange: StoredExchange): ApiShape | null {
  const { path, status, request_body, response_body, request_headers, truncated } = exchange;
  if (status < 200 || status >= 300 || truncated || NO_TURN.test(path)) return null;
  if (request_body.byteLength > TOLD_BYTES || response_body.byteLength > TOLD_BYTES) return null;
  const content = decodeContent(request_body, request_headers);
  if (content.problem !== '' || content.bytes[0] !== 0x7b) return null;
  let asked: JsonObject;
  try {
    asked = asObject(JSON.parse(new TextDecoder().decode(content.bytes)));
  } catch {
    return null;
  }
  // Bedrock's verbs are ordinary words, so they count only if the bodies have Bedrock's form.
  const { shape } = classifyRequest('bedrock', 'POST', path);
  const answer = readFirst(exchange);
  if (answer === null) return null;
  if (shape !== null && WIRES[shape].paths.routes === 'bedrock')
    return WIRES[shape].asks(asked) ? shape : null;
  const wire = WIRE_LIST.find(({ paths, answers }) => paths.routes === 'all' && answers(answer));
  return wire?.asks(asked) === true ? wire.shape : null;
}

/** Reads the answer, or the first event of its stream; null when none is readable. */
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

/**
 * Tells from method and path alone whether a request is a model turn and in which shape it speaks.
 * Pure; runs on server threads once a request, so it compares strings' ends, allocates nothing and uses no regex.
 *
 * Decisions:
 *  - Only POST makes a turn. The path is taken raw: no decoding, no case folding, no trailing slash forgiven (the
 *    providers forgive none either). The one exception is the colon before a Gemini verb, which some HTTP clients
 *    send as %3A.
 *  - A base URL may carry a path of its own (`/api/v1/messages`, `/openai/v1/chat/completions`), so what counts is
 *    how the path ends. `/chat/completions` is unmistakable and needs no version before it; the other names need
 *    `/v1`, or to be the whole path (the upstream's base then carries the version).
 *  - Every route knows the Messages, OpenAI and Gemini shapes: Gemini and Bedrock both offer OpenAI-style paths under
 *    their own hosts, and the default upstream may be any provider. Bedrock's verbs are plain words (`/invoke`), so
 *    they count under the bedrock route and under prefixes of GW_ROUTES alone.
 *  - Azure OpenAI has `/openai/responses`, and Vertex AI serves Claude behind `:rawPredict` and `:streamRawPredict`.
 *  - InvokeModel of a model with `embed` in its name is an embedding, no turn. Where a profile's ARN hides the name, the
 *    bodies tell when the exchange is indexed, and its record is put right; the counters of the stats keep it a turn.
 *  - What merely lives beside a turn (`/v1/messages/count_tokens`, `/v1/messages/batches`, `/v1/responses/{id}`,
 *    `:countTokens`, `:batchGenerateContent`, `/count-tokens`, `/invoke-with-bidirectional-stream`) is `other`.
 *
 * Sources: the providers' API references; Bedrock's paths from the Amazon Bedrock Runtime API reference.
 */

import type { ApiShape, ExchangeKind } from '../domain/exchange.ts';

/** Which entry of the route table the request came in by. */
export type ClassifiedRoute = 'default' | 'gemini' | 'bedrock' | 'named';

/** One of a handful of frozen values: compare or copy the fields, never change them. */
export interface RequestClass {
  readonly kind: ExchangeKind;
  readonly shape: ApiShape | null;
}

const OTHER: RequestClass = Object.freeze({ kind: 'other', shape: null });
const MESSAGES: RequestClass = Object.freeze({ kind: 'turn', shape: 'messages' });
const CHAT_COMPLETIONS: RequestClass = Object.freeze({ kind: 'turn', shape: 'chat_completions' });
const RESPONSES: RequestClass = Object.freeze({ kind: 'turn', shape: 'responses' });
const COMPLETION: RequestClass = Object.freeze({ kind: 'turn', shape: 'completion' });
const GEMINI: RequestClass = Object.freeze({ kind: 'turn', shape: 'gemini' });
const BEDROCK_CONVERSE: RequestClass = Object.freeze({ kind: 'turn', shape: 'bedrock_converse' });
const BEDROCK_INVOKE: RequestClass = Object.freeze({ kind: 'turn', shape: 'bedrock_invoke' });
/** Read for its model and usage all the same. */
const BEDROCK_EMBEDDING: RequestClass = Object.freeze({ kind: 'other', shape: 'bedrock_invoke' });

/**
 * Kind and shape of a request. Never throws, whatever the path holds.
 * @param route the route table's entry that took it
 * @param method as on the wire, or in lower case as uWebSockets.js gives it
 * @param path raw, without the route's own prefix (`/gemini`, `/bedrock/{region}`) and without the query
 * @returns a shared, frozen value
 */
export function classifyRequest(route: ClassifiedRoute, method: string, path: string): RequestClass {
  if (method !== 'POST' && method !== 'post') return OTHER;
  if (route === 'bedrock' || route === 'named') {
    const bedrock = classifyBedrock(path);
    if (bedrock !== OTHER) return bedrock;
  }
  if (path.endsWith('/chat/completions')) return CHAT_COMPLETIONS;
  if (endsVersioned(path, '/v1/messages', '/messages')) return MESSAGES;
  if (endsVersioned(path, '/v1/responses', '/responses') || path === '/openai/responses') return RESPONSES;
  if (endsVersioned(path, '/v1/completions', '/completions')) return COMPLETION;
  if (endsVersioned(path, '/v1/complete', '/complete')) return COMPLETION;
  if (isRawPredict(path)) return MESSAGES;
  if (endsWithVerb(path, 'generateContent') || endsWithVerb(path, 'streamGenerateContent')) return GEMINI;
  return OTHER;
}

/** `/model/{id}/verb`; the id is mostly percent-encoded (an ARN holds `:` and `/`). */
function classifyBedrock(path: string): RequestClass {
  const at = path.indexOf('/model/');
  if (at < 0) return OTHER;
  const lastSlash = path.lastIndexOf('/');
  if (lastSlash <= at + '/model/'.length) return OTHER;
  if (path.endsWith('/converse') || path.endsWith('/converse-stream')) return BEDROCK_CONVERSE;
  if (!path.endsWith('/invoke') && !path.endsWith('/invoke-with-response-stream')) return OTHER;
  return path.includes('embed', at) ? BEDROCK_EMBEDDING : BEDROCK_INVOKE;
}

/** Claude on Vertex AI: `…/publishers/anthropic/models/{model}:rawPredict`, a Messages body whose model stands in the path. */
function isRawPredict(path: string): boolean {
  if (!endsWithVerb(path, 'rawPredict') && !endsWithVerb(path, 'streamRawPredict')) return false;
  return path.includes('/publishers/anthropic/models/');
}

/** Ends with the versioned name, or is the bare name and nothing else. */
function endsVersioned(path: string, versioned: string, bare: string): boolean {
  return path.endsWith(versioned) || path === bare;
}

/** Ends with `:verb` or `%3Averb`, with something before it. */
function endsWithVerb(path: string, verb: string): boolean {
  if (!path.endsWith(verb)) return false;
  const before = path.length - verb.length;
  if (path.charCodeAt(before - 1) === 0x3a) return before > 1;
  return before > 3 && (path.startsWith('%3A', before - 3) || path.startsWith('%3a', before - 3));
}

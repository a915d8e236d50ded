/**
 * Decides from a request's route, method and path whether the request is a model turn, and which shape it has. Pure;
 * runs on server threads once per request, so it compares ends of strings, allocates nothing and uses no regex.
 *
 * Decisions:
 *
 * - Only POST makes a turn. The path is compared raw: no decoding, no case folding, no tolerance of a trailing slash
 *   (the providers have none either). The one exception is the colon before a Gemini verb, which some HTTP clients send
 *   as %3A.
 * - A base URL may have a path (`/api/v1/messages`, `/openai/v1/chat/completions`), so the end of the path counts.
 *   `/chat/completions` is unambiguous and needs no version before it; the other names need `/v1`, or must be the whole
 *   path (the upstream's base then has the version).
 * - Every route accepts the Messages, OpenAI and Gemini shapes: Gemini and Bedrock both offer OpenAI-style paths under
 *   their own hosts, and the default upstream may be any provider. Bedrock's verbs are plain words (`/invoke`), so they
 *   count only under the bedrock route and under prefixes of GW_ROUTES.
 * - Azure OpenAI has `/openai/responses`, and Vertex AI serves Claude under `:rawPredict` and `:streamRawPredict`.
 * - InvokeModel of a model with `embed` in its name is an embedding, not a turn. If the ARN of an inference profile
 *   hides the name, the bodies decide when the exchange is indexed, and its record is corrected. The counters of the
 *   stats still count it as a turn.
 * - Related paths (`/v1/messages/count_tokens`, `/v1/messages/batches`, `/v1/responses/{id}`, `:countTokens`,
 *   `:batchGenerateContent`, `/count-tokens`, `/invoke-with-bidirectional-stream`) are `other`.
 *
 * Sources: the providers' API references; Bedrock's paths from the Amazon Bedrock Runtime API reference.
 */

import type { ApiShape, ExchangeKind } from '../domain/exchange.ts';
import { WIRE_LIST } from './wires.ts';

/** The entry of the route table by which the request arrived. */
export type ClassifiedRoute = 'default' | 'gemini' | 'bedrock' | 'named';

/** One of a few frozen values: compare or copy the fields, never change them. */
export interface RequestClass {
  readonly kind: ExchangeKind;
  readonly shape: ApiShape | null;
}

const OTHER: RequestClass = Object.freeze({ kind: 'other', shape: null });

/** One frozen value per answer, so that classifying a request allocates nothing. */
const CLASSES = WIRE_LIST.map(({ shape, paths }) => ({
  paths,
  turn: Object.freeze<RequestClass>({ kind: 'turn', shape }),
  other: Object.freeze<RequestClass>({ kind: 'other', shape }),
}));

/**
 * Finds the kind and shape of a request. Never throws, whatever the path holds.
 * @param route the route table's entry that accepted it
 * @param method as on the wire, or in lower case as uWebSockets.js gives it
 * @param path raw, without the route's own prefix (`/gemini`, `/bedrock/{region}`) and without the query
 * @returns a shared, frozen value
 */
export function classifyRequest(route: ClassifiedRoute, method: string, path: string): RequestClass {
  if (method !== 'POST' && method !== 'post') return OTHER;
  const mayBeBedrock = route === 'bedrock' || route === 'named';
  for (const { paths, turn, other } of CLASSES) {
    if (paths.routes === 'bedrock' && !mayBeBedrock) continue;
    const kind = paths.tell(path);
    if (kind !== null) return kind === 'turn' ? turn : other;
  }
  return OTHER;
}

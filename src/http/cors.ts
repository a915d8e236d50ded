/**
 * Which web pages may call the API: the origins of an explicit list, never `*` (document 2, Limits; Fetch standard,
 * CORS protocol). Server threads.
 */
import type { ApiReply, RequestHeaders } from '../contract/route.ts';

type Headers = ApiReply['headers'];

const METHODS = 'GET, POST, PATCH, DELETE';
const REQUEST_HEADERS =
  'authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, x-request-id, ' +
  'x-svc-position';
const REPLY_HEADERS =
  'ratelimit, ratelimit-policy, retry-after, x-request-id, x-svc-not-indexed, x-svc-position, x-svc-retrieval, ' +
  'x-svc-stale, x-svc-warning, x-total-count';
/** The error text for a refused page. */
export const FOREIGN_ORIGIN = 'This origin is not allowed: CORS_ALLOWED_ORIGINS must contain the origin';
/** How long a browser may remember a preflight's answer. */
const PREFLIGHT_FRESH_S = 600;

export class CorsPolicy {
  readonly #origins: ReadonlySet<string>;
  readonly #vary: Headers;

  /**
   * @param origins in the form that browsers send, in lower case; empty: no page of another origin
   * may call
   */
  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
    this.#vary = origins.length === 0 ? [] : [['vary', 'Origin']];
  }

  /** Whether the request comes from a page of a listed origin, or from no page. */
  allows(origin: string | undefined): boolean {
    return origin === undefined || this.#origins.has(origin);
  }

  /** Returns the headers of every answer to a request with that `Origin`. */
  headersFor(origin: string | undefined): Headers {
    if (origin === undefined || !this.allows(origin)) return this.#vary;
    return [
      ...this.#vary,
      ['access-control-allow-origin', origin],
      ['access-control-allow-credentials', 'true'],
      ['access-control-expose-headers', REPLY_HEADERS],
    ];
  }

  /**
   * Answers a preflight: 204 for a listed origin, otherwise 403. The caller adds the headers of {@link headersFor}.
   * @returns null for a request that is not a preflight
   */
  answerPreflight(method: string, headers: RequestHeaders): ApiReply | null {
    if (method !== 'OPTIONS' || !headers.has('access-control-request-method')) return null;
    const origin = headers.get('origin');
    if (origin === undefined) return null;
    if (!this.allows(origin)) {
      return {
        status: 403,
        headers: [['content-type', 'application/json']],
        body: JSON.stringify({ detail: FOREIGN_ORIGIN }),
      };
    }
    return {
      status: 204,
      headers: [
        ['access-control-allow-methods', METHODS],
        ['access-control-allow-headers', REQUEST_HEADERS],
        ['access-control-max-age', String(PREFLIGHT_FRESH_S)],
      ],
      body: '',
    };
  }
}

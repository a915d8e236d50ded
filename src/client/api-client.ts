/**
 * A client of the API made from its declared endpoints: `createClient({base_url, api_key}, RUNS).startRun({body: …})`,
 * typed from the very schemas that the server checks with. Any thread.
 */
import { z } from 'zod';
import { type Endpoint, pathParameters } from '../contract/endpoint.ts';
import type { Violation } from '../contract/violation.ts';

export interface ClientOptions {
  /** Where the API is; a path in it stays in front of every endpoint's. */
  base_url: string;
  /** An API key or a JWT; absent for open endpoints. */
  api_key?: string;
  /** An answer that takes longer is given up. Default 30,000. */
  timeout_ms?: number;
  /** The platform's unless a caller brings its own. */
  fetch?: typeof fetch;
}

type Table = Readonly<Record<string, Endpoint>>;
type InputOf<Schema> = Schema extends z.ZodType ? z.input<Schema> : never;

/** What a call sends: the parts that the endpoint declares. `org_id` and `project_id` may stand beside them. */
type RequestOf<E extends Endpoint> = (E['params'] extends z.ZodType
  ? { params: InputOf<E['params']> }
  : unknown) &
  (E['query'] extends z.ZodType ? { query?: InputOf<E['query']> & TenantNames } : { query?: TenantNames }) &
  (E['body'] extends z.ZodType ? { body: InputOf<E['body']> & TenantNames } : unknown);

/** Of a static key or a JWT; a customer's key has its own. */
interface TenantNames {
  org_id?: string;
  project_id?: string;
}

type SuccessOf<Replies> = Replies[keyof Replies & (200 | 201 | 202 | 204)];
type BodyOf<Reply> = Reply extends { media_type: string }
  ? Response
  : Reply extends { schema: infer Schema extends z.ZodType }
    ? z.output<Schema>
    : undefined;

/** One function an endpoint. */
export type ApiClient<T extends Table> = {
  readonly [Name in keyof T]: (
    ...request: Record<never, never> extends RequestOf<T[Name]>
      ? [request?: RequestOf<T[Name]>]
      : [request: RequestOf<T[Name]>]
  ) => Promise<BodyOf<SuccessOf<T[Name]['replies']>>>;
};

/** An answer that is no success. */
export class ApiError extends Error {
  readonly status: number;
  /** What is wrong, field by field; empty unless the status is 422. */
  readonly violations: readonly Violation[];
  /** Seconds after which to try again, where the server says so. */
  readonly retry_after_s: number | null;
  /** Names the request in the server's log. */
  readonly request_id: string | null;

  constructor(status: number, detail: unknown, headers: Headers) {
    const violations = Array.isArray(detail) ? (detail as Violation[]) : [];
    const words = violations.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ');
    super(typeof detail === 'string' ? detail : words || `HTTP ${status}`);
    this.name = 'ApiError';
    this.status = status;
    this.violations = violations;
    const seconds = Number(headers.get('retry-after') ?? Number.NaN);
    this.retry_after_s = Number.isFinite(seconds) ? seconds : null;
    this.request_id = headers.get('x-request-id');
  }

  /** The same request may succeed later. */
  get retryable(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

const DEFAULT_TIMEOUT_MS = 30_000;

interface AnyRequest {
  params?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
}

/**
 * @param table declared endpoints, such as `RUNS` of src/contract/runs.ts
 * @returns a function for each; they reject with ApiError for an answer that is no success, with what `fetch` throws
 *   when there is none, and with a ZodError for one that is not what the endpoint declares
 */
export function createClient<const T extends Table>(options: ClientOptions, table: T): ApiClient<T> {
  const calls = Object.entries(table).map(([name, endpoint]) => [
    name,
    (request?: AnyRequest) => callEndpoint(options, endpoint, request ?? {}),
  ]);
  return Object.fromEntries(calls) as ApiClient<T>;
}

async function callEndpoint(
  options: ClientOptions,
  endpoint: Endpoint,
  request: AnyRequest,
): Promise<unknown> {
  const { api_key, timeout_ms = DEFAULT_TIMEOUT_MS } = options;
  const send = options.fetch ?? fetch;
  const answer = await send(urlOf(options.base_url, endpoint, request), {
    method: endpoint.method,
    headers: {
      accept: 'application/json',
      ...(api_key === undefined ? {} : { authorization: `Bearer ${api_key}` }),
      ...(endpoint.body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(endpoint.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    redirect: 'error',
    signal: AbortSignal.timeout(timeout_ms),
  });
  const declared = endpoint.replies[answer.status];
  if (!answer.ok) throw new ApiError(answer.status, await readDetail(answer), answer.headers);
  if (declared?.media_type !== undefined) return answer;
  const text = await answer.text();
  return declared?.schema === undefined ? undefined : declared.schema.parse(JSON.parse(text));
}

function urlOf(baseUrl: string, endpoint: Endpoint, { params = {}, query = {} }: AnyRequest): string {
  let path = endpoint.path;
  for (const name of pathParameters(path)) {
    path = path.replace(`{${name}}`, () => encodeURIComponent(String(params[name])));
  }
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const search = new URLSearchParams(
    given.map(([name, value]): [string, string] => [name, String(value)]),
  ).toString();
  return `${baseUrl.replace(/\/+$/, '')}${path}${search === '' ? '' : `?${search}`}`;
}

const errorDetail = z.object({ detail: z.unknown() });

/** A proxy on the way may answer in its own words. */
async function readDetail(answer: Response): Promise<unknown> {
  const text = await answer.text();
  try {
    return errorDetail.parse(JSON.parse(text)).detail;
  } catch {
    return undefined;
  }
}

/** Calls of the API in the reader's session, typed by the contract. Browser. */
import { noteAnswer, noteSilence } from './connection.ts';
import type { Ask, Reply, Route } from './contract.ts';

/** An error of the API, with the API's own message. */
export class ApiError extends Error {
  /** 0: the server did not answer. */
  readonly status: number;
  /** How long the server asks to wait; null: not stated. */
  readonly retry_after_ms: number | null;

  constructor(status: number, detail: unknown, retry_after_ms: number | null = null) {
    super(describe(status, detail));
    this.name = 'ApiError';
    this.status = status;
    this.retry_after_ms = retry_after_ms;
  }

  /** Whether the same call may succeed later. */
  get passes(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

function describe(status: number, detail: unknown): string {
  if (typeof detail === 'string' && detail !== '') return detail;
  if (Array.isArray(detail))
    return detail
      .map(
        ({ loc, msg }: { loc: string[]; msg: string }) =>
          `${loc.slice(1).join('.')}: ${msg.replace(/^Value error, /, '')}`,
      )
      .join('; ');
  if (status === 0) return 'The server does not answer. Is it running?';
  return `The server answered ${status}`;
}

/** The inputs of a call, without the types of its route. */
interface LooseAsk {
  params?: Readonly<Record<string, unknown>>;
  query?: Readonly<Record<string, unknown>>;
  body?: unknown;
  signal?: AbortSignal | undefined;
  headers?: Readonly<Record<string, string>>;
}

/**
 * The path with its parameters and its query. Values that are null, undefined or '' are left out of the
 * query.
 */
function buildPath(template: string, { params = {}, query = {} }: LooseAsk): string {
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params[name])),
  );
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== '',
  );
  if (given.length === 0) return path;
  return `${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

/**
 * Sends a request.
 * @returns the response, whose status is 2xx
 * @throws ApiError for any other status or without an answer; the reason of an aborted signal
 */
export async function send(route: string, ask: LooseAsk = {}): Promise<Response> {
  const [method = 'GET', template = ''] = route.split(' ');
  const { body, signal = null, headers = {} } = ask;
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  let response: Response;
  try {
    response = await fetch(buildPath(template, ask), {
      method,
      headers: { ...json, ...headers },
      signal,
      body: body === undefined ? null : JSON.stringify(body),
      cache: 'no-store',
      credentials: 'same-origin',
    });
  } catch (thrown) {
    if ((thrown as Error).name === 'AbortError') throw thrown;
    noteSilence();
    throw new ApiError(0, '');
  }
  noteAnswer();
  if (response.ok) return response;
  const { detail } = (await response.json().catch(() => ({}))) as { detail?: unknown };
  const wait_s = Number(response.headers.get('retry-after') ?? Number.NaN);
  throw new ApiError(response.status, detail, Number.isFinite(wait_s) ? wait_s * 1_000 : null);
}

/** Calls a route, and returns the parsed answer; undefined for an empty one. @throws ApiError */
export async function call<R extends Route>(route: R, ask: Ask<R>): Promise<Reply<R>> {
  const response = await send(route, ask as LooseAsk);
  const text = await response.text();
  return (text === '' ? undefined : JSON.parse(text)) as Reply<R>;
}

/** A page of a list, with the total number of rows. */
export interface CountedPage<One> {
  rows: One[];
  total: number;
}

/** Calls a route of a list, and returns a page and the total number of rows. @throws ApiError */
export async function callList<R extends Route>(
  route: R,
  ask: Ask<R>,
): Promise<CountedPage<Reply<R> extends readonly (infer One)[] ? One : never>> {
  const response = await send(route, ask as LooseAsk);
  return { rows: await response.json(), total: Number(response.headers.get('x-total-count')) };
}

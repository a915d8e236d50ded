/**
 * The v1 API as functions, with the field names of the HTTP API: `api.startRun({ body: { run_id }
 * })`. They resolve with the answer's body or reject with an `UnderstudyError`. They retry a
 * request if that is safe, within the call's time limit. Any thread.
 */
import { Circuit } from './circuit.ts';
import {
  type ApiError,
  CircuitOpenError,
  ConnectionError,
  TimeoutError,
  toApiError,
  UnderstudyError,
  UnexpectedAnswerError,
} from './errors.ts';
import { type AnswerOf, OPERATIONS, type OperationName, type RequestOf } from './operations.ts';
import { startTimer, stopTimer, type Timer } from './own-context.ts';
import { type Answer, type OpenAnswer, Transport } from './transport.ts';
import { writeJson } from './wire-json.ts';

export interface CallOptions {
  /** Time limit of the whole call, including repeated requests and the waits between them. Default: the client's. */
  timeoutMs?: number;
  /** Aborts the call, which rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** One function per operation of the API. */
export type ApiClient = {
  readonly [Name in OperationName]: (
    ...call: Record<never, never> extends RequestOf<Name>
      ? [request?: RequestOf<Name>, options?: CallOptions]
      : [request: RequestOf<Name>, options?: CallOptions]
  ) => Promise<AnswerOf<Name>>;
};

interface ConnectionSettings {
  /** Address of the service. The path in it is a prefix of every operation's path. */
  baseUrl: URL;
  apiKey: string;
  timeoutMs: number;
  /**
   * Added to requests that name no organization. undefined: the key determines the organization, or it is `default`.
   */
  orgId?: string | undefined;
  projectId?: string | undefined;
  userAgent: string;
}

/** Counters of all requests since the start. */
interface RequestCounts {
  sent: number;
  repeated: number;
  failed: number;
}

interface AnyRequest {
  params?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: Record<string, unknown>;
}

/** Options of one call. */
export interface CallManner extends CallOptions {
  /** Whether the process may end while the call is in progress. */
  isBackground?: boolean;
  /** Maximum number of requests of the call; 1: no repetition. Default 3. */
  attempts?: number;
  /** Overrides the operation's default. */
  isRepeatable?: boolean;
}

const ATTEMPTS = 3;
const BACK_OFF_MS = 100;
const BACK_OFF_MAX_MS = 2_000;

/** The connection that all parts of a client share, with its circuit. */
export class Caller {
  readonly circuit = new Circuit();
  readonly counts: RequestCounts = { sent: 0, repeated: 0, failed: 0 };
  readonly #settings: ConnectionSettings;
  readonly #transport: Transport;
  readonly #prefix: string;
  readonly #headers: Record<string, string>;

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
    this.#prefix = settings.baseUrl.pathname.replace(/\/+$/, '');
    this.#headers = {
      accept: 'application/json',
      authorization: `Bearer ${settings.apiKey}`,
      'user-agent': settings.userAgent,
    };
    this.#transport = new Transport(settings.baseUrl, this.#headers);
  }

  /** Every operation as a function. */
  get api(): ApiClient {
    const names = Object.keys(OPERATIONS) as OperationName[];
    const calls = names.map((name) => [
      name,
      (request?: never, options?: CallOptions) => this.call(name, request ?? ({} as never), options),
    ]);
    return Object.freeze(Object.fromEntries(calls)) as ApiClient;
  }

  /** The service's address and the headers of each request, which include the key. */
  get place(): { origin: string; headers: Record<string, string> } {
    return { origin: this.#settings.baseUrl.origin, headers: this.#headers };
  }

  /** Converts a call to its request. */
  prepare<Name extends OperationName>(name: Name, request: RequestOf<Name>) {
    const { path, method } = OPERATIONS[name];
    return { method, ...this.#render(path, method, request as AnyRequest) };
  }

  /**
   * Calls an operation. Repeats a failed request within the time limit if that is safe.
   * @returns the body of the answer; undefined for an answer without a body (204)
   * @throws UnderstudyError, or the reason of the caller's signal
   */
  async call<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    manner: CallManner = {},
  ): Promise<AnswerOf<Name>> {
    const { timeoutMs = this.#settings.timeoutMs, attempts = ATTEMPTS } = manner;
    const deadline = performance.now() + timeoutMs;
    const isRepeatable = manner.isRepeatable ?? OPERATIONS[name].isRepeatable;
    const { method, target, body } = this.prepare(name, request);
    for (let attempt = 1; ; attempt += 1) {
      const leftMs = Math.max(1, Math.ceil(deadline - performance.now()));
      try {
        const answer = await this.#ask(method, target, body, leftMs, manner);
        return readAnswer(answer) as AnswerOf<Name>;
      } catch (thrown) {
        this.counts.failed += 1;
        if (attempt >= attempts || !mayRepeat(thrown, isRepeatable)) throw thrown;
        const waitMs = backOffMs(attempt, thrown as UnderstudyError);
        // There is no next attempt if the time limit would end before it.
        if (performance.now() + waitMs >= deadline) throw thrown;
        await pause(waitMs, manner);
        this.counts.repeated += 1;
      }
    }
  }

  /**
   * Opens a stream of events. A stream does not use the circuit, because its reader reconnects.
   * @throws UnderstudyError, also for an answer that is not a stream of events; the signal's reason
   */
  async open(
    path: string,
    {
      query,
      headers,
      timeoutMs,
      signal,
    }: {
      query: Record<string, unknown>;
      headers: Record<string, string>;
      timeoutMs: number;
      signal: AbortSignal;
    },
  ): Promise<OpenAnswer> {
    const { target } = this.#render(path, 'GET', { query });
    const accept = { accept: 'text/event-stream', 'cache-control': 'no-cache' };
    const answer = await this.#transport.open(target, { ...accept, ...headers }, timeoutMs, signal);
    if (!('chunks' in answer)) {
      readAnswer(answer);
      throw new UnexpectedAnswerError(`HTTP ${answer.status} instead of an event stream`);
    }
    if (answer.contentType.startsWith('text/event-stream')) return answer;
    answer.destroy();
    throw new UnexpectedAnswerError('The answer is not an event stream');
  }

  close(): void {
    this.#transport.close();
  }

  async #ask(
    method: string,
    target: string,
    body: string | undefined,
    timeoutMs: number,
    { signal, isBackground = false }: CallManner,
  ): Promise<Answer> {
    signal?.throwIfAborted();
    if (!this.circuit.admit()) {
      const { origin } = this.#settings.baseUrl;
      throw new CircuitOpenError(
        `${origin} recently failed or did not answer, so the request was not sent; the client waits before it tries again`,
      );
    }
    this.counts.sent += 1;
    try {
      const answer = await this.#transport.send({ method, target, body, timeoutMs, isBackground, signal });
      if (answer.status >= 500) this.circuit.noteServerError();
      else this.circuit.noteAnswer();
      return answer;
    } catch (thrown) {
      const isBroken = thrown instanceof ConnectionError && !thrown.unsent;
      if (isBroken || thrown instanceof UnexpectedAnswerError) this.circuit.noteServerError();
      else if (thrown instanceof UnderstudyError) this.circuit.noteSilence();
      else this.circuit.noteNothing();
      throw thrown;
    }
  }

  /**
   * Makes path, query and body. The tenant is in the body if the request has a body, because static keys require that.
   */
  #render(path: string, method: string, request: AnyRequest): { target: string; body: string | undefined } {
    const { orgId, projectId } = this.#settings;
    const tenant = { org_id: orgId, project_id: projectId };
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) =>
      encodeURIComponent(String(request.params?.[name]).toWellFormed()),
    );
    const isInBody = method === 'POST';
    const query = isInBody ? request.query : { ...tenant, ...request.query };
    const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
    const search = new URLSearchParams(
      given.map(([name, value]): [string, string] => [name, String(value)]),
    ).toString();
    return {
      target: `${this.#prefix}${filled}${search === '' ? '' : `?${search}`}`,
      body: isInBody ? writeJson({ ...tenant, ...request.body }) : undefined,
    };
  }
}

/**
 * Reads the body of an answer.
 * @returns undefined for status 204
 * @throws ApiError for an error status, UnexpectedAnswerError for a success without a JSON object
 */
function readAnswer({ status, body, retryAfter, requestId }: Answer): unknown {
  // A deletion has no content.
  if (status === 204) return undefined;
  const value = parse(body);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (status >= 200 && status < 300) {
    if (isObject) return value;
    throw new UnexpectedAnswerError(`HTTP ${status} without a JSON object: this is not an answer of the API`);
  }
  const detail = isObject && 'detail' in value ? value.detail : undefined;
  throw toApiError(status, { detail, retryAfter, requestId });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A proxy between client and service may answer in another format.
    return undefined;
  }
}

/** Whether the request may be repeated after this error. */
function mayRepeat(thrown: unknown, isRepeatable: boolean): boolean {
  // Do not retry immediately if the service refuses connections.
  if (thrown instanceof ConnectionError) return isRepeatable && !thrown.unsent;
  if (thrown instanceof TimeoutError || thrown instanceof CircuitOpenError) return false;
  if (!(thrown instanceof UnderstudyError) || !thrown.retryable) return false;
  // A request with status 429 was refused before it had any effect.
  return isRepeatable || (thrown as ApiError).status === 429;
}

/**
 * Computes the wait before the next attempt, in milliseconds. It doubles with each attempt up to
 * BACK_OFF_MAX_MS, with jitter, and is never shorter than the service's `Retry-After`.
 */
export function backOffMs(attempt: number, thrown: UnderstudyError): number {
  const own = Math.min(BACK_OFF_MS * 2 ** (attempt - 1), BACK_OFF_MAX_MS) * (0.5 + Math.random() / 2);
  const asked = 'retryAfter' in thrown ? Number(thrown.retryAfter) * 1_000 : 0;
  return Math.max(own, asked);
}

/** Waits. Rejects with the signal's reason when the signal aborts. */
function pause(ms: number, { signal, isBackground = false }: CallManner): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      if (isBackground) stopTimer(timer as Timer);
      else clearTimeout(timer as NodeJS.Timeout);
      reject(signal!.reason);
    };
    const end = () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    };
    const timer = isBackground ? startTimer(end, ms) : setTimeout(end, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

/**
 * The v1 API as functions: `api.startRun({ body: { run_id } })`, in the words of the wire. They give the answer's body or reject
 * with an `UnderstudyError`; they repeat a request where that is safe, within the time that the call has. Any thread.
 */
import { IncomingMessage } from 'node:http';
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
import { type Answer, Transport } from './transport.ts';
import { writeJson } from './wire-json.ts';

export interface CallOptions {
  /** For the whole call, repeated requests and the waits between them included. Default: the client's. */
  timeoutMs?: number;
  /** Gives the call up; it rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** One function for each operation of document 2. */
export type ApiClient = {
  readonly [Name in OperationName]: (
    ...call: Record<never, never> extends RequestOf<Name>
      ? [request?: RequestOf<Name>, options?: CallOptions]
      : [request: RequestOf<Name>, options?: CallOptions]
  ) => Promise<AnswerOf<Name>>;
};

export interface ConnectionSettings {
  /** A path in it stays in front of every operation's. */
  baseUrl: URL;
  apiKey: string;
  timeoutMs: number;
  /** Beside what the request itself names; undefined: the key says it, or `default`. */
  orgId?: string | undefined;
  projectId?: string | undefined;
  userAgent: string;
}

/** Counters of all requests since the start. */
export interface RequestCounts {
  sent: number;
  repeated: number;
  failed: number;
}

interface AnyRequest {
  params?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: Record<string, unknown>;
}

/** How one call is made. */
export interface CallManner extends CallOptions {
  /** The process may end while it is under way. */
  isBackground?: boolean;
  /** Requests at most; 1: nothing is repeated. Default 3. */
  attempts?: number;
  /** Goes before what holds for the operation. */
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

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
    this.#prefix = settings.baseUrl.pathname.replace(/\/+$/, '');
    this.#transport = new Transport(settings.baseUrl, {
      accept: 'application/json',
      authorization: `Bearer ${settings.apiKey}`,
      'user-agent': settings.userAgent,
    });
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

  /** @throws UnderstudyError; the reason of the caller's own signal */
  async call<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    manner: CallManner = {},
  ): Promise<AnswerOf<Name>> {
    const { timeoutMs = this.#settings.timeoutMs, attempts = ATTEMPTS } = manner;
    const deadline = performance.now() + timeoutMs;
    const operation = OPERATIONS[name];
    const isRepeatable = manner.isRepeatable ?? operation.isRepeatable;
    const { target, body } = this.#render(operation.path, operation.method, request as AnyRequest);
    for (let attempt = 1; ; attempt += 1) {
      const leftMs = Math.max(1, Math.ceil(deadline - performance.now()));
      try {
        const answer = await this.#ask(operation.method, target, body, leftMs, manner);
        return readAnswer(answer) as AnswerOf<Name>;
      } catch (thrown) {
        this.counts.failed += 1;
        if (attempt >= attempts || !mayRepeat(thrown, isRepeatable)) throw thrown;
        const waitMs = backOffMs(attempt, thrown as UnderstudyError);
        // What would come too late is not waited for.
        if (performance.now() + waitMs >= deadline) throw thrown;
        await pause(waitMs, manner);
        this.counts.repeated += 1;
      }
    }
  }

  /**
   * A stream of events, outside of the circuit: whoever reads it comes again by himself.
   * @throws UnderstudyError, the signal's reason
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
  ): Promise<IncomingMessage> {
    const { target } = this.#render(path, 'GET', { query });
    const accept = { accept: 'text/event-stream', 'cache-control': 'no-cache' };
    const answer = await this.#transport.open(target, { ...accept, ...headers }, timeoutMs, signal);
    if (!(answer instanceof IncomingMessage)) {
      readAnswer(answer);
      throw new UnexpectedAnswerError(`HTTP ${answer.status} where a stream of events was asked for`);
    }
    if (answer.headers['content-type']?.startsWith('text/event-stream')) return answer;
    answer.destroy();
    throw new UnexpectedAnswerError('What answers is no stream of events');
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
      throw new CircuitOpenError(`${origin} did not answer lately; it is not asked for the time being`);
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

  /** The tenant goes into the body where there is one, as static keys want it. */
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

/** @throws ApiError, UnexpectedAnswerError */
function readAnswer({ status, body, retryAfter, requestId }: Answer): unknown {
  // A deletion has nothing to say.
  if (status === 204) return undefined;
  const value = parse(body);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (status >= 200 && status < 300) {
    if (isObject) return value;
    throw new UnexpectedAnswerError(`HTTP ${status} without a JSON object: this is no answer of the API`);
  }
  const detail = isObject && 'detail' in value ? value.detail : undefined;
  throw toApiError(status, { detail, retryAfter, requestId });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A proxy on the way may answer in its own words.
    return undefined;
  }
}

/** Whether the request may go out once more after this. */
function mayRepeat(thrown: unknown, isRepeatable: boolean): boolean {
  // Where nobody listens, nobody should be asked at once again.
  if (thrown instanceof ConnectionError) return isRepeatable && !thrown.unsent;
  if (thrown instanceof TimeoutError || thrown instanceof CircuitOpenError) return false;
  if (!(thrown instanceof UnderstudyError) || !thrown.retryable) return false;
  // Refused before it did anything.
  return isRepeatable || (thrown as ApiError).status === 429;
}

/** Twice as long each time, with jitter; never sooner than the service says. */
export function backOffMs(attempt: number, thrown: UnderstudyError): number {
  const own = Math.min(BACK_OFF_MS * 2 ** (attempt - 1), BACK_OFF_MAX_MS) * (0.5 + Math.random() / 2);
  const asked = 'retryAfter' in thrown ? Number(thrown.retryAfter) * 1_000 : 0;
  return Math.max(own, asked);
}

/** @throws the signal's reason */
function pause(ms: number, { signal, isBackground = false }: CallManner): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (isBackground) timer.unref();
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

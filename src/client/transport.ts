/**
 * Sends one HTTP request to the service and reads its whole answer, with node:http and separate
 * connections, so that a patched `fetch` in the agent's process has no effect. Any thread.
 */
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { urlToHttpOptions } from 'node:url';
import { ConnectionError, TimeoutError, UnexpectedAnswerError } from './errors.ts';
import { SeenPosition } from './seen-position.ts';

/** Longest answer that is read; the service's longest answers are pages of findings. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/**
 * Maximum number of concurrent connections, besides those of event streams. Further requests wait for a free
 * connection, within their time limit.
 */
const CONNECTIONS_MAX = 16;
/**
 * How long a connection may be idle before the client closes it. The time is shorter than the service's idle timeout
 * (10 s), so that no request is sent on a connection that the service is closing.
 */
const IDLE_CONNECTION_MS = 5_000;

export interface Request {
  method: string;
  /** Path and query in encoded form. */
  target: string;
  /** JSON. */
  body: string | undefined;
  timeoutMs: number;
  /** Whether the process may end while this request is in progress. */
  isBackground: boolean;
  /** Aborts the request. */
  signal?: AbortSignal | undefined;
}

/** An answer that is read while it arrives. */
export interface OpenAnswer {
  contentType: string;
  chunks: AsyncIterable<Uint8Array>;
  /**
   * Ends the connection.
   * @param reason the error that the reader of the chunks gets
   */
  destroy(reason?: Error): void;
}

export interface Answer {
  status: number;
  body: string;
  /** Value of `Retry-After` in seconds; null if absent. */
  retryAfter: number | null;
  requestId: string | null;
}

export class Transport {
  readonly #base: URL;
  readonly #headers: Record<string, string>;
  readonly #request: typeof requestHttp;
  readonly #agent: HttpAgent;
  readonly #seen = new SeenPosition();

  /** @param headers the headers of every request, including the key */
  constructor(base: URL, headers: Record<string, string>) {
    this.#base = base;
    this.#headers = headers;
    const isHttps = base.protocol === 'https:';
    this.#request = isHttps ? requestHttps : requestHttp;
    const options = { keepAlive: true, maxSockets: CONNECTIONS_MAX, timeout: IDLE_CONNECTION_MS };
    this.#agent = isHttps ? new HttpsAgent(options) : new HttpAgent(options);
  }

  /**
   * Sends a request and reads the whole answer. Returns an answer of any status. Follows no redirects.
   * @throws ConnectionError, TimeoutError, UnexpectedAnswerError for an answer that is too long, or the signal's reason
   */
  send(request: Request): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { method, target, body, timeoutMs, isBackground, signal } = request;
      // The target is sent unchanged, because the class URL would resolve a segment such as `..`.
      const outgoing = this.#request({
        ...urlToHttpOptions(this.#base),
        path: target,
        method,
        agent: this.#agent,
        headers: {
          ...this.#headers,
          ...this.#seen.headers,
          ...(body === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        },
      });
      let isConnected = false;
      const timer = setTimeout(() => {
        outgoing.destroy(new TimeoutError(`No answer within ${timeoutMs} ms`));
      }, timeoutMs);
      if (isBackground) timer.unref();
      const giveUp = () => outgoing.destroy(asError(signal!.reason));
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', giveUp);
      };
      const fail = (thrown: Error) => {
        end();
        outgoing.destroy();
        if (thrown instanceof TimeoutError || thrown instanceof UnexpectedAnswerError) return reject(thrown);
        if (signal?.aborted) return reject(signal.reason);
        const words = `Cannot reach ${this.#base.origin}: ${describe(thrown)}`;
        reject(new ConnectionError(words, !isConnected, { cause: thrown }));
      };
      outgoing.on('socket', (socket) => {
        if (isBackground) socket.unref();
        else socket.ref();
        if (socket.connecting) socket.once('connect', () => (isConnected = true));
        else isConnected = true;
      });
      outgoing.on('error', fail);
      outgoing.on('response', (incoming) => {
        this.#seen.note(incoming.headers['x-svc-position']);
        readText(incoming).then((text) => {
          end();
          resolve(toAnswer(incoming, text));
        }, fail);
      });
      if (signal?.aborted) return giveUp();
      signal?.addEventListener('abort', giveUp, { once: true });
      outgoing.end(body);
    });
  }

  /**
   * Requests an answer that is read while it arrives, over a separate connection.
   * @returns the unread answer if its status is 200, otherwise the whole answer
   * @throws ConnectionError, TimeoutError if the head or the body of an error does not arrive in time,
   *   UnexpectedAnswerError for an error that is too long, or the signal's reason
   */
  open(target: string, headers: Record<string, string>, timeoutMs: number, signal: AbortSignal) {
    return new Promise<OpenAnswer | Answer>((resolve, reject) => {
      const outgoing = this.#request({
        ...urlToHttpOptions(this.#base),
        path: target,
        agent: false,
        headers: { ...this.#headers, ...this.#seen.headers, ...headers },
        signal,
      });
      const timer = setTimeout(() => {
        outgoing.destroy(new TimeoutError(`No answer within ${timeoutMs} ms`));
      }, timeoutMs);
      const fail = (thrown: Error) => {
        clearTimeout(timer);
        outgoing.destroy();
        if (thrown instanceof TimeoutError || thrown instanceof UnexpectedAnswerError) return reject(thrown);
        if (signal.aborted) return reject(signal.reason);
        const words = `Cannot reach ${this.#base.origin}: ${describe(thrown)}`;
        reject(new ConnectionError(words, false, { cause: thrown }));
      };
      outgoing.on('error', fail);
      outgoing.on('response', (incoming) => {
        if (incoming.statusCode !== 200) {
          readText(incoming).then((text) => {
            clearTimeout(timer);
            resolve(toAnswer(incoming, text));
          }, fail);
          return;
        }
        clearTimeout(timer);
        // The reader of `chunks` also gets the error.
        incoming.on('error', () => {});
        resolve({
          contentType: incoming.headers['content-type'] ?? '',
          chunks: incoming,
          destroy: (reason) => void incoming.destroy(reason),
        });
      });
      outgoing.end();
    });
  }

  /**
   * Closes all connections except those of event streams. Requests in progress fail. A later request opens a new
   * connection.
   */
  close(): void {
    this.#agent.destroy();
  }
}

function toAnswer(incoming: IncomingMessage, body: string): Answer {
  const { 'retry-after': retryAfter, 'x-request-id': requestId } = incoming.headers;
  const seconds = retryAfter === undefined || retryAfter.trim() === '' ? Number.NaN : Number(retryAfter);
  return {
    status: incoming.statusCode!,
    body,
    retryAfter: Number.isFinite(seconds) && seconds >= 0 ? seconds : null,
    requestId: typeof requestId === 'string' ? requestId : null,
  };
}

function readText(incoming: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    incoming.on('data', (part: Buffer) => {
      bytes += part.length;
      parts.push(part);
      if (bytes > ANSWER_BYTES_MAX) {
        incoming.destroy(new UnexpectedAnswerError(`The answer is longer than ${ANSWER_BYTES_MAX} bytes`));
      }
    });
    incoming.on('end', () => resolve(Buffer.concat(parts).toString()));
    incoming.on('error', reject);
    incoming.on('aborted', () => reject(new Error('the connection broke within the answer')));
  });
}

/**
 * Returns the text of a connection error. An `AggregateError` of several addresses has no message, so its
 * code is the text.
 */
function describe(thrown: Error): string {
  const { code } = thrown as NodeJS.ErrnoException;
  return thrown.message || code || thrown.name;
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

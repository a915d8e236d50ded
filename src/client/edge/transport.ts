/** Replaces src/client/transport.ts, using only `fetch`. Runs in edge functions, on any thread. */
import { ConnectionError, TimeoutError, UnexpectedAnswerError } from '../errors.ts';
import { SeenPosition } from '../seen-position.ts';
import type { Answer, OpenAnswer, Request } from '../transport.ts';

/** Longest answer that is read. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;

export class Transport {
  readonly #base: URL;
  readonly #headers: Record<string, string>;
  readonly #seen = new SeenPosition();

  /** @param headers the headers of every request, including the key */
  constructor(base: URL, headers: Record<string, string>) {
    this.#base = base;
    this.#headers = headers;
  }

  /**
   * Sends a request and reads the whole answer. Returns an answer of any status. Follows no redirects.
   * @throws ConnectionError, TimeoutError, UnexpectedAnswerError for an answer that is too long, or the signal's reason
   */
  async send({ method, target, body, timeoutMs, signal }: Request): Promise<Answer> {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    return this.#within(timeoutMs, signal, async (within) => {
      const response = await this.#fetch(target, {
        method,
        headers,
        signal: within,
        ...(body === undefined ? {} : { body }),
      });
      return toAnswer(response, await readText(response));
    });
  }

  /**
   * Requests an answer that is read while it arrives.
   * @returns the unread answer if its status is 200 and it has a body, otherwise the whole answer
   * @throws ConnectionError, TimeoutError if the head or the body of an error does not arrive in time,
   *   UnexpectedAnswerError for an error that is too long, or the signal's reason
   */
  async open(
    target: string,
    headers: Record<string, string>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<OpenAnswer | Answer> {
    return this.#within(timeoutMs, signal, async (within) => {
      const response = await this.#fetch(target, { headers, signal: within });
      if (response.status !== 200 || response.body === null)
        return toAnswer(response, await readText(response));
      const reader = response.body.getReader();
      return {
        contentType: response.headers.get('content-type') ?? '',
        chunks: readChunks(reader),
        destroy: () => void reader.cancel().catch(() => {}),
      };
    });
  }

  close(): void {}

  async #fetch(target: string, init: RequestInit): Promise<Response> {
    const headers = { ...this.#headers, ...this.#seen.headers, ...(init.headers as Record<string, string>) };
    const response = await fetch(`${this.#base.origin}${target}`, { ...init, headers, redirect: 'manual' });
    this.#seen.note(response.headers.get('x-svc-position'));
    return response;
  }

  async #within<Result>(
    timeoutMs: number,
    signal: AbortSignal | undefined,
    work: (within: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const controller = new AbortController();
    const giveUp = () => controller.abort(signal!.reason);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      controller.abort();
    }, timeoutMs);
    if (signal?.aborted) giveUp();
    else signal?.addEventListener('abort', giveUp, { once: true });
    try {
      // The signal remains active, so that it can end an answer that is still being read.
      return await work(controller.signal);
    } catch (thrown) {
      signal?.removeEventListener('abort', giveUp);
      if (isLate) throw new TimeoutError(`No answer within ${timeoutMs} ms`);
      if (signal?.aborted) throw signal.reason;
      if (thrown instanceof UnexpectedAnswerError) throw thrown;
      const words = `Cannot reach ${this.#base.origin}: ${String((thrown as Error)?.message)}`;
      // `fetch` does not report whether the request was sent.
      throw new ConnectionError(words, false, { cause: thrown });
    } finally {
      clearTimeout(timer);
    }
  }
}

function toAnswer({ status, headers }: Response, body: string): Answer {
  const retryAfter = Number(headers.get('retry-after')?.trim() || Number.NaN);
  return {
    status,
    body,
    retryAfter: Number.isFinite(retryAfter) && retryAfter >= 0 ? retryAfter : null,
    requestId: headers.get('x-request-id'),
  };
}

async function readText(response: Response): Promise<string> {
  if (response.body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const part of readChunks(response.body.getReader())) {
    bytes += part.length;
    if (bytes > ANSWER_BYTES_MAX)
      throw new UnexpectedAnswerError(`The answer is longer than ${ANSWER_BYTES_MAX} bytes`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

async function* readChunks(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

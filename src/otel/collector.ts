/**
 * Sends export requests to a collector over HTTP, one at a time, by the retry rules of OTLP 1.9.0. Runs in the
 * exporting capture reader.
 */
import { gzipSync } from 'node:zlib';
import { Agent, request } from 'undici';
import { type OtlpEncoding, readRejectedSpans } from './answers.ts';
import { OTEL_EXPORT } from './limits.ts';

export interface CollectorOptions {
  /** The complete address to which spans are posted. */
  url: string;
  encoding: OtlpEncoding;
  headers: Readonly<Record<string, string>>;
  timeout_ms: number;
  compresses: boolean;
}

/**
 * `taken`: accepted, except for `rejected` spans. `refused`: must never be sent again. `later`: must be sent again,
 * after the delay that the collector states, if any. Reasons contain no content of the request.
 */
type Delivery =
  | { type: 'taken'; rejected: number }
  | { type: 'refused'; reason: string }
  | { type: 'later'; reason: string; after_ms: number | null };

/** Statuses after which the request must be sent again (OTLP/HTTP, "Failures"). Other statuses that are not 2xx are final. */
const RETRYABLE = new Set([429, 502, 503, 504]);

export class Collector {
  readonly #options: CollectorOptions;
  readonly #agent: Agent;

  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#agent = new Agent({
      connections: 1,
      connect: { timeout: options.timeout_ms },
      headersTimeout: options.timeout_ms,
      bodyTimeout: options.timeout_ms,
    });
  }

  /** Makes one attempt to send a request. Never rejects. */
  async send(body: Uint8Array): Promise<Delivery> {
    const { url, encoding, headers, timeout_ms, compresses } = this.#options;
    try {
      const answer = await request(url, {
        method: 'POST',
        dispatcher: this.#agent,
        headers: {
          'user-agent': 'understudy-otlp-exporter',
          ...headers,
          'content-type': encoding === 'json' ? 'application/json' : 'application/x-protobuf',
          ...(compresses ? { 'content-encoding': 'gzip' } : {}),
        },
        body: compresses ? gzipSync(body, { level: 1 }) : body,
        signal: AbortSignal.timeout(timeout_ms),
      });
      const { statusCode } = answer;
      const bytes = await readSome(answer.body);
      if (statusCode >= 200 && statusCode < 300)
        return { type: 'taken', rejected: readRejected(encoding, answer.headers['content-type'], bytes) };
      const reason = `status ${statusCode}`;
      if (!RETRYABLE.has(statusCode)) return { type: 'refused', reason };
      return { type: 'later', reason, after_ms: readRetryAfter(answer.headers['retry-after']) };
    } catch (thrown) {
      const { code, name } = thrown as NodeJS.ErrnoException;
      return { type: 'later', reason: code ?? name, after_ms: null };
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

/** Reads the beginning of an answer. If the answer is longer, the connection is closed. */
async function readSome(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of body) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > OTEL_EXPORT.answer_bytes) break;
  }
  return Buffer.concat(pieces);
}

/** Reads how many spans a partial success rejected; 0 for an answer without that field. */
function readRejected(encoding: OtlpEncoding, type: string | string[] | undefined, bytes: Buffer): number {
  const isJson = type === undefined ? encoding === 'json' : String(type).includes('json');
  try {
    if (isJson) {
      const { partialSuccess } = JSON.parse(bytes.toString()) as {
        partialSuccess?: { rejectedSpans?: string | number };
      };
      return asCount(Number(partialSuccess?.rejectedSpans ?? 0));
    }
    return asCount(readRejectedSpans(bytes));
  } catch {
    return 0;
  }
}

function asCount(value: number): number {
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
}

/** Milliseconds until a date, by the wall clock; negative for a past date. */
function leftUntil(dateMs: number): number {
  const nowMs = Date.now();
  return dateMs - nowMs;
}

/** Reads `Retry-After`, in seconds or as a date, as bounded milliseconds; null for anything else. */
function readRetryAfter(value: string | string[] | undefined): number | null {
  const text = String(value ?? '').trim();
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : leftUntil(Date.parse(text));
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), OTEL_EXPORT.retry_after_ms_max) : null;
}

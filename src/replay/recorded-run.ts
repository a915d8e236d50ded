/**
 * A captured run prepared for replay: its exchanges in order, with what is needed to recognize a repeated request.
 * Read-only; command line.
 *
 * Memory: one hash per exchange. Bodies are read when needed.
 */

import { hash } from 'node:crypto';
import type { ExchangeSource } from '../captures/exchange-source.ts';
import type { ExchangeRecord, ExchangeSide } from '../domain/exchange.ts';
import { inRunOrder } from '../domain/run-order.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { asObject } from '../providers/json-reading.ts';
import { canonicalJson, parseExact } from '../std/exact-json.ts';

/**
 * Fields in which a client identifies its user or its cache. They do not affect the model, so they are not compared.
 */
const IDS_OF_CLIENTS = ['metadata', 'user', 'prompt_cache_key', 'safety_identifier'];

/** The text by which capture replaces a credential. */
const MASK = '[redacted]';

/** An exchange of the run, with what the replay needs of it. */
export interface RecordedExchange {
  id: number;
  /** Number among the run's model turns, from 1; null for an exchange that is not a turn. */
  turn: number | null;
  method: string;
  path: string;
  status: number;
  /** The requested model, for a turn. */
  model: string | null;
  first_byte_ms: number;
  duration_ms: number;
  /** Whether the client, the upstream or the gateway ended the exchange early. */
  aborted: boolean;
  /** Why the exchange cannot be replayed; '' if it can. */
  problem: string;
  request_key: string;
  /** Whether the stored request contains masked credentials. Its text is then compared instead of its hash. */
  has_masks: boolean;
}

/** A stored answer in the form in which it is sent. */
export interface RecordedAnswer {
  headers: [name: string, value: string][];
  body: Uint8Array;
}

/** Headers that a replayed answer leaves out: those of a connection, and those that depend on how the body is sent. */
const LEFT_OUT = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'proxy-connection',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** The exchanges of a run, and their stored bytes. */
export class RecordedRun {
  readonly exchanges: readonly RecordedExchange[];
  /** Number of model turns. */
  readonly turns: number;
  readonly #source: ExchangeSource;

  private constructor(source: ExchangeSource, exchanges: RecordedExchange[], turns: number) {
    this.#source = source;
    this.exchanges = exchanges;
    this.turns = turns;
  }

  /**
   * Reads a run.
   * @returns null if the database has no exchange of the run
   */
  static read(source: ExchangeSource, runId: string): RecordedRun | null {
    const exchanges: RecordedExchange[] = [];
    let turns = 0;
    for (const { id } of inRunOrder(source.summaries({ run_id: runId }))) {
      const record = source.exchange(id);
      if (record === undefined) continue;
      if (record.kind === 'turn') turns += 1;
      exchanges.push(readExchange(source, record, record.kind === 'turn' ? turns : null));
    }
    return exchanges.length === 0 ? null : new RecordedRun(source, exchanges, turns);
  }

  /** The stored request's text, normalized for comparison. */
  requestText({ id }: RecordedExchange): string {
    return readRequestText(this.#source, id);
  }

  /** The stored bodies of the exchange. */
  copy({ id }: RecordedExchange): ReturnType<ExchangeSource['copy']> {
    return this.#source.copy(id);
  }

  answer({ id }: RecordedExchange): RecordedAnswer {
    const body = this.#source.body(id, 'response') ?? new Uint8Array(0);
    const stored = this.#source.exchange(id)?.response.headers ?? [];
    const coding = stored.filter(([name]) => name.toLowerCase() === 'content-encoding');
    // The capture decodes a body before it masks credentials, so the header is not true for the stored body.
    const isDecoded =
      coding.length > 0 && Buffer.compare(decodeContent(body, coding.flat()).bytes, body) === 0;
    const headers = stored.filter(([name]) => {
      const lower = name.toLowerCase();
      return !LEFT_OUT.has(lower) && !name.startsWith(':') && !(isDecoded && lower === 'content-encoding');
    });
    return { headers, body };
  }
}

function readExchange(source: ExchangeSource, record: ExchangeRecord, turn: number | null): RecordedExchange {
  const text = readRequestText(source, record.id);
  return {
    id: record.id,
    turn,
    method: record.method,
    path: record.query === '' ? record.path : `${record.path}?${record.query}`,
    status: record.status,
    model: record.model,
    first_byte_ms: record.first_byte_ms ?? record.duration_ms,
    duration_ms: record.duration_ms,
    aborted: record.aborted,
    problem: findProblem(record),
    request_key: keyOfText(text),
    has_masks: text.includes(MASK),
  };
}

function findProblem({ truncated, status, request, response }: ExchangeRecord): string {
  const withheld = ({ withheld: cause }: ExchangeSide): boolean => cause !== undefined;
  if (withheld(request) || withheld(response)) return 'one of its bodies was not stored';
  if (truncated) return 'its stored bodies are cut';
  return status === 101 ? 'it is a WebSocket' : '';
}

function readRequestText(source: ExchangeSource, id: number): string {
  const copy = source.copy(id);
  if (copy === undefined) return '';
  return normalizeBody(decodeContent(copy.request_body, copy.request_headers).bytes);
}

/**
 * Normalizes a request's body for comparison: JSON gets sorted keys, and an object loses its fields with clients' ids
 * (not those of nested objects); any other body is unchanged.
 */
export function normalizeBody(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('utf8');
  try {
    const value = parseExact(text);
    const body = asObject(value);
    if (Object.keys(body).length === 0) return canonicalJson(value);
    return canonicalJson(
      Object.fromEntries(Object.entries(body).filter(([name]) => !IDS_OF_CLIENTS.includes(name))),
    );
  } catch {
    return text;
  }
}

export function keyOfText(text: string): string {
  return hash('sha256', text, 'base64url');
}

/** Whether a text equals the stored text, in which each masked credential matches any characters. */
export function fitsMasked(stored: string, text: string): boolean {
  const parts = stored.split(MASK);
  const first = parts.shift()!;
  const last = parts.pop();
  if (last === undefined) return text === stored;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const part of parts) {
    const place = text.indexOf(part, at + 1);
    if (place < 0) return false;
    at = place + part.length;
  }
  return at < text.length - last.length;
}

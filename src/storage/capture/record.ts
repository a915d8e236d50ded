/**
 * The part of a stored exchange that is no body: what the gateway noted about it, and its headers. Written by the
 * capture writer, read by everybody; both ways are here so that they cannot drift apart. Any thread.
 */
import type { ClientRun } from '../../domain/client-run.ts';
import {
  type ApiShape,
  DECISION_FIELD,
  type ExchangeEntry,
  type ExchangeRecord,
  type ExchangeSide,
  type RecordedDecision,
  type ServedBy,
  type TokenUsage,
  type WithheldCause,
} from '../../domain/exchange.ts';
import type { PreparedExchange } from './prepared-exchange.ts';

const ABORTED = 1;
const TRUNCATED = 2;
const REQUEST_FILES = 4;
const RESPONSE_FILES = 8;
const REQUEST_DECODED = 16;
const RESPONSE_DECODED = 32;
const TURN = 64;

/** What the record's meta part holds, in its order in the JSON array. */
type MetaArray = [
  run_id: string | null,
  seq: number | null,
  note: string,
  provider: string,
  shape: ApiShape | null,
  method: string,
  path: string,
  query: string,
  served_by: ServedBy,
  flags: number,
  status: number,
  request_headers: string,
  response_headers: string,
  request_bytes: number,
  response_bytes: number,
  started_at_ms: number,
  first_byte_ms: number | null,
  duration_ms: number,
  /** Left out when both bodies are kept. */
  request_withheld?: WithheldCause | null,
  response_withheld?: WithheldCause | null,
];

/** The stored exchange without its bodies. */
export interface StoredMeta {
  record: ExchangeRecord;
  request_has_files: boolean;
  response_has_files: boolean;
  /** The stored body is not in the encoding that its content-encoding header names. */
  request_decoded: boolean;
  response_decoded: boolean;
}

/**
 * Milliseconds to three decimals: more are noise, and noise does not compress. From two whole numbers, which become text in
 * a quarter of the time that a fraction takes.
 */
function encodeMs(ms: number): string {
  const rounded = Math.round(ms * 1_000);
  if (!(rounded >= 0 && rounded < 2 ** 31)) return encodeNumber(rounded / 1_000);
  const thousandths = rounded | 0;
  const rest = thousandths % 1_000;
  const whole = (thousandths - rest) / 1_000;
  if (rest === 0) return `${whole}`;
  return rest < 10 ? `${whole}.00${rest}` : rest < 100 ? `${whole}.0${rest}` : `${whole}.${rest}`;
}

/** As JSON has it. */
function encodeNumber(number: number | null): string {
  return number === null || !Number.isFinite(number) ? 'null' : `${number}`;
}

/** Memory for many meta parts: to get some for each takes longer than to write it. */
const SLAB_BYTES = 256 << 10;
let slab = Buffer.alloc(0);
let slabUsed = 0;

function encodeText(text: string): Buffer {
  // A UTF-16 unit takes three bytes at most.
  if (text.length * 3 > slab.length - slabUsed) {
    if (text.length * 3 > SLAB_BYTES / 8) return Buffer.from(text, 'utf8');
    slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
    slabUsed = 0;
  }
  const from = slabUsed;
  slabUsed += slab.write(text, from, 'utf8');
  return slab.subarray(from, slabUsed);
}

/** The meta part of a record: a MetaArray as JSON. Written out, since to make the array and its JSON takes twice as long. */
export function encodeMeta(
  prepared: PreparedExchange,
  requestHasFiles: boolean,
  responseHasFiles: boolean,
): Buffer {
  const { exchange, head } = prepared;
  const flags =
    (exchange.aborted ? ABORTED : 0) |
    (prepared.truncated ? TRUNCATED : 0) |
    (requestHasFiles ? REQUEST_FILES : 0) |
    (responseHasFiles ? RESPONSE_FILES : 0) |
    (prepared.request_decoded ? REQUEST_DECODED : 0) |
    (prepared.response_decoded ? RESPONSE_DECODED : 0) |
    (exchange.kind === 'turn' ? TURN : 0);
  const { first_byte_ms } = exchange;
  return encodeText(
    `[${head.run_id},${encodeNumber(exchange.seq)},${head.route},${flags},${encodeNumber(exchange.status)},` +
      `${head.headers},${JSON.stringify(prepared.response_headers)},${encodeNumber(exchange.request_bytes)},` +
      `${encodeNumber(exchange.response_bytes)},${encodeNumber(exchange.started_at_ms)},` +
      `${first_byte_ms === null ? 'null' : encodeMs(first_byte_ms)},${encodeMs(exchange.duration_ms)}${encodeWithheld(prepared)}]`,
  );
}

function encodeWithheld({ request_withheld, response_withheld }: PreparedExchange): string {
  if (request_withheld === null && response_withheld === null) return '';
  return `,${JSON.stringify(request_withheld)},${JSON.stringify(response_withheld)}`;
}

function readSide(headers: string, bytes: number, withheld: WithheldCause | null | undefined): ExchangeSide {
  const side: ExchangeSide = { headers: splitHeaders(headers), bytes };
  if (typeof withheld === 'string') side.withheld = withheld;
  return side;
}

const NO_USAGE: TokenUsage = {
  input_tokens: null,
  output_tokens: null,
  cache_read_tokens: null,
  cache_write_tokens: null,
};

/** What relegation decided stands last among the answer's headers, under a name that no wire can bring. */
function takeDecision(record: ExchangeRecord): ExchangeRecord {
  const { headers } = record.response;
  if (headers.at(-1)?.[0] !== DECISION_FIELD) return record;
  const [, text] = headers.pop()!;
  try {
    record.relegation = JSON.parse(text) as RecordedDecision;
  } catch {
    // Masking has cut into it.
  }
  return record;
}

function splitHeaders(text: string): [string, string][] {
  if (text === '') return [];
  const flat = text.split('\n');
  const headers: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) headers.push([flat[i]!, flat[i + 1]!]);
  return headers;
}

/** The exchange record, with nothing in it yet that only a decoder knows. @throws {SyntaxError} when damaged */
export function decodeMeta(id: number, bytes: Buffer): StoredMeta {
  const meta = JSON.parse(bytes.toString('utf8')) as MetaArray;
  const flags = meta[9];
  return {
    record: takeDecision({
      id,
      run_id: meta[0],
      seq: meta[1],
      note: meta[2],
      provider: meta[3],
      kind: (flags & TURN) !== 0 ? 'turn' : 'other',
      shape: meta[4],
      method: meta[5],
      path: meta[6],
      query: meta[7],
      status: meta[10],
      started_at: new Date(meta[15]).toISOString(),
      first_byte_ms: meta[16],
      duration_ms: meta[17],
      aborted: (flags & ABORTED) !== 0,
      truncated: (flags & TRUNCATED) !== 0,
      undecodable: false,
      served_by: meta[8],
      model: null,
      stop_reason: null,
      usage: { ...NO_USAGE },
      request: readSide(meta[11], meta[13], meta[18]),
      response: readSide(meta[12], meta[14], meta[19]),
    }),
    request_has_files: (flags & REQUEST_FILES) !== 0,
    response_has_files: (flags & RESPONSE_FILES) !== 0,
    request_decoded: (flags & REQUEST_DECODED) !== 0,
    response_decoded: (flags & RESPONSE_DECODED) !== 0,
  };
}

/** The exchange record without headers: what a listing needs, kept in the `facts` table. */
export type ExchangeSummary = Omit<ExchangeRecord, 'request' | 'response' | 'relegation'> & {
  request_bytes: number;
  response_bytes: number;
};

/** A summary from a record, a run and what the decoder found (null: nothing was decoded). */
export function summarize(
  record: ExchangeRecord,
  runId: string | null,
  entry: ExchangeEntry | null,
  client: ClientRun | null = null,
): ExchangeSummary {
  const { request, response, relegation: _decision, ...rest } = record;
  return {
    ...rest,
    run_id: runId,
    ...describeClientRun(client),
    ...(record.seq === null && hasSeqHeader(request.headers) ? { has_bad_seq: true } : {}),
    undecodable: entry?.undecodable ?? false,
    model: entry?.model ?? null,
    stop_reason: entry?.stop_reason ?? null,
    usage: entry?.usage ?? { ...NO_USAGE },
    request_bytes: request.bytes,
    response_bytes: response.bytes,
  };
}

function describeClientRun(
  client: ClientRun | null,
): Pick<ExchangeRecord, 'session_id' | 'parent_run_id' | 'run_kind'> {
  if (client === null) return {};
  const { session_id, parent_run_id, kind } = client;
  return {
    session_id,
    ...(parent_run_id === null ? {} : { parent_run_id }),
    ...(kind === null ? {} : { run_kind: kind }),
  };
}

function hasSeqHeader(headers: ExchangeSide['headers']): boolean {
  return headers.some(([name]) => name.length === 9 && name.toLowerCase() === 'x-svc-seq');
}

/** The whole record, from the stored one and its summary. */
export function completeRecord(record: ExchangeRecord, summary: ExchangeSummary): ExchangeRecord {
  const { session_id, parent_run_id, run_kind, has_bad_seq } = summary;
  return {
    ...record,
    run_id: summary.run_id,
    ...(session_id === undefined ? {} : { session_id }),
    ...(parent_run_id === undefined ? {} : { parent_run_id }),
    ...(run_kind === undefined ? {} : { run_kind }),
    ...(has_bad_seq === undefined ? {} : { has_bad_seq }),
    kind: summary.kind,
    shape: summary.shape,
    undecodable: summary.undecodable,
    model: summary.model,
    stop_reason: summary.stop_reason,
    usage: summary.usage,
  };
}

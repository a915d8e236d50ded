/**
 * The part of a stored exchange that is not a body: the gateway's notes, and the headers. The capture writer encodes
 * it and all readers decode it; both directions are in this file so that they stay consistent. Any thread.
 */
import type { ClientRun } from '../../domain/client-run.ts';
import type { EndCause } from '../../domain/end-cause.ts';
import {
  type ApiShape,
  CREDENTIAL_FIELD,
  DECISION_FIELD,
  type ExchangeEntry,
  type ExchangeRecord,
  type ExchangeSide,
  type RecordedDecision,
  type ServedBy,
  unknownUsage,
  type WithheldCause,
} from '../../domain/exchange.ts';
import { readTagHeader } from '../../domain/run-mark.ts';
import { parseExact } from '../../std/exact-json.ts';
import type { PreparedExchange } from './prepared-exchange.ts';

const ABORTED = 1;
const TRUNCATED = 2;
const REQUEST_FILES = 4;
const RESPONSE_FILES = 8;
const REQUEST_DECODED = 16;
const RESPONSE_DECODED = 32;
const TURN = 64;

/** The meta part of a record, as a JSON array. */
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
  /** Trailing entries without a value are omitted. */
  request_withheld?: WithheldCause | null,
  response_withheld?: WithheldCause | null,
  arrival?: number | null,
  end_cause?: EndCause,
];

/** The stored exchange without its bodies. */
export interface StoredMeta {
  record: ExchangeRecord;
  request_has_files: boolean;
  response_has_files: boolean;
  /** Whether the content-encoding of the stored body was removed, so that its header no longer applies. */
  request_decoded: boolean;
  response_decoded: boolean;
}

/**
 * Formats milliseconds with three decimals; further digits are noise, which does not compress. Formats two integers,
 * which takes a quarter of the time of formatting a fraction.
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

/** Encodes a number as JSON: `null` for null, and for a number that is not finite. */
function encodeNumber(number: number | null): string {
  return number === null || !Number.isFinite(number) ? 'null' : `${number}`;
}

/** Size of a buffer that many meta parts share, because allocating one for each takes longer than writing it. */
const SLAB_BYTES = 256 << 10;
let slab = Buffer.alloc(0);
let slabUsed = 0;

function encodeText(text: string): Buffer {
  // A UTF-16 unit takes at most three bytes in UTF-8.
  if (text.length * 3 > slab.length - slabUsed) {
    if (text.length * 3 > SLAB_BYTES / 8) return Buffer.from(text, 'utf8');
    slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
    slabUsed = 0;
  }
  const from = slabUsed;
  slabUsed += slab.write(text, from, 'utf8');
  return slab.subarray(from, slabUsed);
}

/**
 * Encodes the meta part of a record: a MetaArray as JSON. The JSON is joined from texts, because building the array and
 * calling JSON.stringify takes twice as long.
 */
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
      `${first_byte_ms === null ? 'null' : encodeMs(first_byte_ms)},${encodeMs(exchange.duration_ms)}${encodeRest(prepared)}]`,
  );
}

function encodeRest({ request_withheld, response_withheld, exchange }: PreparedExchange): string {
  const { arrival, end_cause } = exchange;
  if (end_cause !== undefined) {
    const rest = [request_withheld, response_withheld, arrival ?? null, end_cause];
    return `,${JSON.stringify(rest).slice(1, -1)}`;
  }
  if (request_withheld === null && response_withheld === null && arrival === undefined) return '';
  const withheld = `,${JSON.stringify(request_withheld)},${JSON.stringify(response_withheld)}`;
  return arrival === undefined ? withheld : `${withheld},${arrival}`;
}

function readSide(headers: string, bytes: number, withheld: WithheldCause | null | undefined): ExchangeSide {
  const side: ExchangeSide = { headers: splitHeaders(headers), bytes };
  if (typeof withheld === 'string') side.withheld = withheld;
  return side;
}

/**
 * Moves the relegation decision from the answer's headers to its field. It is the last header, with a name that no
 * client or upstream can send.
 */
function takeDecision(record: ExchangeRecord): ExchangeRecord {
  const { headers } = record.response;
  if (headers.at(-1)?.[0] !== DECISION_FIELD) return record;
  const [, text] = headers.pop()!;
  try {
    record.relegation = parseExact(text) as RecordedDecision;
  } catch {
    // Masking has made the JSON invalid.
  }
  return record;
}

/** Moves the credential's fingerprint from the request's headers, where it is the last, to its field. */
function takeCredential(record: ExchangeRecord): ExchangeRecord {
  const { headers } = record.request;
  if (headers.at(-1)?.[0] !== CREDENTIAL_FIELD) return record;
  [, record.credential] = headers.pop()!;
  return record;
}

function splitHeaders(text: string): [string, string][] {
  if (text === '') return [];
  const flat = text.split('\n');
  const headers: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) headers.push([flat[i]!, flat[i + 1]!]);
  return headers;
}

/** Returns the exchange record, without the fields that only a decoder can fill. @throws {SyntaxError} if damaged */
export function decodeMeta(id: number, bytes: Buffer): StoredMeta {
  const meta = JSON.parse(bytes.toString('utf8')) as MetaArray;
  const flags = meta[9];
  return {
    record: takeCredential(
      takeDecision({
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
        ...(typeof meta[20] === 'number' ? { arrival: meta[20] } : {}),
        first_byte_ms: meta[16],
        duration_ms: meta[17],
        aborted: (flags & ABORTED) !== 0,
        ...(typeof meta[21] === 'string' ? { end_cause: meta[21] } : {}),
        truncated: (flags & TRUNCATED) !== 0,
        undecodable: false,
        served_by: meta[8],
        model: null,
        stop_reason: null,
        usage: unknownUsage(),
        request: readSide(meta[11], meta[13], meta[18]),
        response: readSide(meta[12], meta[14], meta[19]),
      }),
    ),
    request_has_files: (flags & REQUEST_FILES) !== 0,
    response_has_files: (flags & RESPONSE_FILES) !== 0,
    request_decoded: (flags & REQUEST_DECODED) !== 0,
    response_decoded: (flags & RESPONSE_DECODED) !== 0,
  };
}

/** The provider of an erased exchange. */
export const ERASED = 'erased';

/** The exchange record without headers, as listings need it; stored in the `facts` table. */
export type ExchangeSummary = Omit<ExchangeRecord, 'request' | 'response' | 'relegation'> & {
  request_bytes: number;
  response_bytes: number;
};

/** Makes a summary of a record, a run and the decoder's result (null: nothing was decoded). */
export function summarize(
  record: ExchangeRecord,
  runId: string | null,
  entry: (ExchangeEntry & { failed_results?: number; tools?: string[] }) | null,
  client: ClientRun | null = null,
): ExchangeSummary {
  const { request, response, relegation: _decision, ...rest } = record;
  return {
    ...rest,
    run_id: runId,
    ...describeClientRun(client),
    ...describeHeaders(request.headers, record.seq === null),
    undecodable: entry?.undecodable ?? false,
    model: entry?.model ?? null,
    stop_reason: entry?.stop_reason ?? null,
    ...(entry?.failed_results ? { failed_results: entry.failed_results } : {}),
    ...(entry?.tools?.length ? { tools: entry.tools } : {}),
    usage: entry?.usage ?? unknownUsage(),
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

/**
 * Reads the fields of a summary that follow from the headers of a request.
 * @param hasNoSeq whether the record has no number from `x-svc-seq`
 */
function describeHeaders(
  headers: ExchangeSide['headers'],
  hasNoSeq: boolean,
): Pick<ExchangeRecord, 'has_bad_seq' | 'client' | 'trace_id' | 'tags'> {
  const told: ReturnType<typeof describeHeaders> = {};
  for (const [name, value] of headers) {
    if (name.length < 9 || name.length > 11) continue;
    const lower = name.toLowerCase();
    if (lower === 'x-svc-seq' && hasNoSeq) told.has_bad_seq = true;
    else if (lower === 'x-svc-tags') {
      // Received headers are decoded as latin1, but tags are UTF-8.
      const tags = readTagHeader(Buffer.from(value, 'latin1').toString());
      if (tags.length > 0) told.tags = tags;
    } else if (lower === 'user-agent') {
      const client = CLIENT.exec(value)?.[0];
      if (client !== undefined) told.client = client;
    } else if (lower === 'traceparent') {
      const trace_id = TRACE.exec(value)?.[1];
      if (trace_id !== undefined) told.trace_id = trace_id;
    }
  }
  return told;
}

/** The first product of a `user-agent`, without its version. */
const CLIENT = /^[A-Za-z][\w.@-]{0,63}/;
const TRACE = /^[0-9a-f]{2}-([0-9a-f]{32})-/;

/** Returns the whole record, from the stored one and its summary. */
export function completeRecord(record: ExchangeRecord, summary: ExchangeSummary): ExchangeRecord {
  const { session_id, parent_run_id, run_kind, has_bad_seq, follows, failed_results } = summary;
  const { tools, client, trace_id, tags } = summary;
  return {
    ...record,
    run_id: summary.run_id,
    ...(session_id === undefined ? {} : { session_id }),
    ...(parent_run_id === undefined ? {} : { parent_run_id }),
    ...(run_kind === undefined ? {} : { run_kind }),
    ...(has_bad_seq === undefined ? {} : { has_bad_seq }),
    ...(follows === undefined ? {} : { follows }),
    ...(failed_results === undefined ? {} : { failed_results }),
    ...(tools === undefined ? {} : { tools }),
    ...(client === undefined ? {} : { client }),
    ...(trace_id === undefined ? {} : { trace_id }),
    ...(tags === undefined ? {} : { tags }),
    kind: summary.kind,
    shape: summary.shape,
    undecodable: summary.undecodable,
    model: summary.model,
    stop_reason: summary.stop_reason,
    usage: summary.usage,
  };
}

/** Whether the exchange was erased. Erased exchanges are not listed, and not counted in any figure. */
export function isErased({ provider, method, status }: ExchangeSummary): boolean {
  // The name of a route may be the same, but every request has a method.
  return provider === ERASED && method === '' && status === 0;
}

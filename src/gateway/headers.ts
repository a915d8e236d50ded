/**
 * Separates the headers that are forwarded from those that are not. Hop-by-hop headers and those named by `Connection`
 * belong to one connection and are never forwarded (RFC 9110 section 7.6.1). A few others are read or written on each
 * connection separately (REQUEST_OWN, RESPONSE_OWN). All other headers keep their order, duplicates and bytes. Server
 * threads, twice per exchange.
 */

import type { RequestForm } from '../domain/exchange.ts';
import type { RequestHead } from '../http/http-stream.ts';
import { VARYING_FIELDS } from '../http/known-heads.ts';
import type { AddedHeaders } from './route-table.ts';
import type { Fields } from './upstream/field-section.ts';
import { areFieldLines, isFieldValue } from './upstream/request-head.ts';
import type { ResponseHead } from './upstream/response-parser.ts';

/** Names of headers that never cross the gateway, besides those that `Connection` names. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Response headers that are not forwarded. The HTTP server on the client's side writes
 * `content-length` and `date`.
 */
const RESPONSE_OWN = new Set([...HOP_BY_HOP, 'content-length', 'date']);

/**
 * Request headers that are not forwarded. Each connection writes `host` and `content-length` itself; these three
 * `x-svc-` headers are for the gateway and the captures; `trailer` announces trailers, which the gateway does not
 * forward; and the HTTP parser answers `expect` with `100 Continue` before the gateway sees the request.
 */
const REQUEST_OWN = new Set([
  ...['host', 'content-length', 'expect', 'trailer'],
  ...['x-svc-run', 'x-svc-seq', 'x-svc-tags'],
]);

/**
 * Headers whose values differ between requests of one client, and which are not forwarded. The gateway reads all except
 * `x-svc-tags`, which the capture process reads.
 */
const READ_VARYING = new Set(['content-length', 'x-svc-run', 'x-svc-seq', 'x-svc-tags']);

/**
 * Headers whose values differ between requests and which are forwarded. They contain no
 * credentials.
 */
const PASSED_VARYING = new Set([...VARYING_FIELDS].filter((name) => !READ_VARYING.has(name)));

/**
 * The forwarded header lines of a request, and the values that the gateway reads from its headers.
 */
export interface FilteredRequest {
  /** `name: value\r\n` each, for the upstream; null when another parser could read them differently. */
  lines: string | null;
  /** The client sent `Content-Length: 0`. */
  has_zero_length: boolean;
  run_id: string | null;
  seq: number | null;
  /** Requests whose headers differ only in the varying values share one object as long as it is cached. */
  form: RequestForm;
}

/** A cached set of headers. Clients repeat most headers in every request. */
interface KnownHeaders extends RequestForm {
  /** The forwarded lines without the varying values; null if another parser could read them differently. */
  pieces: readonly string[] | null;
  /** Positions of the varying values: one fewer than there are pieces. */
  passed: readonly number[];
}

/** A direct-mapped cache: the index is a hash of the values' lengths, and a later entry replaces an earlier one. */
const known: (KnownHeaders | undefined)[] = new Array(256).fill(undefined);
const KNOWN_CHARACTERS = 8_192;

/** Selects the forwarded headers of a request, and reads the gateway's own. @param head the request as received */
export function filterRequestHeaders(head: RequestHead): FilteredRequest {
  const { headers } = head;
  const place = placeHeaders(headers);
  let found = known[place];
  if (found === undefined || !isSame(found, headers)) {
    found = readHeaders(headers);
    if (countCharacters(headers) <= KNOWN_CHARACTERS) known[place] = found;
  }
  const filtered: FilteredRequest = {
    lines: makeLines(found, headers),
    has_zero_length: false,
    run_id: null,
    seq: null,
    form: found,
  };
  for (const at of found.varying) {
    const name = headers[at - 1]!;
    if (name === 'content-length') filtered.has_zero_length = head.framing === 'none';
    else if (name === 'x-svc-run') filtered.run_id = readRunId(headers[at]!);
    else if (name === 'x-svc-seq') filtered.seq = parseSeq(headers[at]!);
  }
  return filtered;
}

function readHeaders(headers: readonly string[]): KnownHeaders {
  const nominated = findNominated(headers);
  const varying: number[] = [];
  const passed: number[] = [];
  const pieces: string[] = [];
  let piece = '';
  for (let at = 1; at < headers.length; at += 2) {
    const name = headers[at - 1]!;
    const isPassedVarying = PASSED_VARYING.has(name);
    if (isPassedVarying || READ_VARYING.has(name)) varying.push(at);
    if (REQUEST_OWN.has(name) || HOP_BY_HOP.has(name) || nominated?.has(name)) continue;
    if (isPassedVarying) {
      passed.push(at);
      pieces.push(`${piece}${name}: `);
      piece = '\r\n';
    } else {
      piece += `${name}: ${headers[at]!}\r\n`;
    }
  }
  pieces.push(piece);
  return { headers, varying, pieces: areFieldLines(pieces.join('')) ? pieces : null, passed };
}

/** Joins the forwarded lines of a request; null if another parser could read them differently. */
function makeLines({ pieces, passed }: KnownHeaders, headers: readonly string[]): string | null {
  if (pieces === null) return null;
  let lines = pieces[0]!;
  for (let i = 0; i < passed.length; i++) {
    const value = headers[passed[i]!]!;
    if (!isFieldValue(value)) return null;
    lines += value + pieces[i + 1]!;
  }
  return lines;
}

function placeHeaders(headers: readonly string[]): number {
  let sum = headers.length;
  for (let at = 1; at < headers.length; at += 2) {
    // Skip varying headers, because the lengths of their values differ. Their names have 14 or 9
    // characters.
    const { length } = headers[at - 1]!;
    if (length !== 14 && length !== 9) sum = (sum * 31 + headers[at]!.length) | 0;
  }
  return sum & (known.length - 1);
}

function countCharacters(headers: readonly string[]): number {
  let count = 0;
  for (const text of headers) count += text.length;
  return count;
}

/** Compares every name and every value, except the varying ones. */
function isSame({ headers, varying }: RequestForm, received: readonly string[]): boolean {
  if (headers.length !== received.length) return false;
  let next = 0;
  for (let at = 0; at < headers.length; at++) {
    if (at === varying[next]) next++;
    else if (headers[at] !== received[at]) return false;
  }
  return true;
}

/** The forwarded header lines of an answer. */
interface FilteredResponse {
  /** `name: value\r\n` each, names as the upstream wrote them; without the headers in RESPONSE_OWN. */
  lines: string;
  /** Whether trailers are announced. Then the client's connection is closed after the answer. */
  has_trailer: boolean;
}

/** Selects the forwarded headers of an answer. @param head the answer as received */
export function filterResponseHeaders(head: ResponseHead): FilteredResponse {
  const { names, headers, connection } = head;
  const nominated = connection === null ? null : parseNominated(connection);
  let lines = '';
  let has_trailer = false;
  for (let at = 0; at < names.length; at++) {
    const name = names[at]!;
    if (RESPONSE_OWN.has(name) || nominated?.has(name)) continue;
    if (name === 'trailer') has_trailer = true;
    lines += `${headers[2 * at]}: ${headers[2 * at + 1]}\r\n`;
  }
  return { lines, has_trailer };
}

/**
 * Returns the fields of an informational answer or of trailers as flat pairs, without hop-by-hop
 * and framing fields (RFC 9110 section 6.5.1).
 */
export function filterFields({ names, headers }: Fields): string[] {
  const pairs: string[] = [];
  for (let at = 0; at < names.length; at++) {
    const name = names[at]!;
    if (HOP_BY_HOP.has(name) || name === 'content-length') continue;
    pairs.push(headers[2 * at]!, headers[2 * at + 1]!);
  }
  return pairs;
}

/** Names that the Connection headers list; null if they list only `keep-alive` or `close`. */
function findNominated(headers: readonly string[]): Set<string> | null {
  let nominated: Set<string> | null = null;
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] !== 'connection') continue;
    const found = parseNominated(headers[at + 1]!);
    if (found !== null) nominated = nominated === null ? found : new Set([...nominated, ...found]);
  }
  return nominated;
}

function parseNominated(value: string): Set<string> | null {
  if (value === 'keep-alive' || value === 'close' || value === '') return null;
  return new Set(
    value
      .toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  );
}

const NOT_ASCII = /[^\0-\x7f]/;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes the run id that the client sent, without changing it, because other code looks the run up
 * by this id. Most clients send text as UTF-8; browsers and Node send one byte per character.
 * @param value one byte per character
 * @returns null for an empty value
 */
export function readRunId(value: string): string | null {
  if (value === '') return null;
  if (!NOT_ASCII.test(value)) return value;
  try {
    return utf8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}

/**
 * Parses a sequence number; null for an invalid number, which counts as missing. Then the numbers do not show whether
 * the run is complete.
 */
export function parseSeq(value: string): number | null {
  return /^\d{1,15}$/.test(value) ? Number(value) : null;
}

/** Replaces headers of the client with the headers that a route adds. */
export function replaceHeaders(lines: string, { names, lines: added }: AddedHeaders): string {
  let kept = '';
  for (let at = 0; at < lines.length; ) {
    const end = lines.indexOf('\r\n', at) + 2;
    if (!names.has(lines.slice(at, lines.indexOf(':', at)))) kept += lines.slice(at, end);
    at = end;
  }
  return kept + added;
}

/**
 * Which headers are the connection's and which are the message's. Hop-by-hop headers and those that `Connection`
 * names belong to one connection and are never forwarded (RFC 9110 section 7.6.1); all others keep their order,
 * duplicates and bytes. Pure; front threads, twice an exchange.
 */

import type { RequestHead } from '../http/http-stream.ts';

/** Names that never cross the gateway, beside those that `Connection` names. */
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
 * Written by each leg itself (`host`, `content-length`), ours to read (`x-svc-*`), a request for trailers that we do
 * not take, and `expect`: the HTTP parser answers `100 Continue` itself, before we see the request.
 */
const REQUEST_OWN = new Set(['host', 'content-length', 'expect', 'trailer', 'x-svc-run', 'x-svc-seq']);

/** What the gateway reads of a request's headers while it filters them. */
export interface FilteredRequest {
  /** Flat pairs for the upstream, `host` first. */
  headers: string[];
  run_id: string | null;
  seq: number | null;
}

/**
 * @param head the request as it came
 * @param host the upstream's Host value
 * @param contentLength what to announce, or null when undici derives it from the body or frames by chunks
 */
export function filterRequestHeaders(
  head: RequestHead,
  host: string,
  contentLength: string | null,
): FilteredRequest {
  const from = head.headers;
  const nominated = findNominated(from);
  const to: string[] = ['host', host];
  let run_id: string | null = null;
  let seq: number | null = null;
  for (let at = 0; at < from.length; at += 2) {
    const name = from[at]!;
    if (REQUEST_OWN.has(name)) {
      if (name === 'x-svc-run') run_id = from[at + 1]! === '' ? null : from[at + 1]!;
      else if (name === 'x-svc-seq') seq = parseSeq(from[at + 1]!);
      continue;
    }
    if (HOP_BY_HOP.has(name) || nominated?.has(name)) continue;
    to.push(name, from[at + 1]!);
  }
  if (contentLength !== null) to.push('content-length', contentLength);
  return { headers: to, run_id, seq };
}

/** What the gateway reads of an answer's headers while it filters them. */
export interface FilteredResponse {
  /** `name: value\r\n` each, names as the upstream wrote them; without Date and Content-Length, which the parser writes. */
  lines: string;
  /** Flat pairs as they came, all of them, for the record. */
  all: string[];
  content_length: number | null;
  is_chunked: boolean;
  /** Trailers are announced; they will cost the connection. */
  has_trailer: boolean;
}

/**
 * @param raw alternating names and values as the upstream sent them
 * @param connection the values of Connection, lower-cased names as undici parsed them
 */
export function filterResponseHeaders(
  raw: readonly (Buffer | string)[],
  connection: string | string[] | undefined,
): FilteredResponse {
  const nominated = connection === undefined ? null : parseNominated(String(connection));
  const all: string[] = [];
  let lines = '';
  let content_length: number | null = null;
  let is_chunked = false;
  let has_trailer = false;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = toText(raw[at]!);
    const value = toText(raw[at + 1]!);
    all.push(name, value);
    const lower = name.toLowerCase();
    if (lower === 'content-length') {
      content_length = Number(value);
      continue;
    }
    if (lower === 'date') continue;
    if (HOP_BY_HOP.has(lower)) {
      if (lower === 'transfer-encoding') is_chunked = true;
      continue;
    }
    if (nominated?.has(lower)) continue;
    if (lower === 'trailer') has_trailer = true;
    lines += `${name}: ${value}\r\n`;
  }
  return { lines, all, content_length, is_chunked, has_trailer };
}

/** Flat pairs of trailers, hop-by-hop and framing names left out (RFC 9110 section 6.5.1). */
export function filterTrailers(raw: readonly (Buffer | string)[]): string[] {
  const pairs: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = toText(raw[at]!);
    const lower = name.toLowerCase();
    if (!HOP_BY_HOP.has(lower) && lower !== 'content-length') pairs.push(name, toText(raw[at + 1]!));
  }
  return pairs;
}

/** Names that the Connection headers list; null for the usual `keep-alive` and `close`. */
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

/** A sequence number; anything else counts as none, and leaves the run unproven. */
export function parseSeq(value: string): number | null {
  return /^\d{1,15}$/.test(value) ? Number(value) : null;
}

function toText(bytes: Buffer | string): string {
  return typeof bytes === 'string' ? bytes : bytes.toString('latin1');
}

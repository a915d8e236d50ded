/**
 * Which headers are the connection's and which are the message's. Hop-by-hop headers and those that `Connection`
 * names belong to one connection and are never forwarded (RFC 9110 section 7.6.1); all others keep their order,
 * duplicates and bytes. Pure; front threads, twice an exchange.
 */

import type { RequestHead } from '../http/http-stream.ts';
import type { Fields } from './upstream/field-section.ts';
import type { ResponseHead } from './upstream/response-parser.ts';

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

/** Those, and what the parser of the client's side writes itself. */
const RESPONSE_OWN = new Set([...HOP_BY_HOP, 'content-length', 'date']);

/**
 * Written by each leg itself (`host`, `content-length`), ours to read (`x-svc-*`), a request for trailers that we do
 * not take, and `expect`: the HTTP parser answers `100 Continue` itself, before we see the request.
 */
const REQUEST_OWN = new Set(['host', 'content-length', 'expect', 'trailer', 'x-svc-run', 'x-svc-seq']);

/** What the gateway reads of a request's headers while it filters them. */
export interface FilteredRequest {
  /** `name: value\r\n` each, for the upstream. */
  lines: string;
  /** The client sent `Content-Length: 0`. */
  has_zero_length: boolean;
  run_id: string | null;
  seq: number | null;
}

/** @param head the request as it came */
export function filterRequestHeaders(head: RequestHead): FilteredRequest {
  const from = head.headers;
  const nominated = findNominated(from);
  let lines = '';
  let has_zero_length = false;
  let run_id: string | null = null;
  let seq: number | null = null;
  for (let at = 0; at < from.length; at += 2) {
    const name = from[at]!;
    if (REQUEST_OWN.has(name)) {
      if (name === 'x-svc-run') run_id = readRunId(from[at + 1]!);
      else if (name === 'x-svc-seq') seq = parseSeq(from[at + 1]!);
      else if (name === 'content-length') has_zero_length = head.framing === 'none';
      continue;
    }
    if (HOP_BY_HOP.has(name) || nominated?.has(name)) continue;
    lines += `${name}: ${from[at + 1]!}\r\n`;
  }
  return { lines, has_zero_length, run_id, seq };
}

/** What the gateway reads of an answer's headers while it filters them. */
export interface FilteredResponse {
  /** `name: value\r\n` each, names as the upstream wrote them; without Date and Content-Length, which the parser writes. */
  lines: string;
  /** Trailers are announced; they will cost the connection. */
  has_trailer: boolean;
}

/** @param head the answer as it came */
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

/** Flat pairs of an informational answer, or of trailers: hop-by-hop and framing names left out (RFC 9110 section 6.5.1). */
export function filterFields({ names, headers }: Fields): string[] {
  const pairs: string[] = [];
  for (let at = 0; at < names.length; at++) {
    const name = names[at]!;
    if (HOP_BY_HOP.has(name) || name === 'content-length') continue;
    pairs.push(headers[2 * at]!, headers[2 * at + 1]!);
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

const NOT_ASCII = /[^\0-\x7f]/;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The run that a request says it is of, as its client wrote it: the name is looked up elsewhere, too. Most clients send
 * text as UTF-8, browsers and Node one byte a character.
 * @param value one byte a character
 * @returns null for none
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

/** A sequence number; anything else counts as none, and leaves the run unproven. */
export function parseSeq(value: string): number | null {
  return /^\d{1,15}$/.test(value) ? Number(value) : null;
}

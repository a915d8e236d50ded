/**
 * The request line and header lines for an upstream. It rejects text that a server could parse as
 * more lines than intended or as an invalid line. Pure; server threads, once per request.
 */
import { UpstreamError } from './answer-error.ts';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** An absolute path without spaces, control characters and line ends. */
const PATH = /^\/[!-\xff]*$/;
const QUERY = /^[!-\xff]*$/;
const FIELD_LINES = /^(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t\x20-\x7e\x80-\xff]*\r\n)*$/;

const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Whether the text consists of valid header lines, `name: value\r\n` each, which no parser reads differently. */
export function areFieldLines(text: string): boolean {
  return FIELD_LINES.test(text);
}

/** Whether the text may be the value of a header line. */
export function isFieldValue(text: string): boolean {
  return FIELD_VALUE.test(text);
}

/**
 * Makes the head of a request from parts that it checks. `host` is not checked.
 * @param query without its question mark; null if absent
 * @param lines a text that `areFieldLines` accepts; null: it did not accept the text
 * @returns request line and header lines, each with its line end; the connection adds framing and the blank line
 * @throws UpstreamError BAD_REQUEST; its message names the fault and quotes no value
 */
export function makeRequestHead(
  method: string,
  path: string,
  query: string | null,
  host: string,
  lines: string | null,
): string {
  if (!TOKEN.test(method)) throw badRequest('invalid method');
  // Test each part separately, because V8 would have to flatten a concatenated string first.
  if (!PATH.test(path) || (query !== null && !QUERY.test(query))) throw badRequest('invalid path or query');
  if (lines === null) throw badRequest('invalid header');
  const target = query === null ? path : `${path}?${query}`;
  return `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\n${method === 'HEAD' ? 'connection: close' : 'connection: keep-alive'}\r\n${lines}`;
}

function badRequest(what: string): UpstreamError {
  return new UpstreamError('BAD_REQUEST', what);
}

/**
 * Caches the header lines of requests. The library returns a request's lines one by one, with a
 * call and two new strings for each, although an agent's requests have the same lines except for a
 * few values. So the addon compares a head byte by byte with the connection's last head. If they
 * are equal except for these values, this file reuses the strings. Server threads.
 */
import type { HttpRequest } from 'uWebSockets.js';
import { HEAD_SLOTS, socketEngine } from '../../native/socket-engine.ts';

/** Headers whose values differ between requests of one client. */
export const VARYING_FIELDS: ReadonlySet<string> = new Set([
  'content-length',
  'x-svc-run',
  'x-svc-seq',
  'x-svc-tags',
  'x-request-id',
  'x-correlation-id',
  'x-client-request-id',
  'idempotency-key',
  'x-stainless-retry-count',
  'amz-sdk-invocation-id',
  'traceparent',
  'sentry-trace',
  'x-b3-traceid',
  'x-b3-spanid',
  'x-datadog-trace-id',
  'x-datadog-parent-id',
  'x-cloud-trace-context',
]);

/**
 * Headers that the listener interprets for each request. A head that has one of them is not cached.
 */
const READ_FIELDS: ReadonlySet<string> = new Set(['transfer-encoding', 'expect', 'upgrade']);

interface KnownHead {
  /** Flat pairs, as in `RequestHead`. */
  headers: readonly string[];
  /** Positions of the varying values. */
  varying: readonly number[];
  /** Position of the value of Content-Length; -1 if absent. */
  length_at: number;
}

/** The headers of a request. */
interface RecalledHeaders {
  headers: string[];
  /** null if absent. */
  content_length: string | null;
}

/** By slot of the addon. */
const heads: (KnownHead | undefined)[] = new Array(HEAD_SLOTS).fill(undefined);

/**
 * Returns the headers of a request whose head the addon knows, one byte per character.
 * @param slot the result of `takeHead`
 */
export function recallHeaders(slot: number, request: HttpRequest): RecalledHeaders {
  const { headers, varying, length_at } = heads[slot]!;
  const recalled = headers.slice();
  for (const at of varying) recalled[at] = request.getHeader(headers[at - 1]!);
  return { headers: recalled, content_length: length_at < 0 ? null : recalled[length_at]! };
}

/**
 * Remembers headers that `takeHead` did not know, unless a header is in READ_FIELDS, or a varying header is repeated.
 * @param headers of a request that is not refused, one byte per character
 */
export function rememberHeaders(headers: readonly string[]): void {
  const varying: number[] = [];
  const names = new Set<string>();
  for (let at = 1; at < headers.length; at += 2) {
    const name = headers[at - 1]!;
    if (READ_FIELDS.has(name)) return;
    if (!VARYING_FIELDS.has(name)) continue;
    // Do not cache a repeated name, because the library can look up only the first line of a name.
    if (names.has(name)) return;
    names.add(name);
    varying.push(at);
  }
  const slot = chooseSlot(headers);
  const lines = Uint32Array.from(varying, (at) => (at - 1) / 2);
  const isKept = socketEngine.rememberHead(slot, lines, headers.length / 2) === 1;
  const length_at = headers.indexOf('content-length') + 1 || -1;
  heads[slot] = isKept ? { headers: headers.slice(), varying, length_at } : undefined;
}

/** Hashes the lengths of the texts that do not vary. */
function chooseSlot(headers: readonly string[]): number {
  let sum = headers.length;
  for (let at = 1; at < headers.length; at += 2)
    if (!VARYING_FIELDS.has(headers[at - 1]!)) sum = (sum * 31 + headers[at]!.length) | 0;
  return sum & (HEAD_SLOTS - 1);
}

/**
 * What the capture writer understands. One actor, pinned to one thread, owns the capture database.
 * Any thread.
 */
import type { CapturedExchange } from '../../src/domain/exchange.ts';

export const CAPTURE_WRITER_KIND = 'capture-writer';

/**
 * An exchange on the link: its fields by position, which packs in half the time and unpacks in a quarter of what named
 * fields take. Its bodies travel raw beside the message (request, response, request, …, in the order of the batch),
 * its headers as one text each; a line end stands between names and values, since no header holds one.
 */
export type ExchangeHead = readonly unknown[];

type HeadField = Exclude<
  keyof CapturedExchange,
  'request_headers' | 'response_headers' | 'request_body' | 'response_body'
>;

/** The fields of a head, headers and bodies apart, in the order of a head. A record, so that none can be forgotten. */
const HEAD_FIELDS = Object.keys({
  run_id: true,
  seq: true,
  note: true,
  provider: true,
  kind: true,
  shape: true,
  method: true,
  path: true,
  query: true,
  status: true,
  started_at_ms: true,
  first_byte_ms: true,
  duration_ms: true,
  aborted: true,
  truncated: true,
  served_by: true,
  request_bytes: true,
  response_bytes: true,
} satisfies Record<HeadField, true>) as HeadField[];

/** @returns the head; the bodies are the caller's to send */
export function packHead(exchange: CapturedExchange): ExchangeHead {
  const head: unknown[] = new Array(HEAD_FIELDS.length + 2);
  for (let at = 0; at < HEAD_FIELDS.length; at++) head[at] = exchange[HEAD_FIELDS[at]!];
  head[HEAD_FIELDS.length] = exchange.request_headers.join('\n');
  head[HEAD_FIELDS.length + 1] = exchange.response_headers.join('\n');
  return head;
}

/** The inverse of {@link packHead}. Both ends are this program, so the shape is taken as given. */
export function unpackHead(
  head: ExchangeHead,
  request_body: Uint8Array,
  response_body: Uint8Array,
): CapturedExchange {
  const exchange: Record<string, unknown> = { request_body, response_body };
  for (let at = 0; at < HEAD_FIELDS.length; at++) exchange[HEAD_FIELDS[at]!] = head[at];
  exchange.request_headers = splitPairs(head[HEAD_FIELDS.length] as string);
  exchange.response_headers = splitPairs(head[HEAD_FIELDS.length + 1] as string);
  return exchange as unknown as CapturedExchange;
}

function splitPairs(text: string): string[] {
  return text === '' ? [] : text.split('\n');
}

/** Where the files stand. */
export interface WriterState {
  /** Size of the live file. */
  bytes: number;
  /** Number of sealed files. */
  sealed: number;
}

export type CaptureWriterProtocol = {
  /** Opens the database, which the first other message would do as well. */
  open: { request: null; reply: null };
  /** Answered when the whole batch is committed; refused with `capture_failed` when none of it is. */
  append: { request: { heads: readonly ExchangeHead[] }; reply: { first_id: number; last_id: number } };
  /** Answered when all that was appended before is safe from a power cut. */
  flush: { request: null; reply: null };
  rotate: { request: null; reply: { sealed: string | null; opened: string } };
  /** Closes the database; every later message is refused with `capture_stopped`. */
  kill: { request: null; reply: null };
  state: { request: null; reply: WriterState };
};

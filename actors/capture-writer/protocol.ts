/**
 * What the capture writer understands. One actor, pinned to one thread, owns the capture database.
 * Any thread.
 */
import type { CapturedExchange, FinishedExchange } from '../../src/domain/exchange.ts';

export const CAPTURE_WRITER_KIND = 'capture-writer';

/**
 * An exchange on the link: its fields by position, which packs in half the time and unpacks in a quarter of what named
 * fields take. Its headers are one text each (a line end between names and values; no header holds one). Its bodies
 * travel raw beside the message, chunk after chunk in the order of the batch, request before response; the head says
 * how many chunks each has.
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

/** Chunks of a body that are smaller than this on average are joined before they are sent. */
const CHUNK_BYTES_MIN = 4_096;

/**
 * @param bodies gets the exchange's chunks
 * @returns the head
 */
export function packExchange(exchange: FinishedExchange, bodies: Uint8Array[]): ExchangeHead {
  const head: unknown[] = [];
  for (const field of HEAD_FIELDS) head.push(exchange[field]);
  head.push(
    exchange.request_headers.join('\n'),
    exchange.response_headers.join('\n'),
    packChunks(exchange.request_chunks, bodies),
    packChunks(exchange.response_chunks, bodies),
  );
  return head;
}

/**
 * The inverse of {@link packExchange}. Both ends are this program, so the shape is taken as given.
 * @param bodies the batch's chunks, `from` the first of this exchange
 * @returns the exchange and the index of the next one's first chunk
 */
export function unpackExchange(
  head: ExchangeHead,
  bodies: readonly Uint8Array[],
  from: number,
): { exchange: CapturedExchange; next: number } {
  const at = HEAD_FIELDS.length;
  const between = from + (head[at + 2] as number);
  const next = between + (head[at + 3] as number);
  const exchange: Record<string, unknown> = {};
  for (let field = 0; field < at; field++) exchange[HEAD_FIELDS[field]!] = head[field];
  exchange.request_headers = splitPairs(head[at] as string);
  exchange.response_headers = splitPairs(head[at + 1] as string);
  exchange.request_body = joinChunks(bodies, from, between);
  exchange.response_body = joinChunks(bodies, between, next);
  return { exchange: exchange as unknown as CapturedExchange, next };
}

/** @returns how many were added */
function packChunks(chunks: readonly Uint8Array[], bodies: Uint8Array[]): number {
  let bytes = 0;
  for (const chunk of chunks) bytes += chunk.length;
  if (chunks.length > 1 && bytes < chunks.length * CHUNK_BYTES_MIN) {
    bodies.push(Buffer.concat(chunks, bytes));
    return 1;
  }
  for (const chunk of chunks) bodies.push(chunk);
  return chunks.length;
}

/** A link puts bodies one behind the other, so the chunks of one body are one stretch of memory: no copy. */
function joinChunks(bodies: readonly Uint8Array[], from: number, to: number): Uint8Array {
  if (to - from === 1) return bodies[from]!;
  if (to === from) return new Uint8Array(0);
  const first = bodies[from]!;
  const last = bodies[to - 1]!;
  let bytes = 0;
  for (let at = from; at < to; at++) bytes += bodies[at]!.length;
  const isOneStretch =
    first.buffer === last.buffer && last.byteOffset + last.length - first.byteOffset === bytes;
  return isOneStretch
    ? new Uint8Array(first.buffer, first.byteOffset, bytes)
    : Buffer.concat(bodies.slice(from, to), bytes);
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

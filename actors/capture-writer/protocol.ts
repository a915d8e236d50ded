/**
 * What the capture writer understands. One actor, pinned to one thread, owns the capture database.
 * Any thread.
 */
import type { CapturedExchange } from '../../src/domain/exchange.ts';

export const CAPTURE_WRITER_KIND = 'capture-writer';

/**
 * An exchange on the link: everything but its bodies, which travel raw beside the message (request, response, request,
 * …, in the order of the batch), and its headers as one text each, which is cheaper to carry than many. A line end
 * stands between names and values; no header holds one.
 */
export type ExchangeHead = Omit<
  CapturedExchange,
  'request_body' | 'response_body' | 'request_headers' | 'response_headers'
> & { request_headers: string; response_headers: string };

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
  append: { request: { heads: ExchangeHead[] }; reply: { first_id: number; last_id: number } };
  /** Answered when all that was appended before is safe from a power cut. */
  flush: { request: null; reply: null };
  rotate: { request: null; reply: { sealed: string | null; opened: string } };
  /** Closes the database; every later message is refused with `capture_stopped`. */
  kill: { request: null; reply: null };
  state: { request: null; reply: WriterState };
};

/**
 * Decides which request framings are refused before anything is forwarded. uWebSockets.js accepts some
 * messages that two parsers may read differently (request smuggling, RFC 9112 section 11.2). If the addon
 * watches the sockets (`native/sockets/framing.h`), such messages never reach the library. The rules of this
 * file check the headers that the library returns. Without the addon, these rules are the only check. Pure;
 * server threads, once a request.
 */

/** The answer to a request that the addon did not pass to the library. */
interface FramingRefusal {
  status: 400 | 431 | 505;
  /** The error text for the client. */
  words: string;
}

const refusals: Readonly<Record<number, FramingRefusal>> = {
  1: { status: 400, words: 'The request line is malformed' },
  2: { status: 400, words: 'A header line is malformed' },
  3: { status: 400, words: 'Exactly one Host header is needed' },
  4: { status: 400, words: 'Content-Length is repeated' },
  5: { status: 400, words: 'Content-Length is not a number of bytes' },
  6: { status: 400, words: 'Content-Length and Transfer-Encoding exclude each other' },
  7: { status: 400, words: 'Transfer-Encoding must be exactly "chunked", and given once' },
  8: { status: 431, words: 'The request head is too large' },
  9: { status: 400, words: 'Chunk extensions are not supported' },
  10: { status: 400, words: 'A chunk size is malformed' },
  11: { status: 400, words: 'A chunk does not end where its size says' },
  12: { status: 400, words: 'Trailers are not supported' },
  13: { status: 505, words: 'Only HTTP/1.1 is accepted, with a path as the target' },
};

/** Finds a refusal by its number in `native/sockets/framing.h`. An unknown number counts as a malformed header line. */
export function findRefusal(number: number): FramingRefusal {
  return refusals[number] ?? refusals[2]!;
}

/** How the request's body is delimited. */
export type BodyFraming = 'none' | 'length' | 'chunked';

/** How the request's body is delimited, or why the request is refused. */
interface FramingVerdict {
  framing: BodyFraming;
  /** Bytes of the body with `length`, 0 otherwise. */
  content_length: number;
  /** The error text if the request is refused, otherwise null. */
  refusal: string | null;
}

const NO_BODY: FramingVerdict = Object.freeze({ framing: 'none', content_length: 0, refusal: null });
const CHUNKED: FramingVerdict = Object.freeze({ framing: 'chunked', content_length: 0, refusal: null });

/**
 * Decides how a request's body is delimited, or that the request is refused.
 * @param contentLength the single value of Content-Length; null: absent
 * @param contentLengthCount how many Content-Length lines there were
 * @param transferEncoding the single value of Transfer-Encoding; null: absent
 * @param transferEncodingCount how many Transfer-Encoding lines there were
 * @returns the framing to read the body with, or a refusal: repeated or malformed Content-Length, any
 *   Transfer-Encoding but exactly `chunked`, both together (RFC 9112 sections 6.1 and 6.3)
 */
export function judgeFraming(
  contentLength: string | null,
  contentLengthCount: number,
  transferEncoding: string | null,
  transferEncodingCount: number,
): FramingVerdict {
  if (transferEncodingCount === 0) {
    if (contentLengthCount === 0) return NO_BODY;
    if (contentLengthCount > 1) return refuse('Content-Length is repeated');
    if (!/^\d{1,15}$/.test(contentLength!)) return refuse('Content-Length is not a number of bytes');
    const bytes = Number(contentLength);
    return bytes === 0 ? NO_BODY : { framing: 'length', content_length: bytes, refusal: null };
  }
  if (contentLengthCount > 0) return refuse('Content-Length and Transfer-Encoding exclude each other');
  if (transferEncodingCount > 1 || transferEncoding !== 'chunked') {
    return refuse('Transfer-Encoding must be exactly "chunked", and given once');
  }
  return CHUNKED;
}

function refuse(why: string): FramingVerdict {
  return { framing: 'none', content_length: 0, refusal: why };
}

/** Whether the header is `100-continue` in upper or lower case (RFC 9110 section 10.1.1). */
export function isContinueExpected(expectation: string): boolean {
  return expectation.toLowerCase() === '100-continue';
}

/** The end of a chunked message as bytes: the last chunk and an empty trailer section. */
const LAST_CHUNK = Buffer.from('\r\n0\r\n\r\n');

/**
 * Whether the first data of a chunked body ends like a complete message. If the parser then expects more
 * data, it has misread a chunk extension. uWebSockets.js reads `:;<=>?@` in a chunk-size line as digits, so
 * `3;a=b` becomes a chunk of 244,443 bytes, and the rest of the message, including its last chunk, looks like
 * body. A message that arrives in several packets is not recognized.
 * @param data the first bytes that the parser returned as body
 */
export function looksMisread(data: Uint8Array): boolean {
  return (
    data.length >= LAST_CHUNK.length && LAST_CHUNK.equals(data.subarray(data.length - LAST_CHUNK.length))
  );
}

/**
 * Parses an upstream's answers on one connection as they arrive, in any pieces: HTTP/1.1 by RFC
 * 9112; ambiguous answers are rejected. Pure; server threads.
 *
 * docs/gateway.md says what the gateway passes on unchanged, and what it refuses.
 */
import { UPSTREAM_HEAD_BYTES } from '../../limits.ts';
import { badAnswer } from './answer-error.ts';
import { ChunkedDecoder } from './chunked-decoder.ts';
import { type Fields, parseFields, SectionReader, TEXT } from './field-section.ts';

const LF = 10;
const CR = 13;
const SP = 32;
const ZERO = 48;

/** Beginning of each answer; the minor version, 0 or 1, follows. */
const VERSION = Buffer.from('HTTP/1.');
const STATUS_AT = VERSION.length + 2;

/** Head of an answer, informational or final. */
export interface ResponseHead extends Fields {
  status: number;
  /** As received, one byte per character; '' when empty. */
  reason: string;
  content_length: number | null;
  is_chunked: boolean;
  /** The values of Connection, joined by commas; null when absent. */
  connection: string | null;
}

export interface ResponseSink {
  /** Any number of informational heads (1xx), then a final one. */
  onHead(head: ResponseHead): void;
  /** A piece of the body: a view on the given bytes, valid during the call. */
  onBody(chunk: Buffer): void;
}

/** The expected next element. `nothing`: no answer is due. */
type Place = 'nothing' | 'head' | 'length' | 'chunks' | 'until the end';

export class ResponseParser {
  /** Whether a byte of the answer has arrived. */
  hasBegun = false;
  /** Whether the answer is complete. */
  isComplete = false;
  /** Whether the connection may be reused after the answer. */
  isKept = false;
  /**
   * How long the connection may be idle before reuse, by the upstream's `Keep-Alive`; null if not
   * stated.
   */
  kept_ms: number | null = null;

  readonly #sink: ResponseSink;
  readonly #section = new SectionReader();
  readonly #chunks: ChunkedDecoder;
  #place: Place = 'nothing';
  #isHead = false;
  /** Bytes of all heads of this answer, because the number of informational heads is unlimited. */
  #headBytes = 0;
  /** Remaining bytes of a body with a length. */
  #left = 0;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
    this.#chunks = new ChunkedDecoder((chunk) => this.#sink.onBody(chunk));
  }

  /** Trailers of the last answer; null if absent. */
  get trailers(): Fields | null {
    return this.#chunks.trailers;
  }

  /** Whether the answer is one that ends with the connection, and has not ended. */
  get isUnframed(): boolean {
    return this.#place === 'until the end';
  }

  /** Prepares for the answer to a request with this method. */
  begin(method: string): void {
    this.hasBegun = false;
    this.isComplete = false;
    this.isKept = false;
    this.kept_ms = null;
    this.#section.reset();
    this.#chunks.begin();
    this.#isHead = method === 'HEAD';
    this.#headBytes = 0;
    this.#place = 'head';
  }

  /** Stops parsing, because the answer is no longer wanted. The sink is not called again. */
  stop(): void {
    this.#place = 'nothing';
    this.#chunks.stop();
  }

  /**
   * Parses the bytes up to `end`, and passes heads and pieces of the body to the sink.
   * @returns how many bytes belonged to the answer; fewer than `end` only when the answer is complete, or none is due
   * @throws UpstreamError for anything but an answer
   */
  execute(bytes: Buffer, end: number): number {
    if (end > 0) this.hasBegun = true;
    let at = 0;
    while (at < end) {
      switch (this.#place) {
        case 'head':
          at = this.#takeHead(bytes, at, end);
          break;
        case 'length': {
          const stop = Math.min(end, at + this.#left);
          this.#left -= stop - at;
          if (this.#left === 0) this.#complete();
          this.#sink.onBody(bytes.subarray(at, stop));
          at = stop;
          break;
        }
        case 'chunks':
          at = this.#chunks.decode(bytes, at, end);
          if (this.#place === 'chunks' && this.#chunks.isComplete) this.#complete();
          break;
        case 'until the end':
          this.#sink.onBody(bytes.subarray(at, end));
          return end;
        case 'nothing':
          return at;
      }
    }
    return at;
  }

  /**
   * Notes that the upstream has closed the connection in an orderly way.
   * @returns whether this completes an answer
   */
  finish(): boolean {
    if (this.#place !== 'until the end') return false;
    this.#complete();
    return true;
  }

  #complete(): void {
    this.isComplete = true;
    this.#place = 'nothing';
  }

  #takeHead(bytes: Buffer, from: number, end: number): number {
    let at = from;
    const section = this.#section;
    if (section.pending_bytes === 0) {
      // Skip line ends before the status line, because some servers write an extra one after a body
      // (RFC 9112 section 2.2).
      while (at < end && (bytes[at] === CR || bytes[at] === LF)) at++;
      this.#headBytes += at - from;
      if (at === end && this.#headBytes <= UPSTREAM_HEAD_BYTES) return at;
    }
    const before = section.pending_bytes;
    const behind = section.take(bytes, at, end, UPSTREAM_HEAD_BYTES - this.#headBytes);
    if (behind < 0) {
      this.#headBytes += section.pending_bytes - before;
      checkBeginning(section);
      return end;
    }
    this.#headBytes += behind - at;
    this.#begin(section.bytes, section.start, section.end);
    return behind;
  }

  #begin(bytes: Buffer, start: number, end: number): void {
    const isOldVersion = readVersion(bytes, start) === 0;
    const status = readStatus(bytes, start + STATUS_AT);
    let at = start + STATUS_AT + 3;
    if (bytes[at] === SP) at++;
    else if (bytes[at] !== CR) throw badAnswer('a malformed status line');
    const reasonStart = at;
    while (TEXT[bytes[at]!] === 1) at++;
    if (bytes[at] !== CR || bytes[at + 1] !== LF) throw badAnswer('a malformed reason phrase');
    const head = parseFields(bytes, at + 2, end) as ResponseHead;
    head.status = status;
    head.reason = bytes.toString('latin1', reasonStart, at);
    const keepAlive = readFraming(head);
    if (status < 200) {
      // The gateway does not request a switch of protocols on these connections.
      if (status === 101) throw badAnswer('an unrequested switch of protocols');
      this.#sink.onHead(head);
      return;
    }
    this.#decideBody(head);
    this.isKept &&= isOldVersion
      ? hasToken(head.connection, KEEP_ALIVE) && !hasToken(head.connection, CLOSE) && !head.is_chunked
      : !hasToken(head.connection, CLOSE);
    if (keepAlive !== null) this.kept_ms = readTimeout(keepAlive);
    this.#sink.onHead(head);
  }

  #decideBody(head: ResponseHead): void {
    this.isKept = true;
    if (this.#isHead || head.status === 204 || head.status === 304) {
      // Some servers send the announced body although this answer must not have one. Do not reuse
      // the connection, so that the body is not read as the next answer.
      this.isKept = !this.#isHead && !head.is_chunked && (head.content_length ?? 0) === 0;
      this.#complete();
    } else if (head.is_chunked) {
      this.#place = 'chunks';
    } else if (head.content_length === null) {
      this.isKept = false;
      this.#place = 'until the end';
    } else if (head.content_length === 0) {
      this.#complete();
    } else {
      this.#left = head.content_length;
      this.#place = 'length';
    }
  }
}

const CLOSE = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
const KEEP_ALIVE = /(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/i;

function hasToken(connection: string | null, token: RegExp): boolean {
  return connection !== null && token.test(connection);
}

/** Rejects an answer that is not HTTP by its first bytes, because its head may never end. */
function checkBeginning(section: SectionReader): void {
  const bytes = Math.min(section.pending_bytes, VERSION.length);
  for (let at = 0; at < bytes; at++) {
    if (section.pendingByte(at) !== VERSION[at]) throw badAnswer('not an HTTP/1.1 answer');
  }
}

/** Reads the minor version, 0 or 1. @throws UpstreamError for another version */
function readVersion(bytes: Buffer, start: number): number {
  for (let at = 0; at < VERSION.length; at++) {
    if (bytes[start + at] !== VERSION[at]) throw badAnswer('not an HTTP/1.1 answer');
  }
  const minor = bytes[start + VERSION.length]! - ZERO;
  if ((minor !== 0 && minor !== 1) || bytes[start + VERSION.length + 1] !== SP) {
    throw badAnswer('not an HTTP/1.1 answer');
  }
  return minor;
}

function readStatus(bytes: Buffer, at: number): number {
  let status = 0;
  for (let place = 0; place < 3; place++) {
    const digit = bytes[at + place]! - ZERO;
    if (!(digit >= 0 && digit <= 9)) throw badAnswer('a malformed status');
    status = status * 10 + digit;
  }
  if (status < 100) throw badAnswer('a status below 100');
  return status;
}

/**
 * Reads how the body is delimited. The gateway rejects ambiguous framing: two lengths, two transfer codings, or a
 * length together with a transfer coding. It also rejects a transfer coding other than chunked, because it requests
 * none (RFC 9112 section 7.4).
 * @returns the value of Keep-Alive, or null
 */
function readFraming(head: ResponseHead): string | null {
  head.content_length = null;
  head.is_chunked = false;
  head.connection = null;
  let keepAlive: string | null = null;
  const { names, headers } = head;
  for (let at = 0; at < names.length; at++) {
    const name = names[at]!;
    // The four relevant names have 10, 14 or 17 characters.
    if (name.length !== 10 && name.length !== 14 && name.length !== 17) continue;
    const value = headers[2 * at + 1]!;
    if (name === 'content-length') {
      if (head.content_length !== null) throw badAnswer('a repeated Content-Length');
      if (!/^\d{1,15}$/.test(value)) throw badAnswer('a malformed Content-Length');
      head.content_length = Number(value);
    } else if (name === 'transfer-encoding') {
      if (head.is_chunked) throw badAnswer('a repeated Transfer-Encoding');
      if (value.toLowerCase() !== 'chunked')
        throw badAnswer('a Transfer-Encoding that is not exactly chunked');
      head.is_chunked = true;
    } else if (name === 'connection') {
      head.connection = head.connection === null ? value : `${head.connection},${value}`;
    } else if (name === 'keep-alive') {
      keepAlive = keepAlive === null ? value : `${keepAlive},${value}`;
    }
  }
  if (head.is_chunked && head.content_length !== null) {
    throw badAnswer('both Content-Length and Transfer-Encoding');
  }
  return keepAlive;
}

/** Reads the timeout of Keep-Alive. @returns milliseconds, or null when no timeout is stated */
function readTimeout(keepAlive: string): number | null {
  const found = /(?:^|,)[\t ]*timeout=(\d{1,9})/i.exec(keepAlive);
  return found === null ? null : Number(found[1]) * 1000;
}

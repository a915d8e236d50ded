/**
 * One request and its reply on an HTTP/1.1 connection (a stream, in the words of RFC 9113). It owns the native
 * request and response handles, which never leave this folder, and gives the rest of the house a request head, body
 * chunks that outlive their callback, and a reply that goes out with one system call a tick, byte for byte.
 * Server threads.
 *
 * uWebSockets.js writes `Date` and the framing header itself, behind the others. Everything else of the head is
 * written as one block: `writeHeader` copies its arguments to the wire as they are, so a value that holds further
 * lines is the cheapest way to write many, and the way to write what the library has no call for (an informational
 * answer, trailers). What stands in such a block was parsed as header lines before and holds no stray line end.
 */

import type { HttpResponse } from 'uWebSockets.js';
import { SWITCHED_BYTES } from '../../native/socket-engine.ts';
import { BodyPieces } from './body-pieces.ts';
import type { BodyFraming } from './framing-guard.ts';
import { STATUS_CODES } from './status-codes.ts';

/** The request line and headers, as sent. Strings hold one byte a character (latin1). */
export interface RequestHead {
  method: string;
  /** Raw path, never decoded. */
  path: string;
  /** Raw, without `?`; null when the target has none (`/a` against `/a?`). */
  query: string | null;
  /** Flat [name, value, …] in wire order, duplicates kept; names in lower case. */
  headers: string[];
  framing: BodyFraming;
  /** With `length` framing. */
  content_length: number;
}

/** How the reply's body is delimited. `bodyless`: HEAD, 204, 304; `bytes` is what Content-Length says, if it does. */
export type ReplyFraming =
  | { kind: 'length'; bytes: number }
  | { kind: 'chunked' }
  | { kind: 'bodyless'; bytes: number | null; chunked: boolean };

/** What a stream tells its owner. All optional; none is called after `onClosed`. */
export interface StreamEvents {
  /** More of the request body, beyond what `received` held when the stream was handed over. */
  onBody?: (chunk: Buffer, isLast: boolean) => void;
  /** The reply does not flow: stop producing. */
  onBlocked?: () => void;
  /** It flows again. */
  onDrained?: () => void;
  /** The reply is handed to the system, or the client went away before (`aborted`). Called once. */
  onClosed?: (aborted: boolean) => void;
}

const NOT_ASCII = /[^\0-\x7f]/;
/**
 * What the library gathers while it is corked. It sends it when more comes than fits, and where the system does not take all
 * of it, what did not fit is lost.
 */
const CORK_BYTES = 16 * 1024;
/** A chunk's length with its line ends, and the end of all chunks. */
const CHUNK_FRAME_BYTES = 16;
/** What the library writes of a head by itself: `HTTP/1.1`, the date, the framing. */
const OWN_LINES_BYTES = 256;
/** Chunks that are longer are split. */
const CHUNK_BYTES_MAX = CORK_BYTES - 2 * CHUNK_FRAME_BYTES;
/** How the native library writes an IPv4 address on a socket for both versions. */
const MAPPED_IPV4 = '0000:0000:0000:0000:0000:ffff:';

function readMappedIpv4(text: string): string {
  const bytes = Buffer.from(text.slice(MAPPED_IPV4.length).replace(':', ''), 'hex');
  return bytes.join('.');
}

export class HttpStream {
  readonly head: RequestHead;
  /** Where the chunks' bytes are; the owner may release them when it is done with all. */
  readonly pieces = new BodyPieces();
  /** Set by an owner that has a place of its own for the bytes: makes a chunk that outlives the native callback. */
  keepPiece: ((bytes: ArrayBuffer) => Buffer) | null = null;
  /** The whole body has arrived. */
  bodyComplete: boolean;
  events: StreamEvents = {};
  /** The client is gone or the reply is done: writes do nothing. */
  closed = false;
  /** The head of the reply is staged or sent. */
  replied = false;
  isBodyPaused = false;
  /** Bytes of the body that have come. */
  bodyBytes = 0;
  /** Since when its pace is looked at, and what had come by then; 0: not yet. */
  paceFrom = 0;
  paceFromBytes = 0;
  /** Index in the listener's list of open streams; -1 when it is in none. */
  place = -1;
  /** The listener waits for its first body bytes before it hands it over. */
  isAwaited = false;
  /** The client asks for another protocol, and everything behind the head is of that: the connection ends with the stream. */
  is_switch = false;
  /** The owner calls `flush` or `end` whenever it has written, in the same call of the loop: nothing leaves by itself. */
  isFlushedByOwner = false;

  readonly #res: HttpResponse;
  readonly #onGone: (stream: HttpStream) => void;
  #status = '';
  #headLines = '';
  #framing: ReplyFraming = { kind: 'chunked' };
  #headSent = false;
  /** An informational answer took the native status line; later ones travel as header lines. */
  #statusSent = false;
  #staged: Buffer[] = [];
  /** What is staged waits for the client, in copies of our own. */
  #isStagedKept = false;
  #written = 0;
  #isFlushScheduled = false;
  /** What is staged does not fit into one cork: there is more to flush. */
  #isFlushCut = false;
  #isBlocked = false;
  /** The library calls back when the client has taken what waited. */
  #hearsDrains = false;
  #isEnded = false;
  /** All of the reply is the library's. */
  #isComplete = false;
  #trailers: string | null = null;
  #closesConnection = false;
  #address: string | null = null;
  #received: Buffer[] = [];
  /** Came with the native callback that is under way, and is still the library's. */
  #arriving: ArrayBuffer | null = null;

  /**
   * @param res the native response; the stream registers its abort and drain handlers
   * @param onGone told once, when the stream is over in either way (before `onClosed`)
   */
  constructor(res: HttpResponse, head: RequestHead, onGone: (stream: HttpStream) => void) {
    this.#res = res;
    this.head = head;
    this.#onGone = onGone;
    this.bodyComplete = head.framing === 'none';
    res.onAborted(() => this.#close(true));
  }

  /** The listener says so before it hands the stream over: the body has no end. */
  beginSwitch(): void {
    this.is_switch = true;
    this.bodyComplete = false;
    this.keepPiece = (bytes) => Buffer.from(new Uint8Array(bytes));
  }

  /**
   * Agrees to the other protocol: what is written from now on goes out as it is, and `destroy` ends it.
   * @param headerLines `name: value\r\n` each
   */
  writeSwitch(headerLines: string): void {
    this.writeHead('101 Switching Protocols', headerLines, { kind: 'length', bytes: SWITCHED_BYTES });
  }

  /** Body chunks that arrived before the stream was handed over; the owner takes them. */
  get received(): Buffer[] {
    this.keepArriving();
    return this.#received;
  }

  set received(chunks: Buffer[]) {
    this.#arriving = null;
    this.#received = chunks;
  }

  /** The other end of the connection, as an IP address; '' when it is first asked for once the stream is closed. */
  get address(): string {
    if (this.#address !== null) return this.#address;
    if (this.closed) return '';
    const text = Buffer.from(this.#res.getRemoteAddressAsText()).toString('latin1');
    this.#address = text.startsWith(MAPPED_IPV4) ? readMappedIpv4(text) : text;
    return this.#address;
  }

  /** Stops reading the request body: back-pressure to the client. Not once the reply is complete: nobody would resume. */
  pauseBody(): void {
    if (this.closed || this.isBodyPaused || this.#isEnded) return;
    this.isBodyPaused = true;
    this.#res.pause();
  }

  resumeBody(): void {
    if (this.closed || !this.isBodyPaused) return;
    this.isBodyPaused = false;
    this.#resume();
  }

  /**
   * Puts off the parser's own 10-second limit on silent connections: an upload or a reader may be slow for as long as
   * it likes. (`resume` re-arms the timer as a side effect; a paused stream has none.)
   */
  keepAlive(): void {
    if (!this.closed && !this.isBodyPaused) this.#resume();
  }

  /**
   * Always paused first: the library's `resume` on a socket that is not paused leaves it deaf for good, and a write that the
   * system does not take ends a pause.
   */
  #resume(): void {
    this.#res.pause();
    this.#res.resume();
  }

  /**
   * Sends an informational answer (1xx) at once.
   * @param status code and reason, `103 Early Hints`
   * @param headers flat pairs
   */
  writeInformational(status: string, headers: string[]): void {
    if (this.closed || this.replied) return;
    const lines = joinLines(headers);
    this.#res.cork(() => {
      if (!this.#statusSent) {
        this.#statusSent = true;
        this.#res.writeStatus(toWire(`${status}\r\n${lines}`));
      } else {
        // What goes out raw holds a header; this one says what is so anyway.
        this.#writeRaw(`HTTP/1.1 ${status}\r\n${lines === '' ? 'Connection: keep-alive\r\n' : lines}`);
      }
    });
  }

  /**
   * Stages the reply's head; it leaves at the end of this tick together with what was written by then.
   * A chunked reply's head leaves with its first body byte: the native library has no call to send it earlier.
   * @param status code and reason, `200 OK`
   * @param headerLines `name: value\r\n` each, without Date, Content-Length and Transfer-Encoding
   */
  writeHead(status: string, headerLines: string, framing: ReplyFraming): void {
    if (this.closed || this.replied) return;
    this.replied = true;
    this.#status = status;
    this.#headLines = headerLines;
    this.#framing = framing;
    this.#scheduleFlush();
  }

  /**
   * Stages body bytes; `events.onBlocked` says when to stop for a while. The chunk must not change until this tick ends,
   * or until `flush` or `end` returns.
   */
  write(chunk: Buffer): void {
    if (this.closed || this.#isEnded || chunk.length === 0) return;
    if (this.#isBlocked) {
      this.#staged.push(Buffer.from(chunk));
      return;
    }
    this.#staged.push(chunk);
    this.#scheduleFlush();
  }

  /** Sends what is staged now instead of at the end of this tick. */
  flush(): void {
    if (this.#isFlushScheduled) this.#flush();
  }

  /**
   * The reply is complete.
   * @param trailers flat pairs; they cost the connection, which is closed behind them
   */
  end(trailers: string[] | null = null): void {
    if (this.closed || this.#isEnded) return;
    this.#isEnded = true;
    // Whatever the client still sends has to leave the connection before the next request can come.
    this.resumeBody();
    if (trailers !== null && trailers.length > 0 && this.#framing.kind === 'chunked') {
      this.#trailers = joinLines(trailers);
    }
    if (!this.#isBlocked) this.#flush();
  }

  /**
   * A whole reply at once.
   * @param closeConnection also refuses whatever else the client pipelined
   * @param aborted what the owner is told: the request has not come to its end, and never will
   */
  reply(
    status: number,
    headerLines: string,
    body: string | Buffer,
    closeConnection = false,
    aborted = false,
  ): void {
    if (this.closed || this.replied) return;
    this.replied = true;
    this.#isEnded = true;
    this.resumeBody();
    const closesConnection = closeConnection || this.is_switch;
    const isHead = this.head.method === 'HEAD';
    const length = Buffer.byteLength(body);
    // A length told through `endWithoutBody` is one that the library waits for, with the connection open, too.
    let lines = isHead ? `${headerLines}Content-Length: ${length}\r\n` : headerLines;
    const isCut = isHead && closesConnection;
    if (isCut) lines += 'Connection: close\r\n\r\n';
    this.#res.cork(() => {
      this.#writeHeadLines(`${status} ${STATUS_CODES[status] ?? ''}`, lines);
      if (!isHead) this.#res.end(body, closesConnection);
      else if (!isCut) this.#res.endWithoutBody();
    });
    if (!isCut) {
      this.#close(aborted);
      return;
    }
    // What is written within the library's own callbacks leaves behind them.
    setImmediate(() => {
      if (this.closed) return;
      this.#close(aborted);
      this.#res.close();
    });
  }

  /**
   * Ends the connection without ending the reply: the client sees that the body is cut, and as much of it as was
   * written, unless it does not take that.
   */
  destroy(): void {
    if (!this.#isBlocked) this.#flush();
    if (this.closed) return;
    this.#res.close();
    this.#close(true);
  }

  #scheduleFlush(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    if (this.isFlushedByOwner) return;
    queueMicrotask(() => {
      if (this.#isFlushScheduled) this.#flush();
    });
  }

  #flush(): void {
    this.#isFlushScheduled = false;
    if (this.closed || !this.replied) return;
    do this.#res.cork(this.#flushCorked);
    while (this.#isFlushCut && !this.closed);
    // Not before the cork has let the bytes go: the owner may have much to do at the end, and the client waits for them.
    if (this.#isComplete) this.#close(false);
    // A connection that goes down with its reply can only be closed once the cork has let the bytes go.
    if (this.#closesConnection && !this.closed) {
      // Before the socket goes: closing it calls onAborted at once, and a whole reply would count as an aborted one.
      this.#close(false);
      this.#res.close();
    }
  }

  readonly #flushCorked = (): void => {
    if (this.#framing.kind === 'length') this.#flushLength(this.#framing.bytes);
    else if (this.#framing.kind === 'chunked') this.#flushChunked();
    else this.#flushBodyless(this.#framing);
  };

  #flushLength(total: number): void {
    this.#sendHead();
    if (total === 0) {
      this.#res.tryEnd('', 0);
      this.#isComplete = true;
      return;
    }
    // The first call writes the head's end, also when there is no byte of the body yet.
    if (this.#staged.length === 0 && this.#written === 0) this.#res.tryEnd('', total);
    while (this.#staged.length > 0) {
      const chunk = this.#staged[0]!;
      const [, isDone] = this.#res.tryEnd(chunk, total);
      if (isDone) {
        this.#staged = [];
        this.#isComplete = true;
        return;
      }
      const taken = this.#res.getWriteOffset() - this.#written;
      this.#written += taken;
      if (taken < chunk.length) {
        this.#staged[0] = chunk.subarray(taken);
        this.#keepStaged();
        this.#hearDrains();
        this.#block();
        return;
      }
      this.#staged.shift();
    }
    this.#isStagedKept = false;
    this.#hearDrains();
  }

  #flushChunked(): void {
    this.#isFlushCut = false;
    if (this.#staged.length > 0) {
      let room = CORK_BYTES - CHUNK_FRAME_BYTES;
      if (!this.#headSent) room -= this.#status.length + this.#headLines.length + OWN_LINES_BYTES;
      this.#sendHead();
      this.#hearDrains();
      if (!this.#writeChunks(room)) this.#block();
      this.#isFlushCut = this.#staged.length > 0 || (this.#trailers !== null && !this.#isBlocked);
      if (this.#isFlushCut || this.#trailers !== null) return;
    }
    if (!this.#isEnded) return;
    if (this.#written === 0) {
      // No chunk at all: the library would answer with Content-Length: 0. It writes the date with a body alone.
      this.#headLines += `Connection: close\r\nDate: ${new Date().toUTCString()}\r\n`;
      this.#sendHead();
      this.#writeRaw(`Transfer-Encoding: chunked\r\n\r\n0\r\n${this.#trailers ?? ''}`);
      this.#closesConnection = true;
    } else if (this.#trailers !== null) {
      this.#writeRaw(`\r\n0\r\n${this.#trailers}`);
      this.#closesConnection = true;
    } else {
      this.#res.end();
      this.#isComplete = true;
    }
  }

  /**
   * Writes what of the staged fits, and leaves the rest.
   * @returns false when it does not flow
   */
  #writeChunks(bytes: number): boolean {
    const staged = this.#staged;
    let room = bytes;
    let flows = true;
    let at = 0;
    while (at < staged.length) {
      const chunk = staged[at]!;
      const most = room - CHUNK_FRAME_BYTES;
      let piece = chunk;
      if (chunk.length > most) {
        if (chunk.length <= CHUNK_BYTES_MAX || most <= 0) break;
        piece = chunk.subarray(0, most);
        staged[at] = chunk.subarray(most);
      } else {
        at++;
      }
      flows = this.#res.write(piece);
      this.#written++;
      room -= piece.length + CHUNK_FRAME_BYTES;
    }
    staged.splice(0, at);
    return flows;
  }

  #flushBodyless(framing: { bytes: number | null; chunked: boolean }): void {
    // The length goes among the headers: told through `endWithoutBody`, the library would wait for that many bytes.
    if (framing.chunked) this.#headLines += 'Transfer-Encoding: chunked\r\n';
    else if (framing.bytes !== null) this.#headLines += `Content-Length: ${framing.bytes}\r\n`;
    this.#sendHead();
    this.#res.endWithoutBody();
    this.#isComplete = true;
  }

  #sendHead(): void {
    if (this.#headSent) return;
    this.#headSent = true;
    this.#writeHeadLines(this.#status, this.#headLines);
  }

  /** From now on the library tells when the client takes more. Not asked of it for a reply that leaves whole at once. */
  #hearDrains(): void {
    if (this.#hearsDrains) return;
    this.#hearsDrains = true;
    this.#res.onWritable(() => {
      this.#isBlocked = false;
      this.#flush();
      if (!this.#isBlocked && !this.closed) this.events.onDrained?.();
      return true;
    });
  }

  #writeHeadLines(status: string, headerLines: string): void {
    if (!this.#statusSent) {
      this.#statusSent = true;
      // What the library writes by itself, in front of the first header.
      if (status !== '200 OK') this.#res.writeStatus(toWire(status));
      if (headerLines !== '') this.#writeRaw(headerLines.slice(0, -2));
    } else {
      this.#writeRaw(
        `HTTP/1.1 ${status}\r\n${headerLines === '' ? 'Connection: keep-alive' : headerLines.slice(0, -2)}`,
      );
    }
  }

  /** Puts text on the wire followed by a line end. It must hold `: ` somewhere: the library writes name and value. */
  #writeRaw(text: string): void {
    const colon = text.indexOf(': ');
    this.#res.writeHeader(toWire(text.slice(0, colon)), toWire(text.slice(colon + 2)));
  }

  /** What has to wait for the client outlives the memory that it came in. */
  #keepStaged(): void {
    if (this.#isStagedKept) return;
    this.#isStagedKept = true;
    const staged = this.#staged;
    for (let at = 0; at < staged.length; at++) staged[at] = Buffer.from(staged[at]!);
  }

  #block(): void {
    if (this.#isBlocked) return;
    this.#isBlocked = true;
    this.events.onBlocked?.();
  }

  /**
   * Native side of the stream: more body, in memory that is the library's. Before its callback ends `keepArriving` is to be
   * called: until then an owner that the stream is handed to may say where the bytes are to go.
   */
  takeBody(bytes: ArrayBuffer, isLast: boolean): void {
    if (isLast) this.bodyComplete = true;
    this.bodyBytes += bytes.byteLength;
    // The rest of a request that was answered before all of it was there: its owner is done with it, and with its memory.
    if (this.closed) return;
    if (this.events.onBody !== undefined) this.events.onBody(this.#keep(bytes), isLast);
    else if (bytes.byteLength > 0) this.#arriving = bytes;
  }

  /** The library takes its bytes back: what nobody has asked for by now is kept. */
  keepArriving(): void {
    const bytes = this.#arriving;
    if (bytes === null) return;
    this.#arriving = null;
    this.#received.push(this.#keep(bytes));
  }

  #keep(bytes: ArrayBuffer): Buffer {
    return this.keepPiece === null ? this.pieces.keep(bytes) : this.keepPiece(bytes);
  }

  #close(aborted: boolean): void {
    if (this.closed) return;
    this.closed = true;
    this.#staged = [];
    this.#onGone(this);
    this.events.onClosed?.(aborted);
  }
}

/** Flat pairs → header lines. */
export function joinLines(headers: readonly string[]): string {
  let lines = '';
  for (let at = 0; at < headers.length; at += 2) lines += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return lines;
}

/** One byte a character: the native library would write a string as UTF-8. */
function toWire(text: string): string | Buffer {
  return NOT_ASCII.test(text) ? Buffer.from(text, 'latin1') : text;
}

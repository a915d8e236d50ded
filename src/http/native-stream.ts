/**
 * A stream on uWebSockets.js. It owns the native response handle, and sends the data of a tick
 * together. Server threads. uWebSockets.js writes `Date` and the framing
 * header itself, after the others. The rest of the head is written as one block: `writeHeader`
 * copies its arguments to the wire unchanged, so a value that contains further lines is the
 * cheapest way to write many headers. It is also the only way to write informational answers and
 * trailers, for which the library has no call. The lines of such a block were parsed as header
 * lines before, so their values contain no line ends.
 */

import type { HttpResponse } from 'uWebSockets.js';
import { SWITCHED_BYTES } from '../../native/socket-engine.ts';
import { HttpStream, joinLines, type ReplyFraming, type RequestHead } from './http-stream.ts';
import { STATUS_CODES } from './status-codes.ts';

const NOT_ASCII = /[^\0-\x7f]/;
/**
 * Size of the library's cork buffer. The library sends it when more data arrives than fits. If the system then does
 * not accept everything, the part that did not fit is lost.
 */
const CORK_BYTES = 16 * 1024;
/** Space for a chunk's length with its line ends, and for the last chunk. */
const CHUNK_FRAME_BYTES = 16;
/** Space for the parts of a head that the library writes itself: `HTTP/1.1`, the date, the framing. */
const OWN_LINES_BYTES = 256;
/** Longer chunks are split. */
const CHUNK_BYTES_MAX = CORK_BYTES - 2 * CHUNK_FRAME_BYTES;
/**
 * On a socket for both IP versions, the native library writes this prefix before an IPv4 address.
 */
const MAPPED_IPV4 = '0000:0000:0000:0000:0000:ffff:';

function readMappedIpv4(text: string): string {
  const bytes = Buffer.from(text.slice(MAPPED_IPV4.length).replace(':', ''), 'hex');
  return bytes.join('.');
}

export class NativeStream extends HttpStream {
  readonly #res: HttpResponse;
  #status = '';
  #headLines = '';
  #framing: ReplyFraming = { kind: 'chunked' };
  #headSent = false;
  /**
   * True after an informational answer, which used the native status line. Later status lines are
   * written as header lines.
   */
  #statusSent = false;
  #staged: Buffer[] = [];
  /** Whether the staged data was copied, because it waits for the client. */
  #isStagedKept = false;
  #written = 0;
  #isFlushScheduled = false;
  /** Whether staged data exceeds one cork, so that another flush is needed. */
  #isFlushCut = false;
  #isBlocked = false;
  /** The library will call back when the client has accepted the waiting data. */
  #hearsDrains = false;
  /** The whole reply has been given to the library. */
  #isComplete = false;
  #trailers: string | null = null;
  #closesConnection = false;

  /**
   * @param res the native response; the stream registers its abort and drain handlers
   * @param onGone called once, when the stream has ended for any reason (before `onClosed`)
   */
  constructor(res: HttpResponse, head: RequestHead, onGone: (stream: HttpStream) => void) {
    super(head, onGone);
    this.#res = res;
    res.onAborted(() => this.close(true));
  }

  writeSwitch(headerLines: string): void {
    this.writeHead('101 Switching Protocols', headerLines, { kind: 'length', bytes: SWITCHED_BYTES });
  }

  protected readAddress(): string {
    const text = Buffer.from(this.#res.getRemoteAddressAsText()).toString('latin1');
    return text.startsWith(MAPPED_IPV4) ? readMappedIpv4(text) : text;
  }

  protected holdBody(): void {
    this.#res.pause();
  }

  /**
   * Restarts the parser's 10-second timeout of silent connections, because an upload or a reader
   * may be slow. `resume` restarts it as a side effect; a paused stream has no timeout.
   */
  keepAlive(): void {
    if (!this.closed && !this.isBodyPaused) this.releaseBody();
  }

  /**
   * Resumes reading, and always pauses first. The library's `resume` permanently stops reading a socket that
   * is not paused. The socket may not be paused, because a write that the system does not accept ends a
   * pause.
   */
  protected releaseBody(): void {
    this.#res.pause();
    this.#res.resume();
  }

  writeInformational(status: string, headers: string[]): void {
    if (this.closed || this.replied) return;
    const lines = joinLines(headers);
    this.#res.cork(() => {
      if (!this.#statusSent) {
        this.#statusSent = true;
        this.#res.writeStatus(toWire(`${status}\r\n${lines}`));
      } else {
        // The library writes its status line with the first header, so one header must precede the
        // raw lines. This header has no effect.
        this.#writeRaw(`HTTP/1.1 ${status}\r\n${lines === '' ? 'Connection: keep-alive\r\n' : lines}`);
      }
    });
  }

  /**
   * Stages the head. The head of a chunked reply is sent with the first body byte, because the
   * native library cannot send it earlier.
   */
  writeHead(status: string, headerLines: string, framing: ReplyFraming): void {
    if (this.closed || this.replied) return;
    this.replied = true;
    this.#status = status;
    this.#headLines = headerLines;
    this.#framing = framing;
    this.#scheduleFlush();
  }

  write(chunk: Buffer): void {
    if (this.closed || this.isEnded || chunk.length === 0) return;
    if (this.#isBlocked) {
      this.#staged.push(Buffer.from(chunk));
      return;
    }
    this.#staged.push(chunk);
    this.#scheduleFlush();
  }

  flush(): void {
    if (this.#isFlushScheduled) this.#flush();
  }

  /** Completes the reply. After trailers, the connection is closed. */
  end(trailers: string[] | null = null): void {
    if (this.closed || this.isEnded) return;
    this.isEnded = true;
    // Resume reading the body, because the next request follows it.
    this.resumeBody();
    if (trailers !== null && trailers.length > 0 && this.#framing.kind === 'chunked') {
      this.#trailers = joinLines(trailers);
    }
    if (!this.#isBlocked) this.#flush();
  }

  reply(
    status: number,
    headerLines: string,
    body: string | Buffer,
    closeConnection = false,
    aborted = false,
  ): void {
    if (this.closed || this.replied) return;
    this.replied = true;
    this.isEnded = true;
    this.resumeBody();
    const closesConnection = closeConnection || this.is_switch;
    const isHead = this.head.method === 'HEAD';
    const length = Buffer.byteLength(body);
    // Write the length as a header line: with `endWithoutBody(length)`, the library would wait for
    // a body of this length.
    let lines = isHead ? `${headerLines}Content-Length: ${length}\r\n` : headerLines;
    const isCut = isHead && closesConnection;
    if (isCut) lines += 'Connection: close\r\n\r\n';
    this.#res.cork(() => {
      this.#writeHeadLines(`${status} ${STATUS_CODES[status] ?? ''}`, lines);
      if (!isHead) this.#res.end(body, closesConnection);
      else if (!isCut) this.#res.endWithoutBody();
    });
    if (!isCut) {
      this.close(aborted);
      return;
    }
    // Data that is written within a callback of the library is sent only after the callback.
    setImmediate(() => {
      if (this.closed) return;
      this.close(aborted);
      this.#res.close();
    });
  }

  destroy(): void {
    if (!this.#isBlocked) this.#flush();
    if (this.closed) return;
    this.#res.close();
    this.close(true);
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
    // Close only after the cork has sent the bytes, so that the client does not wait while the
    // owner works in `onClosed`.
    if (this.#isComplete) this.close(false);
    // A connection that ends with its reply can be closed only after the cork has sent the bytes.
    if (this.#closesConnection && !this.closed) {
      // Close the stream before the socket: closing the socket calls onAborted at once, which would
      // count the complete reply as aborted.
      this.close(false);
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
    // The first call writes the end of the head, even before the first byte of the body.
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
    if (!this.isEnded) return;
    if (this.#written === 0) {
      // An empty chunk must not be written: the library would answer with Content-Length: 0. It writes the date only
      // with a body.
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
   * Writes as much of the staged data as fits.
   * @returns false if the client does not accept it
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
    // Writes the length as a header line. If `endWithoutBody` got the length, the library would wait for a
    // body of that length.
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

  /**
   * Registers the library's callback for the time when the client accepts more data. A reply that
   * is sent at once does not need it.
   */
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
      // The library writes `200 OK` itself before the first header.
      if (status !== '200 OK') this.#res.writeStatus(toWire(status));
      if (headerLines !== '') this.#writeRaw(headerLines.slice(0, -2));
    } else {
      this.#writeRaw(
        `HTTP/1.1 ${status}\r\n${headerLines === '' ? 'Connection: keep-alive' : headerLines.slice(0, -2)}`,
      );
    }
  }

  /** Writes a line, with its line end. The text must contain `: `, because the library writes a name and a value. */
  #writeRaw(text: string): void {
    const colon = text.indexOf(': ');
    this.#res.writeHeader(toWire(text.slice(0, colon)), toWire(text.slice(colon + 2)));
  }

  /** Copies staged data that must wait for the client, because its memory is reused. */
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

  protected override close(aborted: boolean): void {
    if (this.closed) return;
    this.#staged = [];
    super.close(aborted);
  }
}

/** Converts a text to one byte per character, because the native library would write a string as UTF-8. */
function toWire(text: string): string | Buffer {
  return NOT_ASCII.test(text) ? Buffer.from(text, 'latin1') : text;
}

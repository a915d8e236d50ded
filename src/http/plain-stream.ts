/**
 * A stream on node:http. Server threads. Unlike on uWebSockets.js, each written chunk is copied: the owner
 * reuses the chunk's memory after `flush`, but Node may keep the chunk until the system has accepted it.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { HttpStream, joinLines, type ReplyFraming, type RequestHead } from './http-stream.ts';
import { STATUS_CODES } from './status-codes.ts';

const MAPPED_IPV4 = /^::ffff:(?=\d+\.)/i;

/** The listener's objects for a request. */
export interface PlainHandles {
  request: IncomingMessage;
  /** The response, which has the request's socket. */
  response: ServerResponse;
  socket: Socket;
}

export class PlainStream extends HttpStream {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly socket: Socket;
  #framing: ReplyFraming = { kind: 'chunked' };
  /** Whether the protocol was switched, so that bytes pass unchanged. */
  #isSwitched = false;
  #isBlocked = false;
  #isFlushScheduled = false;
  /** The argument with which `onClosed` is called once the reply has been passed to the system. */
  #isAborted = false;

  /**
   * @param onGone called once, when the stream has ended for any reason (before `onClosed`)
   */
  constructor(
    { request, response, socket }: PlainHandles,
    head: RequestHead,
    onGone: (stream: HttpStream) => void,
  ) {
    super(head, onGone);
    this.#request = request;
    this.#response = response;
    this.socket = socket;
    response.on('finish', () => this.close(this.#isAborted));
    response.on('close', () => this.close(true));
    response.on('drain', this.#onDrain);
    request.on('error', () => {});
  }

  protected readAddress(): string {
    return (this.socket.remoteAddress ?? '').replace(MAPPED_IPV4, '');
  }

  protected holdBody(): void {
    if (this.is_switch) this.socket.pause();
    else this.#request.pause();
  }

  protected releaseBody(): void {
    if (this.is_switch) this.socket.resume();
    else this.#request.resume();
  }

  /**
   * Does nothing, because Node's server has no timeout for a connection whose request it has read.
   */
  keepAlive(): void {}

  writeSwitch(headerLines: string): void {
    if (this.closed || this.replied) return;
    this.replied = true;
    this.#isSwitched = true;
    this.socket.on('drain', this.#onDrain);
    this.socket.write(`HTTP/1.1 101 Switching Protocols\r\n${headerLines}${dateLine()}\r\n`, 'latin1');
  }

  writeInformational(status: string, headers: string[]): void {
    if (this.closed || this.replied) return;
    this.socket.write(`HTTP/1.1 ${status}\r\n${joinLines(headers)}\r\n`, 'latin1');
  }

  writeHead(status: string, headerLines: string, framing: ReplyFraming): void {
    if (this.closed || this.replied) return;
    this.replied = true;
    this.#framing = framing;
    this.#putHead(status, headerLines, describeFraming(framing));
    this.#scheduleFlush();
  }

  write(chunk: Buffer): void {
    if (this.closed || this.isEnded || chunk.length === 0) return;
    const copy = Buffer.from(chunk);
    const flows = this.#isSwitched ? this.socket.write(copy) : this.#response.write(copy);
    if (flows || this.#isBlocked) return;
    this.#isBlocked = true;
    this.events.onBlocked?.();
  }

  flush(): void {
    if (this.#isFlushScheduled) this.#flush();
  }

  end(trailers: string[] | null = null): void {
    if (this.closed || this.isEnded) return;
    // Resume reading the body, because the next request follows it.
    this.resumeBody();
    this.isEnded = true;
    if (trailers !== null && this.#framing.kind === 'chunked') this.#response.addTrailers(pairsOf(trailers));
    this.#response.end();
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
    this.resumeBody();
    this.isEnded = true;
    this.#isAborted = aborted;
    const ending = closeConnection || this.is_switch ? 'Connection: close\r\n' : '';
    const length = `Content-Length: ${Buffer.byteLength(body)}\r\n`;
    this.#putHead(`${status} ${STATUS_CODES[status] ?? ''}`, headerLines + ending, length);
    this.#response.end(body);
  }

  destroy(): void {
    if (this.closed) return;
    // Written data is still sent, unless the client does not accept it.
    if (this.#isBlocked) this.socket.destroy();
    else this.socket.destroySoon();
    this.close(true);
  }

  #scheduleFlush(): void {
    this.#isFlushScheduled = true;
    if (!this.isFlushedByOwner) queueMicrotask(() => this.flush());
  }

  /** Sends the head, also before the first byte of a body. */
  #flush(): void {
    this.#isFlushScheduled = false;
    if (this.closed) return;
    const { kind } = this.#framing;
    const hasBody = kind === 'chunked' || (kind === 'length' && this.#framing.bytes > 0);
    if (this.isEnded || !hasBody) this.#response.end();
    else this.#response.flushHeaders();
  }

  /**
   * Writes the head. Node adds no header lines to it: no `Connection`, and no date, which is already among
   * these lines.
   */
  #putHead(status: string, headerLines: string, framingLine: string): void {
    const response = this.#response;
    response.sendDate = false;
    response.removeHeader('connection');
    const gap = status.indexOf(' ');
    const words = gap < 0 ? '' : status.slice(gap + 1);
    response.writeHead(
      Number.parseInt(status, 10),
      words,
      splitLines(headerLines + dateLine() + framingLine),
    );
  }

  readonly #onDrain = (): void => {
    if (!this.#isBlocked) return;
    this.#isBlocked = false;
    if (!this.closed) this.events.onDrained?.();
  };
}

function dateLine(): string {
  return `Date: ${new Date().toUTCString()}\r\n`;
}

function describeFraming(framing: ReplyFraming): string {
  if (framing.kind === 'chunked' || (framing.kind === 'bodyless' && framing.chunked))
    return 'Transfer-Encoding: chunked\r\n';
  return framing.bytes === null ? '' : `Content-Length: ${framing.bytes}\r\n`;
}

/** Converts header lines to flat pairs. */
function splitLines(lines: string): string[] {
  const pairs: string[] = [];
  for (const line of lines.split('\r\n')) {
    if (line === '') continue;
    const colon = line.indexOf(': ');
    pairs.push(line.slice(0, colon), line.slice(colon + 2));
  }
  return pairs;
}

/** Converts flat pairs to a list of pairs. */
function pairsOf(headers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let at = 0; at < headers.length; at += 2) pairs.push([headers[at]!, headers[at + 1]!]);
  return pairs;
}

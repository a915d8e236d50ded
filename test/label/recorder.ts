/**
 * An HTTP/1.1 server that keeps the exact bytes of each request, and answers as the request's query says. For the tests
 * of the labelling shim, which compare these bytes. Test thread.
 */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { TEST_CERTIFICATE, TEST_KEY } from '../fixtures/certificate.ts';

/** A request as it arrived. */
export interface Recorded {
  /** `METHOD /path` as sent, without the query. */
  target: string;
  /** Lines of the head as sent, without the request line. */
  lines: string[];
  /** The body as sent, framing included. */
  body: string;
}

export interface Recorder {
  port: number;
  requests: Recorded[];
  close(): Promise<void>;
}

/** Header lines that are labels. */
export const isLabelLine = (line: string) => /^x-svc-(run|seq):/i.test(line);

/** @returns the value of a header, or null */
export function headerOf(request: Recorded, name: string): string | null {
  const line = request.lines.find((candidate) => candidate.toLowerCase().startsWith(`${name}:`));
  return line === undefined ? null : line.slice(name.length + 1).trim();
}

/** @param options `tls`: use TLS with the test certificate */
export async function startRecorder(options: { tls?: boolean } = {}): Promise<Recorder> {
  const requests: Recorded[] = [];
  const sockets = new Set<Socket>();
  /** Bodies whose first attempt has failed. */
  const failed = new Set<string>();
  const serve = (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
    let bytes = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      bytes += chunk;
      // The first byte of a TLS handshake: this server has no TLS.
      if (bytes.startsWith('\x16')) socket.destroy();
      for (;;) {
        const taken = takeRequest(bytes);
        if (taken === null) {
          if (/^expect: 100-continue\r\n/im.test(bytes) && bytes.endsWith('\r\n\r\n'))
            socket.write('HTTP/1.1 100 Continue\r\n\r\n');
          return;
        }
        bytes = taken.rest;
        requests.push(taken.request);
        answer(socket, taken.url, taken.request, failed);
      }
    });
  };
  const server = options.tls
    ? createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }, serve)
    : createServer(serve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A whole request from the beginning of the received bytes; null if it is incomplete. */
function takeRequest(bytes: string): { request: Recorded; url: URL; rest: string } | null {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return null;
  const [first = '', ...lines] = bytes.slice(0, headEnd).split('\r\n');
  const [method, path] = first.split(' ');
  const request: Recorded = { target: '', lines, body: '' };
  const rest = bytes.slice(headEnd + 4);
  let length = Number(headerOf(request, 'content-length') ?? 0);
  if (headerOf(request, 'transfer-encoding') === 'chunked') {
    const end = rest.startsWith('0\r\n\r\n') ? 0 : rest.indexOf('\r\n0\r\n\r\n') + 2;
    if (end === 1) return null;
    length = end + 5;
  }
  if (rest.length < length) return null;
  const url = new URL(path!, 'http://recorder');
  request.target = `${method} ${path!.split('?')[0]}`;
  request.body = rest.slice(0, length);
  return { request, url, rest: rest.slice(length) };
}

function answer(socket: Socket, url: URL, request: Recorded, failed: Set<string>): void {
  const write = (status: string, body: string, ...lines: string[]) =>
    socket.write(
      [
        `HTTP/1.1 ${status}`,
        ...lines,
        `content-length: ${body.length}`,
        '',
        request.target.startsWith('HEAD ') ? '' : body,
      ].join('\r\n'),
    );
  switch (url.searchParams.get('answer')) {
    case 'error':
      write('500 Internal Server Error', '{"error":"scripted"}');
      break;
    case 'redirect':
      write('307 Temporary Redirect', '', `location: ${url.searchParams.get('to')}`);
      break;
    case 'stream':
      socket.write(
        'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
      );
      for (const word of ['one', 'two', 'three']) socket.write(`${word.length.toString(16)}\r\n${word}\r\n`);
      socket.write('0\r\n\r\n');
      break;
    case 'head-only':
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfive.');
      break;
    case 'reset':
      socket.resetAndDestroy();
      break;
    case 'none':
      break;
    case 'fail-first':
      if (failed.has(request.body)) write('200 OK', request.body);
      else write('503 Service Unavailable', 'again');
      failed.add(request.body);
      break;
    default:
      write('200 OK', '{"ok":true}', 'content-type: application/json');
  }
}

/**
 * The tunnel of a client that supports only HTTP/2: each of its streams becomes an HTTP/1.1 request, because the
 * gateway supports only HTTP/1.1. Bodies pass as they arrive. Names, values and order of headers are kept as far as
 * HTTP/2 can express them. Proxy thread.
 */
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import {
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { HTTP_HEAD_BYTES, UPSTREAM_HEAD_BYTES } from '../limits.ts';

/**
 * Maximum number of concurrent requests on one HTTP/2 connection, and how long a connection without requests is kept.
 */
const PROXY_STREAMS_MAX = 100;
const PROXY_SESSION_IDLE_MS = 60_000;

const { NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR, NGHTTP2_PROTOCOL_ERROR } = constants;
/** Connection-specific headers of HTTP/1.1, which HTTP/2 forbids (RFC 9113, 8.2.2). */
const CONNECTION_OWN = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'http2-settings', 'te'],
]);

/**
 * Serves the client's streams until its connection ends.
 * @param authority host that the client asked for, with the port unless it is the default port
 * @param port the port of the gateway's listener for this host
 * @param onOver called once
 * @returns the session, to be closed when the service stops
 */
export function serveHttp2(
  client: TLSSocket,
  authority: string,
  port: number,
  onOver: () => void,
): ServerHttp2Session {
  const session = performServerHandshake(client, {
    maxSessionMemory: 16,
    settings: {
      maxConcurrentStreams: PROXY_STREAMS_MAX,
      maxHeaderListSize: HTTP_HEAD_BYTES,
      enablePush: false,
    },
  });
  // Requests have keep-alive, because otherwise the gateway would reset an upload that continues after the answer. No
  // idle connection is kept, because the gateway might be closing it when a request is sent.
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 0, maxSockets: PROXY_STREAMS_MAX });
  let open = 0;
  // A connection is idle only without streams: an answer may take minutes.
  session.setTimeout(PROXY_SESSION_IDLE_MS, () => {
    if (open === 0) session.close();
  });
  session.on('error', () => {});
  client.once('end', () => session.destroy());
  session.once('close', () => {
    agent.destroy();
    client.destroySoon();
    onOver();
  });
  session.on('stream', (stream, headers, _flags, rawHeaders) => {
    open++;
    stream.once('close', () => {
      open--;
    });
    stream.on('error', () => {});
    passOn(stream, headers, rawHeaders as unknown as string[], { authority, port, agent });
  });
  return session;
}

function passOn(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
  { authority, port, agent }: { authority: string; port: number; agent: Agent },
): void {
  const method = headers[':method'];
  const path = headers[':path'];
  // A CONNECT within the tunnel has no path; a request without a method is invalid.
  if (method === undefined || path === undefined || method === 'CONNECT') {
    stream.close(NGHTTP2_PROTOCOL_ERROR);
    return;
  }
  const hasBody = !stream.endAfterHeaders;
  let sent: ClientRequest;
  try {
    sent = request({
      host: '127.0.0.1',
      port,
      agent,
      method,
      path,
      headers: toLines(rawHeaders, headers[':authority'] ?? authority, hasBody) as never,
      maxHeaderSize: UPSTREAM_HEAD_BYTES,
      setHost: false,
    });
  } catch {
    stream.close(NGHTTP2_PROTOCOL_ERROR);
    return;
  }
  stream.once('close', () => sent.destroy());
  sent.on('error', () => {
    if (!stream.closed) stream.close(NGHTTP2_INTERNAL_ERROR);
  });
  sent.on('continue', () => inform(stream, 100, []));
  sent.on('information', ({ statusCode, rawHeaders: lines }) => inform(stream, statusCode, lines));
  sent.once('response', (answer) => relay(stream, answer));
  if (hasBody) stream.pipe(sent);
  else sent.end();
}

/**
 * Converts headers for HTTP/1.1, to a flat list of names and values in the order received: `host` first, in place of
 * HTTP/2's pseudo-headers; at the end the joined cookies, and chunked framing for a body of unknown length.
 */
function toLines(rawHeaders: readonly string[], host: string, hasBody: boolean): string[] {
  const lines = ['host', host];
  let isFramed = false;
  // Cookies may come in pieces (RFC 9113, 8.2.3).
  const cookies: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    const value = rawHeaders[at + 1]!;
    if (name.startsWith(':') || name === 'host' || CONNECTION_OWN.has(name)) continue;
    if (name === 'cookie') {
      cookies.push(value);
      continue;
    }
    if (name === 'content-length') isFramed = true;
    lines.push(name, value);
  }
  if (cookies.length > 0) lines.push('cookie', cookies.join('; '));
  if (hasBody && !isFramed) lines.push('transfer-encoding', 'chunked');
  return lines;
}

function inform(stream: ServerHttp2Stream, status: number, lines: readonly string[]): void {
  if (stream.closed || stream.headersSent || status === 101) return;
  stream.additionalHeaders({ ':status': status, ...collect(lines) });
}

function relay(stream: ServerHttp2Stream, answer: IncomingMessage): void {
  if (stream.closed) {
    answer.destroy();
    return;
  }
  try {
    stream.respond(
      { ':status': answer.statusCode!, ...collect(answer.rawHeaders) },
      { waitForTrailers: true },
    );
    stream.once('wantTrailers', () => stream.sendTrailers(collect(answer.rawTrailers)));
  } catch {
    // Headers that HTTP/2 cannot express, such as a duplicate of a single-valued name.
    stream.close(NGHTTP2_INTERNAL_ERROR);
    return;
  }
  answer.on('error', () => stream.close(NGHTTP2_CANCEL));
  answer.once('close', () => {
    // The answer is truncated, so the client must not take it as complete.
    if (!answer.complete) stream.close(NGHTTP2_CANCEL);
  });
  answer.pipe(stream);
}

function collect(lines: readonly string[]): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (let at = 0; at < lines.length; at += 2) {
    const name = lines[at]!.toLowerCase();
    const value = lines[at + 1]!;
    if (CONNECTION_OWN.has(name)) continue;
    const before = headers[name];
    headers[name] =
      before === undefined ? value : [...(Array.isArray(before) ? before : [`${before}`]), value];
  }
  return headers;
}

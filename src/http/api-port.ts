/**
 * Puts the API's dispatch behind the listener: collects a request's body up to the cap, calls the dispatch, sends its
 * answer. Front threads.
 */

import { STATUS_CODES } from 'node:http';
import type { EventStream } from '../contract/handler.ts';
import { CatalogueError, toApiBody } from '../errors.ts';
import { sendEventStream } from './event-stream.ts';
import { type HttpStream, joinLines } from './http-stream.ts';

/** A request as the dispatch takes it (`UnroutedRequest` of `src/api`, in this folder's own words). */
export interface CollectedRequest {
  method: string;
  path: string;
  query: string;
  headers: ReadonlyMap<string, string>;
  body: Uint8Array;
}

export interface DispatchedReply {
  status: number;
  headers: readonly (readonly [name: string, value: string])[];
  body: string | Uint8Array;
  /** Server-sent events instead of the body. */
  stream?: EventStream;
}

export type Dispatch = (request: CollectedRequest) => Promise<DispatchedReply>;

/**
 * @param dispatch never rejects
 * @param maxBodyBytes beyond it the answer is 413 and the rest of the body is not read
 * @returns the listener's handler
 */
export function serveApi(dispatch: Dispatch, maxBodyBytes: number): (stream: HttpStream) => void {
  return (stream) => {
    const chunks = stream.received;
    let bytes = 0;
    for (const chunk of chunks) bytes += chunk.length;
    if (stream.head.content_length > maxBodyBytes || bytes > maxBodyBytes) {
      refuseBody(stream);
      return;
    }
    if (stream.bodyComplete) {
      void answer(stream, dispatch, chunks);
      return;
    }
    stream.events.onBody = (chunk, isLast) => {
      if (stream.closed) return;
      bytes += chunk.length;
      if (bytes > maxBodyBytes) {
        refuseBody(stream);
        return;
      }
      chunks.push(chunk);
      if (isLast) void answer(stream, dispatch, chunks);
    };
  };
}

async function answer(stream: HttpStream, dispatch: Dispatch, chunks: Buffer[]): Promise<void> {
  const { head } = stream;
  const reply = await dispatch({
    method: head.method,
    path: head.path,
    query: head.query ?? '',
    headers: collectHeaders(head.headers),
    body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks),
  });
  const lines = joinLines(reply.headers.flat());
  if (reply.stream !== undefined) {
    sendEventStream(stream, `${reply.status} ${STATUS_CODES[reply.status]}`, lines, reply.stream);
    return;
  }
  const body = typeof reply.body === 'string' ? reply.body : Buffer.from(reply.body);
  stream.reply(reply.status, lines, body);
}

function refuseBody(stream: HttpStream): void {
  const error = new CatalogueError('body_too_large');
  stream.reply(error.status, 'content-type: application/json\r\n', JSON.stringify(toApiBody(error)), true);
}

function collectHeaders(flat: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (let at = 0; at < flat.length; at += 2) {
    const name = flat[at]!;
    const before = headers.get(name);
    headers.set(name, before === undefined ? flat[at + 1]! : `${before}, ${flat[at + 1]!}`);
  }
  return headers;
}

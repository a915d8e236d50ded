/**
 * Forwards a request to a live provider, usually through the gateway, and passes the answer back. A forked run uses
 * this for the part that was not recorded. Command line.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { request } from 'undici';
import { type ForkPlace, writeForkTags } from '../domain/fork-tags.ts';
import { asObject } from '../providers/json-reading.ts';
import { parseExact } from '../std/exact-json.ts';
import type { AskedRequest } from './request-match.ts';

/** The provider of the live part, and how it is called. */
export interface LiveTarget {
  /** Origin, and a prefix for each request's path. */
  base_url: string;
  /** Name of the new run in the gateway. */
  run_id: string;
  /** The captured run that the new run continues, and the turn. The new run has tags with both. */
  fork_of: ForkPlace;
  /** Replaces the model in requests; null keeps the agent's model. */
  model: string | null;
}

const OF_THE_CONNECTION = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Forwards a request, and passes the answer on as it arrives.
 * @returns the status of the answer
 * @throws the connection's error
 */
export async function forwardLive(
  incoming: IncomingMessage,
  asked: AskedRequest,
  response: ServerResponse,
  { base_url, run_id, fork_of, model }: LiveTarget,
): Promise<number> {
  const headers: string[] = [];
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    const name = incoming.rawHeaders[i]!;
    if (!OF_THE_CONNECTION.has(name.toLowerCase())) headers.push(name, incoming.rawHeaders[i + 1]!);
  }
  headers.push('x-svc-run', run_id);
  const tags = writeForkTags(fork_of);
  if (tags !== null) headers.push('x-svc-tags', tags);
  const body = model === null ? asked.body : replaceModel(asked.body, model);
  const path = model === null ? asked.path : asked.path.replace(/(\/models?\/)[^/:?]+/, `$1${model}`);
  const answer = await request(`${base_url.replace(/\/$/, '')}${path}`, {
    method: asked.method as 'POST',
    headers,
    body: body.byteLength === 0 ? null : body,
    // No time limit, because the agent decides how long it waits.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  response.writeHead(answer.statusCode, listHeaders(answer.headers));
  await pipeline(answer.body, response);
  return answer.statusCode;
}

function listHeaders(headers: Record<string, string | string[] | undefined>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (value === undefined || (OF_THE_CONNECTION.has(name) && name !== 'content-length')) return [];
    return [value].flat().flatMap((text) => [name, text]);
  });
}

/** Replaces the model in a body; a body that is not a JSON object with a model stays unchanged. */
function replaceModel(body: Uint8Array, model: string): Uint8Array {
  try {
    const value = asObject(parseExact(Buffer.from(body).toString('utf8')));
    return typeof value.model === 'string' ? Buffer.from(JSON.stringify({ ...value, model })) : body;
  } catch {
    return body;
  }
}

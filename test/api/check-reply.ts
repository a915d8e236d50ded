/** Checks a reply of the API against its endpoint's declaration, for tests of handlers. */
import { expect } from 'vitest';
import { type Endpoint, errorBody } from '../../src/contract/endpoint.ts';
import type { ApiReply } from '../../src/contract/route.ts';
import { violationsBody } from '../../src/contract/violation.ts';

/**
 * Fails if the body does not match the schema of its status, or has a key that the schema does not name. A status from
 * 400 on that is not declared must have the body of an error; any other status must be declared. The body of a status
 * that is declared with a media type is not checked.
 * @returns the parsed JSON, undefined for an empty body; the text if the status is declared with a media type
 */
export function checkReply(endpoint: Endpoint, reply: Pick<ApiReply, 'status' | 'body'>): unknown {
  const { status } = reply;
  const declared = endpoint.replies[status];
  if (declared?.media_type !== undefined) return reply.body.toString();
  const body: unknown = reply.body === '' ? undefined : JSON.parse(reply.body.toString());
  const implied = status === 422 ? violationsBody : status >= 400 ? errorBody : undefined;
  if (declared === undefined && implied === undefined) {
    throw new Error(`${endpoint.id} answered ${status}, which it does not declare`);
  }
  const schema = declared?.schema ?? implied;
  if (schema === undefined) {
    expect(body, `${endpoint.id} ${status} has no body`).toBeUndefined();
  } else {
    expect(schema.parse(body), `${endpoint.id} ${status}`).toEqual(body);
  }
  return body;
}

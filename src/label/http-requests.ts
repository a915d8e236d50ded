/**
 * Labels the requests of node:http and node:https. Each is a `ClientRequest` that writes its head in one method, where
 * the label is added. So every request is labelled, however it was made and whenever its library was loaded. Any
 * thread.
 */

import { Agent, ClientRequest, type OutgoingHttpHeader } from 'node:http';
import type { Socket } from 'node:net';
import { isModelCall } from './labelled-target.ts';
import {
  currentScope,
  giveBack,
  hasLabel,
  type Label,
  RUN_HEADER,
  type Scope,
  SEQ_HEADER,
  state,
  takeLabel,
} from './scope.ts';

/** Source of the head: Node's own store, or the caller's pairs, flat or nested. */
type HeadSource = object | OutgoingHttpHeader[] | null | undefined;

interface HeadWriter {
  /** Node's internal method that renders the head, in every version since 0.x. */
  _storeHeader(firstLine: string, headers: HeadSource): void;
}

/** The scope in which a request was created. The body may be written in another scope. */
const madeIn = new WeakMap<ClientRequest, Scope | null>();

/**
 * Labels the later requests of node:http and node:https. Call it once per thread.
 * @returns false, without any effect, if this version of Node writes heads in another way
 */
export function labelHttp(): boolean {
  const writer = ClientRequest.prototype as unknown as Partial<HeadWriter>;
  const { _storeHeader: storeHeader } = writer;
  if (typeof storeHeader !== 'function') return false;
  define(writer, '_storeHeader', function (this: ClientRequest, firstLine: string, headers: HeadSource) {
    return storeHeader.call(this as unknown as HeadWriter, firstLine, labelHead(this, headers));
  });
  const agent = Agent.prototype as unknown as { addRequest(...args: unknown[]): void };
  const { addRequest } = agent;
  define(agent, 'addRequest', function (this: Agent, ...args: unknown[]) {
    const [request] = args;
    if (request instanceof ClientRequest && isModelCall(request.path)) madeIn.set(request, currentScope());
    return Reflect.apply(addRequest, this, args);
  });
  return true;
}

function define(owner: object, name: string, value: (...args: never[]) => unknown): void {
  Object.defineProperty(owner, name, { value, enumerable: true, writable: true, configurable: true });
}

/**
 * Adds the label to a head, if the request gets one.
 * @returns the head with the label; `headers` itself without a label, and for an object, because the label is then set
 *   on the request. The caller's arrays are not modified
 */
function labelHead(request: ClientRequest, headers: HeadSource): HeadSource {
  const { host, path, protocol } = request;
  if (!isModelCall(path)) return headers;
  const made = madeIn.get(request);
  const scope = made === undefined ? currentScope() : made;
  if (scope === null || !state.hosts.labels(`${protocol}//${bracket(host)}`, path)) return headers;
  const isFlat = Array.isArray(headers) && !isPairs(headers);
  if (isFlat ? hasLabel(headers, 2) : hasLabel(namesOf(headers))) return headers;
  // Node itself rejects a flat list of odd length.
  if (isFlat && headers.length % 2 !== 0) return headers;
  const label = takeLabel(scope);
  const fields: [string, string][] = [
    [RUN_HEADER, scope.run],
    [SEQ_HEADER, String(label.seq)],
  ];
  giveBackUnlessSent(request, label);
  if (Array.isArray(headers)) return [...headers, ...(isFlat ? fields.flat() : fields)];
  if (headers == null) return fields;
  for (const [name, value] of fields) request.setHeader(name, value);
  return headers;
}

/** The host as part of a URL: an IPv6 address gets brackets. */
function bracket(host: string): string {
  return host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
}

function isPairs(headers: readonly unknown[]): boolean {
  return Array.isArray(headers[0]);
}

function namesOf(headers: HeadSource): unknown[] {
  if (headers == null) return [];
  if (!Array.isArray(headers)) return Object.keys(headers);
  return headers.map((pair) => (pair as unknown[])[0]);
}

/** Returns the number of a request that never got a connection, because no byte of it was sent. */
function giveBackUnlessSent(request: ClientRequest, label: Label): void {
  let isSent = false;
  const noteSent = () => {
    isSent = true;
  };
  const noteSocket = (socket: Socket) => {
    const { secureConnecting } = socket as Socket & { secureConnecting?: boolean };
    if (secureConnecting) socket.once('secureConnect', noteSent);
    else if (socket.connecting) socket.once('connect', noteSent);
    else isSent = true;
  };
  if (request.socket) noteSocket(request.socket);
  else request.once('socket', noteSocket);
  request.once('close', () => {
    if (!isSent) giveBack(label);
  });
}

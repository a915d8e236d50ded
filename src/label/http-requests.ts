/**
 * Labels what node:http and node:https send. Each of their requests is a `ClientRequest` that writes its head in one method,
 * and the label is added there. It does not matter how the request was made, or when its library was loaded. Any thread.
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

/** What the head is made of: Node's own store, or pairs that the caller gave, flat or not. */
type HeadSource = object | OutgoingHttpHeader[] | null | undefined;

interface HeadWriter {
  /** Node's: renders the head. There since Node 0.x, and what makes the head in every version. */
  _storeHeader(firstLine: string, headers: HeadSource): void;
}

/** The scope in which a request was made; its body may be written in another. */
const madeIn = new WeakMap<ClientRequest, Scope | null>();

/**
 * To be called once a thread.
 * @returns false when this version of Node writes heads in some other way
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

/** @returns the source with the label in it; the caller's own arrays are left as they are */
function labelHead(request: ClientRequest, headers: HeadSource): HeadSource {
  const { host, path, protocol } = request;
  if (!isModelCall(path)) return headers;
  const made = madeIn.get(request);
  const scope = made === undefined ? currentScope() : made;
  if (scope === null || !state.hosts.labels(`${protocol}//${bracket(host)}`, path)) return headers;
  const isFlat = Array.isArray(headers) && !isPairs(headers);
  if (isFlat ? hasLabel(headers, 2) : hasLabel(namesOf(headers))) return headers;
  // Node refuses such a list in its own words.
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

/** As it stands in an address. */
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

/** A request that gets no connection has sent nothing. */
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

/**
 * Labels what undici sends: the platform's `fetch`, and every copy of the npm package. They announce each request on a
 * diagnostics channel before its head is written, and accept further headers there. Each redirect and each retry is a
 * separate request, with its own host. Any thread.
 */

import { subscribe } from 'node:diagnostics_channel';
import { types } from 'node:util';
import {
  currentScope,
  giveBack,
  hasLabel,
  isUnconnected,
  type Label,
  RUN_HEADER,
  type Scope,
  SEQ_HEADER,
  state,
  takeLabel,
} from './scope.ts';

/** undici's request, as its channels pass it. */
interface UndiciRequest {
  readonly origin: unknown;
  readonly path: string;
  /** Names and values alternating; in version 5, the head as text. */
  readonly headers: readonly unknown[] | string;
  addHeader(name: string, value: string): unknown;
}

interface Dispatcher {
  dispatch(options: unknown, handler: unknown): boolean;
}

/** Where undici up to version 7 and the platform's `fetch` store the default dispatcher. */
const GLOBAL_DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/** Maximum depth of nested handlers: retries, redirects and other interceptors. */
const HANDLER_DEPTH_MAX = 8;

/**
 * The scopes of handlers. A request gets the scope of its handler, even if another scope is current when the request is
 * made. null: no scope.
 */
const handlerScopes = new WeakMap<object, Scope | null>();
/** Labels of requests that are not written yet. */
const unsent = new WeakMap<object, Label>();
/** The symbol under which requests store their handler, by the requests' class; null: none. Each undici has its own. */
const handlerNames = new WeakMap<object, symbol | null>();
const seenDispatchers = new WeakSet<object>();
/**
 * Whether a connection of this thread uses HTTP/2. Up to version 6, undici does not announce the heads that it sends
 * over HTTP/2.
 */
let speaksHttp2 = false;

/** Labels the later requests of undici. Call it once per thread. */
export function labelUndici(): void {
  subscribe('undici:request:create', (message) => {
    try {
      labelRequest((message as { request: UndiciRequest }).request);
    } catch {
      // An invalid request: undici reports the error to the sender.
    }
  });
  subscribe('undici:client:sendHeaders', (message) => {
    unsent.delete((message as { request: object }).request);
  });
  subscribe('undici:request:error', (message) => {
    const { request, error } = message as { request: UndiciRequest; error: unknown };
    const label = unsent.get(request);
    if (label === undefined) return;
    unsent.delete(request);
    if (!speaksHttp2 || isUnconnected(error)) giveBack(label);
  });
  subscribe('undici:client:connected', (message) => {
    const { socket } = message as { socket?: { alpnProtocol?: unknown } };
    if (socket?.alpnProtocol === 'h2') speaksHttp2 = true;
  });
}

/**
 * Wraps the platform's `fetch` to see which dispatchers it receives; their requests are labelled like all others of
 * undici. Call once per thread.
 */
export function watchFetch(): void {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, 'fetch');
  const original = globalThis.fetch;
  if (typeof original !== 'function' || !descriptor?.configurable) return;
  const watched = {
    fetch(this: unknown, ...args: unknown[]): unknown {
      watchDispatchers(args[1]);
      return Reflect.apply(original, this, args);
    },
  }.fetch;
  Object.defineProperty(watched, 'length', { value: original.length, configurable: true });
  const { enumerable = true } = descriptor;
  Object.defineProperty(globalThis, 'fetch', {
    value: watched,
    enumerable,
    writable: true,
    configurable: true,
  });
}

/**
 * Makes the default dispatcher, and the dispatcher of one `fetch`, record the scopes of their requests.
 * @param init the second argument of `fetch`
 */
function watchDispatchers(init: unknown): void {
  try {
    keepScopes((globalThis as Record<symbol, unknown>)[GLOBAL_DISPATCHER]);
    keepScopes((init as { dispatcher?: unknown } | null | undefined)?.dispatcher);
  } catch {
    // A frozen object: its requests use the current scope.
  }
}

function labelRequest(request: UndiciRequest): void {
  const { origin, path, headers } = request;
  if (!state.hosts.labels(String(origin), path)) return;
  const scope = scopeOf(request);
  if (scope === null || isLabelled(headers)) return;
  const label = takeLabel(scope);
  request.addHeader(RUN_HEADER, scope.run);
  request.addHeader(SEQ_HEADER, String(label.seq));
  unsent.set(request, label);
}

function isLabelled(headers: UndiciRequest['headers']): boolean {
  if (typeof headers === 'string') return hasLabel(headers.split(/:.*\r\n|\r\n/));
  return hasLabel(headers, 2);
}

/**
 * The scope of the code that asked for the request. Another scope may be current when the request is made: if a pool
 * has no free connection, the scope in which a connection becomes free; for a retry, the scope in which the connection
 * was opened. The handler that waits for the answer is the same in both cases, so its scope is used.
 */
function scopeOf(request: UndiciRequest): Scope | null {
  watchDispatchers(undefined);
  let handler = handlerOf(request);
  for (let depth = 0; handler !== null; depth++) {
    const known = handlerScopes.get(handler);
    if (known !== undefined) return known;
    const { runInAsyncScope, handler: inner } = handler as { runInAsyncScope?: unknown; handler?: unknown };
    // Handlers of undici's own functions are AsyncResources.
    if (typeof runInAsyncScope === 'function')
      return runInAsyncScope.call(handler, currentScope) as Scope | null;
    if (typeof inner === 'object' && inner !== null && depth < HANDLER_DEPTH_MAX) {
      handler = inner;
      continue;
    }
    // The handler of a retry is nested, and may be sent again.
    if (depth > 0) handlerScopes.set(handler, currentScope());
    break;
  }
  return currentScope();
}

function handlerOf(request: UndiciRequest): object | null {
  let name = handlerNames.get(request.constructor);
  if (name === undefined) {
    name = Object.getOwnPropertySymbols(request).find((symbol) => symbol.description === 'handler') ?? null;
    handlerNames.set(request.constructor, name);
  }
  const handler = name === null ? null : (request as unknown as Record<symbol, unknown>)[name];
  return typeof handler === 'object' ? handler : null;
}

/**
 * Makes a dispatcher record the scope of its requests. `fetch` needs this, because its handlers have no scope. Version
 * 8 of undici keeps scopes by itself. A dispatcher with composed interceptors is not changed, because it is a proxy of
 * another dispatcher.
 */
function keepScopes(dispatcher: unknown): void {
  if (typeof dispatcher !== 'object' || dispatcher === null || seenDispatchers.has(dispatcher)) return;
  seenDispatchers.add(dispatcher);
  const { dispatch } = dispatcher as Partial<Dispatcher>;
  if (typeof dispatch !== 'function' || types.isProxy(dispatcher) || !Object.isExtensible(dispatcher)) return;
  Object.defineProperty(dispatcher, 'dispatch', {
    value(this: Dispatcher, ...args: [options: unknown, handler: unknown]): boolean {
      const [, handler] = args;
      if (typeof handler === 'object' && handler !== null) handlerScopes.set(handler, currentScope());
      return Reflect.apply(dispatch, this, args);
    },
    enumerable: false,
    writable: true,
    configurable: true,
  });
}

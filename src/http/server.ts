/**
 * An HTTP/1.1 listener: makes an HttpStream of every request and passes it on when the request has passed the checks.
 * Server threads. It uses uWebSockets.js if that has a binary for this machine (`native-listener.ts`), otherwise
 * node:http (`plain-listener.ts`), which is slower. A thread uses one implementation for all its listeners.
 */

import type { HttpServer, ServerOptions } from './http-server.ts';
import { hangUpNative, listenNatively, loadNative, type NativeModule } from './native-listener.ts';
import { hangUpPlain, listenPlainly } from './plain-listener.ts';

/** The implementation: the fast library, or Node's own server. */
type ServerKind = 'uwebsockets' | 'node';

/** The implementation that this thread has loaded; null before loading. */
let loaded: { kind: ServerKind; native: NativeModule | null } | null = null;

/**
 * Loads the implementation for this thread's listeners. `UWS_HTTP_MAX_HEADERS_SIZE` must be in the environment before
 * (config.ts), because uWebSockets.js reads it when it loads.
 * @param wanted `auto`: the implementation that was loaded before, otherwise uWebSockets.js if it has a binary,
 * otherwise node:http
 * @returns the loaded implementation
 * @throws Error if uWebSockets.js is requested and has no binary
 */
export async function loadServer(wanted: ServerKind | 'auto' = 'auto'): Promise<ServerKind> {
  if (loaded !== null && (wanted === 'auto' || wanted === loaded.kind)) return loaded.kind;
  const native = wanted === 'node' ? null : await loadNative();
  if (native === null && wanted === 'uwebsockets')
    throw new Error('uWebSockets.js has no loadable binary for this machine: set HTTP_SERVER=node');
  loaded = { kind: native === null ? 'node' : 'uwebsockets', native };
  return loaded.kind;
}

/** Returns the implementation that this thread has loaded; null before loading. */
export function loadedServer(): ServerKind | null {
  return loaded?.kind ?? null;
}

/**
 * Starts listening. Loads an implementation first, if none is loaded (see `loadServer`).
 * @throws Error if the address cannot be bound, or after `hangUp`
 */
export async function startServer(options: ServerOptions): Promise<HttpServer> {
  await loadServer();
  if (isHungUp) throw new Error('the thread is ending');
  const native = loaded?.native ?? null;
  return native === null ? listenPlainly(options) : listenNatively(native, options);
}

let isHungUp = false;

/**
 * Closes every socket of this thread's servers at once, and prevents further starts. For a thread that is about to be
 * terminated: with an open socket, uWebSockets.js would end the process with a stack trace.
 * @returns when they are closed
 */
export async function hangUp(): Promise<void> {
  isHungUp = true;
  hangUpPlain();
  await hangUpNative();
}

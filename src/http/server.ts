/**
 * An HTTP/1.1 listener: hands over an HttpStream for every request when it is safe to act on. Server threads.
 *
 * uWebSockets.js serves where it has a binary (`native-listener.ts`), and node:http elsewhere (`plain-listener.ts`), which is slower.
 * A thread uses one of them for all its listeners.
 */

import type { HttpServer, ServerOptions } from './http-server.ts';
import { hangUpNative, listenNatively, loadNative, type NativeModule } from './native-listener.ts';
import { hangUpPlain, listenPlainly } from './plain-listener.ts';

/** What serves: the fast library, or Node's own server. */
type ServerKind = 'uwebsockets' | 'node';

/** What this thread's listeners use; null until something was loaded. */
let loaded: { kind: ServerKind; native: NativeModule | null } | null = null;

/**
 * Loads what this thread's listeners use from now on. `UWS_HTTP_MAX_HEADERS_SIZE` must be in the environment before (config.ts),
 * because uWebSockets.js reads it when it loads.
 * @param wanted `auto`: what was loaded before, or else uWebSockets.js where it has a binary
 * @returns what was loaded
 * @throws Error when uWebSockets.js is asked for and has no binary
 */
export async function loadServer(wanted: ServerKind | 'auto' = 'auto'): Promise<ServerKind> {
  if (loaded !== null && (wanted === 'auto' || wanted === loaded.kind)) return loaded.kind;
  const native = wanted === 'node' ? null : await loadNative();
  if (native === null && wanted === 'uwebsockets') throw new Error('uWebSockets.js has no binary here');
  loaded = { kind: native === null ? 'node' : 'uwebsockets', native };
  return loaded.kind;
}

/** @returns what this thread has loaded, null before */
export function loadedServer(): ServerKind | null {
  return loaded?.kind ?? null;
}

/**
 * Starts listening. See `loadServer` on the environment.
 * @throws Error when the address cannot be bound
 */
export async function startServer(options: ServerOptions): Promise<HttpServer> {
  await loadServer();
  if (isHungUp) throw new Error('the thread is ending');
  const native = loaded?.native ?? null;
  return native === null ? listenPlainly(options) : listenNatively(native, options);
}

let isHungUp = false;

/**
 * Closes every socket of this thread's servers at once, and lets no server start. For a thread that is about to be terminated: with an
 * open socket uWebSockets.js would end the process with a stack trace.
 * @returns when they are closed
 */
export async function hangUp(): Promise<void> {
  isHungUp = true;
  hangUpPlain();
  await hangUpNative();
}

/**
 * Labels the requests of `fetch` on platforms where it is not undici's (Bun, Deno), because no diagnostics channel
 * announces a request there before its head is written. The platform itself follows redirects, and sends the redirected
 * request with the number of the first request. Any thread.
 */
import {
  currentScope,
  giveBack,
  hasLabel,
  isUnconnected,
  RUN_HEADER,
  SEQ_HEADER,
  state,
  takeLabel,
} from './scope.ts';

/** Whether this platform's `fetch` announces its requests on undici's channels. */
export function isFetchOfUndici(): boolean {
  return (
    process.versions.undici !== undefined && !('bun' in process.versions) && !('deno' in process.versions)
  );
}

/**
 * Labels the later requests of `fetch`. Call it once per thread.
 * @returns false, without any effect, if the platform has no `fetch` that can be replaced
 */
export function labelFetch(): boolean {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, 'fetch');
  const original = globalThis.fetch;
  if (typeof original !== 'function' || descriptor?.configurable !== true) return false;
  const labelled = {
    fetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
      return send(original, input, init);
    },
  }.fetch;
  Object.defineProperty(globalThis, 'fetch', {
    value: Object.assign(labelled, original),
    enumerable: descriptor.enumerable ?? true,
    writable: true,
    configurable: true,
  });
  return true;
}

async function send(
  original: typeof fetch,
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<Response> {
  const scope = currentScope();
  const headers = scope === null ? null : headersOf(input, init);
  if (scope === null || headers === null) return original(input, init);
  const label = takeLabel(scope);
  headers.set(RUN_HEADER, scope.run);
  headers.set(SEQ_HEADER, String(label.seq));
  try {
    return await original(input, { ...init, headers });
  } catch (thrown) {
    // Bun's errors have only the code.
    if (isUnconnected(thrown) || (thrown as { code?: unknown } | null)?.code === 'ECONNREFUSED')
      giveBack(label);
    throw thrown;
  }
}

/**
 * Copies the headers of a request, to add a label.
 * @returns null if the request must not be labelled
 */
function headersOf(input: string | URL | Request, init: RequestInit | undefined): Headers | null {
  try {
    const isRequest = typeof Request === 'function' && input instanceof Request;
    const { origin, pathname, search } = new URL(isRequest ? input.url : String(input));
    if (!state.hosts.labels(origin, pathname + search)) return null;
    const headers = new Headers(init?.headers ?? (isRequest ? input.headers : undefined));
    return hasLabel([...headers.keys()]) ? null : headers;
  } catch {
    // An invalid request: `fetch` reports the error to the caller.
    return null;
  }
}

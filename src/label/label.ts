/**
 * `@understudy-gateway/client/label`: labels the model calls of an agent's process with their run and their number in
 * the run (`x-svc-run`, `x-svc-seq`), whichever client makes the calls. The rest of a request does not change. Requests
 * outside a scope, or to hosts that are not labelled, do not change at all. Loaded into the agent's process; any
 * thread.
 */

import { isFetchOfUndici, labelFetch } from './fetch-requests.ts';
import { labelHttp } from './http-requests.ts';
import { enterScope, makeScope, state } from './scope.ts';
import { labelUndici, watchFetch } from './undici-requests.ts';

export { labelAwsClient } from './aws-client.ts';

/** Transports that the shim can label; `installedTransports` returns those that it does label. */
export type Transport = 'fetch' | 'undici' | 'node:http' | 'node:https' | 'aws-sdk';

/**
 * Labels the later requests of this thread with `fetch`, undici, node:http and node:https. Call it once. A second call
 * has no effect, even from another copy of the package. The call is cheap, and its result does not depend on the
 * modules that are already loaded.
 */
export function install(): void {
  if (state.is_installed) return;
  state.is_installed = true;
  labelUndici();
  if (isFetchOfUndici()) {
    watchFetch();
    state.transports.add('fetch').add('undici');
  } else if (labelFetch()) state.transports.add('fetch');
  if (labelHttp()) state.transports.add('node:http').add('node:https');
  else
    process.emitWarning(
      '@understudy-gateway/client/label cannot label node:http and node:https of this version of Node',
    );
}

/**
 * Runs a function as a run: the model calls of everything that it awaits and starts have the run's name and are
 * numbered from 1 across all threads of the process. A nested scope is another run; a scope with the same name
 * continues its numbers.
 * @param run its name, unique in the gateway's capture: 1 to 1,024 bytes, no control characters
 * @returns what the function returns
 * @throws TypeError for a name that cannot be a header's value; otherwise what the function throws
 */
export function runScope<Result>(run: string, work: () => Result): Result {
  return enterScope(makeScope(run), () => false, work);
}

/** The transports that are labelled in this thread; empty before `install()`. */
export function installedTransports(): Transport[] {
  return [...state.transports] as Transport[];
}

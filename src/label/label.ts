/**
 * `@understudy-gateway/client/label`: stamps the model calls of an agent's process with their run and their number in it
 * (`x-svc-run`, `x-svc-seq`), whichever client makes them. Nothing else of a request changes, and none is changed outside
 * a scope or on its way to a host that is not one's own. In the agent's process, any thread.
 */

import { isFetchOfUndici, labelFetch } from './fetch-requests.ts';
import { labelHttp } from './http-requests.ts';
import { enterScope, makeScope, state } from './scope.ts';
import { labelUndici, watchFetch } from './undici-requests.ts';

export { labelAwsClient } from './aws-client.ts';

/** What the shim can label: `installedTransports` names those that it does. */
export type Transport = 'fetch' | 'undici' | 'node:http' | 'node:https' | 'aws-sdk';

/**
 * Labels what this thread sends from now on by `fetch`, undici, node:http and node:https. Once is enough; a second call,
 * of another copy of the package too, does nothing. Cheap, and independent of what was loaded before.
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
      '@understudy-gateway/client/label cannot label node:http and node:https of this Node',
    );
}

/**
 * Does a piece of work as a run: the model calls that it makes, in whatever it awaits and starts, carry the name and are
 * numbered from 1 over all threads of the process. A scope within it is another run; the same name again goes on
 * with its numbers.
 * @param run its name, unlike that of any other run of the gateway's capture: 1 to 1,024 bytes, no control characters
 * @returns what the work returns
 * @throws TypeError for a name that no header can carry; else what the work throws
 */
export function runScope<Result>(run: string, work: () => Result): Result {
  return enterScope(makeScope(run), () => false, work);
}

/** What is labelled in this thread; empty before `install()`. */
export function installedTransports(): Transport[] {
  return [...state.transports] as Transport[];
}

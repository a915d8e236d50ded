/**
 * `node --import @understudy-gateway/client/label/auto agent.mjs`: the shim without a line of code. `SVC_RUN` names the run of the whole
 * process, its worker threads included; without it only the scopes of the agent's own code are labelled. In the agent's
 * process, before its own modules. Any thread.
 */

import { readEnvironment } from './environment.ts';
import { install } from './label.ts';
import { makeScope, state } from './scope.ts';

install();
const { run } = readEnvironment();
try {
  if (run !== undefined) state.process_scope = makeScope(run);
} catch (error) {
  // An agent shall not fail over its label.
  process.emitWarning(
    `@understudy-gateway/client/label: nothing is labelled by SVC_RUN: ${(error as Error).message}`,
  );
}

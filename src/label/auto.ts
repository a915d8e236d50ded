/**
 * `node --import @understudy-gateway/client/label/auto agent.mjs`: installs the shim without any code. `SVC_RUN`
 * names the run of the whole process, including its worker threads; without it, only the scopes in the agent's code
 * are labelled. In the agent's process, before its own modules. Any thread.
 */

import { readEnvironment } from './environment.ts';
import { install } from './label.ts';
import { makeScope, state } from './scope.ts';

install();
const { run } = readEnvironment();
try {
  if (run !== undefined) state.process_scope = makeScope(run);
} catch (error) {
  // A problem with the label must not make the agent fail.
  process.emitWarning(
    `@understudy-gateway/client/label: nothing is labelled by SVC_RUN: ${(error as Error).message}`,
  );
}

/**
 * `node --import @understudy-gateway/client/label/auto agent.mjs`: installs the shim without a change of the agent's
 * code. `SVC_RUN` names the run of the whole process, including its worker threads. If `SVC_RUN` is not set, only the
 * scopes in the agent's code are labelled. Loaded into the agent's process before the agent's modules. Any thread.
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

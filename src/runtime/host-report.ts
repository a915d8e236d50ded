/**
 * A host's report to the log when an actor fails. Actor threads, server threads (and the simulator).
 */

import { describeError } from './error.ts';
import type { ActorAddress } from './protocol.ts';

/** A failure inside a host, for the log. Contains no payload. */
export interface HostReport {
  kind: string;
  key: string;
  /** The message, `activate`, or `commit`. */
  during: string;
  error: string;
  /** The consequence. */
  outcome: 'restart' | 'stop' | 'lost';
}

/** Makes the report of a failure. */
export function describeFailure(
  { kind, key }: ActorAddress,
  during: string,
  thrown: unknown,
  outcome: HostReport['outcome'],
): HostReport {
  const error = thrown instanceof Error ? (thrown.stack ?? describeError(thrown)) : describeError(thrown);
  return { kind, key, during, error, outcome };
}

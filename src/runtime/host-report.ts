/**
 * A host's report to the log when an actor fails. Actor threads, server threads (and the simulator).
 */

import { describeError } from './error.ts';
import type { ActorAddress } from './protocol.ts';

/** A failure inside a host, for the log. The host adds no payload, but the handler's error may contain a part of one. */
export interface HostReport {
  kind: string;
  key: string;
  /** The name of the message, `activate`, `commit` or `snapshot`; for a lost output without a name, its type. */
  during: string;
  /** The stack of the error, if it has one. */
  error: string;
  /**
   * The consequence. `restart`: the actor starts again from its stored state. `stop`: the actor is stopped. `lost`: an
   * output was not sent or a snapshot was not taken, and the actor continues.
   */
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

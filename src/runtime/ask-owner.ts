/**
 * Asks actors that can move to another process, in a store that several processes share. If the actor has moved,
 * nothing of the ask was stored, so the ask is repeated, which loads the actor again. Server threads.
 */

import { systemClock } from '../std/clock.ts';
import { type Asker, type AskOptions, DEFAULT_ASK_DEADLINE_MS } from './actor-client.ts';
import { RuntimeError } from './error.ts';
import type { ActorAddress } from './protocol.ts';

/** Maximum number of repetitions of one ask. It is reached if another process takes the actor again each time. */
const REPETITIONS = 5;

interface OwnerAskOptions extends AskOptions {
  /**
   * Whether the message may be handled twice. If so, it is also repeated after `actor_restarted`, the error for a
   * message whose answer the actor kept for later when it moved.
   */
  is_repeatable?: boolean;
}

/**
 * Like `asker.ask`. A repeated ask is handled after messages that its sender has sent in the meantime. All repetitions
 * share the deadline.
 * @throws RuntimeError (as rejection), like `ask`; `actor_moved` if the actor moved each time
 */
export function askOwner(
  asker: Asker,
  to: ActorAddress,
  name: string,
  payload: unknown,
  { is_repeatable = false, ...options }: OwnerAskOptions = {},
): Promise<unknown> {
  const { deadline_ms = DEFAULT_ASK_DEADLINE_MS } = options;
  const untilMs = systemClock.monotonicMs() + deadline_ms;
  let left = REPETITIONS;
  const repeat = (thrown: unknown): Promise<unknown> => {
    const leftMs = untilMs - systemClock.monotonicMs();
    if (!isMoved(thrown, is_repeatable) || left === 0 || leftMs <= 0) throw thrown;
    left--;
    return asker.ask(to, name, payload, { ...options, deadline_ms: leftMs }).catch(repeat);
  };
  return asker.ask(to, name, payload, options).catch(repeat);
}

function isMoved(thrown: unknown, isRepeatable: boolean): boolean {
  if (!(thrown instanceof RuntimeError)) return false;
  return thrown.code === 'actor_moved' || (isRepeatable && thrown.code === 'actor_restarted');
}

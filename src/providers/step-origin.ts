/**
 * Where a step arrived and which upstream answers it, as one word. It is part of an agent's identity, so that what
 * was learned from one upstream is never used for another's agents. It is the same for a live request and for its
 * captured copy. Pure; server threads, command line, capture reader.
 */

import type { RelegationWire } from '../domain/exchange.ts';
import { WIRES } from './wires.ts';

/** The end of a step's path, raw. */
export function stepPathOf(wire: RelegationWire): string {
  return WIRES[wire].served.step_path;
}

/**
 * @param path as the client sent it, with the prefix of its route
 * @param provider label of the upstream that answers
 */
export function nameOrigin(wire: RelegationWire, path: string, provider: string): string {
  const { step_path: end, maker } = WIRES[wire].served;
  const prefix = path.endsWith(end) ? path.slice(0, -end.length) : path;
  return prefix === '' && provider === maker ? '' : `${provider} ${prefix}`;
}

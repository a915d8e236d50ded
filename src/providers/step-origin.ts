/**
 * Where a step arrived and who answers it, in one word. It is part of an agent's identity, so that what was learned
 * from one upstream never serves another's agents. It is read in the same way from a live request and from its captured
 * copy. Pure; server threads, command line, capture reader.
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

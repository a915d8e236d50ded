/**
 * The origin of a step, as a short text: where the step arrived and which upstream answers it. The origin is part of an
 * agent variant's identity, so that what was learned from one upstream is never used for another. A live request and
 * its captured copy have the same origin. Pure; server threads, command line, capture reader.
 */

import type { RelegationWire } from '../domain/exchange.ts';
import { WIRES } from './wires.ts';

/** Returns how the path of a step ends, in the raw form in which the client sends it. */
export function stepPathOf(wire: RelegationWire): string {
  return WIRES[wire].served.step_path;
}

/**
 * Names the origin of a step; '' for the usual path at the format's maker.
 * @param path as the client sent it, with the prefix of its route
 * @param provider label of the upstream that answers
 */
export function nameOrigin(wire: RelegationWire, path: string, provider: string): string {
  const { step_path: end, maker } = WIRES[wire].served;
  const prefix = path.endsWith(end) ? path.slice(0, -end.length) : path;
  return prefix === '' && provider === maker ? '' : `${provider} ${prefix}`;
}

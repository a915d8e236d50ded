/**
 * Where a step came in and who answers there, in one word: a part of what an agent is, so that what was learned of one
 * upstream never serves another's agents. Read alike from a live request and from its captured copy. Pure; server threads,
 * command line, capture reader.
 */

import type { RelegationWire } from './exchange.ts';

/** How the path of a step ends, raw; on the default upstream it is the whole path. */
export const STEP_PATHS: Readonly<Record<RelegationWire, string>> = {
  messages: '/v1/messages',
  chat_completions: '/v1/chat/completions',
  responses: '/v1/responses',
};

/** Who a wire is of. Steps without a prefix that these answer have no origin, as before there were others. */
const MAKERS: Readonly<Record<RelegationWire, string>> = {
  messages: 'anthropic',
  chat_completions: 'openai',
  responses: 'openai',
};

/**
 * @param path as the client sent it, with the prefix of its route
 * @param provider label of who answers
 */
export function nameOrigin(wire: RelegationWire, path: string, provider: string): string {
  const end = STEP_PATHS[wire];
  const prefix = path.endsWith(end) ? path.slice(0, -end.length) : path;
  return prefix === '' && provider === MAKERS[wire] ? '' : `${provider} ${prefix}`;
}

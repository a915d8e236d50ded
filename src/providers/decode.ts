/**
 * The index entry of a stored exchange: its model, its cost, how it ended, and its links to other turns. It is derived
 * from the turn in normal form (`normal-turn.ts`). Pure; runs in the capture process after the bytes are safe, and in
 * the command line; never on a server thread. Nothing here throws: unreadable parts are flagged with the reason, and
 * the rest is returned.
 *
 * README.md in this folder says what the numbers mean on each wire.
 */

import type { SideKind } from '../domain/child-kind.ts';
import { type ApiShape, type ExchangeEntry, type TokenUsage, unknownUsage } from '../domain/exchange.ts';
import type { ExchangeTexts } from '../domain/placed-text.ts';
import { readHeader } from './content-encoding.ts';
import { type Conversation, NO_CONVERSATION } from './conversation.ts';
import { readTurn } from './normal-turn.ts';
import type { StoredExchange } from './stored-exchange.ts';
import { tellShape } from './tell-shape.ts';
import { listReadTexts } from './turn-texts.ts';
import { estimateUsage } from './usage-estimate.ts';
import { WIRES } from './wires.ts';

export type { StoredExchange } from './stored-exchange.ts';

/** The index entry, and the links between the turns of a run. */
export interface DecodedExchange extends ExchangeEntry, Omit<Conversation, 'prefixes'> {
  /** Determines whether the exchange is a side call (side-call.ts). */
  findSideCall: (offersTools: boolean) => SideKind | null;
  /** The shape shown by the bodies when the path shows none, otherwise null. */
  told_shape: ApiShape | null;
  /** Whether the answer is or contains an error, is cut off, or is a stream without a stop word. */
  broke_off: boolean;
  /** False for an embedding, which uses InvokeModel's path and is not a turn. */
  is_turn: boolean;
  /** Lists the texts of the exchange, for the full-text index. */
  listTexts: () => ExchangeTexts;
}

/**
 * Makes the index entry of a stored exchange. The entry is empty when neither path nor bytes show a shape. Such an
 * exchange does not count as undecodable. Neither does an error answer, whatever its body, or a stream that ended early
 * between two events (its stop reason stays null).
 */
export function decodeExchange(stored: StoredExchange): DecodedExchange {
  const told_shape = stored.shape === null ? tellShape(stored) : null;
  const exchange = told_shape === null ? stored : { ...stored, shape: told_shape };
  const { shape } = exchange;
  const turn = readTurn(exchange, 'index');
  if (turn === null || shape === null) {
    const { prefixes: conversation, ...links } = NO_CONVERSATION;
    return {
      model: null,
      usage: unknownUsage(),
      stop_reason: null,
      undecodable: false,
      reason: '',
      conversation,
      ...links,
      findSideCall: () => null,
      told_shape,
      broke_off: false,
      is_turn: true,
      listTexts: () => listReadTexts(exchange, null),
    };
  }
  const { request, answer, problem, is_turn } = turn;
  const { prefixes: conversation, ...links } = turn.conversation;
  const isStream = readHeader(exchange.response_headers, 'content-type').includes('stream');
  return {
    model: answer.model ?? request.model,
    usage:
      isStream && isUntold(turn.told_usage) && answer.content.length > 0
        ? estimateUsage(request, answer)
        : turn.told_usage,
    stop_reason: turn.stop_word,
    undecodable: problem !== '',
    reason: problem,
    conversation,
    ...links,
    findSideCall: (offersTools) => WIRES[shape].findSideCall(request, offersTools),
    told_shape,
    broke_off: answer.error !== null || turn.is_cut_off || (isStream && turn.stop_word === null),
    is_turn,
    listTexts: () => listReadTexts(exchange, turn),
  };
}

/** Whether the provider reported neither input nor output tokens. Counts of the cache do not matter. */
function isUntold({ input_tokens, output_tokens }: TokenUsage): boolean {
  return input_tokens === null && output_tokens === null;
}

/**
 * The registry of wire formats. Everything that depends on a format is in its entry here. A new name in `ApiShape`
 * without an entry, and an entry that leaves out a part, do not compile. Pure; any thread.
 */

import type { ApiShape } from '../domain/exchange.ts';
import { bedrockConverse } from './bedrock-converse/wire.ts';
import { bedrockInvoke } from './bedrock-invoke/wire.ts';
import { chatCompletions } from './chat-completions/wire.ts';
import { completion } from './completion/wire.ts';
import { gemini } from './gemini/wire.ts';
import { messages } from './messages/wire.ts';
import { responses } from './responses/wire.ts';
import type { Wire } from './wire.ts';

/** Bedrock's wires come first, because under its route its paths take precedence over those of other wires. */
export const WIRES: { readonly [S in ApiShape]: Wire<S> } = {
  bedrock_converse: bedrockConverse,
  bedrock_invoke: bedrockInvoke,
  chat_completions: chatCompletions,
  messages,
  responses,
  completion,
  gemini,
};

/** The wires as a list, in order of precedence. */
export const WIRE_LIST: readonly Wire[] = Object.values(WIRES);

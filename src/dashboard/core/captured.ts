/** Captured runs in the form that pages use. Types and small rules; browser. */
import type { TurnBlock } from '../../domain/turn.ts';
import type { Reply } from './contract.ts';
import { formatShort } from './format.ts';

export type CapturedRun = Reply<'GET /capture/runs'>['runs'][number];
type CapturedConversation = Reply<'GET /capture/runs/{id}'>;
export type CapturedTurn = CapturedConversation['turns'][number];
/** A block of a message. The contract leaves its form open. */
export type Block = TurnBlock;
export type Message = CapturedTurn['messages_added'][number];

/** The contract's blocks, cast to `Block`. */
export const blocksOf = (content: readonly { type: string }[]): Block[] => content as unknown as Block[];

/** Input tokens, including those that were read from and written to the provider's cache; null: not known. */
export function tokensIn(usage: {
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
}): number | null {
  const { input_tokens, cache_read_tokens, cache_write_tokens } = usage;
  if (input_tokens === null) return null;
  return input_tokens + (cache_read_tokens ?? 0) + (cache_write_tokens ?? 0);
}

/** `1,200 → 80`: tokens in and out. A dash if neither is known. */
export function sayTokens(run: Parameters<typeof tokensIn>[0] & { output_tokens: number | null }): string {
  const input = tokensIn(run);
  if (input === null && run.output_tokens === null) return '–';
  return `${formatShort(input)} → ${formatShort(run.output_tokens)}`;
}

/** The results of tool calls, by the id of the call. The request of a later turn contains the result of a call. */
export function findResults(
  turns: readonly CapturedTurn[],
): Map<string, Extract<Block, { type: 'tool_result' }>> {
  const results = new Map<string, Extract<Block, { type: 'tool_result' }>>();
  for (const { messages_added } of turns)
    for (const { content } of messages_added)
      for (const block of blocksOf(content))
        if (block.type === 'tool_result' && block.call_id !== null && !results.has(block.call_id))
          results.set(block.call_id, block);
  return results;
}

/**
 * Ids of all tool calls, including those of answers that were not captured and that only the client's later requests
 * repeat. The page shows the result of such a call with the call.
 */
export function findCalls(turns: readonly CapturedTurn[]): Set<string> {
  const calls = new Set<string>();
  for (const { content, messages_added } of turns)
    for (const blocks of [content, ...messages_added.map((message) => message.content)])
      for (const block of blocksOf(blocks)) if (block.type === 'tool_call') calls.add(block.id);
  return calls;
}

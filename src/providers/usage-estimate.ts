/**
 * Estimates the tokens of a turn whose provider reported none, such as a chat-completions stream without
 * `include_usage`. Pure; runs where stored copies are read.
 */
import { type TokenUsage, unknownUsage } from '../domain/exchange.ts';
import type { NormalAnswer, NormalRequest } from '../domain/turn.ts';
import { digitsOf } from '../std/exact-json.ts';

/** Bytes of UTF-8 per token: about right for English and for JSON, and closer than characters for other scripts. */
const BYTES_PER_TOKEN = 4;
/** Tokens that providers add to each message. */
const MESSAGE_TOKENS = 4;
/** Tokens of an image of usual size at most providers. */
const IMAGE_TOKENS = 1_000;
/** Maximum number of values that are examined. A larger request is estimated from those values alone. */
const VALUES_MAX = 1_000_000;

/**
 * Makes the estimate, marked as such, with the tier that the answer names. The estimated input includes cached tokens,
 * because nothing is known about a cache.
 */
export function estimateUsage(request: NormalRequest, answer: NormalAnswer): TokenUsage {
  const { system, tools, messages } = request;
  const input = countTokens([system, tools, messages]) + MESSAGE_TOKENS * messages.length;
  const output = countTokens(answer.content);
  const { tier } = answer.usage;
  return {
    ...unknownUsage(),
    input_tokens: input,
    output_tokens: output,
    estimated: true,
    ...(tier === undefined ? {} : { tier }),
  };
}

function countTokens(value: unknown): number {
  let bytes = 0;
  let images = 0;
  const open: unknown[] = [value];
  for (let values = 0; open.length > 0 && values < VALUES_MAX; values++) {
    const value = open.pop();
    if (typeof value === 'string') bytes += Buffer.byteLength(value);
    else if (Array.isArray(value)) for (const item of value) open.push(item);
    else if (typeof value === 'object' && value !== null && digitsOf(value) === null) {
      const block = value as Record<string, unknown>;
      if (block.type === 'image' || (block.type === 'media' && block.kind === 'image')) images++;
      else for (const item of Object.values(block)) open.push(item);
    } else if (value !== null && value !== undefined) bytes += digitsOf(value)?.length ?? MESSAGE_TOKENS;
  }
  return Math.ceil(bytes / BYTES_PER_TOKEN) + images * IMAGE_TOKENS;
}

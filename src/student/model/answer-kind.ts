/**
 * The kind of an answer: the tools that it calls, in order, or text. A student keeps its promise, and the watch notices
 * drift, for each agent and kind. Pure; any thread.
 */

import type { TurnBlock } from '../../domain/turn.ts';

const KIND_CHARACTERS = 200;

/** `look`, `look + note` for several calls in order, or `text`. */
export function kindOfAnswer(content: readonly TurnBlock[]): string {
  const names = content.flatMap((block) => (block.type === 'tool_call' ? [block.name] : []));
  return names.length === 0 ? 'text' : names.join(' + ').slice(0, KIND_CHARACTERS);
}

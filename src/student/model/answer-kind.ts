/**
 * The kind of an answer: the tools that it calls, in order, or text. A student keeps its promise, and the watch notices
 * drift, for each agent and kind. Pure; any thread.
 */

import type { TurnBlock } from '../../domain/turn.ts';

const KIND_CHARACTERS = 200;

/**
 * `look`, `look + note` for several calls in order, or `text`. Calls of one tool in a row are `look (several)`, however many they
 * are: a student that makes one for each element of a list is right about all of them or about none.
 */
export function kindOfAnswer(content: readonly TurnBlock[]): string {
  const names = content.flatMap((block) => (block.type === 'tool_call' ? [block.name] : []));
  return nameKind(names);
}

const SEVERAL = ' (several)';

/** The kind of an answer that calls these tools in this order. */
export function nameKind(names: readonly string[]): string {
  if (names.length === 0) return 'text';
  const parts: string[] = [];
  for (const [at, name] of names.entries()) {
    if (name !== names[at - 1]) parts.push(name === names[at + 1] ? name + SEVERAL : name);
  }
  return parts.join(' + ').slice(0, KIND_CHARACTERS);
}

/** Tools that answers of the kind call. */
export function toolsOfKind(kind: string): string[] {
  return kind.split(' + ').map((part) => (part.endsWith(SEVERAL) ? part.slice(0, -SEVERAL.length) : part));
}

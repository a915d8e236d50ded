/**
 * The kind of an answer: the tools that it calls, in order, or text. The promised error rate holds for each agent and
 * kind, and drift is watched per agent and kind. Pure; any thread.
 */

import type { TurnBlock } from '../../domain/turn.ts';

const KIND_CHARACTERS = 200;

/**
 * `look`, `look + note` for several calls in order, or `text`. Consecutive calls of one tool are `look
 * (several)`, whatever their number: a student that calls a tool once per list element is right about either all
 * or none of these calls.
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

/** Tools that answers of this kind call. */
export function toolsOfKind(kind: string): string[] {
  return kind.split(' + ').map((part) => (part.endsWith(SEVERAL) ? part.slice(0, -SEVERAL.length) : part));
}

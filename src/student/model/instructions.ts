/**
 * Separates the words that a client adds before the first answer from the user's words. The client's words move to the
 * system prompt, so the task consists only of the user's words. Pure; teaching and the student's thread.
 */

import { isClientWords } from '../../domain/client-words.ts';
import type { NormalRequest, TurnBlock, TurnMessage } from '../../domain/turn.ts';

/** A request with all instructions moved into its system prompt. */
interface InstructedRequest {
  system: readonly TurnBlock[];
  messages: readonly TurnMessage[];
  /** Index of the first answer among the messages; the number of messages if there is no answer. */
  task_end: number;
}

/**
 * Moves messages of the role `system` (elsewhere `developer`), and client-written blocks of user messages, into the
 * system prompt. What follows the first answer stays, because the next answer may be about it.
 */
export function partInstructions({ system, messages }: NormalRequest): InstructedRequest {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  const end = first < 0 ? messages.length : first;
  const instructions: TurnBlock[] = [];
  const task: TurnMessage[] = [];
  for (const message of messages.slice(0, end)) {
    const isInstruction = (block: TurnBlock): boolean =>
      block.type === 'text' && (message.role === 'system' || isClientWords(block.text));
    const found = message.content.filter(isInstruction);
    if (found.length === 0) task.push(message);
    else if (found.length < message.content.length)
      task.push({ ...message, content: message.content.filter((block) => !isInstruction(block)) });
    instructions.push(...found);
  }
  if (instructions.length === 0) return { system, messages, task_end: end };
  return {
    system: [...system, ...instructions],
    messages: [...task, ...messages.slice(end)],
    task_end: task.length,
  };
}

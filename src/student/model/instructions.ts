/**
 * What stands before the first answer and is no word of the user: a client's own words, which belong to the system prompt.
 * Without them the task is what the user wants. Pure; analysis and the student's thread.
 */

import type { NormalRequest, TurnBlock, TurnMessage } from '../../domain/turn.ts';

/** What clients put around their words in messages of the user: Claude Code, and Codex. */
const CLIENT_WORDS = /^\s*<(system-reminder|environment_context)>[\s\S]*<\/\1>\s*$/;

/** A request with all instructions in its system prompt. */
export interface InstructedRequest {
  system: readonly TurnBlock[];
  messages: readonly TurnMessage[];
  /** Place of the first answer among the messages; behind the last one where there is none. */
  task_end: number;
}

/**
 * Takes messages of the role `system` (elsewhere `developer`), and blocks of the user's messages that a client wrote, to the
 * system prompt. What comes behind the first answer stays: it may be what the next answer is about.
 */
export function partInstructions({ system, messages }: NormalRequest): InstructedRequest {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  const end = first < 0 ? messages.length : first;
  const instructions: TurnBlock[] = [];
  const task: TurnMessage[] = [];
  for (const message of messages.slice(0, end)) {
    const isInstruction = (block: TurnBlock): boolean =>
      block.type === 'text' && (message.role === 'system' || CLIENT_WORDS.test(block.text));
    const its = message.content.filter(isInstruction);
    if (its.length === 0) task.push(message);
    else if (its.length < message.content.length)
      task.push({ ...message, content: message.content.filter((block) => !isInstruction(block)) });
    instructions.push(...its);
  }
  if (instructions.length === 0) return { system, messages, task_end: end };
  return {
    system: [...system, ...instructions],
    messages: [...task, ...messages.slice(end)],
    task_end: task.length,
  };
}

/**
 * An answer in the form in which answers are compared: what has the same effect is spelled in the same way. Pure; teaching
 * and the student's thread.
 */

import { spellAddresses } from './addresses.ts';
import type { StudentBlock } from './decision.ts';
import { spellCommands } from './shell-commands.ts';
import type { StepDigest } from './step.ts';
import { spellEdits } from './text-edits.ts';

/**
 * Spells edits by the lines that they change, addresses absolutely, and commands of a shell without options that
 * determine only how much they show.
 */
export function spellAnswer(
  content: readonly StudentBlock[],
  step: Pick<StepDigest, 'sources'>,
): readonly StudentBlock[] {
  const isAsked = (number: string): boolean =>
    step.sources.some(
      ({ name, value }) => isUsers(name) && typeof value === 'string' && hasNumber(value, number),
    );
  return spellCommands(spellAddresses(spellEdits(content, step), step), isAsked);
}

/** Whether a source is what the user or the system prompt says. */
function isUsers(name: string): boolean {
  return name === 'task' || name === 'system' || name.startsWith('said');
}

function hasNumber(text: string, number: string): boolean {
  return new RegExp(`(?<!\\d)${number}(?!\\d)`).test(text);
}

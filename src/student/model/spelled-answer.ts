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
 * Spells edits by the lines that they change, addresses absolutely, and commands of a shell without what has no
 * effect.
 */
export function spellAnswer(
  content: readonly StudentBlock[],
  step: Pick<StepDigest, 'sources'>,
): readonly StudentBlock[] {
  return spellCommands(spellAddresses(spellEdits(content, step), step));
}

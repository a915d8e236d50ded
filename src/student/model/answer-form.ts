/**
 * The form of an answer: its kind, the calls that it follows, and its fixed words. Rounds count evidence per form,
 * audits watch each form, and the student decides per form whether to serve. Answers of one kind share their evidence
 * while all of them are right. If some are wrong, each form needs separate evidence. Pure; teaching and the student's
 * thread.
 *
 * The form depends only on the answer and its step, so every round and every version gives it the same name.
 */

import type { TurnBlock } from '../../domain/turn.ts';
import { nameOutcomes, readFacts } from './agreement.ts';
import { kindOfAnswer } from './answer-kind.ts';
import { Ground } from './equivalence.ts';
import { hashString, isObject } from './json-values.ts';
import { programOf, readShellCommand } from './shell-commands.ts';
import type { StepDigest } from './step.ts';

const AFTER = ' after ';
const WITH = ' with ';
/** Maximum length of a name in a manifest. */
const NAME_CHARACTERS = 200;
/** An argument with a longer text is not a choice between fixed values. */
const FIXED_CHARACTERS = 40;
const FIXED_WORDS = 2;

/**
 * Names of an answer's forms, from its whole kind to the narrowest: `hold`, `hold after look`, and `hold after look with
 * code=PRICE`. The third name is left out when the answer has no fixed words.
 */
export function namesOfForm(
  content: readonly TurnBlock[],
  step: Pick<StepDigest, 'stage' | 'sources'>,
): string[] {
  const kind = kindOfAnswer(content);
  const placed = bound(`${kind}${AFTER}${step.stage}`);
  const fixed = kind === 'text' ? nameText(content) : listFixed(content, step);
  return [kind, placed, ...(fixed === '' ? [] : [bound(`${placed}${WITH}${fixed}`)])];
}

/** The kind that a form belongs to. */
export function kindOfForm(name: string): string {
  const at = name.indexOf(AFTER);
  return at < 0 ? name : name.slice(0, at);
}

function nameText(content: readonly TurnBlock[]): string {
  const text = content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');
  return nameOutcomes(readFacts(text));
}

/**
 * Lists the arguments of an answer that the agent chose: switches, the program of a shell's command, and short texts
 * without digits that the step does not contain outside the system prompt. Numbers and other texts do not count.
 */
function listFixed(content: readonly TurnBlock[], step: Pick<StepDigest, 'sources'>): string {
  const ground = new Ground({ sources: step.sources.filter(({ name }) => name !== 'system') });
  const found = new Set<string>();
  const visit = (key: string, value: unknown): void => {
    if (typeof value === 'boolean') found.add(`${key}=${value}`);
    else if (typeof value === 'string') {
      const isChoice =
        value !== '' &&
        value.length <= FIXED_CHARACTERS &&
        value.split(/\s+/).length <= FIXED_WORDS &&
        !/\d/.test(value);
      if (isChoice && !ground.holds(value)) found.add(`${key}=${value}`);
    } else if (Array.isArray(value)) for (const item of value) visit(key, item);
    else if (isObject(value)) for (const name of Object.keys(value)) visit(name, value[name]);
  };
  for (const block of content) {
    if (block.type !== 'tool_call') continue;
    const command = readShellCommand(block);
    const program = command === null ? null : programOf(block);
    if (command === null || program === null) visit('', block.input);
    else {
      const { [command.key]: _command, ...others } = block.input as Record<string, unknown>;
      found.add(`${command.key}=${program}`);
      visit('', others);
    }
  }
  return [...found].sort().join(', ');
}

/** Shortens a name that is too long to its beginning and a hash. */
function bound(name: string): string {
  if (name.length <= NAME_CHARACTERS) return name;
  const hash = `… ${hashString(name).toString(36)}`;
  return name.slice(0, NAME_CHARACTERS - hash.length) + hash;
}

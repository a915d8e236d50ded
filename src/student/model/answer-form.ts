/**
 * The form of an answer: its kind, what it follows, and what it says in fixed words. Rounds count evidence, audits watch
 * and the student serves by form. Answers of one kind share their evidence as long as all of them are right; where some are
 * wrong, a form stands for itself. Pure; teaching and the student's thread.
 *
 * The form depends on the answer and its step alone, so that every round and every version names it alike.
 */

import type { TurnBlock } from '../../domain/turn.ts';
import { nameOutcomes, readFacts } from './agreement.ts';
import { kindOfAnswer } from './answer-kind.ts';
import { Ground } from './equivalence.ts';
import { hashString, isObject } from './json-values.ts';
import type { StepDigest } from './step.ts';

const AFTER = ' after ';
const WITH = ' with ';
/** As long as the manifest allows. */
const NAME_CHARACTERS = 200;
/** Longer texts in a call are no choices. */
const FIXED_CHARACTERS = 40;
const FIXED_WORDS = 2;

/**
 * Names of an answer's forms, from its whole kind to the narrowest: `hold`, `hold after look`, and `hold after look with
 * code=PRICE`. A name ends where there is nothing to add.
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

/** The arguments that were chosen and not taken from the step: short words that no task and no result has. */
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
  for (const block of content) if (block.type === 'tool_call') visit('', block.input);
  return [...found].sort().join(', ');
}

/** Names that are too long keep their beginning and differ by a hash. */
function bound(name: string): string {
  if (name.length <= NAME_CHARACTERS) return name;
  const hash = `… ${hashString(name).toString(36)}`;
  return name.slice(0, NAME_CHARACTERS - hash.length) + hash;
}

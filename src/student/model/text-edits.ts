/**
 * Edits of a file that the step holds: calls with an old and a new text. Two edits are the same if the edited file is
 * the same to the letter, however many unchanged lines they repeat. Pure; teaching and the student's thread.
 */

import type { StudentBlock } from './decision.ts';
import { CUT_KEY, isObject } from './json-values.ts';
import type { StepDigest } from './step.ts';

/** Names of the two arguments: `old_text`, `old_string`, `old_str`, … */
const OLD = /^old_?(?:text|string|str|code|content)?$/i;

/**
 * Spells each edit by the whole lines that it changes. An edit stays as it is unless its old text stands exactly once in
 * the step's texts.
 */
export function spellEdits(
  content: readonly StudentBlock[],
  step: Pick<StepDigest, 'sources'>,
): readonly StudentBlock[] {
  return content.some(isEdit) ? content.map((block) => spellEdit(block, step)) : content;
}

function isEdit(block: StudentBlock): boolean {
  return block.type === 'tool_call' && isObject(block.input) && findKeys(block.input) !== null;
}

/** The names of an edit's arguments; null for any other call. */
function findKeys(input: Record<string, unknown>): { old: string; new: string } | null {
  const old = Object.keys(input).find((key) => OLD.test(key) && typeof input[key] === 'string');
  if (old === undefined) return null;
  const other = `${/^[A-Z]/.test(old) ? 'New' : 'new'}${old.slice(3)}`;
  return typeof input[other] === 'string' && input[old] !== '' ? { old, new: other } : null;
}

function spellEdit(block: StudentBlock, step: Pick<StepDigest, 'sources'>): StudentBlock {
  if (block.type !== 'tool_call' || !isObject(block.input)) return block;
  const keys = findKeys(block.input);
  if (keys === null) return block;
  const spelled = editLines(block.input[keys.old] as string, block.input[keys.new] as string, step);
  if (spelled === null) return block;
  return { ...block, input: { ...block.input, [keys.old]: spelled.from, [keys.new]: spelled.to } };
}

/** The lines that an edit changes, with what becomes of them; null when it is not clear which lines it changes. */
function editLines(
  old: string,
  replacement: string,
  step: Pick<StepDigest, 'sources'>,
): { from: string; to: string } | null {
  const found = new Map<string, { from: string; to: string }>();
  for (const text of listTexts(step)) {
    const at = text.indexOf(old);
    if (at < 0) continue;
    if (text.indexOf(old, at + 1) >= 0) return null;
    const lines = diffLines(text, text.slice(0, at) + replacement + text.slice(at + old.length));
    found.set(JSON.stringify(lines), lines);
  }
  return found.size === 1 ? [...found.values()][0]! : null;
}

/** Returns the lines of both texts, without the equal lines at the beginning and the end. */
function diffLines(before: string, after: string): { from: string; to: string } {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let first = 0;
  while (first < Math.min(a.length, b.length) && a[first] === b[first]) first++;
  let last = 0;
  while (last < Math.min(a.length, b.length) - first && a.at(-1 - last) === b.at(-1 - last)) last++;
  // The line before shows where lines were only added.
  const place = first === a.length - last ? `${a.slice(0, first).join('\n')}\n` : '';
  return {
    from: place + a.slice(first, a.length - last).join('\n'),
    to: b.slice(first, b.length - last).join('\n'),
  };
}

/** Lists the texts in results that were not cut. */
function listTexts({ sources }: Pick<StepDigest, 'sources'>): string[] {
  const texts: string[] = [];
  const visit = (at: unknown): void => {
    if (typeof at === 'string') texts.push(at);
    else if (Array.isArray(at)) for (const item of at) visit(item);
    else if (isObject(at) && !Object.hasOwn(at, CUT_KEY)) for (const key of Object.keys(at)) visit(at[key]);
  };
  for (const { name, value } of sources) if (name.startsWith('result')) visit(value);
  return texts.filter((text) => !text.includes(CUT_LINE));
}

/** Stands between the beginning and the end of a text that is too long (`cutText`). */
const CUT_LINE = '\n…\n';

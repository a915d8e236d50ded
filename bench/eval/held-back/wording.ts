/** Chooses among wordings, so that the same facts are said in many ways. Pure; bench process. */

import type { Prng } from '../../../src/std/prng.ts';

/** Matches `{a|b}` without braces inside. */
const CHOICE = /\{([^{}]*)\}/;

/**
 * Writes a text from a template, with words chosen at random, and without spaces at its ends or in a row.
 * @param template `{a|b}` chooses, innermost first; `<name>` is a value
 * @throws Error if the template names a value that `values` lacks
 */
export function word(prng: Prng, template: string, values: Readonly<Record<string, string>>): string {
  let text = template;
  for (let found = CHOICE.exec(text); found !== null; found = CHOICE.exec(text))
    text =
      text.slice(0, found.index) +
      pick(prng, found[1]!.split('|')) +
      text.slice(found.index + found[0].length);
  return text
    .replaceAll(/<([a-z_]+)>/g, (_all, name: string) => {
      const value = values[name];
      if (value === undefined) throw new Error(`no value for <${name}> in ${template}`);
      return value;
    })
    .replaceAll(/ {2,}/g, ' ')
    .trim();
}

/** Puts the first letter of a template in upper case, and of each choice at its beginning. */
export function capital(template: string): string {
  const upper = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
  return template.startsWith('{')
    ? template.replace(/^\{([^{}]*)\}/, (_all, words: string) => `{${words.split('|').map(upper).join('|')}}`)
    : upper(template);
}

export function pick<T>(prng: Prng, list: readonly T[]): T {
  return list[prng.below(list.length)]!;
}

/** Returns the items in a random order. */
export function shuffle<T>(prng: Prng, list: readonly T[]): T[] {
  const left = [...list];
  const out: T[] = [];
  while (left.length > 0) out.push(...left.splice(prng.below(left.length), 1));
  return out;
}

/** Draws a random whole number from `low` to `high`. */
export function between(prng: Prng, low: number, high: number): number {
  return low + prng.below(high - low + 1);
}

/**
 * Titles of agent variants for people: the first words that all golden prompts of a variant have in common. A title ends
 * before the first word that differs between prompts, such as a customer's name. Pure; round's thread.
 */

import type { LearnedStep } from '../student/model/learned-step.ts';
import type { PromptText } from '../student/model/prompt-text.ts';

/** Maximum characters and minimum words of a title. */
const TITLE = { characters: 60, words_min: 2 } as const;

/**
 * Finds the titles of variants.
 * @returns titles by variant; a variant whose prompts do not have the first two words in common has no title
 */
export function findAgentTitles(agents: ReadonlyMap<LearnedStep, string>): Map<string, string> {
  const common = new Map<string, string[]>();
  const seen = new Map<string, PromptText>();
  for (const [{ step }, agent] of agents) {
    const { prompt } = step;
    // Steps of a run share their prompt.
    if (prompt === undefined || seen.get(agent) === prompt) continue;
    seen.set(agent, prompt);
    const words = firstWords(prompt);
    const before = common.get(agent);
    common.set(agent, before === undefined ? words : before.slice(0, countAlike(before, words)));
  }
  const titles = new Map<string, string>();
  for (const [agent, words] of common) {
    const title = joinTitle(words);
    if (title !== '') titles.set(agent, title);
  }
  return titles;
}

/** Words of the first sentence that has more than one word (a heading may have only one). */
function firstWords(prompt: PromptText): string[] {
  for (const sentence of prompt.flat()) {
    // Characters of Markdown's syntax are not words.
    const plain = sentence.replace(/^[\s#*_>`-]+/u, '').slice(0, 2 * TITLE.characters);
    const words = plain.trim().split(/\s+/u);
    if (words.length >= TITLE.words_min && /\p{L}/u.test(plain)) return words;
  }
  return [];
}

function countAlike(some: readonly string[], others: readonly string[]): number {
  const differs = some.findIndex((word, at) => word !== others[at]);
  return differs < 0 ? some.length : differs;
}

function joinTitle(words: readonly string[]): string {
  let title = '';
  let count = 0;
  for (const word of words) {
    const longer = title === '' ? word : `${title} ${word}`;
    if (longer.length > TITLE.characters) break;
    title = longer;
    count++;
  }
  return count < TITLE.words_min ? '' : title.replace(/[\s.,:;!?–—-]+$/u, '');
}

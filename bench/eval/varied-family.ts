/**
 * Agents whose frontier model varies as real models do: many wordings of the same values, free-text arguments, several
 * valid next steps. A policy lists every act that is right at a step. The same list judges a student's answer by its
 * effect, in any wording. Bench process.
 */

import type { Prng } from '../../src/std/prng.ts';
import type { Act, AgentFamily, LoggedCall, WireBlock } from './agent-family.ts';
import { pick } from './agent-worlds.ts';

/** Parts of a text, each with its wordings; `''` leaves the part out. */
type Phrases = readonly (readonly string[])[];

/** A text that may be worded in several ways. */
interface VariedText {
  phrases: Phrases;
  /** Values that every right wording contains. */
  needs: readonly string[];
  /** Values and words that no right wording contains. */
  never?: readonly string[];
}

/** One of the right acts at a step. */
type Option =
  | { name: string; input: Record<string, unknown>; texts?: Record<string, VariedText>; weight?: number }
  | { final: VariedText; weight?: number };

/** A family, described by the acts that are right at each step. */
// biome-ignore lint/suspicious/noExplicitAny: a list of families holds worlds of all kinds
export interface VariedFamily<World = any> extends Omit<AgentFamily<World>, 'act' | 'isDone'> {
  options(world: World, log: readonly LoggedCall[]): Option[];
}

/** Returns the family with a policy that draws one of the right acts. */
export function toFamily<World>(family: VariedFamily<World>): AgentFamily<World> {
  return {
    ...family,
    act: (world, log, random) => word(draw(family.options(world, log), random), random),
    isDone: (world, log, final) => accepts(family.options(world, log), [{ type: 'text', text: final }]),
  };
}

function draw(options: readonly Option[], random: Prng): Option {
  const sum = options.reduce((all, { weight = 1 }) => all + weight, 0);
  let left = random.float() * sum;
  for (const option of options) {
    left -= option.weight ?? 1;
    if (left < 0) return option;
  }
  return options.at(-1)!;
}

function word(option: Option, random: Prng): Act {
  const say = ({ phrases }: VariedText): string =>
    phrases
      .map((wordings) => pick(random, wordings))
      .filter((part) => part !== '')
      .join(' ');
  if ('final' in option) return { final: say(option.final) };
  const texts = Object.entries(option.texts ?? {}).map(([key, text]) => [key, say(text)]);
  return { calls: [{ name: option.name, input: { ...option.input, ...Object.fromEntries(texts) } }] };
}

/** Whether the effect of an answer is that of one of the options. */
export function accepts(options: readonly Option[], content: readonly WireBlock[]): boolean {
  const calls = content.filter((block) => block.type === 'tool_use');
  const text = content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');
  return options.some((option) => {
    if ('final' in option) return calls.length === 0 && saysIt(text, option.final);
    const [call] = calls;
    if (call === undefined || calls.length > 1 || call.name !== option.name) return false;
    const keys = Object.keys(option.input);
    const texts = option.texts ?? {};
    if (Object.keys(call.input).length !== keys.length + Object.keys(texts).length) return false;
    return (
      keys.every((key) => JSON.stringify(call.input[key]) === JSON.stringify(option.input[key])) &&
      Object.entries(texts).every(([key, wanted]) => saysIt(call.input[key], wanted))
    );
  });
}

function saysIt(text: unknown, { needs, never = [] }: VariedText): boolean {
  if (typeof text !== 'string') return false;
  const lower = text.toLowerCase();
  return (
    needs.every((value) => lower.includes(value.toLowerCase())) &&
    !never.some((value) => lower.includes(value.toLowerCase()))
  );
}

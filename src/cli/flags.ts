/**
 * Reads a command's flags. The errors for wrong flags are the same for all commands and say what to
 * do. Main thread.
 */

import { parseArgs } from 'node:util';
import { findNearestName } from '../std/nearest-name.ts';
import { UsageError } from './io.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/**
 * The flags of a command by name, without `help`, which every command has. `switch`: takes no value; `list`:
 * repeatable, returned as one text, separated by commas.
 */
export type FlagKinds = Readonly<Record<string, 'text' | 'list' | 'switch'>>;

/** The given values. A repeated flag has its last value; a list has all values. */
export type FlagValues<Kinds extends FlagKinds> = {
  readonly [Name in keyof Kinds]?: Kinds[Name] extends 'switch' ? true : string;
} & { readonly help?: true };

/** Longest word that a message repeats. */
const WORD_CHARACTERS = 200;

/**
 * Reads the flags of a command that takes no words.
 * @param argv what follows the command
 * @throws UsageError for an unknown flag, a flag without its value, a switch with one, or an unexpected word
 */
export function readFlags<const Kinds extends FlagKinds>(argv: string[], kinds: Kinds): FlagValues<Kinds> {
  const { values, words } = readFlagsAndWords(argv, kinds);
  refuseWords(words);
  return values;
}

/**
 * Reads the flags and words of a command, which interprets the words itself.
 * @throws UsageError for an unknown flag, a flag without its value, or a switch with one
 */
export function readFlagsAndWords<const Kinds extends FlagKinds>(
  argv: string[],
  kinds: Kinds,
): { values: FlagValues<Kinds>; words: string[] } {
  // `help` first, so that it wins among names that are equally close to a mistyped one.
  const all: FlagKinds = { help: 'switch', ...kinds };
  const { tokens } = parseArgs({
    args: argv,
    // The parser is not strict, so that this file writes the messages.
    strict: false,
    tokens: true,
    options: Object.fromEntries(
      Object.entries(all).map(([name, kind]) => [
        name,
        { type: kind === 'switch' ? 'boolean' : 'string', ...(name === 'help' ? { short: 'h' } : {}) },
      ]),
    ),
  });
  const values: Record<string, string | true> = {};
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName: flag, value, inlineValue: isInline } = token;
    const kind = Object.hasOwn(all, name) ? all[name] : undefined;
    if (kind === undefined) {
      const meant = findNearestName(name, Object.keys(all));
      const suggestion = meant === null ? '' : `; did you mean --${meant}?`;
      throw new UsageError(`there is no option ${makeWord(flag)}${suggestion}`);
    }
    if (kind === 'switch') {
      if (value !== undefined) throw new UsageError(`${flag} takes no value: write only ${flag}`);
      values[name] = true;
      continue;
    }
    if (value === undefined) throw new UsageError(`${flag} takes a value: write ${flag} VALUE`);
    if (isInline !== true && /^-./s.test(value)) {
      const typed = makeWord(value);
      throw new UsageError(`${flag} takes a value; if ${typed} is that value, write ${flag}=${typed}`);
    }
    const before = kind === 'list' ? values[name] : undefined;
    values[name] = before === undefined ? value : `${before},${value}`;
  }
  return { values: values as FlagValues<Kinds>, words };
}

/** Refuses words that a command does not take. @throws UsageError for the first of them */
export function refuseWords(words: readonly string[]): void {
  if (words.length === 0) return;
  throw new UsageError(
    `${makeWord(words[0]!)} belongs to no option: leave the word out, or put its option in front`,
  );
}

function makeWord(typed: string): string {
  return makeHarmlessLine(typed.length > WORD_CHARACTERS ? `${typed.slice(0, WORD_CHARACTERS)}…` : typed);
}

/** No pattern matches in a text without its triggers. The texts are made from the patterns themselves. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ENUMERATION } from '../../../src/domain/monitors/digest.ts';
import * as lexicon from '../../../src/domain/monitors/lexicon.ts';
import { packTriggers, TRIGGER_WORDS, type TriggerName } from '../../../src/domain/monitors/triggers.ts';
import { drawsOf } from '../../long-parts.ts';

const PATTERNS: Readonly<Record<TriggerName, RegExp>> = {
  failing: lexicon.FAILING,
  denying: lexicon.DENYING,
  partial: lexicon.PARTIAL,
  pending: lexicon.PENDING,
  claiming: lexicon.CLAIMING,
  presupposing: lexicon.PRESUPPOSING,
  verifying: lexicon.VERIFYING,
  enumerating: ENUMERATION,
  recapping: lexicon.RECAPPING,
  placeholder: lexicon.PLACEHOLDER,
};

/** @returns the content of the group if the whole pattern is one group */
function unwrap(source: string): string {
  const inner = /^\\b\(\?:([\s\S]*)\)\\b$/.exec(source)?.[1];
  if (inner === undefined) return source;
  let depth = 0;
  for (const [character] of inner.replaceAll(/\\.|\[[^\]]*\]/g, '').matchAll(/[()]/g)) {
    depth += character === '(' ? 1 : -1;
    if (depth < 0) return source;
  }
  return inner;
}

/** @returns the outermost alternatives of a pattern, so that texts are made for each of them */
function splitAlternatives(source: string): string[] {
  const parts: string[] = [''];
  let depth = 0;
  let inClass = false;
  for (let at = 0; at < source.length; at++) {
    const character = source[at]!;
    let piece = character;
    if (character === '\\') piece += source[++at]!;
    else if (inClass) inClass = character !== ']';
    else if (character === '[') inClass = true;
    else if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (character === '|' && depth === 0) {
      parts.push('');
      continue;
    }
    parts[parts.length - 1] += piece;
  }
  return parts;
}

/** Removes boundaries and anchors, which match no characters. */
function withoutAssertions(source: string): string {
  return source
    .replaceAll('\\b', '')
    .replaceAll('(?:^|\\n)', '\\n')
    .replaceAll('^', (_, at: number) => (source[at - 1] === '[' ? '^' : ''));
}

describe.each(Object.keys(PATTERNS) as TriggerName[])('%s', (name) => {
  it('matches only if one of its triggers occurs in the match', () => {
    const words = TRIGGER_WORDS[name];
    let matched = 0;
    const { source, flags } = PATTERNS[name];
    const pattern = new RegExp(source, flags);
    for (const alternative of splitAlternatives(unwrap(source))) {
      fc.assert(
        fc.property(
          fc.stringMatching(new RegExp(`^(?:${withoutAssertions(alternative)})$`)),
          fc.boolean(),
          (made, isUpper) => {
            // Only the match counts, because a trigger before it would prove nothing.
            const text = pattern.exec(isUpper && flags.includes('i') ? made.toUpperCase() : made)?.[0];
            if (text === undefined) return;
            matched++;
            const folded = text.toLowerCase();
            expect(
              words.some((word) => folded.includes(word)),
              JSON.stringify(text),
            ).toBe(true);
          },
        ),
        drawsOf(400),
      );
    }
    expect(matched).toBeGreaterThan(100);
  });
});

it('a trigger that the search could not find is refused', () => {
  const words = (word: string) => ({ ...TRIGGER_WORDS, failing: [word] });
  for (const word of ['', 'ab', 'Fail', 'line\nend', 'naïve', 'longer than twenty characters'])
    expect(() => packTriggers(words(word)), word).toThrow(RangeError);
});

/**
 * The functions that read texts: hashes, quotes, words, repeated sentences, and their cost for texts made to be slow.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashLoosely, hashOutcome } from '../../../src/domain/monitors/canonical.ts';
import { digestStep } from '../../../src/domain/monitors/digest.ts';
import { maskStep } from '../../../src/domain/monitors/masked-step.ts';
import { cleanQuote } from '../../../src/domain/monitors/quote.ts';
import { countStutter } from '../../../src/domain/monitors/stutter.ts';
import { hashLexicon, hashWord, readWords, WordList, WordSet } from '../../../src/domain/monitors/words.ts';
import { drawsOf } from '../../long-parts.ts';
import { makeStep } from './script.ts';

describe('the hash of a result', () => {
  const CHANGING =
    /\b\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?\b|\b\d+(?:\.\d+)? ?(?:ms|s|secs?|seconds?|minutes?)\b|\b0x[0-9a-f]+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;

  it('ignores times, durations, addresses and ids, wherever they are in a text', () => {
    const changing = [
      fc.constantFrom('9:05', '12:34:56.789', '3 ms', '4S', '1.5 Seconds', '2MINUTES', '0x7F', '0Xbeef'),
      fc.uuid(),
      fc.uuid().map((id) => id.toUpperCase()),
    ];
    const nearly = fc.constantFrom(
      '9:5',
      '3  ms',
      '0x',
      '-',
      ':',
      's',
      'M',
      'x',
      '1',
      '0',
      'f-',
      '12345678-',
    );
    const piece = fc.oneof(...changing, nearly, fc.constantFrom(' ', '\n', 'é', 'ſ', 'word', '.'));
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        expect(hashOutcome(text)).toBe(hashLoosely(text.replace(CHANGING, '#')));
      }),
      drawsOf(2_000),
    );
  });
});

describe('a quote', () => {
  it('is one line of at most its length, trimmed, without controls, double quotes and double spaces', () => {
    const unit = fc.oneof(
      fc.constantFrom(' ', '\n', '\t', '\u0000', '"', '\u202e', '\ud800', '\u2028', 'é', '😀', '…'),
      fc.string({ minLength: 1, maxLength: 1 }),
    );
    fc.assert(
      fc.property(
        fc.string({ unit, maxLength: 600 }),
        fc.integer({ min: 2, max: 140 }),
        (text, characters) => {
          const quote = cleanQuote(text, characters);
          expect(quote.length).toBeLessThanOrEqual(characters);
          expect(quote.isWellFormed()).toBe(true);
          expect(quote).toBe(quote.trim());
          expect(quote).not.toMatch(/[\p{Cc}\p{Cs}\u202e\u2028\u2029"]| {2}/u);
        },
      ),
    );
  });

  it('of ASCII text is the same if other characters occur beside it', () => {
    const ascii = fc.string({
      unit: fc.constantFrom(' ', '\n', '\u0000', '"', 'a', 'b', '.'),
      maxLength: 60,
    });
    fc.assert(
      fc.property(ascii, fc.integer({ min: 4, max: 50 }), (text, characters) => {
        // A letter beyond ASCII makes the function use its general path.
        expect(cleanQuote(`e ${text}`, characters)).toBe(
          cleanQuote(`é ${text}`, characters).replace('é', 'e'),
        );
      }),
      drawsOf(500),
    );
  });
});

describe('words', () => {
  it('are the same for any case, ending and surrounding signs', () => {
    const stems = (text: string): number[] => {
      const found: number[] = [];
      readWords(text, (_, stem) => found.push(stem));
      return found;
    };
    expect(stems('Parsing, "parsed" (parses)!')).toEqual(
      stems('parse parse parse').map(() => stems('pars')[0]),
    );
    expect(stems('漢字')).toHaveLength(2);
    expect(stems('\ud800 \u0000 😀 ---')).toEqual([]);
  });

  it('are the same in a WordList as from `readWords`', () => {
    const list = new WordList();
    const piece = fc.oneof(
      fc.constantFrom(
        'Parsing',
        'parsed',
        ' ',
        '漢字',
        'かな',
        '\ud800',
        '\0',
        '12ab',
        'É',
        '-',
        '\n',
        'ass',
        'sing',
      ),
      fc.string({ unit: 'binary', maxLength: 20 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), fc.integer({ min: 1, max: 30 }), (pieces, times) => {
        const text = pieces.join('').repeat(times);
        const wholes: number[] = [];
        const stems: number[] = [];
        readWords(text, (whole, stem) => {
          wholes.push(whole);
          stems.push(stem);
        });
        list.read(text);
        expect(list.count).toBe(wholes.length);
        expect([...list.wholes.subarray(0, list.count)]).toEqual(wholes);
        expect([...list.stems.subarray(0, list.count)]).toEqual(stems);
      }),
    );
  });

  it('of a lexicon are found, and no others', () => {
    const inside = ['the', 'of', 'not', 'again', 'another'];
    const lexicon = hashLexicon(inside.join(' '));
    for (const word of inside) expect(lexicon.has(hashWord(word))).toBe(true);
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{1,12}$/), (word) => {
        expect(lexicon.has(hashWord(word))).toBe(inside.includes(word));
      }),
    );
  });

  it('are kept in a set in ascending order, each once and only the 40 smallest, until `begin`', () => {
    const set = new WordSet(40);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 0xffff }), { maxLength: 300 }), (hashes) => {
        set.begin();
        for (const hash of hashes) set.add(hash);
        const into = new Uint16Array(40);
        const count = set.seal(into);
        const expected = [...new Set(hashes)].sort((a, b) => a - b).slice(0, 40);
        expect([...into.subarray(0, count)]).toEqual(expected);
      }),
    );
  });
});

describe('a repeated sentence', () => {
  it('counts only in prose', () => {
    const sentence = 'I will look at the file again.';
    expect(countStutter(`${sentence} `.repeat(9))).toBe(9);
    expect(countStutter(`| ${sentence} | x |\n`.repeat(9))).toBe(0);
    expect(countStutter(`- ${sentence}\n`.repeat(9))).toBe(0);
    expect(countStutter(`\`\`\`\n${`${sentence}\n`.repeat(9)}\`\`\``)).toBe(0);
    expect(countStutter('const a = compute(value, other);\n'.repeat(9))).toBe(0);
  });
});

describe('texts designed to be slow', () => {
  // Each costs a few milliseconds at most; quadratic work on one of them runs into the time limit of a test.
  it.each([
    ['one word', 'a'],
    ['one word without spaces in its script', '漢'],
    ['white space', ' '],
    ['lines', '\n'],
    ['double quotes', '"'],
    ['brackets', '['],
    ['openings of objects', '{"a":'],
    ['digits', '1:'],
    ['lone surrogates', '\ud800'],
    ['NUL', '\u0000'],
    ['beginnings of a list', "'a', "],
    ['names in a row', 'Aa bb, '],
    ['claims', 'It works. '],
    ['reserves', 'tests pass not. '],
    ['letters and points', 'a.'],
    ['beginnings of failures', 'exited with '],
    ['beginnings of parts', 'showing the first '],
    ['beginnings of summaries', 'conversation a a '],
    ['beginnings of denials', 'no data '],
    ['table signs', '| '],
  ])('have digests of bounded size: %s', (_, unit) => {
    const text = unit.repeat(Math.ceil(1_000_000 / unit.length));
    for (const field of ['action', 'action_input', 'thought', 'observation'] as const) {
      for (let i = 0; i < 10; i++) {
        const digest = digestStep(maskStep(makeStep(i, { [field]: text })));
        expect(JSON.stringify({ ...digest, features: '' }).length).toBeLessThan(4096);
      }
    }
  });
});

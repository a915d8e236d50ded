/** Cached words give the same tokens as the whole text. A tokenizer that looks beyond a word gets whole texts. */
import { readFileSync } from 'node:fs';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findModelDir } from '../../src/search/open-embedder.ts';
import { TOKEN_WORDS_REMEMBERED, WordTokens } from '../../src/search/word-tokens.ts';
import { drawsOf } from '../long-parts.ts';

const dir = findModelDir({ model_dir: null });
const readShipped = (name: string) => JSON.parse(readFileSync(`${dir}/${name}`, 'utf8')) as object;
const json = readShipped('tokenizer.json');
const config = readShipped('tokenizer_config.json');

/** A tokenizer that counts its calls. */
function countCalls(tokenizer: Tokenizer): { tokenizer: Tokenizer; calls: () => number } {
  let calls = 0;
  const encode = (text: string) => {
    calls++;
    return tokenizer.encode(text);
  };
  return { tokenizer: { encode } as Tokenizer, calls: () => calls };
}

const whole = new Tokenizer(json, config);
const wholeIds = (text: string) => whole.encode(text).ids.map(BigInt);

describe('the words of the shipped tokenizer', () => {
  const { tokenizer, calls } = countCalls(whole);
  const words = new WordTokens(tokenizer, json);

  it.each([
    '',
    ' ',
    'migrate  the schema of theHTTPServer ',
    'Σίσυφος ΟΔΟΣ ΟΔΟΣ, ΟΔΟΣ.',
    'e\u0301 \u0301x \u00b4 \u1100 \u1161 ﬁ ﬀ İstanbul',
    '[PAD] [UNK] ##a [PAD]x',
    'line one\nline two\tand\u00a0more\u3000still\r\n',
    '日本語 テキスト 한국어 ไทย 😀 👩‍👩‍👧 x'.repeat(20),
  ])('are those of the whole text: %j', (text) => {
    expect([...words.encode(text)]).toEqual(wholeIds(text));
    expect([...words.encode(text)]).toEqual(wholeIds(text));
  });

  it('are those of any whole text', () => {
    const character = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...' abcXYZ09.-_\n\u0301\u03a3\u1100\u1161\u00b4İ') },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
    );
    const text = fc.array(character, { maxLength: 40 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, (sample) => {
        expect([...words.encode(sample)]).toEqual(wholeIds(sample));
      }),
      drawsOf(300),
    );
  });

  it('need no call of the tokenizer the second time', () => {
    words.encode('Unheard-of words, once.');
    const before = calls();
    words.encode('words, of Unheard-of once. of now words,');
    expect(calls()).toBe(before + 1);
  });

  it('are not cached if they have digits or are long, because they may be keys or names', () => {
    const texts = ['sk-4f', 'x'.repeat(25)];
    for (const text of texts) words.encode(text);
    const before = calls();
    for (const text of texts) words.encode(text);
    expect(calls()).toBe(before + texts.length);
  });

  it('are forgotten when there are too many, the least recently used first', () => {
    const name = (n: number) =>
      `w${[...n.toString(26)].map((c) => String.fromCharCode(97 + Number.parseInt(c, 26))).join('')}`;
    const fresh = countCalls(whole);
    const few = new WordTokens(fresh.tokenizer, json);
    for (let n = 0; n < TOKEN_WORDS_REMEMBERED * 2; n++) few.encode(`${name(n)} often`);
    expect(fresh.calls()).toBe(TOKEN_WORDS_REMEMBERED * 2 + 1);
    few.encode(name(0));
    expect(fresh.calls()).toBe(TOKEN_WORDS_REMEMBERED * 2 + 2);
  });
});

describe('another tokenizer', () => {
  it('gets every text whole', () => {
    const other = { ...json, version: '1.1' };
    const { tokenizer, calls } = countCalls(new Tokenizer(other, config));
    const words = new WordTokens(tokenizer, other);
    for (let n = 1; n <= 2; n++) {
      expect([...words.encode('red fox')]).toEqual(wholeIds('red fox'));
      expect(calls()).toBe(n);
    }
  });
});

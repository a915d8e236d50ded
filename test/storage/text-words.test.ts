/** Words of the full-text index in any script, and what a query finds in a text. */
import { describe, expect, it } from 'vitest';
import { runKey } from '../../src/storage/text-index/run-key.ts';
import { findTerm, parseTextQuery, TextQueryError } from '../../src/storage/text-index/text-query.ts';
import { eachWord, WORD_CHARS } from '../../src/storage/text-index/words.ts';

function wordsOf(text: string): string[] {
  const words: string[] = [];
  eachWord(text, (word) => words.push(word));
  return words;
}

/** Whether one text contains every term of a query. */
function finds(query: string, text: string): boolean {
  return parseTextQuery(query).every((term) => findTerm(text, term) !== null);
}

describe('words', () => {
  it.each([
    ['The date-parser fails!', ['the', 'date', 'parser', 'fails']],
    ['src/date_parser.ts:42', ['src', 'date', 'parser', 'ts', '42']],
    ['Café CAFÉ cafe\u0301 ｃａｆｅ', ['cafe', 'cafe', 'cafe', 'cafe']],
    ['Straße STRASSE', ['strasse', 'strasse']],
    ['ΟΔΟΣ οδός', ['οδοσ', 'οδοσ']],
    ['Привет, мир', ['привет', 'мир']],
    ['שלום עולם', ['שלום', 'עולם']],
    ['مرحبا بالعالم', ['مرحبا', 'بالعالم']],
    ['नमस्ते दुनिया', ['नमस्ते', 'दुनिया']],
    ['日本語', ['日本', '本語', '語']],
    ['第3章 日', ['第', '3', '章', '日']],
    ['오류입니다', ['오류', '류입', '입니', '니다', '다']],
    ['𠮷野家 ok', ['𠮷野', '野家', '家', 'ok']],
    ['a\u{1f600}b', ['a', 'b']],
    ['soft\u00adhyphen', ['softhyphen']],
    ['\ud800 \udc00 lone', ['lone']],
    ['', []],
  ])('of the text %j are %j', (text, words) => {
    expect(wordsOf(text)).toEqual(words);
  });

  it('of a text are cut if they are long, and the next word is still found', () => {
    expect(wordsOf(`${'x'.repeat(10_000)} end`)).toEqual(['x'.repeat(WORD_CHARS), 'end']);
    expect(wordsOf(`${'É'.repeat(10_000)} end`)).toEqual(['e'.repeat(WORD_CHARS), 'end']);
  });

  it('of a text are returned with their position', () => {
    const places: [string, number, string][] = [];
    const text = 'Ein Tür 日本 x';
    eachWord(text, (word, position, start, end) => places.push([word, position, text.slice(start, end)]));
    expect(places).toEqual([
      ['ein', 0, 'Ein'],
      ['tur', 1, 'Tür'],
      ['日本', 2, '日本'],
      ['本', 3, '本'],
      ['x', 4, 'x'],
    ]);
  });
});

describe('a query', () => {
  it.each([
    ['parser', 'The date parser'],
    ['PARSER date', 'the date parser'],
    ['"date parser"', 'a DATE-parser'],
    ['date_parser.ts', 'import from "./date_parser.ts"'],
    ['pars*', 'the parser'],
    ['"date pars*"', 'the date parser'],
    ['日本語', 'これは日本語です'],
    ['語', '日本語 text'],
    ['本', '日本語'],
    ['"日本 parser"', 'ein 日本 parser'],
    ['"parser 日"', 'parser 日本'],
    ['cafe', 'Le CAFÉ'],
    ['“date parser”', 'date parser'],
    ['"date parser', 'date parser'],
    ['Straße', 'STRASSE'],
    ['오류', '오류입니다'],
  ])('%s is found in %j', (query, text) => {
    expect(finds(query, text)).toBe(true);
  });

  it.each([
    ['pars', 'parser'],
    ['"parser date"', 'date parser'],
    ['"date parser"', 'date of the parser'],
    ['日語', '日本語'],
    ['date parser', 'date'],
    ['"a a b"', 'a b a b'],
  ])('%s is not found in %j', (query, text) => {
    expect(finds(query, text)).toBe(false);
  });

  it('finds a phrase behind a false start', () => {
    expect(finds('"a a b"', 'a a a b')).toBe(true);
    expect(findTerm('x date date parser', parseTextQuery('"date parser"')[0]!)).toEqual({
      start: 7,
      end: 18,
    });
  });

  it.each(['', '   ', '""', '*', '!?', '" "'])('that contains no word is refused: %j', (query) => {
    expect(() => parseTextQuery(query)).toThrow(TextQueryError);
  });

  it('is refused when it is too long', () => {
    expect(() => parseTextQuery('w '.repeat(33))).toThrow(/at most 32 words/);
  });
});

it('run numbers have 53 bits, and differ from the number that means no run', () => {
  const keys = new Set(Array.from({ length: 100_000 }, (_, at) => runKey(`conv_${at}`)));
  expect(keys.size).toBe(100_000);
  expect(runKey(null)).toBe(0);
  expect([...keys].every((key) => Number.isSafeInteger(key) && key > 0)).toBe(true);
});

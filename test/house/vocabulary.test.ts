/** The tree uses the words of docs/glossary.md, and none of those that `vocabulary.ts` forbids. */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findVocabularyFaults } from './vocabulary.ts';

const ROOT = join(import.meta.dirname, '../..');

/**
 * Files that are not checked: the changelog, which keeps its words; the rules and their test, which name forbidden
 * words; and the list of common words.
 */
const EXEMPT = [
  'CHANGELOG.md',
  'src/domain/patterns/common-words.ts',
  'src/student/model/common-words.ts',
  'test/house/vocabulary.ts',
  'test/house/vocabulary.test.ts',
];

const paths = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\0')
  .filter((path) => /\.(?:ts|tsx|mjs|js|md|py|cc|h)$/.test(path) && !EXEMPT.includes(path));

describe('the vocabulary', () => {
  it('is followed in the whole tree', () => {
    expect(paths.length).toBeGreaterThan(1_000);
    expect(
      paths.flatMap((path) => findVocabularyFaults(path, readFileSync(join(ROOT, path), 'utf8'))),
    ).toEqual([]);
  });
});

describe('the check of the vocabulary', () => {
  const wordsOf = (path: string, text: string) =>
    findVocabularyFaults(path, text).map((fault) => /: (["`].*?["`]):/.exec(fault)![1]);

  it.each([
    ['Nobody reads it.', '"Nobody"'],
    ['There is none.', '"is none"'],
    ['each has a file of its own', '"of its own"'],
    ['/** Each has a file of its\n * own. */', '"of its own"'],
  ])('finds in prose: %s', (text, word) => {
    expect(wordsOf('docs/a.md', text)).toEqual([word]);
  });

  it.each([
    'const its = 1;',
    'for (const its of []) f(its);',
    'const { a: its } = b;',
    'const { its = 1 } = b;',
    'const [, ...its] = b;',
    'f((its) => 1);',
    'function f(a: string, its: number) {}',
    'class A { f(its: number) {} }',
    'try { f(); } catch (its) { f(its); }',
    'function its<A>(a: A) {}',
    'f((a: number, its?: string) => 1);',
    'let its\nf();',
    'let its // a comment\n= 1;',
    '/* a comment */ const its = 1;',
    '/*\n * a comment */ const its = 1;',
  ])('bound by code: %s', (text) => {
    expect(wordsOf('src/a.ts', text)).toEqual(['`its`']);
  });

  it.each(['const a = { one: 1 };', 'f(a.one);', "expect('one')", '// one of them'])(
    'finds nothing in: %s',
    (text) => {
      expect(wordsOf('src/a.ts', text)).toEqual([]);
    },
  );
});

/**
 * Generates `bytes/key-table.h`, which contains the table of key shapes for the addon. Run `node native/key-table.ts`
 * after each change to the table. A test compares the file with the table. Main thread.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BEGINNINGS, FIRST_WORDS, groupPairs } from '../src/redaction/key-shapes.ts';

const PATH = join(import.meta.dirname, 'bytes', 'key-table.h');
const LINE_CHARACTERS = 110;

function formatList(name: string, words: readonly string[]): string {
  const lines: string[] = [];
  let line = '   ';
  for (const word of words) {
    const next = ` ${JSON.stringify(word)},`;
    if (line.length + next.length > LINE_CHARACTERS) {
      lines.push(line);
      line = '   ';
    }
    line += next;
  }
  return `const char* const ${name}[] = {\n${[...lines, line].join('\n')}\n};\n`;
}

/** Writes the text of the header. */
export function formatKeyTable(): string {
  return [
    '/** How keys begin. Made by `node native/key-table.ts` from `src/redaction/key-shapes.ts`: change it there. */',
    '#pragma once',
    '',
    'namespace {',
    '',
    '/** Beginnings that make a run suspect at any position. */',
    formatList('kBeginnings', BEGINNINGS),
    '/** Beginnings that make a run suspect only where a token begins. */',
    formatList('kFirstWords', FIRST_WORDS),
    '/** The pairs of bytes with which beginnings start, in groups. */',
    formatList(
      'kPairGroups',
      groupPairs().map((pairs) => pairs.join('')),
    ),
    '}  // namespace',
    '',
  ].join('\n');
}

if (process.argv[1] === import.meta.filename) writeFileSync(PATH, formatKeyTable());

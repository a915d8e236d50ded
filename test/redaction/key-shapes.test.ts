/**
 * One table of key shapes: the native header is made from it, the filters find all its keys, and no other file has such
 * a list.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../native/byte-engine.ts';
import { fallback } from '../../native/fallback.ts';
import { formatKeyTable } from '../../native/key-table.ts';
import { findKeyShapes } from '../../src/redaction/key-search.ts';
import {
  BEGINNINGS,
  CHARACTERS,
  FIRST_WORDS,
  KEY_SHAPES,
  KINDS,
  type Part,
} from '../../src/redaction/key-shapes.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The shortest text that the part matches, with alternating letters and digits if there is a choice. */
function write(part: Part): string {
  if (typeof part === 'string') return part;
  if ('one_of' in part) return part.one_of[0]!;
  if ('parts' in part) return '';
  const members = [...KINDS.keys()].filter(
    (byte) => (KINDS[byte]! & CHARACTERS[part.of]) !== 0 && byte !== 0x2e,
  );
  const pick = ['B', 'b', '7', 'E', 'e', '3']
    .map((char) => char.charCodeAt(0))
    .filter((byte) => members.includes(byte));
  const from = pick.length > 0 ? pick : members;
  return Array.from({ length: part.least === 0 && part.of === 'run' ? 20 : part.least }, (_, i) =>
    String.fromCharCode(from[i % from.length]!),
  ).join('');
}

const EXAMPLES = KEY_SHAPES.flatMap(({ begins, then }) =>
  begins.map((begin) => {
    let text = begin + then.map(write).join('');
    // No provider issues tokens that are shorter than a run of the engine.
    if (!/[\w-]{16}/.test(text))
      text =
        begin +
        then
          .map((part) => write(part))
          .join('')
          .padEnd(24, 'Ab1');
    return [begin, text] as const;
  }),
);

describe('the table of keys', () => {
  it('matches the native header', () => {
    expect(readFileSync(join(ROOT, 'native/bytes/key-table.h'), 'utf8')).toBe(formatKeyTable());
  });

  it('contains nothing twice, first words from four bytes on, and beginnings from two bytes on', () => {
    expect(new Set(BEGINNINGS).size).toBe(BEGINNINGS.length);
    expect(new Set(FIRST_WORDS).size).toBe(FIRST_WORDS.length);
    for (const word of FIRST_WORDS) expect(word.length).toBeGreaterThanOrEqual(4);
    for (const word of [...BEGINNINGS, ...FIRST_WORDS]) expect(word).toMatch(/^[\w-]{2,16}$/);
  });

  it.each(EXAMPLES)('%s… is found by the addon, by its fallback, and by the search', (_, key) => {
    const body = Buffer.from(`{"text":"${key}"}`);
    for (const engine of [fallback, loadAddon() ?? fallback]) {
      const found = findKeyShapes(body, 0, body.length, engine);
      expect(found, `${engine.kind}: ${key}`).toHaveLength(1);
      expect(found[0]!.start, key).toBe(9);
    }
  });

  it('is the only list of keys', () => {
    const files = ['src', 'native', 'actors'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => /\.(?:ts|h|cc|js)$/.test(name))
        .map((name) => `${folder}/${name}`),
    );
    const telling = ['github_pat_', 'xkeysib-', 'dop_v1_', 'GOCSPX-', 'pplx-', 'rubygems_'];
    const holders = files.filter((file) => {
      const source = readFileSync(join(ROOT, file), 'utf8');
      return telling.some((word) => source.includes(word));
    });
    expect(holders.sort()).toEqual(['native/bytes/key-table.h', 'src/redaction/key-shapes.ts']);
  });
});

/** Keys beside other text: what the search remembers of a text never hides a key in it. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { findKeyShapes } from '../../src/redaction/key-search.ts';
import { ShapeMatch } from '../../src/redaction/shape-match.ts';
import { Work } from '../../src/redaction/work.ts';
import { drawsOf } from '../long-parts.ts';

const BEGINNINGS = [
  'sk-',
  'sk-ant-',
  'hf_',
  'gsk_',
  'ghp_',
  'AKIA',
  'ABSK',
  'xai-',
  'AIza',
  'npm_',
  'SG.',
  'fw_',
];
const WORDS = [
  'task',
  'or',
  'routing',
  'Map',
  'HTTP',
  'retries',
  'v2',
  '2026',
  'download',
  'With',
  'x',
  'A',
  '7',
  '-',
  '_',
];
const letters = fc.string({
  unit: fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'),
  minLength: 1,
  maxLength: 24,
});
const hex = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 1, maxLength: 24 });
const piece = fc.oneof(
  { arbitrary: fc.constantFrom(...WORDS), weight: 4 },
  { arbitrary: fc.constantFrom(...BEGINNINGS), weight: 3 },
  letters,
  hex,
);

/** Places at which a key begins, with its range. */
function findKeys(bytes: Uint8Array, matchAt: (at: number) => ShapeMatch): [number, number, number][] {
  return [...bytes.keys()].flatMap((at): [number, number, number][] => {
    const match = matchAt(at);
    return match.isAt(at) ? [[at, match.start, match.end]] : [];
  });
}

it.each([
  // What follows the first beginning is not random as a whole.
  ['sk-1taskv2retries', 'hf_392d154faretriesdownload'],
  ['sk-1routingHTTPA', 'gsk_7379550709a329AtaskMap'],
  ['gsk_2026Withx-', 'xai-51466bc4408bcWithHTTPretries'],
  ['gsk_orHTTProuting-', 'ghp_346ea364Maprouting'],
])('behind %s, %s is found as it is alone', (before, key) => {
  const search = (text: string) => findKeyShapes(Buffer.from(text));
  expect(search(before + 'x'.repeat(16))).toEqual([]);
  expect(search(key)).toEqual([{ start: 0, end: key.length }]);
  expect(search(before + key)).toEqual([{ start: before.length, end: before.length + key.length }]);
});

it('a key is found at each place at which it is found alone, whatever was examined before', () => {
  fc.assert(
    fc.property(fc.array(piece, { minLength: 2, maxLength: 14 }), (pieces) => {
      const bytes = Buffer.from(pieces.join(''));
      const open = (): ShapeMatch => new ShapeMatch(bytes, bytes.length, new Work());
      const shared = open();
      expect(
        findKeys(bytes, () => shared),
        bytes.toString(),
      ).toEqual(findKeys(bytes, open));
    }),
    drawsOf(6_000),
  );
});

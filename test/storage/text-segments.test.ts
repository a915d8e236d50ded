/** Segments of the full-text index: added texts are found, before and after merging, and a changed byte is noticed. */
import { randomBytes } from 'node:crypto';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openDataKey } from '../../src/std/data-key.ts';
import { runKey } from '../../src/storage/text-index/run-key.ts';
import { SegmentBuilder } from '../../src/storage/text-index/segment-builder.ts';
import { SegmentDamage } from '../../src/storage/text-index/segment-format.ts';
import { chooseMerge, mergeSegments } from '../../src/storage/text-index/segment-merge.ts';
import { BlockCache, SegmentReader } from '../../src/storage/text-index/segment-reader.ts';
import { SegmentWriter } from '../../src/storage/text-index/segment-writer.ts';
import { makeFolder } from './folder.ts';

type Key = Buffer | null;

/** Exchanges with consecutive ids from `first` on, each with its words and its run. */
interface Exchanges {
  first: number;
  words: string[][];
  runs: number[];
}

function write(path: string, { first, words, runs }: Exchanges, key: Key = null): void {
  const builder = new SegmentBuilder(first);
  for (const [at, texts] of words.entries()) {
    builder.add({ run: runs[at]!, mark: `m${first + at}`, texts });
    while (builder.goOn());
  }
  const { first_id, last_id, marks, cut } = builder;
  const writer = new SegmentWriter({ path, key: openDataKey(key), marks, cut, level: 3, first_id, last_id });
  for (const { word, ids } of builder.words()) writer.add(word, ids);
  for (const run of builder.runs) writer.addRun(run);
  writer.finish();
}

function open(path: string, key: Key = null): SegmentReader {
  return SegmentReader.open(path, openDataKey(key), new BlockCache());
}

function findAll(exchanges: readonly Exchanges[], fits: (word: string) => boolean): number[] {
  return exchanges.flatMap(({ first, words }) =>
    words.flatMap((texts, at) => (texts.some(fits) ? [first + at] : [])),
  );
}

const word = fc.constantFrom(...'a ab abc b ba 日本 本語 語 zebra 0 00 01 привет'.split(' '));
const exchanges = fc.array(fc.tuple(fc.array(word, { maxLength: 6 }), fc.nat(3)), {
  minLength: 1,
  maxLength: 20,
});

describe.each([
  ['plain', null],
  ['sealed', Buffer.alloc(32, 7)],
])('a %s segment', (_name, key: Key) => {
  it('finds words and beginnings of words, alone and merged with its neighbours', () => {
    const folder = makeFolder();
    let count = 0;
    fc.assert(
      fc.property(fc.nat(1_000), fc.array(exchanges, { minLength: 1, maxLength: 4 }), (firstId, drawn) => {
        let first = firstId + 1;
        const all = drawn.map((some): Exchanges => {
          const part = { first, words: some.map(([words]) => words), runs: some.map(([, run]) => run) };
          first += some.length;
          return part;
        });
        const readers = all.map((part) => {
          const path = join(folder, `${count++}`);
          write(path, part, key);
          return open(path, key);
        });
        const merged = join(folder, `${count++}`);
        const work = mergeSegments(readers, { path: merged, key: openDataKey(key), level: 3 });
        while (work.next().done !== true);
        const whole = open(merged, key);
        const check = (reader: SegmentReader, parts: readonly Exchanges[]): void => {
          for (const text of ['a', 'ab', '日本', 'zebra', '0', 'missing', 'привет']) {
            expect(reader.find(text)).toEqual(findAll(parts, (word) => word === text));
            const begins = findAll(parts, (word) => word.startsWith(text));
            expect(reader.findPrefix(text, 100)).toEqual(begins);
          }
          const runs = parts.flatMap((part) => part.runs);
          expect(reader.runsFrom(parts[0]!.first).keys).toEqual(runs);
          expect(reader.contents.marks).toEqual([
            `m${parts[0]!.first}`,
            `m${parts[0]!.first + runs.length - 1}`,
          ]);
        };
        for (const [at, reader] of readers.entries()) check(reader, [all[at]!]);
        check(whole, all);
        for (const reader of [...readers, whole]) reader.close();
      }),
      { numRuns: 40 },
    );
  });

  it('detects a changed bit in any part of the file, and a cut', () => {
    const folder = makeFolder();
    const path = join(folder, 'segment');
    const words = Array.from({ length: 300 }, (_, at) => [`word${at % 40}`, `only${at}`]);
    write(path, { first: 5, words, runs: words.map((_, at) => runKey(`run ${at % 9}`)) }, key);
    const whole = readFileSync(path);
    const readAll = (): void => {
      const reader = open(path, key);
      try {
        expect([...reader.words()].length).toBe(340);
        expect(reader.runsFrom(5).keys.length).toBe(300);
      } finally {
        reader.close();
      }
    };
    readAll();
    for (let at = 0; at < whole.length; at += 7) {
      const changed = Buffer.from(whole);
      changed[at]! ^= 1 << (at % 8);
      writeFileSync(path, changed);
      expect(readAll, `byte ${at}`).toThrow(SegmentDamage);
    }
    for (let length = 0; length < whole.length; length += 101) {
      writeFileSync(path, whole);
      truncateSync(path, length);
      expect(readAll, `${length} bytes`).toThrow(SegmentDamage);
    }
  });
});

it('a sealed segment shows no word, and does not open under another key', () => {
  const path = join(makeFolder(), 'segment');
  const key = randomBytes(32);
  write(path, { first: 1, words: [['canaryword', 'other']], runs: [runKey('r')] }, key);
  expect(readFileSync(path).includes('canary')).toBe(false);
  expect(() => open(path)).toThrow(SegmentDamage);
  expect(() => open(path, randomBytes(32))).toThrow(SegmentDamage);
});

it('a prefix that matches too many words is refused', () => {
  const path = join(makeFolder(), 'segment');
  write(path, { first: 1, words: [Array.from({ length: 50 }, (_, at) => `w${at}`)], runs: [0] });
  const reader = open(path);
  expect(reader.findPrefix('w', 50)).toEqual([1]);
  expect(reader.findPrefix('w', 49)).toBeNull();
  reader.close();
});

it('a long exchange is cut, and the cut is counted', { tags: 'long' }, () => {
  const builder = new SegmentBuilder(1);
  builder.add({ run: 0, mark: '', texts: ['early', 'filler '.repeat(1_300_000), 'late'] });
  while (builder.goOn());
  const words = [...builder.words()].map((each) => each.word);
  expect(words).toEqual(['early', 'filler']);
  expect(builder.cut).toBe(1);
});

it('a long text without spaces is indexed by pairs of its characters', () => {
  const builder = new SegmentBuilder(1);
  const text = `${'日'.repeat((1 << 16) - 1)}本語${'日'.repeat(100)}`;
  builder.add({ run: 0, mark: '', texts: [text, `𠮷${text.slice(1)}`, `x${text}`] });
  while (builder.goOn());
  const words = [...builder.words()].map((each) => each.word);
  expect(words).toEqual(expect.arrayContaining(['日本', '本語', '語日']));
});

it('a long text is split between words', () => {
  const builder = new SegmentBuilder(1);
  const text = 'something '.repeat(30_000);
  builder.add({ run: 0, mark: '', texts: [text, text] });
  let pieces = 0;
  while (builder.goOn()) pieces++;
  expect(pieces).toBeGreaterThan(2);
  expect([...builder.words()].map((each) => each.word)).toEqual(['something']);
});

describe('merging', () => {
  const ranges = (...sizes: number[]): { first_id: number; last_id: number }[] => {
    let next = 1;
    return sizes.map((size) => {
      const first_id = next;
      next += size;
      return { first_id, last_id: next - 1 };
    });
  };

  it('takes eight neighbours of one size', () => {
    expect(chooseMerge(ranges(1, 1, 1, 1, 1, 1, 1))).toBeNull();
    expect(chooseMerge(ranges(1, 1, 1, 1, 1, 1, 1, 1))?.length).toBe(8);
    expect(chooseMerge(ranges(512, 1, 1, 1, 1, 1, 1, 1, 1))?.[0]?.first_id).toBe(513);
    expect(chooseMerge(ranges(512, 64, 64, 8, 1, 1, 1, 1, 1))).toBeNull();
    expect(chooseMerge(ranges(1, 90, 1, 90, 1, 90, 1, 90, 1, 90))?.length).toBe(8);
  });

  it('skips segments after a gap', () => {
    const apart = ranges(1, 1, 1, 1, 1, 1, 1, 1, 1).filter(({ first_id }) => first_id !== 5);
    expect(chooseMerge(apart)).toBeNull();
  });

  it('keeps the number of segments small, and writes each exchange only a few times', () => {
    let segments: { first_id: number; last_id: number }[] = [];
    let written = 0;
    for (let id = 1; id <= 4_096; id++) {
      segments.push({ first_id: id, last_id: id });
      for (let chosen = chooseMerge(segments); chosen !== null; chosen = chooseMerge(segments)) {
        const merged = { first_id: chosen[0]!.first_id, last_id: chosen.at(-1)!.last_id };
        written += merged.last_id - merged.first_id + 1;
        const gone = new Set(chosen);
        segments = [...segments.filter((each) => !gone.has(each)), merged].sort(
          (a, b) => a.first_id - b.first_id,
        );
      }
      expect(segments.length).toBeLessThan(40);
    }
    expect(written / 4_096).toBeLessThan(5);
  });
});

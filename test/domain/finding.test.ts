/** Findings: what is stored of a note, when two notes count as one, and which paths they cover. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  hashFinding,
  PathCover,
  prepareFilePath,
  prepareFinding,
  scoreOf,
} from '../../src/domain/finding.ts';
import { MASK } from '../../src/redaction/mask.ts';
import { drawsOf } from '../long-parts.ts';

const note = (more: object = {}) => ({
  content: 'the parser drops the last token',
  file_path: 'src/parser.ts',
  finding_type: 'bug',
  metadata: {},
  ...more,
});

/** Split, so that no scanner reports this file as a leak. */
const SECRET = ['sk-ant-', 'api03-', 'Zx9'.repeat(30), 'AA'].join('');

describe('the stored text of a note', () => {
  it('is the note if it is short and contains no key', () => {
    const metadata = { line: 12, tags: ['a', 'b'], nested: { ok: true, none: null } };
    expect(prepareFinding(note({ metadata }))).toEqual({ ...note(), metadata: JSON.stringify(metadata) });
  });

  it('is cut at 8000, 512 and 64 characters, never inside one', () => {
    fc.assert(
      fc.property(fc.constantFrom('a', '😀', 'é', '漢'), fc.integer({ min: 0, max: 3 }), (unit, more) => {
        const cut = prepareFinding(
          note({
            content: unit.repeat(7_999 + more),
            file_path: unit.repeat(511 + more),
            finding_type: unit.repeat(63 + more),
          }),
        );
        expect(cut.content).toBe(unit.repeat(Math.min(8_000, 7_999 + more)));
        expect(cut.file_path).toBe(unit.repeat(Math.min(512, 511 + more)));
        expect(cut.finding_type).toBe(unit.repeat(Math.min(64, 63 + more)));
      }),
      { numRuns: 20 },
    );
  });

  it('contains no key at any place, and no half of one at the end', () => {
    const stored = prepareFinding(
      note({
        content: `${'x '.repeat(3_990)}${SECRET} and more`,
        file_path: `deploy/${SECRET}.env`,
        metadata: {
          output: `export KEY=${SECRET}`,
          list: [{ [SECRET]: 1 }],
          api_key: 'hunter2-hunter2',
          password: 'correct horse',
          nested: [{ token: 'tok', DB_PASSWORD: 'p' }],
          secret: '',
          max_tokens: '12345678',
          count: 3,
        },
      }),
    );
    const all = JSON.stringify(stored);
    for (const part of [SECRET, SECRET.slice(0, 40), SECRET.slice(0, 25), 'hunter2', 'correct horse']) {
      expect(all).not.toContain(part);
    }
    expect(JSON.parse(stored.metadata)).toMatchObject({
      nested: [{ token: MASK, DB_PASSWORD: MASK }],
      secret: '',
      max_tokens: '12345678',
      count: 3,
    });
    expect(stored.content.length).toBeLessThanOrEqual(8_000);
    expect(prepareFilePath(`deploy/${SECRET}.env`)).toBe(stored.file_path);
  });

  it('keeps names of fields that have a meaning in JavaScript', () => {
    const metadata = JSON.parse('{"__proto__": {"a": 1}, "constructor": "c", "toString": 1}') as object;
    const stored = prepareFinding(note({ metadata }));
    expect(JSON.parse(stored.metadata)).toEqual(metadata);
    expect(stored.metadata).toContain('__proto__');
    expect(({} as { a?: number }).a).toBeUndefined();
  });
});

describe('two findings', () => {
  const stored = (more: object = {}, project_id = 'p') => ({ project_id, ...prepareFinding(note(more)) });

  it('are one if they have the same content, with the fields of metadata in any order', () => {
    const finding = stored({ metadata: { a: 1, b: { c: [1, 2], d: 'x' } } });
    const other = stored({ metadata: { b: { d: 'x', c: [1, 2] }, a: 1 } });
    expect(hashFinding(finding)).toBe(hashFinding(other));
  });

  it('are two if anything differs', () => {
    const all = [
      stored(),
      stored({}, 'q'),
      stored({ content: 'other' }),
      stored({ file_path: 'src/other.ts' }),
      stored({ finding_type: 'note' }),
      stored({ metadata: { a: 1 } }),
      stored({ metadata: { a: '1' } }),
      stored({ metadata: { list: [1, 2] } }),
      stored({ metadata: { list: [2, 1] } }),
      stored({ content: 'src/parser.ts', file_path: 'the parser drops the last token' }),
    ];
    expect(new Set(all.map(hashFinding)).size).toBe(all.length);
  });
});

describe('the coverage of file paths', () => {
  it('counts whole segments from the end', () => {
    const cover = new PathCover(['src/http/server.ts', './lib\\util.py', 'README.md', '']);
    for (const path of [
      'server.ts',
      'http/server.ts',
      'src/http/server.ts',
      './server.ts',
      'http\\server.ts',
      'util.py',
      'lib/util.py',
      'README.md',
    ]) {
      expect(cover.covers(path), path).toBe(true);
    }
    for (const path of [
      'rver.ts',
      'other/src/http/server.ts',
      'src/http',
      'Server.ts',
      'docs/README.md',
      '',
      './',
      '/',
    ]) {
      expect(cover.covers(path), path).toBe(false);
    }
  });

  it('is a fraction: 1 if no paths were requested, 0 if none is covered', () => {
    expect(new PathCover([]).coverage([])).toBe(1);
    expect(new PathCover(['a']).coverage([])).toBe(1);
    expect(new PathCover([]).coverage(['a', 'b'])).toBe(0);
    expect(new PathCover(['x/a', 'b']).coverage(['a', 'b', 'c', 'a'])).toBe(0.75);
  });

  it('equals the comparison of every pair', () => {
    const path = fc.array(fc.constantFrom('a', 'b', 'ab', '😀', 'é', 'a b'), { minLength: 1, maxLength: 4 });
    const paths = fc.array(
      path.map((segments) => segments.join('/')),
      { maxLength: 20 },
    );
    fc.assert(
      fc.property(paths, paths, (found, asked) => {
        const expected = asked.filter((path) =>
          found.some((other) => other === path || other.endsWith(`/${path}`)),
        );
        const cover = new PathCover(found);
        expect(asked.filter((path) => cover.covers(path))).toEqual(expected);
      }),
      drawsOf(500),
    );
  });
});

describe('a score', () => {
  it('stays between 0 and 1', () => {
    expect([-1, -0.1, 0, 0.5, 1, 1.0000001].map(scoreOf)).toEqual([0, 0, 0, 0.5, 1, 1]);
  });
});

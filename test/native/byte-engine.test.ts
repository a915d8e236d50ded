/** The addon and its fallback: one suite for both, and a comparison of the two on random bytes. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadAddon, packNeedles } from '../../native/byte-engine.ts';
import type { ByteEngine } from '../../native/byte-functions.ts';
import { fallback } from '../../native/fallback.ts';
import { findKeyShapes } from '../../src/redaction/key-search.ts';
import { drawsOf } from '../long-parts.ts';
import { listLevels, useLevel } from './levels.ts';

const addon = loadAddon();
const levels = listLevels(addon);
const engines: [name: string, engine: ByteEngine, level: number][] = [['the fallback', fallback, 0]];
for (const level of levels) engines.push([`the addon at level ${level}`, addon!, level]);

const bytes = (text: string) => Buffer.from(text, 'latin1');

function listSuspects(engine: ByteEngine, source: Uint8Array, from = 0, to = source.length, room = 64) {
  const marks = new Float64Array(1 + 2 * room);
  const found: [number, number][] = [];
  let at = from;
  do {
    const count = engine.findSuspects(source, at, to, marks);
    for (let i = 0; i < count; i++) found.push([marks[1 + 2 * i]!, marks[2 + 2 * i]!]);
    if (count === 0) expect(marks[0]).toBe(to);
    at = marks[0]!;
  } while (at < to);
  return found;
}

/** Key beginnings that count only at the beginning of a token. */
const FIRST_WORDS = [
  ...['lin_api_', 'lin_oauth_', 'ntn_', 'secret_', 'dapi', 'doo_v1_', 'dor_v1_', 'glsa_', 'PMAK-'],
  ...['ATATT3', 'ATCTT3', 'sbp_', 'sb_secret_', 'fm1a_', 'fm1r_', 'fm2_', 'fo1_', 'GOCSPX-', 'IQoJb3JpZ2lu'],
  ...['FwoGZXIvYXdz', 'tgp_v1_', 'lsv2_', 'NRAK-', 'HRKU-', 'xkeysib-', 'sntryu_', 'dckr_', 'figd_'],
  ...['pscale_', 'e2b_', 'tskey-', 'rubygems_'],
];

describe.each(engines)('the byte engine %s', (_name, engine, level) => {
  useLevel(addon, level);

  it('finds runs that contain the beginning of a key, and no others', () => {
    const text = 'plain words, a-long-word-that-is-nothing, and sk-ant-api03-abcdefgh here';
    const start = text.indexOf('sk-ant');
    expect(listSuspects(engine, bytes(text))).toEqual([[start, start + 'sk-ant-api03-abcdefgh'.length]]);
    expect(listSuspects(engine, bytes('x'.repeat(5_000)))).toEqual([]);
    expect(listSuspects(engine, bytes('sk-tooshort'))).toEqual([]);
  });

  it.each([
    ...[
      'sk-',
      'sk_',
      'svc_',
      'shpat_',
      'AIza',
      'AKIA',
      'ASIA',
      'ABSK',
      'AGE-SECRET',
      'gsk_',
      'github_pat_',
      'ghp_',
    ],
    ...[
      'glpat-',
      'xai-',
      'xoxb',
      'xapp-',
      'hf_',
      'npm_',
      'nvapi-',
      'rk_',
      'r8_',
      'pk_',
      'pplx-',
      'pypi-',
      'whsec_',
    ],
    ...['eyJ', 'tvly-', 'dop_v1_', 'bedrock-api-key-'],
  ])('finds %s at any position of a long run, and nothing if its end is cut off', (beginning) => {
    // All results are compared as text in one expectation, because thousands of expectations take longer than the
    // functions.
    const wrong: string[] = [];
    for (let before = 0; before <= 70; before++) {
      for (const behind of [0, 1, 31, 32, 33, 64]) {
        const run = `${'Q'.repeat(before)}${beginning}${'Q'.repeat(behind)}`;
        if (run.length < 16) continue;
        if (`${listSuspects(engine, bytes(` ${run} `))}` !== `1,${1 + run.length}`) wrong.push(run);
        const cut = `${'Q'.repeat(before + 16)}${beginning.slice(0, -1)}`;
        const found = listSuspects(engine, bytes(` ${cut} `));
        if (`${found}` !== `${listSuspects(fallback, bytes(` ${cut} `))}`) wrong.push(cut);
      }
    }
    expect(wrong).toEqual([]);
  });

  it.each(FIRST_WORDS)(
    'finds %s where a token begins, also after an escape, but not within a run or cut off',
    (word) => {
      for (const before of [' ', '"', '\\n', '%0A', '\\u000a']) {
        for (const behind of [16, 40]) {
          const text = `${before}${word}${'Q'.repeat(behind)}`;
          expect(listSuspects(engine, bytes(`${text} `))).toEqual([[1, text.length]]);
        }
      }
      expect(listSuspects(engine, bytes(word.padEnd(16, 'Q')))).toEqual([[0, 16]]);
      for (const before of ['n', '0A', 'u000a', '\\abc', '\\abcd', '\\abcdef', 'Q'.repeat(40)])
        expect(listSuspects(engine, bytes(` ${before}${word}${'Q'.repeat(40)} `))).toEqual([]);
      expect(listSuspects(engine, bytes(` ${word.slice(0, -1)}${'Q'.repeat(40)} `))).toEqual([]);
    },
  );

  it.each([
    'Bearer abcdefghijklmnop1234',
    '"authorization": "Basic abcdefghijklmnop1234"',
    '"client_secret":"abcdefghijklmnop1234"',
    'X-AMZ-SIGNATURE=abcdefghijklmnop1234',
    'SG.abcdefghijklmnop1234',
  ])('finds the run in %s', (text) => {
    expect(listSuspects(engine, bytes(text)).at(-1)).toEqual([
      text.indexOf('abcdef'),
      text.indexOf('abcdef') + 20,
    ]);
  });

  it('continues after the last run when the list of results was full', () => {
    const text = 'Bearer abcdefghijklmnop1234 '.repeat(9);
    expect(listSuspects(engine, bytes(text), 0, text.length, 1)).toEqual(listSuspects(engine, bytes(text)));
    expect(listSuspects(engine, bytes(text), 0, text.length, 2)).toHaveLength(9);
  });

  it('finds the first of several needles, also one that ends beyond the range', () => {
    const needles = packNeedles([bytes('needle'), bytes('pin'), bytes('')]);
    expect(engine.findAnyNeedle(bytes('hay needle pin'), 0, 14, needles)).toBe(4);
    expect(engine.findAnyNeedle(bytes('hay pin needle'), 0, 14, needles)).toBe(4);
    expect(engine.findAnyNeedle(bytes('hay needle'), 0, 5, needles)).toBe(4);
    expect(engine.findAnyNeedle(bytes('hay needle'), 0, 4, needles)).toBe(-1);
    expect(engine.findAnyNeedle(bytes('hay needle'), 5, 10, needles)).toBe(-1);
    expect(engine.findAnyNeedle(bytes('hay'), 0, 3, packNeedles([]))).toBe(-1);
  });

  it('finds base64 of sufficient length', () => {
    const text = `"data":"${'QUJD'.repeat(10)}"`;
    expect(engine.findLongBase64(bytes(text), 0, text.length, 40)).toBe(8);
    expect(engine.findLongBase64(bytes(text), 0, text.length, 41)).toBe(-1);
    expect(engine.findLongBase64(bytes(text), 0, text.length, 0)).toBe(-1);
  });

  it('finds characters of a token in other encodings at every place', () => {
    for (const written of [
      '\\u002d',
      '\\\\u002D',
      '%2D',
      '%252d',
      '%25252d',
      '\0a\0',
      '%41',
      '%2F',
      '\\u007a',
    ])
      for (let before = 0; before <= 70; before++) {
        const text = bytes(`${'\\n'.repeat(before % 3)}${'x'.repeat(before)}${written}${'y'.repeat(before)}`);
        const at = text.indexOf(written) + (written.startsWith('\\\\') ? 1 : 0);
        expect(engine.findEscape(text, 0, text.length)).toBe(at);
        expect(engine.findEscape(text, at + 1, text.length)).toBe(-1);
        expect(engine.findEscape(text, 0, at)).toBe(-1);
        expect(engine.isPlain(text, packNeedles([]), 2_000)).toBe(false);
      }
    for (const other of [
      '\\u00e9',
      '%20',
      '%22',
      '%E9',
      '\\u2014',
      '100%',
      '%2',
      '\\u002',
      '%25',
      '\0\0',
      '\0 \0',
      '\\n',
    ])
      for (let before = 0; before <= 70; before++) {
        const text = bytes(`${'x'.repeat(before)}${other}`);
        expect(engine.findEscape(text, 0, text.length)).toBe(-1);
        expect(engine.isPlain(text, packNeedles([]), 2_000)).toBe(true);
      }
    expect(() => engine.findEscape(bytes('abc'), 0, 4)).toThrow(RangeError);
  });

  it('calls a text plain if it has no name of a secret, no needle and no long run', () => {
    const none = packNeedles([]);
    expect(engine.isPlain(bytes('max_tokens: 1024, "a-long-word-that-is-nothing"'), none, 64)).toBe(true);
    expect(engine.isPlain(bytes('client_secret=a-long-word-that-is-nothing'), none, 64)).toBe(false);
    expect(engine.isPlain(bytes('some words'), packNeedles([bytes('word')]), 64)).toBe(false);
    expect(engine.isPlain(bytes('+/'.repeat(32)), none, 64)).toBe(false);
    expect(engine.isPlain(bytes('+/'.repeat(32)), none, 65)).toBe(true);
  });

  it('measures the common beginning and end of two texts', () => {
    const a = bytes(`${'a'.repeat(10_000)}x${'b'.repeat(10_000)}`);
    const b = bytes(`${'a'.repeat(10_000)}yy${'b'.repeat(10_000)}`);
    expect(engine.measureCommonPrefix(a, b, 0, 0, Number.POSITIVE_INFINITY)).toBe(10_000);
    expect(engine.measureCommonPrefix(a, b, 1, 0, 50)).toBe(50);
    expect(engine.measureCommonSuffix(a, b, a.length, b.length, Number.POSITIVE_INFINITY)).toBe(10_000);
    expect(engine.measureCommonSuffix(a, b, 10_001, 10_001, 5)).toBe(0);
    expect(engine.measureCommonPrefix(a, a, 0, 0, 0)).toBe(0);
  });

  it('finds a key and a needle at many positions of a long text, and nothing in similar texts', () => {
    const anchored = ['token.of_sixteen_and_more'];
    const loose = ['two words', '-', 'ab: c', '!', 'the fifth'];
    const filler = 'some words, a_word_of_15_ok. it goes on; '.repeat(240);
    const places = [...Array(100).keys()].flatMap((i) => [480 + i, 980 + i, 8_140 + i]);
    for (const [put, texts] of [
      ['sk_ant_abcdefghi', []],
      ['sk_ant_abcdefghi', loose],
      ['.token.of_sixteen_and_more,', anchored],
      ['two words', ['two words']],
      ...loose.map((text) => [text, [...anchored, ...loose]] as const),
    ] as const) {
      const needles = packNeedles(texts.map(bytes));
      expect(engine.isPlain(bytes(filler), needles, 2_000)).toBe(true);
      for (const at of places) {
        const whole = `${filler.slice(0, at)} ${put} ${filler.slice(at)}`;
        const text = bytes(at % 3 > 0 ? whole : whole.slice(0, at + 29));
        expect(engine.isPlain(text, needles, 2_000)).toBe(false);
      }
    }
    const needles = packNeedles([...anchored, ...loose].map(bytes));
    for (const put of [
      'two_words',
      'ab; c',
      'sk_ant_abcdefgh',
      'of_sixteen_and_more_of_it',
      'x'.repeat(700),
    ]) {
      for (const at of places) {
        const text = bytes(`${filler.slice(0, at)} ${put} ${filler.slice(at)}`);
        expect(engine.isPlain(text, needles, 2_000)).toBe(true);
      }
    }
  });

  it('finds needles that contain a run, also at the ends of the bytes and next to other needles', () => {
    const needle = 'token.a-long-word-that-is-a-name@here';
    const needles = packNeedles([bytes(needle), bytes('other-needle-of-many-letters')]);
    for (const before of ['', 'x', ' and so on ', 'x'.repeat(100), '.,'.repeat(70)]) {
      for (const behind of ['', 'y', ' and so on', 'y'.repeat(100)]) {
        const text = `${before}${needle}${behind}`;
        expect(engine.isPlain(bytes(text), needles, 2_000)).toBe(false);
        expect(engine.isPlain(bytes(text.replace('@here', '@her_')), needles, 2_000)).toBe(
          fallback.isPlain(bytes(text.replace('@here', '@her_')), needles, 2_000),
        );
      }
    }
    expect(engine.isPlain(bytes(needle.slice(6, -1)), needles, 2_000)).toBe(true);
  });

  it.each(['copyBytes', 'copyBytesAside'] as const)(
    '%s copies, also to and from shared memory, and never beyond the bounds',
    (copy) => {
      const shared = new Uint8Array(new SharedArrayBuffer(10));
      engine[copy](bytes('hello'), shared, 5);
      engine[copy](bytes(''), shared, 10);
      const back = Buffer.alloc(7, '.');
      engine[copy](shared.subarray(6, 9), back, 3);
      expect(back.toString()).toBe('...ell.');
      expect(shared.subarray(0, 5)).toEqual(new Uint8Array(5));
      expect(() => engine[copy](bytes('hello'), shared, 6)).toThrow(RangeError);
      expect(() => engine[copy](bytes('hello'), shared, 11)).toThrow(RangeError);
      expect(() => engine[copy](bytes('hello'), shared, -1)).toThrow(RangeError);
    },
  );

  it.each(['copyBytes', 'copyBytesAside'] as const)(
    '%s copies between any places, also overlapping',
    (copy) => {
      const place = fc.nat(70);
      const length = fc.oneof(fc.nat(200), fc.nat(3_000));
      fc.assert(
        fc.property(place, place, length, fc.boolean(), fc.gen(), (fromAt, toAt, size, isWithin, random) => {
          const source = Buffer.from(Array.from({ length: 3_200 }, (_, at) => (at * 7 + fromAt) & 255));
          const target = isWithin ? source : Buffer.from(new SharedArrayBuffer(3_200));
          const expected = Buffer.from(target);
          // The copies cross a boundary of 64 bytes, or lie between two of them. With `isWithin`, source and target
          // mostly overlap.
          const at = isWithin ? toAt : random(fc.nat, 3_200 - size);
          source.subarray(fromAt, fromAt + size).copy(expected, at);
          engine[copy](source.subarray(fromAt, fromAt + size), target, at);
          expect(target.equals(expected)).toBe(true);
        }),
      );
    },
  );

  it('refuses values that are not numbers of the right kind', () => {
    const bytesOfA = bytes('a');
    for (const other of [undefined, null, 'one', {}, 1n] as unknown as number[]) {
      expect(() => engine.measureCommonPrefix(bytesOfA, bytesOfA, 0, 0, other)).toThrow(TypeError);
      expect(() => engine.measureCommonSuffix(bytesOfA, bytesOfA, 1, 1, other)).toThrow(TypeError);
    }
  });

  it('refuses offsets outside the bytes', () => {
    expect(() => engine.findSuspects(bytes('abc'), 0, 4, new Float64Array(9))).toThrow(RangeError);
    expect(() => engine.findAnyNeedle(bytes('abc'), -1, 2, packNeedles([]))).toThrow(RangeError);
    expect(() => engine.findLongBase64(bytes('abc'), 0, Number.NaN, 4)).toThrow(RangeError);
    expect(() => engine.measureCommonPrefix(bytes('abc'), bytes('abc'), 4, 0, 9)).toThrow(RangeError);
    expect(() => engine.measureCommonSuffix(bytes('abc'), bytes('abc'), 4, 0, 9)).toThrow(RangeError);
  });
});

/** Pieces that matter to the search, so that random text reaches its edge cases. */
const WORDS =
  'sk- sk-ant- sk_ AIza AKIA ABSK gsk_ xai- hf_ ghp_ github_pat_ glpat- glabcdef- xox xapp- svc_ npm_ rk_ whsec_ eyJ pplx- r8_ nvapi- tvly- dop_v1_ shpat_ pypi- bedrock-api-key- AGE-SECRET secret_ lin_api_ ntn_ dapi sbp_ fm2_ GOCSPX- IQoJb3JpZ2lu \\u000a %0A SG SG. ya29 ya29. Bearer BASIC authorization secret_access_key x-amz-security-token X-Amz-Signature client_secret Token = : " \\ \\n %20 \\u002d %2D %252 %25 \\u00 \0 \0a\0 + . ~ / - _ \n \t'.split(
    ' ',
  );
const piece = fc.oneof(
  fc
    .tuple(fc.constantFrom(...WORDS), fc.stringMatching(/^[A-Za-z0-9_-]{16,40}$/))
    .map((pair) => pair.join('')),
  fc.constantFrom(...WORDS),
  fc.string({ maxLength: 12 }),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
  fc.stringMatching(/^[A-Za-z0-9_-]{0,40}$/),
  fc.stringMatching(/^[A-Za-z0-9+/=]{0,80}$/),
  fc.constant(' '),
);
const text = fc.oneof(
  fc.array(piece, { maxLength: 30 }).map((pieces) => Buffer.from(pieces.join(''))),
  fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array)),
);
/** A part of a larger buffer, at any address. */
const placed = fc.tuple(text, fc.nat(17)).map(([body, before]) => {
  return Buffer.concat([Buffer.alloc(before, 0x41), body, Buffer.from('A')]).subarray(before, -1);
});

describe.each(levels)('the addon at level %i and its fallback', (level) => {
  useLevel(addon, level);
  const native = addon!;

  it('find the same runs, needles and base64', () => {
    fc.assert(
      fc.property(
        placed,
        fc.nat(400),
        fc.nat(400),
        fc.array(text, { maxLength: 4 }),
        fc.nat(60),
        (source, a, b, others, chars) => {
          const from = Math.min(a, source.length);
          const to = Math.min(b, source.length);
          expect(listSuspects(native, source, from, to, 2)).toEqual(
            listSuspects(fallback, source, from, to, 2),
          );
          const inside = source.subarray(Math.floor(source.length / 3), Math.ceil(source.length / 2));
          const needles = packNeedles([...others.map((other) => other.subarray(0, 6)), inside]);
          expect(native.findAnyNeedle(source, from, to, needles)).toBe(
            fallback.findAnyNeedle(source, from, to, needles),
          );
          expect(native.findLongBase64(source, from, to, chars)).toBe(
            fallback.findLongBase64(source, from, to, chars),
          );
          expect(native.findEscape(source, from, to)).toBe(fallback.findEscape(source, from, to));
          for (const few of [needles, packNeedles([])])
            expect(native.isPlain(source, few, chars)).toBe(fallback.isPlain(source, few, chars));
        },
      ),
      drawsOf(1_500),
    );
  });

  it('call the same long texts plain', { tags: 'long' }, () => {
    const long = fc.array(
      fc.tuple(fc.oneof(fc.stringMatching(/^[a-z_-]{0,70}$/), piece), fc.constantFrom(' ', '.', '')),
      {
        minLength: 40,
        maxLength: 500,
        size: 'max',
      },
    );
    fc.assert(
      fc.property(
        long.map((pieces) => Buffer.from(pieces.flat().join(''))),
        fc.boolean(),
        fc.nat(17),
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 40 })), { maxLength: 6 }),
        (whole, keepsKeys, before, places) => {
          // Keys are rare in a text, and the search ends at the first one.
          const source = (
            keepsKeys
              ? whole
              : Buffer.from(whole.toString('latin1').replace(/[A-Za-z0-9_-]{15}/g, '$&,'), 'latin1')
          ).subarray(before);
          const needles = places.map(([from, size]) => {
            const needle = Buffer.from(source.subarray(from % source.length, (from % source.length) + size));
            // Some needles differ from the text in one byte.
            if (from % 3 > 0) needle[needle.length >> 1]! ^= 1;
            return needle;
          });
          const packed = packNeedles(needles);
          expect(native.isPlain(source, packed, 2_000)).toBe(fallback.isPlain(source, packed, 2_000));
        },
      ),
      drawsOf(500),
    );
  });

  it('measure the same lengths', () => {
    fc.assert(
      fc.property(
        placed,
        placed,
        text,
        fc.nat(80),
        fc.nat(80),
        fc.nat(500),
        (head, tail, common, x, y, limit) => {
          const a = Buffer.concat([head, common, tail]);
          const b = Buffer.concat([head, common, head]);
          const c = Buffer.concat([tail, common, tail]);
          for (const [left, right] of [
            [a, b],
            [a, c],
            [b, a],
            [c, a],
          ] as const) {
            const from = [Math.min(x, left.length), Math.min(y, right.length)] as const;
            for (const most of [limit, Number.POSITIVE_INFINITY]) {
              for (const [i, j] of [[0, 0], from] as const)
                expect(native.measureCommonPrefix(left, right, i, j, most)).toBe(
                  fallback.measureCommonPrefix(left, right, i, j, most),
                );
              for (const [i, j] of [[left.length, right.length], from] as const)
                expect(native.measureCommonSuffix(left, right, i, j, most)).toBe(
                  fallback.measureCommonSuffix(left, right, i, j, most),
                );
            }
          }
        },
      ),
      drawsOf(300),
    );
  });
});

/** Treats every run as suspect, so that every run is compared with all shapes and labels. */
const distrustful: ByteEngine = {
  ...fallback,
  findSuspects(source, from, to, marks) {
    const runs = /[A-Za-z0-9_-]{16,}/g;
    const part = Buffer.from(source).toString('latin1', from, to);
    const found = [...part.matchAll(runs)].slice(0, (marks.length - 1) >> 1);
    found.forEach((run, i) => {
      marks[1 + 2 * i] = from + run.index;
      marks[2 + 2 * i] = from + run.index + run[0].length;
    });
    const last = found.at(-1);
    marks[0] =
      found.length * 2 + 1 < marks.length || last === undefined ? to : from + last.index + last[0].length;
    return found.length;
  },
};

describe('the search for secrets with the engine', () => {
  it('finds the same secrets as the search that examines every run', () => {
    let found = 0;
    fc.assert(
      fc.property(placed, fc.nat(400), (source, a) => {
        const from = Math.min(a, source.length);
        const expected = findKeyShapes(source, from, source.length, distrustful);
        found += expected.length;
        for (const [name, engine, level] of engines) {
          addon?.setWidestLevel(level);
          expect([name, findKeyShapes(source, from, source.length, engine)]).toEqual([name, expected]);
        }
      }),
      drawsOf(3_000),
    );
    addon?.setWidestLevel(2 ** 32 - 1);
    // With fewer finds, the random text would hardly test the search for secrets.
    expect(found).toBeGreaterThan(5);
  });
});

/**
 * Which values fields accept and refuse: the conversions of pydantic's lax mode, and exact bounds of lengths and
 * numbers.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { findEmailFault } from '../../src/contract/email.ts';
import {
  countCharacters,
  cutText,
  decimal,
  email,
  FREE_OBJECT_BOUNDS,
  flag,
  freeObject,
  identifier,
  integer,
  list,
  literal,
  pageFields,
  text,
  timestamp,
} from '../../src/contract/fields.ts';
import type { Violation } from '../../src/contract/violation.ts';
import { check, ViolationList } from '../../src/http/validation.ts';

/** The value that a field makes of an input, or the types of its errors. */
function read(field: z.ZodType, input: unknown): unknown {
  const found = new ViolationList();
  const output = check(z.object({ field }), { field: input }, 'body', found) as
    | { field: unknown }
    | undefined;
  return output === undefined ? violationsOf(found).map(({ type }) => type) : output.field;
}

function violationsOf(found: ViolationList): readonly Violation[] {
  try {
    found.throwAny();
    return [];
  } catch (thrown) {
    return (thrown as { violations: Violation[] }).violations;
  }
}

describe('whole numbers', () => {
  it.each<[unknown, unknown]>([
    [5, 5],
    [5.0, 5],
    [-0, 0],
    ['5', 5],
    [' +5 ', 5],
    ['-05', -5],
    ['1_000', 1000],
    ['5.', 5],
    ['5.000', 5],
    [true, 1],
    [false, 0],
    [5.5, ['int_from_float']],
    [Number.POSITIVE_INFINITY, ['finite_number']],
    ['', ['int_parsing']],
    ['5.5', ['int_parsing']],
    ['1e2', ['int_parsing']],
    ['0x10', ['int_parsing']],
    ['1__0', ['int_parsing']],
    ['_1', ['int_parsing']],
    ['٣', ['int_parsing']],
    ['- 5', ['int_parsing']],
    ['9'.repeat(4_301), ['int_parsing_size']],
    ['x'.repeat(4_301), ['int_parsing']],
    [null, ['int_type']],
    [[], ['int_type']],
    [{}, ['int_type']],
    [undefined, ['missing']],
    [1e300, ['less_than_equal']],
    ['-9007199254740993', ['greater_than_equal']],
  ])('%j are %j', (input, expected) => {
    expect(read(integer(), input)).toEqual(expected === 0 ? expect.closeTo(0) : expected);
  });

  it('beyond their bounds are refused, but those of a page are moved to the bound', () => {
    const bounded = integer({ ge: 1, le: 50 });
    expect([1, 50, 0, 51].map((value) => read(bounded, value))).toEqual([
      1,
      50,
      ['greater_than_equal'],
      ['less_than_equal'],
    ]);
    const page = z.object(pageFields());
    expect(page.parse({})).toEqual({ limit: 50, offset: 0 });
    expect(page.parse({ limit: '0', offset: '-3' })).toEqual({ limit: 1, offset: 0 });
    expect(page.parse({ limit: '9'.repeat(40), offset: '9'.repeat(40) })).toEqual({
      limit: 200,
      offset: Number.MAX_SAFE_INTEGER,
    });
  });

  it('have the same value as a number and as text', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        expect(read(integer(), String(value))).toBe(read(integer(), value));
      }),
    );
  });
});

describe('numbers', () => {
  it.each<[unknown, unknown]>([
    [0.5, 0.5],
    ['0.5', 0.5],
    [' .5 ', 0.5],
    ['5.', 5],
    ['1e-3', 0.001],
    [true, 1],
    [2, ['less_than_equal']],
    [-0.1, ['greater_than_equal']],
    ['inf', ['finite_number']],
    ['-Infinity', ['finite_number']],
    ['NaN', ['finite_number']],
    [Number.POSITIVE_INFINITY, ['finite_number']],
    ['1e999', ['finite_number']],
    ['', ['float_parsing']],
    ['0x1', ['float_parsing']],
    ['1,5', ['float_parsing']],
    [null, ['float_type']],
    [{}, ['float_type']],
    [undefined, ['missing']],
  ])('%j are %j', (input, expected) => {
    const field = decimal({ ge: 0, le: input === '5.' ? 5 : 1 });
    expect(read(field, input)).toEqual(expected);
  });
});

describe('flags', () => {
  it.each<[unknown, unknown]>([
    ...[true, 1, 1.0, '1', 'true', 'TRUE', 'on', 'yes', 'Y', 't'].map((word): [unknown, unknown] => [
      word,
      true,
    ]),
    ...[false, 0, '0', 'False', 'off', 'NO', 'n', 'f'].map((word): [unknown, unknown] => [word, false]),
    [2, ['bool_parsing']],
    ['', ['bool_parsing']],
    ['maybe', ['bool_parsing']],
    ['truetruetrue', ['bool_parsing']],
    [' true', ['bool_parsing']],
    [0.5, ['bool_type']],
    [null, ['bool_type']],
    [[], ['bool_type']],
    [undefined, ['missing']],
  ])('%j is %j', (input, expected) => {
    expect(read(flag(), input)).toEqual(expected);
  });
});

describe('texts', () => {
  it('are counted in code points', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(20), fc.nat(20), (value, a, b) => {
        const [min, max] = [Math.min(a, b), Math.max(a, b)];
        const length = [...value].length;
        expect(countCharacters(value)).toBe(length);
        const expected = length < min ? ['string_too_short'] : length > max ? ['string_too_long'] : value;
        expect(read(text({ min, max }), value)).toEqual(expected);
        const cut = [...value].slice(0, max).join('');
        expect(read(cutText({ max }), value)).toBe(cut);
      }),
    );
  });

  it('must be Unicode, and values of other types are refused', () => {
    for (const field of [text({ max: 9 }), cutText({ max: 9 })]) {
      expect(read(field, 'a\ud800')).toEqual(['string_unicode']);
      expect(read(field, 'a\u0000')).toBe('a\u0000');
      for (const other of [0, true, null, [], {}]) expect(read(field, other)).toEqual(['string_type']);
      expect(read(field, undefined)).toEqual(['missing']);
    }
  });

  it('that are names must be printable', () => {
    for (const name of ['a', 'x'.repeat(128), '😀'.repeat(128), 'a b/c?d', 'ünï', '运行']) {
      expect(read(identifier(), name)).toBe(name);
    }
    for (const name of ['a\u0000', 'a\n', '\u007f', '\u202e', '\u200b', '\u2028', '\ufeff']) {
      expect(read(identifier(), name)).toEqual(['string_pattern_mismatch']);
    }
    const pattern = new RegExp(z.toJSONSchema(identifier(), { io: 'input' }).pattern!, 'u');
    const unlike: string[] = [];
    for (let code = 0; code <= 0x10ffff; code++) {
      const character = String.fromCodePoint(code);
      const isPrintable = !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(character);
      if (pattern.test(character) !== isPrintable && !/\p{Cs}/u.test(character))
        unlike.push(code.toString(16));
    }
    expect(unlike).toEqual([]);
    expect(read(identifier(), '')).toEqual(['string_too_short']);
    expect(read(identifier(), 'x'.repeat(129))).toEqual(['string_too_long']);
  });

  it('that must be one of several values are refused with the list of these values', () => {
    const found = new ViolationList();
    check(z.object({ field: literal(['a', 'b']) }), { field: 'c' }, 'body', found);
    expect(violationsOf(found)).toEqual([
      {
        type: 'literal_error',
        loc: ['body', 'field'],
        msg: "Input should be 'a' or 'b'",
        input: 'c',
        ctx: { expected: "'a' or 'b'" },
      },
    ]);
  });
});

describe('lists', () => {
  it('are limited before their items are read', () => {
    const field = list(integer(), { min: 1, max: 3 });
    expect(read(field, ['1', 2])).toEqual([1, 2]);
    expect(read(field, [])).toEqual(['too_short']);
    expect(read(field, ['x', 'x', 'x', 'x'])).toEqual(['too_long']);
    expect(read(field, ['x', 1, null])).toEqual(['int_parsing', 'int_type']);
    for (const other of [0, 'a', null, {}]) expect(read(field, other)).toEqual(['list_type']);
  });

  it('report a limited number of errors', () => {
    const wrong = Array.from({ length: 5_000 }, () => ({}));
    const found = new ViolationList();
    check(
      z.object({ field: list(z.object({ a: text({ max: 1 }) }), { max: 5_000 }) }),
      { field: wrong },
      'body',
      found,
    );
    expect(violationsOf(found).length).toBe(100);
  });
});

describe('times', () => {
  it.each([
    ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02 03:04:05.123456+02:00', '2026-01-02T01:04:05.123Z'],
    ['2026-01-02t03:04z', '2026-01-02T03:04:00.000Z'],
    ['2026-01-02T03:04:05-0130', '2026-01-02T04:34:05.000Z'],
  ])('%s is %s', (input, expected) => {
    expect(read(timestamp(), input)).toBe(expected);
  });

  it.each([
    '',
    'now',
    '2026-01-02',
    '2026-01-02T03:04:05',
    '2026-13-02T03:04:05Z',
    '2026-02-30T03:04:05Z',
    '2026-01-02T25:00:00Z',
    '2026-00-02T03:04:05Z',
  ])('%j is refused', (input) => {
    expect(read(timestamp(), input)).toEqual(['datetime_parsing']);
  });
});

describe('free-form objects', () => {
  it('stay unchanged', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })), (value) => {
        const plain = JSON.parse(JSON.stringify(value)) as object;
        fc.pre(!JSON.stringify(plain).includes('__proto__'));
        expect(read(freeObject(), plain)).toEqual(plain);
      }),
    );
  });

  it('are limited in depth, values and characters', () => {
    const nest = (depth: number): object => (depth <= 1 ? {} : { a: nest(depth - 1) });
    const wide = (values: number) =>
      Object.fromEntries(Array.from({ length: values }, (_, at) => [`k${at}`, 0]));
    const { depth, values, characters } = FREE_OBJECT_BOUNDS;
    for (const [inside, beyond] of [
      [nest(depth), nest(depth + 1)],
      [wide(values - 1), wide(values)],
      [{ a: 'x'.repeat(characters - 1) }, { a: 'x'.repeat(characters) }],
    ] as const) {
      expect(read(freeObject(), inside)).toEqual(inside);
      expect(read(freeObject(), beyond)).toEqual(['value_error']);
    }
    for (const other of [0, 'a', null, []]) expect(read(freeObject(), other)).toEqual(['dict_type']);
  });
});

describe('e-mail addresses', () => {
  it.each([
    'a@b.co',
    'A.b+c@sub.example.com',
    'ü@exämple.de',
    `${'a'.repeat(64)}@b.co`,
    `${'a'.repeat(249)}@b.co`,
    "o'x@b.museum",
  ])('%s is accepted', (address) => {
    expect(findEmailFault(address)).toBeNull();
  });

  it.each([
    '',
    'a',
    '@',
    'a@',
    '@b.co',
    'a@b',
    'a@b.',
    'a@.b.co',
    'a@b..co',
    '.a@b.co',
    'a.@b.co',
    'a..b@c.de',
    'a@-b.co',
    'a@b-.co',
    'a@b_c.co',
    'a b@c.de',
    'a\u0000@b.co',
    '"a"@b.co',
    'a@[127.0.0.1]',
    'a@1.2.3.4',
    'a@host.local',
    `${'a'.repeat(250)}@b.co`,
    `a@${'b'.repeat(64)}.co`,
    `a@${'b.'.repeat(130)}co`,
    'a@b\n.co',
    'a@ab--c.co',
    '\u0301a@b.co',
    'a@\u0301b.co',
    'Ann <a@b>',
    'Ann Lee a@b.co',
    'Ann <>',
    '<a@b.co',
    `a@b.co${' '.repeat(2_050)}`,
  ])('%j is refused', (address) => {
    expect(findEmailFault(address)).toMatch(/\S/);
    expect(read(email(), address)).toEqual(['value_error']);
  });

  it.each([' a@b.co ', '\ta@b.co\n', 'Ann <a@b.co>', 'Ann Lee<a@b.co>', '"Lee, Ann" < a@b.co >', '<a@b.co>'])(
    '%j is accepted, as people paste it',
    (pasted) => {
      expect(read(email(), pasted)).toBe('a@b.co');
    },
  );

  it('have their domain in lower case', () => {
    expect(read(email(), 'Ann@Example.COM')).toBe('Ann@example.com');
  });
});

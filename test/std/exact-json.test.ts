import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  canonicalJson,
  canonicalNumber,
  digitsOf,
  exactNumber,
  isRawNumber,
  parseExact,
  parseUnrounded,
  roundedNumber,
} from '../../src/std/exact-json.ts';
import { drawsOf } from '../long-parts.ts';

const integer = fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }).map(String);
const decimal = fc
  .tuple(integer, fc.stringMatching(/^\d{1,20}$/), fc.option(fc.integer({ min: -300, max: 300 })))
  .map(([whole, fraction, power]) => `${whole}.${fraction}${power === null ? '' : `E${power}`}`);
const number = fc.oneof(integer, decimal, fc.constantFrom('-0', '0', '1.0', '0.10', '1e2', '-0.0'));

describe('parseExact', () => {
  it('restores its input for any numbers', () => {
    const value = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        number,
        fc.string().map((text) => JSON.stringify(text)),
        fc.constantFrom('true', 'false', 'null'),
        fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
        fc
          .dictionary(fc.stringMatching(/^[a-z"\\]{1,4}$/), tie('value'), {
            maxKeys: 4,
            noNullPrototype: true,
          })
          .map((o) => `{${Object.keys(o).map((name) => `${JSON.stringify(name)}:${o[name]}`)}}`),
      ),
    })).value;
    fc.assert(
      fc.property(value, (text) => {
        expect(JSON.stringify(parseExact(text))).toBe(text);
      }),
    );
  });

  it('accepts white space around a number', () => {
    const text = ' { "id" :\n\t 2512292042121000001 , "list": [ 1, -0 ] } ';
    expect(JSON.stringify(parseExact(text))).toBe('{"id":2512292042121000001,"list":[1,-0]}');
  });

  it('returns plain numbers if a double represents their digits exactly', () => {
    expect(parseExact('{"a":[1,0.5,-3,9007199254740991]}')).toEqual({ a: [1, 0.5, -3, 9007199254740991] });
  });

  it('restores every number, in any quantity and at any place', () => {
    const json = '{"id":2512292042121000001,"7":[1.0,"x",[1e1,{"a":-0}],[]],"":0.10,"__proto__":1e400}';
    const text = `[${Array(2_000).fill(json).join(',')}]`;
    const expected = `[${Array(2_000)
      .fill('{"7":[1.0,"x",[1e1,{"a":-0}],[]],"id":2512292042121000001,"":0.10,"__proto__":1e400}')
      .join(',')}]`;
    expect(JSON.stringify(parseExact(text))).toBe(expected);
  });

  it('ignores digits inside a text', () => {
    expect(parseExact('{"a":"x:2512292042121000001,"}')).toEqual({ a: 'x:2512292042121000001,' });
  });

  it('throws for the same texts as JSON.parse', () => {
    expect(() => parseExact('{"a":1.}')).toThrow(SyntaxError);
    const piece = fc.oneof(
      number,
      fc.constantFrom('{', '}', '[', ']', ':', ',', '"', '\\', ' ', '\n', 'a', '01', '1.', '-', '"k":1.0'),
    );
    const parse = (text: string, with_: (text: string) => unknown): unknown => {
      try {
        return with_(text);
      } catch (error) {
        return (error as Error).name;
      }
    };
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join('');
        const rounded = (json: string): unknown => JSON.parse(JSON.stringify(parseExact(json)));
        expect(parse(text, rounded)).toEqual(parse(text, (json) => JSON.parse(json)));
      }),
      drawsOf(3_000),
    );
  });

  it('reads JSON that is nested more deeply than the stack allows', () => {
    const deep = `${'['.repeat(100_000)}1.0${']'.repeat(100_000)}`;
    expect(Array.isArray(parseExact(deep))).toBe(true);
  });
});

describe('a number', () => {
  it('keeps its digits, and rounds on request', () => {
    const big = exactNumber('2512292042121000001');
    expect(isRawNumber(big)).toBe(true);
    expect(digitsOf(big)).toBe('2512292042121000001');
    expect(roundedNumber(big)).toBe(2512292042121000000);
    expect([digitsOf(12), digitsOf('12'), roundedNumber(null)]).toEqual(['12', null, null]);
  });

  it('is exact where a double rounds it, and plain elsewhere', () => {
    for (const text of [
      '2512292042121000001',
      '-0.12345678901234567',
      '1e400',
      '[1,\n 9007199254740993]',
      '{"a":12E30}',
    ])
      expect(JSON.stringify(parseUnrounded(text)), text).toBe(JSON.stringify(parseExact(text)));
    expect(parseUnrounded('{"a":[1.0,0.50,"2512292042121000001",123456789012345]}')).toEqual({
      a: [1, 0.5, '2512292042121000001', 123456789012345],
    });
  });

  it('has one canonical text for all its spellings', () => {
    for (const text of ['1', '1.0', '10e-1', '0.1E1', '1.000']) expect(canonicalNumber(text)).toBe('1');
    expect(canonicalNumber('-0.0')).toBe('0');
    expect(canonicalNumber('1200')).toBe(canonicalNumber('1.2e3'));
    expect(canonicalNumber('2512292042121000001')).not.toBe(canonicalNumber('2512292042121000002'));
  });
});

describe('canonicalJson', () => {
  it('ignores the order of keys, and includes every digit', () => {
    const canonical = (json: string) => canonicalJson(parseExact(json));
    expect(canonical('{"a":1,"b":[1.0]}')).toBe(canonical('{"b":[1],"a":1}'));
    expect(canonical('[2512292042121000001]')).not.toBe(canonical('[2512292042121000002]'));
    expect(canonicalJson([1, 2])).not.toBe(canonicalJson([2, 1]));
    expect(canonicalJson('1')).not.toBe(canonicalJson(1));
    expect(canonicalJson({ b: undefined, a: null })).toBe('{"a":null}');
  });
});

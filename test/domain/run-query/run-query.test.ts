/** The run query language: what it reads, how it prints it again, what its errors say, and what it completes. */
import { describe, expect, it } from 'vitest';
import { completeRunQuery } from '../../../src/domain/run-query/complete.ts';
import { QUERY_FIELDS } from '../../../src/domain/run-query/fields.ts';
import { parseRunQuery } from '../../../src/domain/run-query/parse.ts';
import { printRunQuery } from '../../../src/domain/run-query/print.ts';
import { RunQueryError } from '../../../src/domain/run-query/run-query.ts';
import { placeRange, readTimePoint } from '../../../src/domain/run-query/values.ts';
import { quoteText } from '../../../src/domain/run-query/words.ts';

function fail(text: string): RunQueryError {
  try {
    parseRunQuery(text);
  } catch (thrown) {
    if (thrown instanceof RunQueryError) return thrown;
    throw thrown;
  }
  throw new Error(`${text} was read`);
}

/** The word to which an error points. */
const pointedAt = (text: string): string => {
  const { from, to } = fail(text);
  return text.slice(from, to);
};

/** Queries in their printed form. A pair is a query and the form in which it is printed. */
const QUERIES: (string | [written: string, printed: string])[] = [
  '',
  'status:failed tool:run_tests cost:>0.5 model:opus since:7d sort:cost',
  ['text:"date parser"', '"date parser"'],
  ['text:parser', 'parser'],
  ['  date   parser ', 'date parser'],
  '-status:ok',
  '-parser -"date parser"',
  'status:failed,error',
  ['STATUS:Failed', 'status:failed'],
  'cost:0.1..0.5',
  ['cost:0.1..', 'cost:>=0.1'],
  ['cost:..0.5', 'cost:<=0.5'],
  'cost:>=0.5 cost:<2 errors:<=3',
  ['cost>0.5', 'cost:>0.5'],
  ['cost:=5', 'cost:5'],
  'cost:1,>5,2..3',
  'tokens:>10k duration:>2m duration:1h30m',
  'model:=claude-opus-4-5 model:claude-*-5',
  'agent:"order desk"',
  'agent:"a,b",c',
  'agent:="order desk"',
  'started:2026-05-01 started:>2026-05-01T12:00Z',
  'started:2026-05-01..2026-05-03 started:7d..1d',
  ['started:7d..', 'started:>=7d'],
  ['finished:..2026-05-03', 'finished:<=2026-05-03'],
  'since:2026-05-01T12:00+02:00 until:90m',
  'is:golden has:error kind:subagent served:student',
  'monitor:infinite_loop monitor:loop>2 monitor:infinite_loop=3,verification_skip',
  'text:foo,bar',
  'text:=foo',
  'sort:started-asc',
  ['sort:cost-desc', 'sort:cost'],
  'http://127.0.0.1:8000/x 12:30 a>b - ümlaut 日本',
  '"status:failed" "-x" "say \\"hi\\" \\\\"',
  'run:conv_17,42 session:"s:1" model:a"b say"x',
];

describe('a query', () => {
  it('is printed as a text with the same meaning', () => {
    for (const query of QUERIES) {
      const [written, printed] = typeof query === 'string' ? [query, query] : query;
      const read = parseRunQuery(written);
      expect(printRunQuery(read), written).toBe(printed);
      expect(parseRunQuery(printed), written).toEqual(read);
      // A query that another process received as JSON is printed in the same way.
      expect(printRunQuery(JSON.parse(JSON.stringify(read))), written).toBe(printed);
    }
  });

  it('accepts text that only resembles a field as text', () => {
    for (const text of ['http://x', '12:30', 'a>b', '"modle:x"'])
      expect(parseRunQuery(text).terms, text).toMatchObject([{ kind: 'name', field: 'text' }]);
  });

  it('has a limited number of characters, words and values', () => {
    expect(fail('x'.repeat(2_001)).message).toContain('2000 characters');
    expect(fail('x '.repeat(65)).message).toContain('64 words');
    expect(fail(`model:${'x,'.repeat(65)}x`).message).toContain('64 values');
  });

  it('refuses a long run of quotes, commas or letters within the time limit of a test', () => {
    for (const text of ['"'.repeat(2_000), `model:${',"'.repeat(990)}`, `${'a'.repeat(1_999)}:`])
      expect(() => parseRunQuery(text)).toThrow(RunQueryError);
  });
});

describe('an error', () => {
  it.each(['AND', 'OR'])('names %s as an operator of another language, unless it is quoted', (word) => {
    const text = `status:ok ${word} cost:1`;
    expect(fail(text).message).toContain(`${word} is no operator: `);
    expect(pointedAt(text)).toBe(word);
    for (const said of [`a "${word}" b`, `a ${word.toLowerCase()} b`, `a -${word} b`, `${word} a ${word}`])
      expect(parseRunQuery(said).terms, said).toHaveLength(3);
    expect(quoteText(word, false, () => false)).toBe(`"${word}"`);
  });

  it('points at the word and names what was probably meant', () => {
    const cases: [text: string, word: string, nearest: string | null][] = [
      ['cost:>1 modle:opus', 'modle', 'model'],
      ['x -status:faild', 'faild', 'failed'],
      ['status:ok,eror', 'eror', 'error'],
      ['is:goldn', 'goldn', 'golden'],
      ['sort:costs', 'costs', 'cost'],
      ['sort:costs-asc', 'costs', 'cost'],
      ['monitor:infinite_lop', 'infinite_lop', 'infinite_loop'],
      ['colour:red', 'colour', null],
      ['cost:much', 'much', null],
      ['duration:long', 'long', null],
      ['since:yesterweek', 'yesterweek', null],
      ['started:7d', '7d', null],
      ['since:>7d', '>7d', null],
      ['status:>ok', '>', null],
      ['started:2026-02-31', '2026-02-31', null],
      ['cost:1..2..3', '1..2..3', null],
      ['cost:', 'cost:', null],
      ['a "b c', '"b c', null],
      ['monitor:infinite_loop>much', 'infinite_loop>much', null],
      ['x ""', '""', null],
      ['sort:cost sort:tokens', 'sort:tokens', null],
    ];
    for (const [text, word, nearest] of cases) {
      expect(pointedAt(text), text).toBe(word);
      expect(fail(text).nearest, text).toBe(nearest);
      if (nearest !== null) expect(fail(text).message, text).toContain(`did you mean "${nearest}"?`);
    }
  });

  it('lists the values of a field', () => {
    expect(fail('status:x').message).toContain('It takes failed, error, running, ok, unknown');
    expect(fail('cost:much').message).toContain('>0.5');
  });
});

describe('a time in a query', () => {
  const NOW = Date.UTC(2026, 4, 3, 12);
  const place = (text: string): [from: string, to: string] => {
    const [term] = parseRunQuery(text).terms;
    if (term?.kind !== 'time') throw new Error(text);
    const { from_ms, to_ms } = placeRange(term.values[0]!, NOW);
    const write = (ms: number): string => (Number.isFinite(ms) ? new Date(ms).toISOString() : String(ms));
    return [write(from_ms), write(to_ms)];
  };

  it('covers the whole day or minute that it names', () => {
    expect(place('started:2026-05-01')).toEqual(['2026-05-01T00:00:00.000Z', '2026-05-02T00:00:00.000Z']);
    expect(place('started:2026-05-01..2026-05-02')[1]).toBe('2026-05-03T00:00:00.000Z');
    expect(place('started:>2026-05-01')).toEqual(['2026-05-02T00:00:00.000Z', 'Infinity']);
    expect(place('started:<2026-05-01')).toEqual(['-Infinity', '2026-05-01T00:00:00.000Z']);
    expect(place('until:2026-05-01T10:30')[1]).toBe('2026-05-01T10:31:00.000Z');
    expect(place('since:2026-05-01T10:30+02:00')[0]).toBe('2026-05-01T08:30:00.000Z');
  });

  it('may be an age, counted from now', () => {
    expect(place('since:1h30m')[0]).toBe('2026-05-03T10:30:00.000Z');
    expect(place('started:2d..1d')).toEqual(['2026-05-01T12:00:00.000Z', '2026-05-02T12:00:00.000Z']);
    expect(readTimePoint('99999999d')).toBeNull();
  });
});

describe('completion', () => {
  const complete = (text: string, caret = text.length): string[] =>
    completeRunQuery(text, caret, (field) =>
      field === 'model' ? ['claude-opus', 'gpt 5', 'opus'].map((value) => ({ value, runs: 2 })) : null,
    ).items.map((item) => item.text);

  it('lists fields for what was typed', () => {
    expect(complete('')).toHaveLength(QUERY_FIELDS.size + 1);
    expect(complete('mo')).toEqual(['model:', 'monitor:']);
    expect(complete('status:ok -st')).toEqual(['status:', 'steps:', 'started:']);
    expect(complete('so')).toEqual(['sort:']);
  });

  it('lists values of a field, first those that begin with the typed text', () => {
    expect(complete('status:')).toEqual(['failed', 'error', 'running', 'ok', 'unknown']);
    expect(complete('status:ok,fa')).toEqual(['failed']);
    expect(complete('model:op')).toEqual(['opus', 'claude-opus']);
    expect(complete('model:gp')).toEqual(['"gpt 5"']);
    expect(complete('monitor:inf')).toEqual(['infinite_loop']);
    expect(complete('sort:cos')).toEqual(['cost', 'cost-asc']);
    expect(complete('since:')).toContain('7d');
    expect(complete('"mo')).toEqual([]);
  });

  it('says which part of the query it replaces', () => {
    const { from, to, items } = completeRunQuery('-status:fa cost:>1', 10);
    expect({ from, to, items: items.map(({ text }) => text) }).toEqual({
      from: 8,
      to: 10,
      items: ['failed'],
    });
    expect(completeRunQuery('status:ok ', 10)).toMatchObject({ from: 10, to: 10 });
  });

  it('offers only what the language accepts', () => {
    for (const [field] of QUERY_FIELDS)
      for (const value of complete(`${field}:`))
        if (!/^[<>]$/.test(value) && !(field === 'started' || field === 'finished'))
          expect(() => parseRunQuery(`${field}:${value}`), `${field}:${value}`).not.toThrow();
  });
});

/** Requests that begin with the bytes of an earlier one, of which only the rest is parsed. */
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/providers/json-reading.ts';
import { RepeatedRequests } from '../../src/providers/repeated-requests.ts';
import { createPrng } from '../../src/std/prng.ts';
import { drawsOf } from '../long-parts.ts';

/** Longer than the bodies that are always read whole. */
const PROMPT = 'You are a coding agent. "Quote" \\ and é, 日本.\n'.repeat(400);

function countCommon(a: Buffer, b: Buffer): number {
  let count = 0;
  while (count < Math.min(a.length, b.length) && a[count] === b[count]) count++;
  return count;
}

/** Reads a body, and then a second one, as the storage returns them. @returns both values */
function readBoth(first: Buffer, second: Buffer): [unknown, unknown] {
  const requests = new RepeatedRequests();
  const self = {};
  return [
    requests.parse(first, { self, repeats: null, repeated_bytes: 0 }),
    requests.parse(second, { self: {}, repeats: self, repeated_bytes: countCommon(first, second) }),
  ];
}

/** The value as text, or the error. */
function attempt(read: () => unknown): string {
  try {
    return JSON.stringify(read());
  } catch (error) {
    return String(error);
  }
}

function body(members: readonly (readonly [string, unknown])[], space = ''): Buffer {
  const texts = members.map(([name, value]) => `${JSON.stringify(name)}:${space}${JSON.stringify(value)}`);
  return Buffer.from(`{${space}${texts.join(`,${space}`)}${space}}`);
}

const turns = (count: number): unknown[] =>
  Array.from({ length: count }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: [{ type: 'text', text: `turn ${i} says "}]" and \\ {[` }, { n: i }, null, [1.5, -2e3, true]],
  }));

describe('requests that repeat an earlier one', () => {
  it.each(['messages', 'contents', 'input'])('take the items of %s from the earlier request', (name) => {
    const first = body([
      ['model', 'm'],
      ['system', PROMPT],
      [name, turns(3)],
      ['stream', true],
    ]);
    const second = body([
      ['model', 'm'],
      ['system', PROMPT],
      [name, turns(5)],
      ['stream', true],
    ]);
    const [before, after] = readBoth(first, second) as Record<string, unknown[]>[];
    expect(JSON.stringify(after)).toBe(second.toString());
    expect(after![name]!.slice(0, 3).map((item, at) => item === before![name]![at])).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('give the same value or error as a complete reading, also for short lists, repeated names and damage', () => {
    const list = (text: string): Buffer => Buffer.from(`{"system":${JSON.stringify(PROMPT)},${text}}`);
    const pairs: [string, string][] = [
      ['"messages":[{}],"x":1', '"messages":[{},{}],"system":2'],
      ['"messages":[{}],"x":1', '"messages":[{},{}],"messages":[]'],
      ['"messages":[{}],"x":1', '"messages":[{},{}],"mess\\u0061ges":[]'],
      ['"messages":[{}],"7":1', '"messages":[{},{}],"7":2'],
      ['"messages":[{}],"x":1', '"messages":[{},{}],"7":2'],
      ['"messages":[{}],"x":1', '"messages":[{}],"":1'],
      ['"messages":[{}],"x":1', '"messages":[{},{}],"__proto__":{"a":1}'],
      ['"messages":[{}]', '"messages":[{},{}],'],
      ['"messages":[{}]', '"messages":[{},{}]],"x":1'],
      ['"messages":[{}]', '"messages":[{}{}]'],
      ['"messages":[{}]', '"messages":[{},]'],
      ['"messages":[{}]', '"messages":[{},{"a":]}'],
      ['"messages":[{}]', '"messages":[{},"text",{}]'],
      ['"messages":[{}]', '"messages":[{},{"a":"}'],
      ['"messages":[{}]', `"messages":[{},${'['.repeat(600)}${']'.repeat(600)}]`],
      ['"messages":[]', '"messages":[{}]'],
      ['"messages":[{}]', '"messages":[]'],
      ['"messages":"none"', '"messages":[{}]'],
    ];
    for (const [a, b] of pairs) {
      const second = list(b);
      const whole = attempt(() => parseJson(second.toString(), true));
      expect(
        attempt(() => readBoth(list(a), second)[1]),
        b,
      ).toBe(whole);
    }
  });

  it('give the same values or errors as a complete reading, for random bodies', () => {
    const prng = createPrng(11);
    const pick = <T>(values: readonly T[]): T => values[prng.below(values.length)]!;
    for (let draw = drawsOf(3_000).numRuns; draw > 0; draw--) {
      const space = pick(['', '', ' ', '\n\t']);
      const make = (count: number, tail: number): Buffer => {
        const members: [string, unknown][] = [
          ['model', 'm'],
          ['tools', [{ name: 'a', list: [PROMPT] }]],
          ['messages', turns(count)],
          ['system', [{ text: PROMPT.slice(0, tail) }]],
        ];
        if (tail % 2 === 0) members.push(['top_p', tail / 7]);
        return body(members, space);
      };
      const first = make(prng.below(4), pick([1, 2, 900]));
      const second = make(prng.below(6), pick([1, 2, 900]));
      // Most damage is near the end, where the bodies differ.
      if (prng.below(3) === 0)
        second[second.length - 1 - prng.below(300)] = pick([...Buffer.from('"{}[],:\\ x\xff', 'latin1')]);
      const cut = prng.below(8) === 0 ? second.subarray(0, second.length - prng.below(400)) : second;
      const whole = attempt(() => parseJson(new TextDecoder().decode(cut), true));
      expect(attempt(() => readBoth(first, cut)[1])).toBe(whole);
    }
  });

  it('are forgotten beyond the bound, the oldest first', () => {
    const requests = new RepeatedRequests();
    const large = body([['messages', [{ text: 'x'.repeat(6 << 20) }]]]);
    const first = {};
    const [before] = (
      requests.parse(large, { self: first, repeats: null, repeated_bytes: 0 }) as { messages: object[] }
    ).messages;
    const again = () =>
      (
        requests.parse(large, { self: {}, repeats: first, repeated_bytes: large.length }) as {
          messages: object[];
        }
      ).messages[0];
    for (let i = 0; i < 6; i++) requests.parse(large, { self: {}, repeats: null, repeated_bytes: 0 });
    expect(again()).not.toBe(before);
  });
});

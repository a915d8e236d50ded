/** Hashes of answers and conversations: numbers that differ in any digit are distinct, and 1.0 equals 1. */
import { expect, it } from 'vitest';
import type { NormalRequest, TurnBlock } from '../../src/domain/turn.ts';
import { parseExact } from '../../src/std/exact-json.ts';
import { hashPrefixes, markAnswer } from '../../src/teaching/training-lines.ts';

const [ID, NEXT] = ['2512292042121000001', '2512292042121000002'];
const call = (input: string): TurnBlock[] => [
  { type: 'tool_call', id: 'c', name: 'look', input: parseExact(input) },
];
const markOf = (input: string): string => markAnswer(call(input));
const prefixOf = (input: string): string =>
  hashPrefixes({ messages: [{ role: 'assistant', content: call(input) }] } as unknown as NormalRequest)[0]!;

it.each([
  ['an answer', markOf],
  ['a conversation', prefixOf],
] as const)('ids that a double rounds stay distinct, in %s', (_name, hashOf) => {
  expect(hashOf(`{"id":${ID}}`)).not.toBe(hashOf(`{"id":${NEXT}}`));
  expect(hashOf(`{"id":${ID},"a":1}`)).toBe(hashOf(`{"a":1.0,"id":${ID}}`));
});

it('an answer is recognized if its echo omits null fields', () => {
  expect(markOf(`{"id":${ID},"note":null}`)).toBe(markOf(`{"id":${ID}}`));
});

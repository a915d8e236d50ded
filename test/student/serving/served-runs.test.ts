/**
 * The mark by which an answer without calls is recognized: it covers the conversation with every digit of its numbers.
 */
import { expect, it } from 'vitest';
import type { NormalRequest } from '../../../src/domain/turn.ts';
import { parseExact } from '../../../src/std/exact-json.ts';
import { placeStep } from '../../../src/student/serving/served-runs.ts';

const markOf = (value: string): string | null =>
  placeStep(
    {
      model: 'm',
      system: [],
      messages: [
        { role: 'user', content: [{ type: 'other', name: 'record', value: parseExact(value) }] },
        { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
        { role: 'user', content: [{ type: 'text', text: 'Go on.' }] },
      ],
    } as unknown as NormalRequest,
    null,
    null,
  ).mark;

it('conversations are distinguished by ids that a double rounds', () => {
  expect(markOf('{"id":2512292042121000001}')).not.toBe(markOf('{"id":2512292042121000002}'));
  expect(markOf('{"id":2512292042121000001,"a":1}')).toBe(markOf('{"a":1.0,"id":2512292042121000001}'));
});

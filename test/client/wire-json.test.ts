/** How values of an agent are written as JSON for the service. */
import { expect, it } from 'vitest';
import { boundStep } from '../../src/client/step.ts';
import { writeJson } from '../../src/client/wire-json.ts';
import { parseExact } from '../../src/std/exact-json.ts';

it('numbers keep all their digits, as bigint or as they were read', () => {
  const big = '2512292042121000001';
  expect(writeJson({ list: [BigInt(big)], small: 1n })).toBe(`{"list":[${big}],"small":1}`);
  expect(writeJson(parseExact(`{"id":${big},"half":0.50}`))).toBe(`{"id":${big},"half":0.50}`);
  expect(boundStep(0, { actionInput: { id: BigInt(big) } }).body.action_input).toBe(`{"id":${big}}`);
});

it('a value that contains itself is refused', () => {
  const circle: Record<string, unknown> = { n: 1n };
  circle.self = circle;
  expect(() => writeJson(circle)).toThrow(TypeError);
});

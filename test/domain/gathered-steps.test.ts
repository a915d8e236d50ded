/** Steps of finished runs that share a row: what is read is what was written. */
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { GATHERED_STEPS, gatherSteps, readGathered, readSteps } from '../../src/domain/gathered-steps.ts';
import type { RunStepRow } from '../../src/domain/run-rows.ts';
import { MemoryTables } from '../../src/storage/memory/tables.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 80 });
const row: fc.Arbitrary<RunStepRow> = fc.record(
  {
    answer: fc.oneof(
      text,
      fc.tuple(fc.array(fc.double({ noNaN: true, min: 0, max: 1 })), fc.integer(), fc.array(fc.nat(6))),
    ),
    at: fc.oneof(
      fc
        .date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-01-01') })
        .map((date) => date.toISOString()),
      fc.constantFrom('', '2026-01-31', '2026-01-31T00:00:00+01:00'),
    ),
    is_error: fc.boolean(),
    tokens: fc.nat(),
    copy: fc.record({
      action: text,
      action_input: fc.option(text),
      thought: text,
      observation: fc.option(text),
    }),
    intervention: fc.record({
      failure_type: fc.constant('semantic_loop' as const),
      text,
      level: fc.constantFrom('nudge' as const, 'stop' as const),
    }),
  },
  { requiredKeys: ['answer', 'at', 'is_error', 'tokens', 'copy'] },
);
const runOf = (rows: readonly RunStepRow[]) => rows.map((step, at) => ({ step_index: at * 3, step }));

it('gathered steps are read as they were written', () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 12 }), (rows) => {
      const steps = runOf(rows);
      expect(readGathered(gatherSteps(steps))).toEqual(steps);
    }),
  );
});

it('gathered steps take less than a quarter of the space if they repeat words', () => {
  const steps = runOf(
    Array.from({ length: 5 }, (_, at): RunStepRow => {
      const thought = `The failure of case ${at} names line ${at * 17}, so I look at src/parser/part-${at}.ts next`;
      const copy = {
        action: 'read_file',
        action_input: `{"line":${at}}`,
        thought,
        observation: thought.repeat(3),
      };
      return {
        answer: [[0, 0.5], 0.25, []],
        at: `2026-01-31T00:00:0${at}.000Z`,
        is_error: false,
        tokens: 9,
        copy,
      };
    }),
  );
  expect(gatherSteps(steps).length).toBeLessThan(JSON.stringify(steps).length / 4);
});

it('gathered steps of a newer format, and damaged ones, are errors', () => {
  expect(() => readGathered(Buffer.of(2, 0))).toThrow(RangeError);
  expect(() => readGathered(Buffer.of(1, 255, 255))).toThrow();
  expect(() => readGathered(Buffer.concat([Buffer.of(1), deflateRawSync('[[')]))).toThrow(SyntaxError);
  const bomb = deflateRawSync(Buffer.alloc(GATHERED_STEPS * 100_000 + 1));
  expect(() => readGathered(Buffer.concat([Buffer.of(1), bomb]))).toThrow(RangeError);
});

it('gathered steps are read in order from any index on, beside rows of one step and of other runs', async () => {
  const tables = new MemoryTables();
  const [sample] = fc.sample(row, { numRuns: 1, seed: 7 });
  const steps = runOf(Array.from({ length: 9 }, (_, at) => ({ ...sample!, tokens: at })));
  await tables.transact((tx) => {
    for (const run_id of ['a', 'b', 'c'])
      for (const { step_index, step } of steps)
        tx.write({ op: 'put', table: 'run_steps', row: ['org', run_id, step_index], value: step });
    for (const [from, to] of [
      [0, 3],
      [4, 6],
    ] as const) {
      const value = gatherSteps(steps.slice(from, to + 1));
      const [first, last] = [from * 3, to * 3];
      tx.write({ op: 'put', table: 'run_gathered_steps', row: ['org', 'b', last], value });
      tx.write({ op: 'clear', table: 'run_steps', row: ['org', 'b', first], end: ['org', 'b', last + 1] });
    }
  });
  expect([...tables.range('run_steps', { prefix: ['org'] })]).toHaveLength(9 + 2 + 9);
  const run = { org_id: 'org', run_id: 'b' };
  expect(readSteps(tables, run, { after: null, limit: 99 })).toEqual(steps);
  for (let after = -1; after < 27; after++) {
    const later = steps.filter(({ step_index }) => step_index > after);
    for (const limit of [1, 2, 5, 9])
      expect(readSteps(tables, run, { after, limit })).toEqual(later.slice(0, limit));
  }
});

/** The values that complete a query, and the number of runs with each. */
import { expect, it } from 'vitest';
import { makeReportedReader, toReportedRun } from '../../../src/domain/reported-run.ts';
import { ValueCounter } from '../../../src/domain/run-query/count-values.ts';

const row = (run_id: string, more: object = {}) =>
  toReportedRun(
    {
      org_id: 'o',
      project_id: 'p',
      run_id,
      status: 'finished',
      outcome: 'success',
      model: 'm-large',
      agent_name: 'clerk',
      framework: '',
      task_profile: '',
      codebase_id: '',
      experiment_id: '',
      arm: '',
      started_at: '2026-01-01T00:00:00Z',
      finished_at: '2026-01-01T00:01:00Z',
      duration_ms: 60_000,
      steps: 1,
      tokens: 1,
      max_total_score: 0,
      fired: {},
      ...more,
    } as never,
    undefined,
  );

function count(field: string, runs: ReturnType<typeof row>[], contains = '', limit = 10) {
  const counter = new ValueCounter(field, contains, makeReportedReader(Date.parse('2026-01-02T00:00:00Z')));
  for (const run of runs) counter.add(run);
  return counter.most(limit);
}

const runs = [
  row('a'),
  row('b', { model: 'm-small' }),
  row('c', { outcome: 'failure: lost', fired: { infinite_loop: 2 } }),
];

it('names, choices and monitors are counted, the most frequent first', () => {
  expect(count('model', runs)).toEqual({
    values: [
      { value: 'm-large', runs: 2 },
      { value: 'm-small', runs: 1 },
    ],
    is_whole: true,
  });
  expect(count('status', runs).values).toEqual([
    { value: 'ok', runs: 2 },
    { value: 'failed', runs: 1 },
  ]);
  expect(count('monitor', runs).values).toEqual([{ value: 'infinite_loop', runs: 1 }]);
  expect(count('model', runs, 'SMALL').values).toEqual([{ value: 'm-small', runs: 1 }]);
});

it('the answer says that there are more values than it contains', () => {
  expect(count('model', runs, '', 1)).toEqual({ values: [{ value: 'm-large', runs: 2 }], is_whole: false });
  const many = Array.from({ length: 10_001 }, (_, at) => row(`r${at}`, { agent_name: `agent ${at}` }));
  const told = count('agent', many, '', 20_000);
  expect([told.values.length, told.is_whole]).toEqual([10_000, false]);
});

it('a field that the list does not read has no values', () => {
  expect(count('tool', runs)).toEqual({ values: [], is_whole: true });
});

/**
 * Answers that the upstream stopped giving. They are found only where the upstream changed, and a round serves the new
 * answer.
 */

import { describe, expect, it } from 'vitest';
import { ExactIndex } from '../../src/search/exact-index.ts';
import type { GoldenRun } from '../../src/teaching/golden-steps.ts';
import { listLearned } from '../../src/teaching/service-calibration.ts';
import { leaveOutEnded } from '../../src/teaching/silent-changes.ts';
import { fitStudent } from '../../src/teaching/student-fit.ts';
import { teachStudent } from '../../src/teaching/taught-student.ts';
import { callAnswer, makeOrderStep } from '../student/model/made-steps.ts';

/** Numbers of orders, from 0 to 210. Their sequence does not depend on time. */
const orderAt = (i: number): number => (i * 37) % 211;
const nameOf = (run: GoldenRun): string => {
  const block = run.steps[0]!.answer!.content[0]!;
  return block.type === 'tool_call' ? block.name : '';
};

/** Runs of one step, newest first: from `changed` on, delivered orders are looked up again instead of refunded. */
function makeRuns(count: number, changed: number): GoldenRun[] {
  return Array.from({ length: count }, (_, i): GoldenRun => {
    const { run_id, step, answer } = makeOrderStep(orderAt(i));
    const block = answer.content[0]!;
    const isRefund = block.type === 'tool_call' && block.name === 'refund';
    const order_id = block.type === 'tool_call' ? (block.input as { order_id: string }).order_id : '';
    const given = isRefund && i >= changed ? callAnswer('get_order', { order_id }) : answer;
    const golden = { exchange_id: i, wire: 'messages' as const, step, answer: given, tokens: 900 };
    return { run_id, first_id: i, last_id: i, mark: '', steps: [golden] };
  }).reverse();
}

const countOf = (runs: readonly GoldenRun[], tool: string): number =>
  runs.filter((run) => nameOf(run) === tool).length;

describe('an answer that the upstream stopped giving', () => {
  it('is no longer learnt, unlike the other answers of its runs and stage', () => {
    const golden = makeRuns(120, 80);
    const { runs, changes } = leaveOutEnded(golden);
    const [refunds, lookups] = [countOf(golden, 'refund'), countOf(golden, 'get_order')];
    expect(changes).toMatchObject([{ kind: 'refund', earlier_runs: refunds, later_runs: lookups }]);
    const first = golden.findLast((run) => nameOf(run) === 'get_order')!;
    expect(changes[0]!.since_exchange_id).toBe(first.first_id);
    expect(countOf(runs, 'refund')).toBe(0);
    expect(countOf(runs, 'get_order')).toBe(lookups);
    expect(countOf(runs, 'cancel')).toBe(120 - refunds - lookups);
  });

  it('rules out the student that was fitted with it; without an ended answer, that student stays', () => {
    expect(leaveOutEnded(makeRuns(120, 80)).model).toBeNull();
    const unchanged = makeRuns(120, 120);
    expect(leaveOutEnded(unchanged).model).toEqual(fitStudent(listLearned(unchanged)));
  });

  it('is found once eight runs show it, and not before', () => {
    const showing = (count: number) => countOf(makeRuns(count, 80), 'get_order');
    const enough = [...Array(120).keys()].find((count) => showing(count) === 8)!;
    expect(leaveOutEnded(makeRuns(enough, 80)).changes).toHaveLength(1);
    expect(leaveOutEnded(makeRuns(enough - 1, 80)).changes).toEqual([]);
  });

  it('is not found if nothing changed, or if only the mix of tasks changed', () => {
    expect(leaveOutEnded(makeRuns(120, 120)).changes).toEqual([]);
    // Some days have only delivered orders.
    const sorted = makeRuns(120, 120).sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
    expect(leaveOutEnded(sorted).changes).toEqual([]);
  });

  it('is not served, but the answer that replaced it is', {
    tags: 'long',
  }, async () => {
    const runs = makeRuns(200, 120);
    const { changes, draft } = await teachStudent(
      {
        runs: 200,
        passed_over: 0,
        too_old: 0,
        looked_at: 200,
        read: 200,
        golden: 200,
        taught: runs,
        steps: 200,
        not_golden: {},
        untaught: {},
        patterns: [],
      },
      {
        target_error: 0.05,
        student: { kind: 'exemplar' },
        makeIndex: (dimensions) => new ExactIndex(dimensions),
      },
      { made_at: '', made_by: '', valid_until: '' },
    );
    expect(changes).toHaveLength(1);
    const kinds = draft.coverage.agents![0]!.kinds!;
    expect(kinds.find(({ kind }) => kind === 'get_order')).toMatchObject({ refused: null, errors: 0 });
    expect(kinds.find(({ kind }) => kind === 'refund')).toBeUndefined();
  });
});

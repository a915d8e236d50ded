/** The goals of the monitors on the labelled public runs, if these are beside the repository. */
import { describe, expect, it } from 'vitest';
import { type AgentRun, dataSetOf, readAgentRuns } from '../../../bench/eval/agent-runs.ts';
import type { MonitorName } from '../../../src/domain/monitors/names.ts';
import { firedIn, judgeRun } from './script.ts';

const runs = readAgentRuns();
const fires = (run: AgentRun, monitor: MonitorName): boolean =>
  firedIn(judgeRun(run.steps, run.task)).includes(monitor);
const passed = (run: AgentRun): boolean => run.labels.outcome === 'success';

describe.skipIf(runs === null)('on the labelled runs (../shared/agent-runs)', () => {
  it('every exact loop is an infinite_loop, and no passed run has one', () => {
    const loops = runs!.filter((run) => run.labels.loop_basis === 'exact repeat');
    expect(loops.length).toBe(13);
    expect(loops.filter((run) => !fires(run, 'infinite_loop'))).toEqual([]);
    expect(runs!.filter((run) => passed(run) && fires(run, 'infinite_loop'))).toEqual([]);
  });

  it('the monitors of loops find the steps that the Magentic-One ledger labels, precision ≥ 0.65, recall ≥ 0.5', () => {
    let fired = 0;
    let hits = 0;
    let marked = 0;
    for (const run of runs!.filter((item) => dataSetOf(item) === 'magentic-one')) {
      judgeRun(run.steps, run.task).forEach(({ fired: names }, index) => {
        const { step_index } = run.steps[index]!;
        const isLoop = run.labels.loop_steps.includes(step_index);
        if (!isLoop && !run.labels.no_loop_steps.includes(step_index)) return;
        const caught = names.includes('semantic_loop') || names.includes('infinite_loop');
        if (isLoop) marked += 1;
        if (caught) fired += 1;
        if (caught && isLoop) hits += 1;
      });
    }
    expect(hits / fired).toBeGreaterThanOrEqual(0.65);
    expect(hits / marked).toBeGreaterThanOrEqual(0.5);
  });

  it('semantic_loop fires in at most 2 passed airline runs', () => {
    const airline = runs!.filter((run) => dataSetOf(run) === 'airline' && passed(run));
    expect(airline.filter((run) => fires(run, 'semantic_loop')).length).toBeLessThanOrEqual(2);
  });

  it.each(['claim_contradiction', 'silent_topic_drift', 'verification_skip', 'cyclic_compression'] as const)(
    '%s fires in at most one of twenty passed runs',
    (monitor) => {
      const good = runs!.filter(passed);
      expect(good.filter((run) => fires(run, monitor)).length / good.length).toBeLessThanOrEqual(0.05);
    },
  );
});

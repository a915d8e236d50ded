/**
 * Tools whose calls no look follows: in golden runs hardly any call of another tool comes behind them. An agent can see a
 * wrong look in what comes next; nothing in the run undoes a wrong call of these tools. Pure; analysis.
 */

import type { LearnedStep } from './student-fit.ts';

/** Largest share of a tool's calls that a call of another tool may follow. */
const LOOKED_AFTER = 0.1;

/**
 * @param steps of one agent, those of a run in their order
 * @returns names of tools that are called last
 */
export function findFinalTools(steps: readonly LearnedStep[]): Set<string> {
  const counts = new Map<string, { calls: number; followed: number }>();
  for (const run of callsByRun(steps).values()) {
    for (const [at, name] of run.entries()) {
      const its = counts.get(name) ?? { calls: 0, followed: 0 };
      counts.set(name, its);
      its.calls++;
      if (run.slice(at + 1).some((other) => other !== name)) its.followed++;
    }
  }
  const final = [...counts].filter(([, { calls, followed }]) => followed <= LOOKED_AFTER * calls);
  return new Set(final.map(([name]) => name));
}

function callsByRun(steps: readonly LearnedStep[]): Map<string, string[]> {
  const runs = new Map<string, string[]>();
  for (const { run_id, answer } of steps) {
    const names = answer.content.flatMap((block) => (block.type === 'tool_call' ? [block.name] : []));
    const its = runs.get(run_id);
    if (its === undefined) runs.set(run_id, names);
    else its.push(...names);
  }
  return runs;
}

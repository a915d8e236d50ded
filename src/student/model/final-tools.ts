/**
 * Tools whose calls no look follows: in golden runs hardly any call of another tool comes behind them. An agent can see a
 * wrong look in what comes next; nothing in the run undoes a wrong call of these tools. An agent of one tool, a shell, looks with it
as well: there another call with another input counts as a look, in a later step. Pure; analysis.
 */

import { canonicalText } from './json-values.ts';
import type { LearnedStep } from './student-fit.ts';

/** Largest share of a tool's calls that a call of another tool may follow. */
const LOOKED_AFTER = 0.1;

/**
 * @param steps of one agent, those of a run in their order
 * @returns names of tools that are called last
 */
export function findFinalTools(steps: readonly LearnedStep[]): Set<string> {
  const runs = [...callsByRun(steps).values()];
  const isOnly = new Set(runs.flat().map(({ name }) => name)).size === 1;
  const counts = new Map<string, { calls: number; followed: number }>();
  for (const run of runs) {
    for (const [at, { name, step, input }] of run.entries()) {
      const its = counts.get(name) ?? { calls: 0, followed: 0 };
      counts.set(name, its);
      its.calls++;
      const looks = (other: Call): boolean =>
        isOnly ? other.step > step && other.input !== input : other.name !== name;
      if (run.slice(at + 1).some(looks)) its.followed++;
    }
  }
  const final = [...counts].filter(([, { calls, followed }]) => followed <= LOOKED_AFTER * calls);
  return new Set(final.map(([name]) => name));
}

interface Call {
  name: string;
  input: string;
  /** Place of its step among the run's. */
  step: number;
}

function callsByRun(steps: readonly LearnedStep[]): Map<string, Call[]> {
  const runs = new Map<string, Call[]>();
  for (const [step, { run_id, answer }] of steps.entries()) {
    const calls = answer.content.flatMap((block) =>
      block.type === 'tool_call' ? [{ name: block.name, input: canonicalText(block.input), step }] : [],
    );
    const its = runs.get(run_id);
    if (its === undefined) runs.set(run_id, calls);
    else its.push(...calls);
  }
  return runs;
}

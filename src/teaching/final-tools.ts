/**
 * Finds final tools. In golden runs, calls of other tools hardly ever come after calls of a final tool. An agent can
 * notice a wrong lookup from the next result, but cannot undo a wrong call of a final tool. A tool that only looks
 * things up is never final, even if an agent does nothing else. An agent whose only tool is a shell uses it for
 * lookups, too. For such an agent, a later call with a different input counts as a lookup. Pure; teaching.
 */

import { canonicalText } from '../student/model/json-values.ts';
import type { LearnedStep } from '../student/model/learned-step.ts';
import { isLook } from '../student/model/look-calls.ts';

/** Maximum share of a final tool's calls that a call of another tool follows. */
const LOOKED_AFTER = 0.1;

/**
 * Finds the final tools of an agent.
 * @param steps of one agent, those of a run in order
 * @returns names of the final tools
 */
export function findFinalTools(steps: readonly LearnedStep[]): Set<string> {
  const runs = [...callsByRun(steps).values()];
  const isOnly = new Set(runs.flat().map(({ name }) => name)).size === 1;
  const counts = new Map<string, { calls: number; followed: number }>();
  for (const run of runs) {
    for (const [at, { name, step, input }] of run.entries()) {
      const count = counts.get(name) ?? { calls: 0, followed: 0 };
      counts.set(name, count);
      count.calls++;
      const looks = (later: Call): boolean =>
        isOnly ? later.step > step && later.input !== input : later.name !== name;
      if (run.slice(at + 1).some(looks)) count.followed++;
    }
  }
  const reads = new Set(steps.at(-1)?.step.reads);
  const final = [...counts].filter(
    ([name, { calls, followed }]) => !isLook(name, reads) && followed <= LOOKED_AFTER * calls,
  );
  return new Set(final.map(([name]) => name));
}

interface Call {
  name: string;
  input: string;
  /** Index of the call's step among all steps of the agent. */
  step: number;
}

function callsByRun(steps: readonly LearnedStep[]): Map<string, Call[]> {
  const runs = new Map<string, Call[]>();
  for (const [step, { run_id, answer }] of steps.entries()) {
    const calls = answer.content.flatMap((block) =>
      block.type === 'tool_call' ? [{ name: block.name, input: canonicalText(block.input), step }] : [],
    );
    const earlier = runs.get(run_id);
    if (earlier === undefined) runs.set(run_id, calls);
    else earlier.push(...calls);
  }
  return runs;
}

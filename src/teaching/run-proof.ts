/**
 * Decides whether the rest of a golden run shows that another answer than the golden one was right, too. Pure;
 * teaching.
 *
 * Audits do not see the rest of a run, so they count an answer as different even if the rest shows it to be right.
 */

import type { StudentBlock } from '../student/model/decision.ts';
import { differInLooks, makesSomeLooksOf } from '../student/model/equivalence.ts';
import type { ReadTools } from '../student/model/look-calls.ts';
import { canonicalCall } from './later-calls.ts';

/** A step of the run; the answer is null if no student could give it. */
interface RunStep {
  step: { stage: string; reads?: readonly string[] };
  answer: { content: readonly StudentBlock[] } | null;
}

/** Maximum number of later steps that are read. */
const REST_STEPS = 60;

/**
 * Whether the rest of the run shows that the student's answer was right, too.
 * @param given the student's answer to a step
 * @param run all steps of the run, in order
 * @param at index of the step
 */
export function isShownByRest(given: readonly StudentBlock[], run: readonly RunStep[], at: number): boolean {
  const golden = run[at]?.answer?.content;
  if (golden === undefined) return false;
  const rest = run.slice(at + 1, at + 1 + REST_STEPS);
  if (isCorrection(given, golden, rest)) return true;
  // A run repeats a call that gave nothing, so an answer that continues without its result is not shown to be right.
  const before = listCalls(run[at - 1]?.answer?.content ?? []);
  const isRepeated = listCalls(golden).some((call) => before.includes(call));
  const reads = new Set(run[at]!.step.reads);
  return !isRepeated && isMadeAnyway(given, golden, rest, reads);
}

/** Whether all golden calls failed, and the run then made the calls of this answer: it corrected a mistake. */
function isCorrection(
  given: readonly StudentBlock[],
  golden: readonly StudentBlock[],
  [next]: readonly RunStep[],
): boolean {
  if (next?.answer == null || !golden.some(({ type }) => type === 'tool_call')) return false;
  if (!next.step.stage.split(' ').every((name) => /!×?$/.test(name))) return false;
  const [own, corrected] = [listCalls(given), listCalls(next.answer.content)];
  return own.length > 0 && own.join('\n') === corrected.join('\n');
}

/**
 * Whether both answers differ only in lookups, and the run makes all calls of this answer at this step or later. Another
 * lookup with the same tool is another answer. So is a lookup in the place of a call that changes something, even if the
 * run makes that lookup later: an agent reads the next page of a table after it has changed the current page.
 */
function isMadeAnyway(
  given: readonly StudentBlock[],
  golden: readonly StudentBlock[],
  rest: readonly RunStep[],
  reads: ReadTools,
): boolean {
  if (makesSomeLooksOf(golden, given, reads)) return true;
  if (differInLooks(given, golden, reads) === null) return false;
  const made = new Set([golden, ...rest.map(({ answer }) => answer?.content ?? [])].flatMap(listCalls));
  return listCalls(given).every((call) => made.has(call));
}

function listCalls(content: readonly StudentBlock[]): string[] {
  return content.flatMap((block) => (block.type === 'tool_call' ? [canonicalCall(block)] : []));
}

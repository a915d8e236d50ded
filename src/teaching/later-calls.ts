/** The calls that a golden run makes after a step. Pure; teaching. */

import type { StudentBlock } from '../student/model/decision.ts';
import { canonicalText } from '../student/model/json-values.ts';
import { LOOKS } from '../student/model/look-calls.ts';
import type { MarkColumn } from '../student/model/relevance.ts';
import { MARK } from '../student/model/step-marks.ts';

/** A call in the form in which runs are compared. */
export function canonicalCall(block: Extract<StudentBlock, { type: 'tool_call' }>): string {
  return `${JSON.stringify(block.name)}${canonicalText(block.input)}`;
}

/** The name of the tool that a call in canonical form calls. */
function toolOfCall(call: string): string {
  return /^"((?:[^"\\]|\\.)*)"/.exec(call)?.[1] ?? '';
}

/** A column for each tool that does more than look: the steps whose runs call the tool later. */
export function readLaterTools({
  examples,
  later,
}: {
  examples: readonly unknown[];
  later(step: number): ReadonlySet<string>;
}): MarkColumn[] {
  const columns = new Map<string, MarkColumn>();
  for (let i = 0; i < examples.length; i++)
    for (const name of new Set([...later(i)].map(toolOfCall))) {
      if (LOOKS.test(name)) continue;
      const column = columns.get(name) ?? {
        key: 0,
        kind: MARK.past,
        has: new Uint8Array(examples.length),
        count: 0,
      };
      columns.set(name, column);
      column.has[i] = 1;
      column.count++;
    }
  return [...columns.values()];
}

/** The calls that a golden run makes after a step. Pure; teaching. */

import type { StudentBlock } from '../student/model/decision.ts';
import { canonicalText } from '../student/model/json-values.ts';
import { isLook, isLookCall, nameOfUse, type ReadTools } from '../student/model/look-calls.ts';
import type { MarkColumn } from '../student/model/relevance.ts';
import { isShell } from '../student/model/shell-commands.ts';
import { MARK } from '../student/model/step-marks.ts';

/** A call in the form in which runs are compared. */
export function canonicalCall(block: Extract<StudentBlock, { type: 'tool_call' }>): string {
  return `${JSON.stringify(block.name)}${canonicalText(block.input)}`;
}

/** What a call in canonical form uses to change something; null for a call that only looks. */
function readChange(call: string, reads: ReadTools): string | null {
  const [written = '""', name = ''] = /^"((?:[^"\\]|\\.)*)"/.exec(call) ?? [];
  if (isLook(name, reads)) return null;
  if (!isShell(name)) return name;
  const block = {
    type: 'tool_call',
    id: '',
    name,
    input: JSON.parse(call.slice(written.length)) as unknown,
  } as const;
  return isLookCall(block) ? null : nameOfUse(block);
}

/**
 * Makes a column for each tool that does more than look, and for each program of a shell that does more than look. The
 * column marks the steps whose runs call the tool or the program later.
 */
export function readLaterTools({
  examples,
  later,
  reads,
}: {
  examples: readonly unknown[];
  later(step: number): ReadonlySet<string>;
  reads: ReadTools;
}): MarkColumn[] {
  const columns = new Map<string, MarkColumn>();
  for (let i = 0; i < examples.length; i++)
    for (const name of new Set([...later(i)].map((call) => readChange(call, reads)))) {
      if (name === null) continue;
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

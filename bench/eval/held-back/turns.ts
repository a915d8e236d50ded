/** Reads the calls of a run and their results. Pure; bench process. */

import type { Arguments, Turn } from './held-back-agent.ts';

interface MadeCall {
  input: Arguments;
  result: string;
  is_error: boolean;
}

/** Lists the successful calls of a tool, oldest first. */
export function callsOf(turns: readonly Turn[], name: string): MadeCall[] {
  return allCallsOf(turns, name).filter(({ is_error }) => !is_error);
}

/** Lists all calls of a tool, oldest first. */
export function allCallsOf(turns: readonly Turn[], name: string): MadeCall[] {
  return turns.flatMap(({ answer, results }) =>
    answer.calls.flatMap((call, at) =>
      call.name === name
        ? [{ input: call.input, result: results[at]!.text, is_error: results[at]!.is_error }]
        : [],
    ),
  );
}

/** Finds the result of the last successful call of a tool; null: no call of the tool succeeded. */
export function resultOf(turns: readonly Turn[], name: string): string | null {
  return callsOf(turns, name).at(-1)?.result ?? null;
}

/**
 * Judges an answer by its effect in the agent's world and by the facts that it states, not by its wording. Pure; bench
 * process.
 */

import { isDeepStrictEqual } from 'node:util';
import { faultOf } from './facts.ts';
import type { Answer, FreeText, HeldBackAgent, Move, Run, ToolCall, WantedCall } from './held-back-agent.ts';

/** Longer texts are cut to this length where a fault quotes them. */
const TOLD_CHARACTERS = 160;

/** The model's request, and names that a text must not invent. */
interface Asked {
  words: string;
  names: readonly string[];
}

/**
 * Judges an answer.
 * @param moves the moves at this point (`movesNow`); all but the slips are right
 * @returns why the answer is wrong; null: it is right
 */
export function judgeAnswer(
  agent: HeldBackAgent,
  run: Run,
  moves: readonly Move[],
  answer: Answer,
): string | null {
  const asked = { words: `${run.system}\n${run.task}`, names: agent.names };
  const faults = moves
    .filter(({ is_slip }) => is_slip !== true)
    .map((move) => faultOfMove(run, move, answer, asked));
  return faults.includes(null) ? null : (faults[0] ?? 'no move is right at this point');
}

/** Finds the frontier model's version of the call; null: no move has such a call. */
export function findWanted(run: Run, moves: readonly Move[], call: ToolCall): WantedCall | null {
  return moves.flatMap(({ calls }) => calls).find((wanted) => isSameCall(run, wanted, call)) ?? null;
}

function faultOfMove(run: Run, move: Move, answer: Answer, asked: Asked): string | null {
  if (move.text !== undefined)
    return answer.calls.length > 0
      ? `calls ${answer.calls[0]!.name} instead of ending the run`
      : faultOfText(answer.text, move.text, asked);
  if (answer.calls.length === 0)
    return `says "${answer.text.slice(0, TOLD_CHARACTERS)}" instead of ${nameCalls(move)}`;
  const left = [...answer.calls];
  for (const wanted of move.calls) {
    const at = left.findIndex(
      (call) => isSameCall(run, wanted, call) && faultOfWords(wanted, call, asked) === null,
    );
    if (at >= 0) {
      left.splice(at, 1);
      continue;
    }
    const near = left.find((call) => isSameCall(run, wanted, call));
    return near === undefined
      ? `calls ${JSON.stringify(left)} instead of ${nameCalls(move)}`
      : `${wanted.name}: ${faultOfWords(wanted, near, asked)}`;
  }
  return left.length > 0 ? `calls ${left[0]!.name} besides` : null;
}

function isSameCall(run: Run, wanted: WantedCall, call: ToolCall): boolean {
  if (wanted.name !== call.name) return false;
  if (run.isAlike !== undefined) return run.isAlike(wanted, call);
  return haveSameArguments(wanted, call);
}

/** Whether all arguments are equal, except those that are worded freely. */
export function haveSameArguments({ input, free = {} }: WantedCall, call: ToolCall): boolean {
  const given = Object.fromEntries(Object.entries(call.input).filter(([field]) => free[field] === undefined));
  return isDeepStrictEqual(given, input);
}

function faultOfWords({ free = {} }: WantedCall, call: ToolCall, asked: Asked): string | null {
  for (const [field, words] of Object.entries(free)) {
    const text = call.input[field];
    const fault = typeof text === 'string' ? faultOfText(text, words, asked) : 'is missing';
    if (fault !== null) return `${field} ${fault}`;
  }
  return null;
}

function faultOfText(
  text: string,
  { facts, values, wordings }: FreeText,
  { words, names }: Asked,
): string | null {
  const known = [words, ...wordings, ...Object.values(values)].join('\n');
  const fault = facts === null ? null : faultOf(text, facts, known, names);
  return fault === null ? null : `${fault}: "${text.slice(0, TOLD_CHARACTERS)}"`;
}

function nameCalls({ calls }: Move): string {
  return JSON.stringify(calls.map(({ name, input }) => ({ name, input })));
}

/**
 * The frontier model of the held-back agents. It makes one of the right moves, chooses one of many wordings for free
 * text, and repeats calls that failed for a moment. Pure; bench process.
 */

import { createPrng, type Prng } from '../../../src/std/prng.ts';
import type { Answer, HeldBackAgent, Move, Run, ToolCall, Turn, WantedCall } from './held-back-agent.ts';
import { findWanted } from './truth.ts';
import { pick, shuffle, word } from './wording.ts';

const RETRY_ASIDES = [
  'That {call|request} {failed|timed out}. {Trying again.|Let me retry.|I will try once more.}',
  '{Temporary|Transient} error, {retrying|trying again}.',
];
const RETRY_ASIDE_SHARE = 0.4;

/** Returns the turns without the calls that failed for a moment. */
function settledTurns(turns: readonly Turn[]): Turn[] {
  return turns.flatMap(({ answer, results }) => {
    const kept = answer.calls.flatMap((call, at) =>
      results[at]?.is_transient === true ? [] : [{ call, result: results[at]! }],
    );
    if (answer.calls.length > 0 && kept.length === 0) return [];
    return [
      {
        answer: { text: answer.text, calls: kept.map(({ call }) => call) },
        results: kept.map(({ result }) => result),
      },
    ];
  });
}

/**
 * Lists all moves that are right after these turns, and possible slips. After a transient failure, the only move is to
 * make the failed calls again; otherwise the agent's world lists the moves.
 */
export function movesNow(run: Run, turns: readonly Turn[]): Move[] {
  const last = turns.at(-1);
  const failed = last?.answer.calls.filter((_, at) => last.results[at]?.is_transient === true) ?? [];
  if (failed.length === 0) return run.moves(settledTurns(turns));
  const before = movesNow(run, turns.slice(0, -1));
  return [{ weight: 1, calls: failed.map((call) => findWanted(run, before, call) ?? call) }];
}

/** Answers a step as the provider's model. @param seed of this step: the same step gets the same answer */
export function answerStep(agent: HeldBackAgent, run: Run, turns: readonly Turn[], seed: number): Answer {
  const prng = createPrng(seed);
  const moves = movesNow(run, turns);
  const move = choose(prng, moves);
  if (move.text !== undefined)
    return { text: word(prng, pick(prng, move.text.wordings), move.text.values), calls: [] };
  return {
    text: sayAside(prng, agent, turns),
    calls: shuffle(prng, move.calls).map((call) => wordCall(prng, call)),
  };
}

function choose(prng: Prng, moves: readonly Move[]): Move {
  let left = prng.float() * moves.reduce((sum, { weight }) => sum + weight, 0);
  for (const move of moves) {
    left -= move.weight;
    if (left < 0) return move;
  }
  throw new Error('the frontier model has no right move');
}

function sayAside(prng: Prng, agent: HeldBackAgent, turns: readonly Turn[]): string {
  if (turns.at(-1)?.results.some(({ is_transient }) => is_transient === true) === true)
    return prng.chance(RETRY_ASIDE_SHARE) ? word(prng, pick(prng, RETRY_ASIDES), {}) : '';
  return prng.chance(agent.aside_share) ? word(prng, pick(prng, agent.asides), {}) : '';
}

function wordCall(prng: Prng, { name, input, free = {} }: WantedCall): ToolCall {
  const worded = Object.entries(free).map(([field, { wordings, values }]) => [
    field,
    word(prng, pick(prng, wordings), values),
  ]);
  return { name, input: { ...input, ...Object.fromEntries(worded) } };
}

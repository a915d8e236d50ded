/**
 * The problems of a run by turn: failed and aborted calls, failed tools, monitors that fired, and missing turns. Pure;
 * browser.
 */
import { titleOfMonitor } from '../../domain/monitors/names.ts';
import type { CapturedRun, CapturedTurn } from './captured.ts';

export interface Problem {
  exchange_id: number;
  /** Index of the turn, from 0 on. */
  at: number;
  words: string;
}

export function listProblems(run: CapturedRun, turns: readonly CapturedTurn[]): Problem[] {
  const words = new Map<number, string[]>();
  const add = (exchange_id: number, said: string) => {
    const known = words.get(exchange_id) ?? [];
    if (!known.includes(said)) words.set(exchange_id, [...known, said]);
  };
  turns.forEach((turn, at) => {
    const { exchange_id, failed, aborted, end_words, error, status } = turn;
    if (failed || aborted)
      add(exchange_id, error ?? (end_words || (status === 0 ? 'no answer' : `status ${status}`)));
    for (const { name, is_error, exchange_id: asked } of turn.results)
      if (is_error) add(asked, `${name} failed`);
    for (const { monitor, exchange_id: at_exchange } of turn.fired) add(at_exchange, titleOfMonitor(monitor));
    if (turn.link === 'breaks' || findGaps(run, turn, turns[at - 1]).length > 0)
      add(exchange_id, 'something is missing before it');
  });
  return turns.flatMap(({ exchange_id }, at) => {
    const said = words.get(exchange_id);
    return said === undefined ? [] : [{ exchange_id, at, words: said.join('; ') }];
  });
}

/**
 * Lists the gaps in the sequence numbers before a turn.
 * @param before the previous turn; undefined: the turn is the first
 */
export function findGaps(
  run: CapturedRun,
  { seq }: CapturedTurn,
  before: CapturedTurn | undefined,
): CapturedRun['gaps'] {
  const from = before?.seq ?? -1;
  return seq === null ? [] : run.gaps.filter(([first, last]) => first > from && last < seq);
}

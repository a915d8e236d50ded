/** What the turns of a run show of each other: a call is shown with its result. Pure; browser. */
import { type Block, blocksOf, type CapturedTurn, findCalls, findResults } from './captured.ts';

/** What one turn shows of the other turns. */
export interface TurnLinks {
  /** Results of the turn's calls, by the ids of the calls. */
  results: ReadonlyMap<string, Extract<Block, { type: 'tool_result' }>>;
  /** Ids of the calls in the run whose results the turn's request contains. Each such result is shown with its call. */
  calls: ReadonlySet<string>;
}

/**
 * Finds the links of each turn, by the turn's exchange.
 * @param before the links that were found when the run had fewer turns. A turn whose links are equal keeps the same
 *   object, so that the page does not draw the turn again
 */
export function linkTurns(
  turns: readonly CapturedTurn[],
  before: ReadonlyMap<number, TurnLinks> = new Map(),
): Map<number, TurnLinks> {
  const results = findResults(turns);
  const calls = findCalls(turns);
  return new Map(
    turns.map((turn) => {
      const known = before.get(turn.exchange_id);
      const links = linksOf(turn, results, calls);
      return [turn.exchange_id, known !== undefined && areEqual(known, links) ? known : links];
    }),
  );
}

function linksOf(turn: CapturedTurn, results: TurnLinks['results'], calls: TurnLinks['calls']): TurnLinks {
  const ownResults = [...findCalls([turn])].flatMap((id) => {
    const result = results.get(id);
    return result === undefined ? [] : [[id, result] as const];
  });
  const told = turn.messages_added.flatMap(({ content }) =>
    blocksOf(content).flatMap((block) =>
      block.type === 'tool_result' && block.call_id !== null ? [block.call_id] : [],
    ),
  );
  return { results: new Map(ownResults), calls: new Set(told.filter((id) => calls.has(id))) };
}

function areEqual(a: TurnLinks, b: TurnLinks): boolean {
  return (
    a.results.size === b.results.size &&
    a.calls.size === b.calls.size &&
    [...a.results].every(([id, result]) => b.results.get(id) === result) &&
    [...a.calls].every((id) => b.calls.has(id))
  );
}

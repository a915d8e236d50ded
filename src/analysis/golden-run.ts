/**
 * One run of a capture database as the distiller takes it: judged first by its records, which costs little, then read
 * exchange by exchange, its answered turns handed out in normal form, and judged again with what the bodies say. Pure but
 * for the source it reads from. Command line.
 */

import type { ExchangeRecord } from '../domain/exchange.ts';
import { type GoldenReason, GoldenTally, type GoldenVerdict, hasFailed } from '../domain/golden.ts';
import type { NormalTurn } from '../domain/turn.ts';
import type { StoredExchange } from '../gateway/turns/decode.ts';
import { normalizeTurn } from '../gateway/turns/normal-turn.ts';
import { type ExchangeSource, readRun } from './inspect.ts';
import { type RunChains, RunSource, type TracedRun } from './trace.ts';

/** An answered turn of a run. */
export interface AnsweredTurn {
  record: ExchangeRecord;
  turn: NormalTurn;
  copy: StoredExchange;
}

/**
 * Reads a run that its records do not rule out.
 * @param outcome of the finished monitor run of that id; null when there is none
 * @returns after the last turn: whether the run is golden, or why not
 * @throws what the source throws
 */
export function* readAnsweredTurns(
  source: ExchangeSource,
  chains: RunChains,
  run: TracedRun,
  outcome: string | null,
): Generator<AnsweredTurn, GoldenVerdict> {
  const own = new RunSource(source, chains, run);
  const ruledOut = ruleOut(own, outcome);
  if (ruledOut.length > 0) return { golden: false, reasons: ruledOut };
  const tally = new GoldenTally();
  let lastSeq = 0;
  let lastCalls = false;
  for (const { record, turn, link } of readRun(own, run.run_id)) {
    tally.add(record, link);
    if (turn === null || record.kind !== 'turn') continue;
    const copy = source.copy(record.id);
    const normal = copy === undefined ? null : normalizeTurn(copy);
    // In the order of seq the last turn is the one that must have ended.
    if (record.seq === null || record.seq >= lastSeq) {
      lastSeq = record.seq ?? lastSeq;
      lastCalls = normal?.answer.content.some(({ type }) => type === 'tool_call') ?? false;
    }
    if (copy === undefined || normal === null || hasFailed(record)) continue;
    yield { record, turn: normal, copy };
  }
  return tally.judge(lastCalls);
}

/** What speaks against a run without its bodies; empty when nothing does. */
function ruleOut(own: ExchangeSource, outcome: string | null): GoldenReason[] {
  const tally = new GoldenTally();
  for (const record of own.summaries()) tally.add(record);
  const reasons = tally.judge().reasons.filter(({ code }) => code !== 'unlinked');
  if (outcome !== null && outcome !== 'success') {
    const words = `the monitor run of this id finished with the outcome ${JSON.stringify(outcome)}`;
    reasons.push({ code: 'outcome', words });
  }
  return reasons;
}

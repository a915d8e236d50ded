/**
 * Reads one run of a capture database for a round. It first judges the run by its records, which is cheap. Then it
 * reads the run exchange by exchange, yields the answered turns in normal form, and judges the run again by its bodies.
 * Pure except for its source. Command line.
 */

import { type ExchangeSource, readInOrder } from '../captures/exchange-source.ts';
import { readRun } from '../captures/inspect.ts';
import type { ChainedRun, RunChains } from '../captures/run-chains.ts';
import { judgeByRecords, RunJudge } from '../captures/run-judge.ts';
import { RunSource } from '../captures/trace.ts';
import type { ExchangeRecord } from '../domain/exchange.ts';
import { type GoldenCode, type GoldenReason, GoldenTally, hasFailed } from '../domain/golden.ts';
import { type RunWords, weighWords } from '../domain/run-mark.ts';
import type { NormalTurn } from '../domain/turn.ts';
import type { StoredExchange } from '../providers/decode.ts';
import { GOLDEN_WIRES } from '../providers/golden-wires.ts';
import { DISTILL_BODY_BYTES } from './limits.ts';

/**
 * Why a run cannot be used for teaching: it is not golden, or one of its bodies is too large to be read here.
 */
export type RunFault = GoldenCode | 'too_large';

/** An answered turn of a run. */
interface AnsweredTurn {
  record: ExchangeRecord;
  turn: NormalTurn;
  copy: StoredExchange;
}

/**
 * Reads a run, unless its records already rule it out.
 * @param words external statements about the run
 * @returns why the run cannot be used, known after the last turn; empty: it can be used
 * @throws what the source throws
 */
export function* readAnsweredTurns(
  source: ExchangeSource,
  chains: RunChains,
  run: ChainedRun,
  words: RunWords,
): Generator<AnsweredTurn, RunFault[]> {
  if (run.is_side) return ['side_call'];
  const own = new RunSource(source, chains, run);
  const ruledOut = ruleOut(own, run.exchanges, words);
  if (ruledOut.length > 0) return ruledOut;
  const judge = new RunJudge();
  for (const step of readRun(own, '')) {
    judge.add(step);
    const { record, turn } = step;
    if (turn === null || !turn.is_turn || hasFailed(record)) continue;
    const copy = source.copy(record.id);
    if (copy !== undefined) yield { record, turn, copy };
  }
  return codesOf(weighWords(judge.judge(), words).reasons);
}

/** Reasons against a run that its records show; empty: they show none. */
function ruleOut(own: RunSource, exchanges: number, words: RunWords): RunFault[] {
  const tally = new GoldenTally(GOLDEN_WIRES);
  let isTooLarge = false;
  let read = 0;
  for (const record of readInOrder(own, '')) {
    read += 1;
    tally.add(record);
    isTooLarge ||= isLarge(record.request) || isLarge(record.response);
  }
  const { reasons } = weighWords(judgeByRecords(tally, words) ?? [], words);
  if (read < exchanges) reasons.push({ code: 'undecodable', words: 'some exchanges cannot be read' });
  return [...codesOf(reasons), ...(isTooLarge ? ['too_large' as const] : [])];
}

function codesOf(reasons: readonly GoldenReason[]): GoldenCode[] {
  return [...new Set(reasons.map(({ code }) => code))];
}

/**
 * Whether the body of a request or an answer is too large to read. For a compressed body the bound is a 16th, because
 * the decoded size is not known.
 */
function isLarge({ headers, bytes }: ExchangeRecord['request']): boolean {
  const isPacked = headers.some(
    ([name, value]) => name.toLowerCase() === 'content-encoding' && value.trim().toLowerCase() !== 'identity',
  );
  return bytes > (isPacked ? DISTILL_BODY_BYTES / 16 : DISTILL_BODY_BYTES);
}

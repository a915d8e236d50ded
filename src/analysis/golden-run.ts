/**
 * One run of a capture database as the distiller takes it: judged first by its records, which costs little, then read
 * exchange by exchange, its answered turns handed out in normal form, and judged again with what the bodies say. Pure but
 * for the source it reads from. Command line.
 */

import type { ExchangeRecord } from '../domain/exchange.ts';
import {
  type GoldenCode,
  type GoldenReason,
  GoldenTally,
  hasFailed,
  judgeOutcome,
} from '../domain/golden.ts';
import type { NormalTurn } from '../domain/turn.ts';
import { DISTILL_BODY_BYTES } from '../limits.ts';
import type { StoredExchange } from '../providers/decode.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import type { ExchangeSource } from './exchange-source.ts';
import { readRun } from './inspect.ts';
import type { ChainedRun, RunChains } from './run-chains.ts';
import { RunSource } from './trace.ts';

/** Why a run does not teach: it is not golden, or one of its bodies is too large to be read here. */
export type RunFault = GoldenCode | 'too_large';

/** An answered turn of a run. */
export interface AnsweredTurn {
  record: ExchangeRecord;
  turn: NormalTurn;
  copy: StoredExchange;
}

/**
 * Reads a run that its records do not rule out.
 * @param outcome of the finished monitor run of that id; null when there is none
 * @returns after the last turn: why the run does not teach; nothing when it does
 * @throws what the source throws
 */
export function* readAnsweredTurns(
  source: ExchangeSource,
  chains: RunChains,
  run: ChainedRun,
  outcome: string | null,
): Generator<AnsweredTurn, RunFault[]> {
  if (run.is_side) return ['side_call'];
  const own = new RunSource(source, chains, run);
  const ruledOut = ruleOut(own, run.exchanges, outcome);
  if (ruledOut.length > 0) return ruledOut;
  const tally = new GoldenTally();
  let lastSeq = 0;
  let lastCalls = false;
  for (const { record, turn, link } of readRun(own, '')) {
    tally.add(record, link, turn?.conversation ?? null);
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
  return codesOf(tally.judge(lastCalls).reasons);
}

/** What speaks against a run without its bodies; empty when nothing does. */
function ruleOut(own: RunSource, exchanges: number, outcome: string | null): RunFault[] {
  const tally = new GoldenTally();
  let isTooLarge = false;
  let read = 0;
  for (const record of own.exchanges()) {
    read += 1;
    tally.add(record);
    isTooLarge ||= isLarge(record.request) || isLarge(record.response);
  }
  // Whether the conversation is unbroken, only the bodies tell.
  const reasons = tally.judge().reasons.filter(({ code }) => code !== 'unlinked');
  const against = judgeOutcome(outcome);
  if (against !== null) reasons.push(against);
  if (read < exchanges) reasons.push({ code: 'undecodable', words: 'some exchanges cannot be read' });
  return [...codesOf(reasons), ...(isTooLarge ? ['too_large' as const] : [])];
}

function codesOf(reasons: readonly GoldenReason[]): GoldenCode[] {
  return [...new Set(reasons.map(({ code }) => code))];
}

/** Larger than is read here; how large a compressed body is, nobody knows before. */
function isLarge({ headers, bytes }: ExchangeRecord['request']): boolean {
  const isPacked = headers.some(
    ([name, value]) => name.toLowerCase() === 'content-encoding' && value.trim().toLowerCase() !== 'identity',
  );
  return bytes > (isPacked ? DISTILL_BODY_BYTES / 16 : DISTILL_BODY_BYTES);
}

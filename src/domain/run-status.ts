/**
 * The status of a run, captured or reported: how it ended, who ended it and why, in one definition for every list, screen
 * and command (docs/queries.md#status). Pure; any thread.
 *
 * The first of these that applies decides:
 *  1. A person marked it: `good` is ok, `bad` is failed.
 *  2. Its end was reported: `success` is ok, `failure…` is failed, any other outcome is unknown.
 *  3. Its start was reported, it was active within RUN_IDLE_MS, and its last turn did not fail: running.
 *  4. Its last turn failed or was aborted: error.
 *  5. The model ended its last answer by itself: ok.
 *  6. Its last answer calls a tool or was cut off (`max_tokens`, for example), and it was active within RUN_IDLE_MS:
 *     running.
 *  7. Otherwise: unknown.
 */
import { describeEnd, type EndCause } from './end-cause.ts';
import type { CapturedEnd } from './golden.ts';
import type { RunMark } from './run-mark.ts';
import type { RunEnder, RunStatus } from './run-status-name.ts';
import { classifyOutcome } from './run-summary.ts';

/** A run without an end counts as running for this long after its last sign of life. */
export const RUN_IDLE_MS = 15 * 60_000;

/** What is known about a run. */
interface RunEvidence {
  mark: RunMark | null;
  /** null: no run with its id was reported. */
  reported: { is_finished: boolean; outcome: string } | null;
  /** null: it was not captured. */
  captured: CapturedEnd | null;
  /** The last sign of life, in milliseconds since the epoch. */
  last_ms: number;
}

export interface ToldStatus {
  status: RunStatus;
  /** null: it has not ended, or the ender is unknown. */
  ended_by: RunEnder | null;
  /** Why, in words for people. */
  words: string;
}

/**
 * Computes the status of a run.
 * @param nowMs milliseconds since the epoch
 */
export function tellStatus({ mark, reported, captured, last_ms }: RunEvidence, nowMs: number): ToldStatus {
  if (mark !== null) {
    const status = mark === 'good' ? 'ok' : 'failed';
    return { status, ended_by: 'person', words: `a person marked it ${mark}` };
  }
  const isAlive = nowMs - last_ms < RUN_IDLE_MS;
  if (reported?.is_finished) return tellOutcome(reported.outcome);
  if (reported !== null && isAlive && captured?.how !== 'failed')
    return { status: 'running', ended_by: null, words: 'it was reported to have begun, and has not ended' };
  if (captured === null) return { status: 'unknown', ended_by: null, words: 'its end was never reported' };
  return tellCapturedEnd(captured, isAlive);
}

function tellOutcome(outcome: string): ToldStatus {
  const kind = classifyOutcome(outcome);
  const status = kind === 'success' ? 'ok' : kind === 'failure' ? 'failed' : 'unknown';
  return { status, ended_by: 'agent', words: `the agent reported: ${outcome}` };
}

function tellCapturedEnd(captured: CapturedEnd, isAlive: boolean): ToldStatus {
  const { how, cause, http_status, stop_reason } = captured;
  if (how === 'itself') return { status: 'ok', ended_by: 'model', words: 'the model ended its last answer' };
  if (how === 'failed')
    return { status: 'error', ended_by: enderOf(cause, http_status), words: tellFailure(captured) };
  if (stop_reason === null) return { status: 'unknown', ended_by: null, words: 'how it ended is not known' };
  const words = `the last answer stopped with ${stop_reason}, and no further request came`;
  return isAlive
    ? { status: 'running', ended_by: null, words: `the last answer stopped with ${stop_reason}` }
    : { status: 'unknown', ended_by: 'client', words };
}

function tellFailure({ cause, http_status }: CapturedEnd): string {
  const status = http_status >= 400 ? ` (HTTP ${http_status})` : '';
  if (cause !== null) return `${describeEnd(cause)}${status}`;
  return `the last turn failed${status}`;
}

function enderOf(cause: EndCause | null, httpStatus: number): RunEnder | null {
  if (cause === null) return httpStatus >= 400 ? 'upstream' : null;
  if (cause.startsWith('client_')) return 'client';
  return cause === 'gateway_stopped' ? 'gateway' : 'upstream';
}

/**
 * What a turn adds to earlier turns: the results of tool calls, with the time that they took, and monitors that fired.
 * Pure; capture reader.
 *
 * Memory: a CapturedMonitor, and the ends of the last MAX_ENDS turns.
 */
import { CapturedMonitor, type JudgedStep } from '../domain/captured-monitor.ts';
import { hasFailed } from '../domain/golden.ts';
import type { MonitorName } from '../domain/monitors/names.ts';
import type { RunStep } from './inspect.ts';

const MAX_ENDS = 1_024;

/** A tool call and the time until its result came back. */
interface SettledCall {
  call_id: string;
  name: string;
  /** The exchange whose answer contains the call. */
  exchange_id: number;
  /**
   * Time from the end of the answer with the call to the request with the result; null: unknown. It includes the tool's
   * time, and everything else that the agent did meanwhile.
   */
  duration_ms: number | null;
  is_error: boolean;
}

/** A monitor that fired, and the exchange whose answer made it fire. */
interface FiredMonitor {
  monitor: MonitorName;
  exchange_id: number;
}

export interface TrailedTurn {
  results: SettledCall[];
  fired: FiredMonitor[];
}

/** Follows the exchanges of one run. */
export class TurnTrail {
  readonly #judged: JudgedStep[] = [];
  readonly #monitor = new CapturedMonitor((step) => this.#judged.push(step));
  readonly #ended_ms = new Map<number, number>();

  /** Adds the run's next exchange, in the order of the run. */
  add({ record, turn, link, conversation }: RunStep): TrailedTurn {
    if (turn === null || !turn.is_turn) return { results: [], fired: [] };
    const { id, started_at, duration_ms } = record;
    const place = { conversation: conversation ?? 0, is_retry: link === 'repeats' };
    this.#monitor.add({ id, is_answered: !hasFailed(record), ...place }, turn);
    const began_ms = Date.parse(started_at);
    this.#ended_ms.set(id, began_ms + duration_ms);
    if (this.#ended_ms.size > MAX_ENDS) this.#ended_ms.delete(this.#ended_ms.keys().next().value!);
    const judged = this.#judged.splice(0);
    return {
      results: judged.flatMap((step) => this.#settle(step, began_ms)),
      fired: judged.flatMap(({ exchange_id, fired }) => fired.map((monitor) => ({ monitor, exchange_id }))),
    };
  }

  #settle(
    { exchange_id, call_id, action, is_error, has_result }: JudgedStep,
    began_ms: number,
  ): SettledCall[] {
    if (call_id === null || !has_result) return [];
    const ended_ms = this.#ended_ms.get(exchange_id);
    const duration_ms = ended_ms === undefined ? null : Math.max(0, began_ms - ended_ms);
    return [{ call_id, name: action, exchange_id, duration_ms, is_error }];
  }
}

/**
 * Judges a captured run by its records and its bodies. Every reader of runs takes its verdict from here: the list and
 * the page of the dashboard, `inspect`, `trace`, `distill`, `loop` and exports. docs/traces.md says when a run is
 * golden. Pure; capture reader, command line.
 *
 * The verdict concerns only the captured copy. External statements about the run, such as an outcome or a mark, are
 * applied when it is shown (domain/run-mark.ts), because they may come later.
 *
 * Memory: a GoldenTally, an EchoCheck, a CapturedMonitor, and MAX_DIFFERENCES differences.
 */
import { CapturedMonitor, NEAR_END } from '../domain/captured-monitor.ts';
import { EchoCheck, type EchoDifference } from '../domain/echo.ts';
import { type GoldenReason, GoldenTally, hasFailed, type TurnLink } from '../domain/golden.ts';
import { type RunWords, weighWords } from '../domain/run-mark.ts';
import { GOLDEN_WIRES } from '../providers/golden-wires.ts';
import type { ReadTurn } from '../providers/normal-turn.ts';
import type { ListedExchange } from './exchange-source.ts';

/**
 * Maximum number of differences between answers and their echoes that a verdict lists. Further ones are only counted.
 */
const MAX_DIFFERENCES = 3;

/** What the judge needs to know about an exchange and its position in the run. */
interface JudgedStep {
  record: ListedExchange;
  /** null for an exchange that is not a turn; the next two fields are then null too. */
  turn: ReadTurn | null;
  link: TurnLink | null;
  /** Number of its conversation in the run, from 1 on. */
  conversation: number | null;
}

export class RunJudge {
  readonly #tally = new GoldenTally(GOLDEN_WIRES);
  readonly #echoes = new EchoCheck();
  readonly #monitor = new CapturedMonitor();
  readonly #differences: EchoDifference[] = [];
  #differing = 0;
  #lastSeq = 0;
  #lastCallsTools = false;

  /** Adds the run's next exchange, in the order of the run. */
  add({ record, turn, link, conversation }: JudgedStep): void {
    this.#tally.add(record, link, turn?.conversation ?? null);
    if (record.kind !== 'turn') return;
    // The turn with the highest seq shows whether the run has ended.
    if (record.seq === null || record.seq >= this.#lastSeq) {
      this.#lastSeq = record.seq ?? this.#lastSeq;
      this.#lastCallsTools = turn?.answer.content.some(({ type }) => type === 'tool_call') ?? false;
    }
    if (turn === null || !turn.is_turn) return;
    const { id, shape } = record;
    const is_answered = !hasFailed(record);
    const difference = this.#echoes.add({ id, wire: shape, is_answered }, turn);
    if (difference !== null) {
      this.#differing += 1;
      if (this.#differences.length < MAX_DIFFERENCES) this.#differences.push(difference);
    }
    const place = { id, conversation: conversation ?? 0, is_answered, is_retry: link === 'repeats' };
    this.#monitor.add(place, turn);
  }

  /** Reasons why the copy is not golden; call once, after the last exchange. */
  judge(): GoldenReason[] {
    const { reasons } = this.#tally.judge(this.#lastCallsTools);
    return [...reasons, ...this.#listDifferences(), ...this.#listFired()];
  }

  /** Numbers missing between the first and the last `x-svc-seq`. */
  gaps(): [from: number, to: number][] {
    return this.#tally.gaps();
  }

  /** Tool calls whose results report a failure. */
  get failed_calls(): number {
    return this.#monitor.failed_calls;
  }

  #listDifferences(): GoldenReason[] {
    const more = this.#differing - this.#differences.length;
    return this.#differences.map((difference, at) => {
      const { exchange_id, repeated_by } = difference;
      const others = more > 0 && at === this.#differences.length - 1 ? `, and ${more} more` : '';
      const words = `exchange ${repeated_by} repeats the answer of exchange ${exchange_id} differently from how it was read${others}`;
      return { code: 'reading_differs', words, difference };
    });
  }

  #listFired(): GoldenReason[] {
    const fired = this.#monitor.finish();
    const { steps, failed_calls } = this.#monitor;
    const near = Math.min(steps, Math.max(NEAR_END.steps, Math.ceil(steps * NEAR_END.share)));
    const failed = failed_calls === 0 ? '' : `; ${failed_calls} of its tool calls failed`;
    return fired.map(({ monitor, steps: at, exchange_id }) => ({
      code: 'monitor_fired',
      words: `${monitor} fired at ${at} of its last ${near} steps (exchange ${exchange_id})${failed}`,
    }));
  }
}

/**
 * Reasons from a run's records, if the records are sufficient for a verdict.
 * @param words external statements about the run: a mark may overrule all reasons
 * @returns null when only the run's bodies can decide
 */
export function judgeByRecords(
  records: GoldenTally,
  words: Pick<RunWords, 'outcome' | 'mark'>,
): GoldenReason[] | null {
  // Records cannot show whether the conversation is unbroken.
  const found = records.judge().reasons.filter(({ code }) => code !== 'unlinked');
  return weighWords(found, words).golden ? null : found;
}

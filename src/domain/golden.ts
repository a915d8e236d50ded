/**
 * The rule for golden runs: there is proof that the copy is complete and that the run went well
 * (`supports_universal_claims` in a trace). Pure; capture reader, command line.
 *
 * A run is golden when
 *  - it has a turn, and every exchange was captured completely: not truncated, not unreadable, and not
 *    aborted before the model had ended its answer;
 *  - no exchange is missing: either all exchanges have a `seq`, from 0 or 1 on, without gaps or repetitions
 *    (a retried call may repeat its number), or no exchange has one, and each turn continues the answer of
 *    the previous turn (the caller determines that from the bodies: `link`). A repeated number of an answered
 *    call is refused, because two agents, or a restarted one, may hide each other's gaps;
 *  - every failed call was retried successfully: a later exchange with the same method and path succeeded. For a turn,
 *    the later exchange must have the same request, or continue the same answer, so that another conversation of the
 *    run (such as a sub-agent's) does not count. A turn with status 2xx but without a stop reason (an error event in
 *    its stream) is a failed call, too;
 *  - the model ended the last turn by itself: `end_turn` or `stop_sequence`, `stop`, `completed` without a call to a
 *    tool;
 *  - all its turns are Messages, chat-completions or responses;
 *  - it is not a run of side calls (a title, a summary, a safety check);
 *  - no finished monitor run with its id has another outcome than success (`judgeOutcome`);
 *  - no monitor fired near its end (captured-monitor.ts), no answer is repeated differently from how it was read
 *    (echo.ts), and no person has marked it bad. A person's mark `good` overrules some of these reasons (run-mark.ts).
 *
 * It does not matter whether the upstream or the student answered a turn. Side calls within a run count like other
 * exchanges.
 *
 * Exchanges are added in the order of their ids. State is bounded: MAX_SEQ_RANGES ranges of numbers,
 * MAX_FAILED_CALLS open failures. A run beyond either bound is not golden, with that reason.
 */

import type { EchoDifference } from './echo.ts';
import type { EndCause } from './end-cause.ts';
import type { ApiShape, ExchangeRecord } from './exchange.ts';

/** The fields of an exchange that the rule needs. */
export type GoldenExchange = Pick<
  ExchangeRecord,
  | 'id'
  | 'seq'
  | 'kind'
  | 'shape'
  | 'method'
  | 'path'
  | 'status'
  | 'aborted'
  | 'truncated'
  | 'undecodable'
  | 'stop_reason'
  | 'has_bad_seq'
  | 'run_kind'
> &
  Partial<Pick<ExchangeRecord, 'end_cause' | 'tools'>>;

/**
 * How a turn relates to earlier turns by its conversation: the turn is the first of a conversation, continues the last
 * answer, repeats a request, or does none of these.
 */
export type TurnLink = 'starts' | 'continues' | 'repeats' | 'breaks';

/** Fingerprints of a turn's request (src/providers/conversation.ts), to recognize a retry. */
export interface AskedTurn {
  prefixes: readonly string[];
  last_answer_at: number;
  last_answer_alone: string | null;
}

export type GoldenCode =
  | 'no_turn'
  | 'aborted'
  | 'truncated'
  | 'undecodable'
  /** Stored exchanges that are not indexed yet may belong to the run (only in traces). */
  | 'not_indexed'
  | 'seq_gap'
  | 'seq_missing'
  | 'seq_repeated'
  | 'unlinked'
  | 'failed_call'
  | 'unfinished'
  | 'shape'
  /** A side call of the client. */
  | 'side_call'
  /** A monitor fired near the end of the run (captured-monitor.ts). */
  | 'monitor_fired'
  /** The next request repeats an answer differently from how it was read (echo.ts). */
  | 'reading_differs'
  /** The outcome of the finished monitor run with the run's id (run-mark.ts). */
  | 'outcome'
  /** A person marked the run bad (run-mark.ts). */
  | 'marked_bad';

/** Why a run is not golden: a word for machines and a sentence for people. */
export interface GoldenReason {
  code: GoldenCode;
  words: string;
  /** For `reading_differs`: both versions. */
  difference?: EchoDifference;
}

/**
 * Makes the reason against a run if the finished monitor run with its id has another outcome than success.
 * @param outcome null: no outcome counts for the run
 * @returns null: there is no reason
 */
export function judgeOutcome(outcome: string | null): GoldenReason | null {
  if (outcome === null || outcome === 'success') return null;
  const words = `the monitor run with this id finished with the outcome ${JSON.stringify(outcome)}`;
  return { code: 'outcome', words };
}

export interface GoldenVerdict {
  golden: boolean;
  /** Empty when golden. */
  reasons: GoldenReason[];
}

/** Maximum number of disjoint ranges of a run's seq numbers. Numbers without a gap are one range. */
export const MAX_SEQ_RANGES = 1024;

/** Maximum number of different failed calls that have no successful retry yet. */
export const MAX_FAILED_CALLS = 64;

/** A failed call without a successful retry yet. */
interface FailedCall {
  id: number;
  seq: number | null;
  call: string;
  /**
   * Fingerprint of the whole request; null: it is unknown or cannot be read. Then any success of the call counts as its
   * retry.
   */
  asked: string | null;
  /** Fingerprints of the answer that it continues. */
  anchors: string[];
}

/** Maximum number of ids that a sentence lists. It only counts further ones. */
const NAMED_IDS = 5;

/** What the rule needs to know about wire formats; `GOLDEN_WIRES` of src/providers implements it. */
export interface GoldenWires {
  /** Whether a run can be golden if its turns have this wire format. */
  canBeGolden(shape: ApiShape | null): boolean;
  /** Whether this stop reason means that the model ended its turn by itself. */
  endsItself(shape: ApiShape, stop_reason: string): boolean;
}

const NO_FAILED_CALLS: readonly FailedCall[] = [];

/** Names of lists of exchanges, by what is wrong with them. */
type ListName =
  | 'withoutSeq'
  | 'badSeq'
  | 'sideCall'
  | 'repeatedSeq'
  | 'aborted'
  | 'truncated'
  | 'undecodable'
  | 'broken'
  | 'neverGolden';
type IdLists = { readonly [name in ListName]?: IdList };

const NO_LISTS: IdLists = {};

/** What is stored about a run's last turn. */
interface LastTurn {
  id: number;
  seq: number | null;
  shape: ApiShape | null;
  stop_reason: string | null;
  failed: boolean;
  status: number;
  end_cause: EndCause | null;
  calls_tools: boolean;
}

/** How the last turn of a run ended. */
export interface CapturedEnd {
  /** `itself`: the model ended its answer; `open`: a further message was expected. */
  how: 'failed' | 'itself' | 'open';
  /** null: it succeeded, or the cause is unknown. */
  cause: EndCause | null;
  /** 0: no answer came. */
  http_status: number;
  /** Why the model stopped, as the provider reported it. */
  stop_reason: string | null;
}

/** A {@link GoldenTally} as plain data, to continue it later. */
export type SavedGoldenTally = readonly [
  turns: number,
  withSeq: number,
  lists: readonly (readonly [name: ListName, count: number, first: readonly number[]])[],
  ranges: readonly (readonly [from: number, to: number])[],
  rangesOverflow: boolean,
  failed: readonly FailedCall[],
  failedOverflow: boolean,
  hasUnchecked: boolean,
  lastTurn: LastTurn | null,
];

/** Collects one run's exchanges and judges them. */
export class GoldenTally {
  readonly #wires: GoldenWires;
  #turns = 0;
  #withSeq = 0;
  // A tally is in memory for every run of a database, so lists that are usually empty take no memory.
  #lists: IdLists = NO_LISTS;
  #seqs = new SeqRanges();
  #failed: readonly FailedCall[] = NO_FAILED_CALLS;
  #failedOverflow = false;
  /** Whether, for some turn, it is unknown how it continues earlier turns. */
  #hasUnchecked = false;
  #lastTurn: LastTurn | null = null;

  constructor(wires: GoldenWires) {
    this.#wires = wires;
  }

  /**
   * Adds the run's next exchange.
   * @param link how the turn continues earlier turns; null if unknown (needed only for turns without seq)
   * @param asked fingerprints of the turn's request; null if unknown (needed only for runs with failed calls)
   */
  add(exchange: GoldenExchange, link: TurnLink | null = null, asked: AskedTurn | null = null): void {
    if (exchange.aborted && !isWhole(exchange)) this.#note('aborted', exchange.id);
    if (exchange.truncated) this.#note('truncated', exchange.id);
    if (exchange.undecodable && !exchange.truncated) this.#note('undecodable', exchange.id);
    if (exchange.run_kind !== undefined && exchange.run_kind !== 'subagent')
      this.#note('sideCall', exchange.id);
    if (exchange.has_bad_seq === true) this.#note('badSeq', exchange.id);
    if (exchange.seq === null) this.#note('withoutSeq', exchange.id);
    else {
      this.#withSeq += 1;
      const isRepeated = !this.#seqs.add(exchange.seq);
      if (isRepeated && !this.#failed.some(({ seq }) => seq === exchange.seq))
        this.#note('repeatedSeq', exchange.id);
    }
    this.#addCall(exchange, asked);
    if (exchange.kind === 'turn') this.#addTurn(exchange, link);
  }

  save(): SavedGoldenTally {
    return [
      this.#turns,
      this.#withSeq,
      Object.entries(this.#lists).map(([name, list]) => [name as ListName, list.count, list.first] as const),
      this.#seqs.ranges,
      this.#seqs.overflow,
      this.#failed,
      this.#failedOverflow,
      this.#hasUnchecked,
      this.#lastTurn,
    ];
  }

  /** Restores a saved tally. */
  static restore(saved: SavedGoldenTally, wires: GoldenWires): GoldenTally {
    const tally = new GoldenTally(wires);
    const [turns, withSeq, lists, ranges, rangesOverflow, failed, ...rest] = saved;
    tally.#turns = turns;
    tally.#withSeq = withSeq;
    if (lists.length > 0)
      tally.#lists = Object.fromEntries(
        lists.map(([name, count, first]) => [name, new IdList(count, first)]),
      );
    tally.#seqs = new SeqRanges(ranges, rangesOverflow);
    if (failed.length > 0) tally.#failed = failed;
    [tally.#failedOverflow, tally.#hasUnchecked, tally.#lastTurn] = rest;
    return tally;
  }

  /**
   * Judges the exchanges added so far.
   * @param lastCallsTools whether the last turn's answer calls a tool; needed for `responses`, whose stop reason does
   *   not show it. null if unknown, which counts as false
   */
  judge(lastCallsTools: boolean | null = null): GoldenVerdict {
    const reasons: GoldenReason[] = [];
    const say = (code: GoldenCode, words: string): void => {
      reasons.push({ code, words });
    };
    if (this.#turns === 0) say('no_turn', 'it has no model turn');
    if (this.#listOf('sideCall').count > 0)
      say('side_call', `${this.#listOf('sideCall').name()}: a side call of the client`);
    this.#judgeCompleteness(say);
    const { count: aborted } = this.#listOf('aborted');
    if (aborted > 0)
      say('aborted', `${this.#listOf('aborted').name()} ${aborted === 1 ? 'was' : 'were'} aborted`);
    if (this.#listOf('truncated').count > 0)
      say('truncated', `${this.#listOf('truncated').name()}: the stored copy is cut off`);
    if (this.#listOf('undecodable').count > 0)
      say('undecodable', `${this.#listOf('undecodable').name()}: the body cannot be read`);
    for (const [call, ids] of this.#listFailed())
      say('failed_call', `${call} failed (${ids.name()}) and was not retried to success`);
    if (this.#failedOverflow) say('failed_call', `more than ${MAX_FAILED_CALLS} different calls failed`);
    if (this.#listOf('neverGolden').count > 0) {
      say(
        'shape',
        `${this.#listOf('neverGolden').name()}: only Messages, chat-completions and responses turns can be golden`,
      );
    }
    const unfinished = this.#judgeEnd(lastCallsTools);
    if (unfinished !== '') say('unfinished', unfinished);
    if (reasons.length === 0 && this.#withSeq === 0 && this.#hasUnchecked) {
      say('unlinked', 'no x-svc-seq, and it was not checked whether a turn of the conversation is missing');
    }
    return { golden: reasons.length === 0, reasons };
  }

  /** Lists the numbers that are missing before the last seq, as ranges. A run begins with 0 or 1. */
  gaps(): [from: number, to: number][] {
    return this.#seqs.gaps();
  }

  /** How the last turn ended, according to its record; null without a turn. */
  get end(): CapturedEnd | null {
    const last = this.#lastTurn;
    if (last === null) return null;
    const { failed, shape, stop_reason, end_cause: cause, status: http_status, calls_tools } = last;
    const isEnd = stop_reason !== null && shape !== null && this.#wires.endsItself(shape, stop_reason);
    return {
      how: failed ? 'failed' : isEnd && !calls_tools ? 'itself' : 'open',
      cause,
      http_status,
      stop_reason,
    };
  }

  #note(list: ListName, id: number): void {
    if (this.#lists[list] === undefined) this.#lists = { ...this.#lists, [list]: new IdList() };
    this.#lists[list]!.add(id);
  }

  #listOf(list: ListName): IdList {
    return this.#lists[list] ?? NOTHING;
  }

  #addTurn(exchange: GoldenExchange, link: TurnLink | null): void {
    this.#turns += 1;
    const last = this.#lastTurn;
    if (last === null || last.seq === null || exchange.seq === null || exchange.seq >= last.seq) {
      const { id, seq, shape, stop_reason, status, end_cause = null, tools } = exchange;
      const failed = hasFailed(exchange);
      this.#lastTurn = { id, seq, shape, stop_reason, failed, status, end_cause, calls_tools: !!tools };
    }
    if (!this.#wires.canBeGolden(exchange.shape)) this.#note('neverGolden', exchange.id);
    if (link === null) this.#hasUnchecked = true;
    else if (link === 'breaks' || (link === 'starts' && last !== null)) this.#note('broken', exchange.id);
  }

  #addCall(exchange: GoldenExchange, turn: AskedTurn | null): void {
    const call = `${exchange.method} ${exchange.path}`;
    const asked = turn?.prefixes.at(-1) ?? null;
    if (!hasFailed(exchange)) {
      if (this.#failed.length > 0) {
        this.#failed = this.#failed.filter(
          (failed) => failed.call !== call || !makesGood(exchange, turn, failed),
        );
      }
      return;
    }
    const failed = { id: exchange.id, seq: exchange.seq, call, asked, anchors: listAnchors(turn) };
    const known = this.#failed.findIndex((failed) => failed.call === call && failed.asked === asked);
    if (known >= 0) this.#failed = this.#failed.with(known, failed);
    else if (this.#failed.length < MAX_FAILED_CALLS) this.#failed = [...this.#failed, failed];
    else this.#failedOverflow = true;
  }

  #listFailed(): Map<string, IdList> {
    const calls = new Map<string, IdList>();
    for (const { call, id } of this.#failed) {
      const ids = calls.get(call) ?? new IdList();
      ids.add(id);
      calls.set(call, ids);
    }
    return calls;
  }

  #judgeCompleteness(say: (code: GoldenCode, words: string) => void): void {
    if (this.#listOf('badSeq').count > 0)
      say(
        'seq_gap',
        `${this.#listOf('badSeq').name()}: an x-svc-seq that is not a number, which leaves a gap`,
      );
    if (this.#withSeq > 0 && this.#listOf('withoutSeq').count > 0) {
      say(
        'seq_missing',
        `${this.#listOf('withoutSeq').name()}: no x-svc-seq, although other exchanges of the run have one`,
      );
    }
    if (this.#withSeq > 0) {
      if (this.#seqs.overflow) say('seq_gap', `x-svc-seq has more than ${MAX_SEQ_RANGES} gaps`);
      const gaps = this.gaps();
      if (gaps.length > 0) {
        const named = gaps
          .slice(0, NAMED_IDS)
          .map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
        const more = gaps.length > NAMED_IDS ? ` and ${gaps.length - NAMED_IDS} more` : '';
        say('seq_gap', `x-svc-seq ${named.join(', ')}${more} missing`);
      }
      if (this.#listOf('repeatedSeq').count > 0) {
        say(
          'seq_repeated',
          `${this.#listOf('repeatedSeq').name()}: an x-svc-seq that an earlier, successful exchange of the run has`,
        );
      }
      return;
    }
    // A side call does not continue the previous one, so no turn is missing between them.
    if (this.#listOf('broken').count > 0 && this.#listOf('sideCall').count === 0) {
      say(
        'unlinked',
        `${this.#listOf('broken').name()}: not the continuation of the previous turn, so a turn may be missing`,
      );
    }
  }

  #judgeEnd(lastCallsTools: boolean | null): string {
    const last = this.#lastTurn;
    if (last === null || last.shape === null || last.failed) return '';
    if (!this.#wires.canBeGolden(last.shape) || last.stop_reason === null) return '';
    if (!this.#wires.endsItself(last.shape, last.stop_reason))
      return `the last turn (exchange ${last.id}) stopped with ${last.stop_reason}`;
    if (lastCallsTools === true) return `the last turn (exchange ${last.id}) still waits for a tool's result`;
    return '';
  }
}

function listAnchors(turn: AskedTurn | null): string[] {
  if (turn === null || turn.last_answer_at < 0) return [];
  const anchors = [turn.prefixes[turn.last_answer_at], turn.last_answer_alone];
  return anchors.filter((anchor) => anchor !== undefined && anchor !== null);
}

/**
 * Whether a successful call is a retry of a failed call with the same method and path: its seq is not lower, and it
 * repeats or continues the failed request. If one of the requests is unknown, the seq alone decides.
 */
function makesGood({ seq }: GoldenExchange, turn: AskedTurn | null, failed: FailedCall): boolean {
  if (seq !== null && failed.seq !== null && seq < failed.seq) return false;
  if (turn === null || turn.prefixes.length === 0 || failed.asked === null) return true;
  if (turn.prefixes.includes(failed.asked)) return true;
  return listAnchors(turn).some((anchor) => failed.anchors.includes(anchor));
}

/**
 * Whether the exchange is a readable turn in which the model has reported why it stopped. A client that disconnects
 * after this report, as some do, has missed nothing.
 */
function isWhole({ kind, stop_reason, undecodable }: GoldenExchange): boolean {
  return kind === 'turn' && stop_reason !== null && !undecodable;
}

/**
 * Counts the errors of an exchange, as lists show them.
 * @returns 1 if the call failed, or was aborted before the model had ended its answer; otherwise the number of failed
 *   tool results in the request
 */
export function countErrors(
  exchange: GoldenExchange & Pick<ExchangeRecord, 'aborted' | 'failed_results'>,
): number {
  // The retry of a failed call contains the same results, and they are counted with the retry.
  return isFailedCall(exchange) ? 1 : (exchange.failed_results ?? 0);
}

/** Whether an exchange counts as a failed call: it failed, or was aborted before the model had ended its answer. */
export function isFailedCall(exchange: GoldenExchange & Pick<ExchangeRecord, 'aborted'>): boolean {
  return hasFailed(exchange) || (exchange.aborted && exchange.stop_reason === null);
}

/**
 * Whether a call failed: it has no answer or an error status, or it is a turn whose answer has no stop reason. A turn
 * that cannot be decoded counts as failed only by its status.
 */
export function hasFailed(exchange: GoldenExchange): boolean {
  if (exchange.status === 0 || exchange.status >= 400) return true;
  return exchange.kind === 'turn' && exchange.stop_reason === null && !exchange.undecodable;
}

const NO_IDS: readonly number[] = [];

/** Counts ids and remembers the first few. */
class IdList {
  count: number;
  #first: readonly number[];

  constructor(count = 0, first: readonly number[] = NO_IDS) {
    this.count = count;
    this.#first = first;
  }

  get first(): readonly number[] {
    return this.#first;
  }

  add(id: number): void {
    this.count += 1;
    if (this.#first.length < NAMED_IDS) this.#first = [...this.#first, id];
  }

  /** Names the exchanges for a sentence: `exchange 3`, or `exchanges 3, 4 and 9 more`. */
  name(): string {
    if (this.count === 1) return `exchange ${this.#first[0]}`;
    const rest = this.count - this.#first.length;
    return `exchanges ${this.#first.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
  }
}

const NOTHING = new IdList();

/** The ranges of every set without numbers. This array is shared, and never changed. */
const NO_RANGES: [from: number, to: number][] = [];

/** A set of numbers kept as disjoint, sorted ranges. */
class SeqRanges {
  overflow: boolean;
  #ranges: [from: number, to: number][];

  constructor(ranges: SavedGoldenTally[3] = NO_RANGES, overflow = false) {
    this.#ranges = ranges.length === 0 ? NO_RANGES : ranges.map(([from, to]) => [from, to]);
    this.overflow = overflow;
  }

  get ranges(): SavedGoldenTally[3] {
    return this.#ranges;
  }

  /**
   * Adds a number.
   * @returns false if the number is already in the set; true also if there is no room for it (`overflow`)
   */
  add(value: number): boolean {
    if (this.#ranges.length === 0) {
      this.#ranges = [[value, value]];
      return true;
    }
    const ranges = this.#ranges;
    let at = ranges.length;
    while (at > 0 && ranges[at - 1]![0] > value) at -= 1;
    const before = ranges[at - 1];
    const after = ranges[at];
    if (before !== undefined && value <= before[1]) return false;
    const joinsBefore = before !== undefined && before[1] + 1 === value;
    const joinsAfter = after !== undefined && after[0] - 1 === value;
    if (joinsBefore && joinsAfter) {
      before[1] = after[1];
      ranges.splice(at, 1);
    } else if (joinsBefore) before[1] = value;
    else if (joinsAfter) after[0] = value;
    else if (ranges.length < MAX_SEQ_RANGES) ranges.splice(at, 0, [value, value]);
    else this.overflow = true;
    return true;
  }

  gaps(): [from: number, to: number][] {
    const gaps: [number, number][] = [];
    const first = this.#ranges[0];
    if (first === undefined) return gaps;
    if (first[0] > 1) gaps.push([1, first[0] - 1]);
    for (let i = 1; i < this.#ranges.length; i += 1)
      gaps.push([this.#ranges[i - 1]![1] + 1, this.#ranges[i]![0] - 1]);
    return gaps;
  }
}

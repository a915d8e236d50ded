/**
 * A run on a time axis: when each turn, its tools and its sub-agents ran, and the time between them. Pauses
 * much longer than any turn are drawn shortened, so that the turns stay visible. Pure; browser.
 */
import { blocksOf, type CapturedTurn } from './captured.ts';
import type { Reply } from './contract.ts';

export type ChildRun = Reply<'GET /capture/runs/{id}'>['children'][number];

interface Span {
  from_ms: number;
  to_ms: number;
}

export interface WaterfallRow extends Span {
  kind: 'turn' | 'tools' | 'child';
  /** Id of the turn to which the row belongs. */
  exchange_id: number;
  /** Index of that turn, from 0 on. */
  at: number;
  label: string;
  /** When the answer of the turn began. null: no answer began, or the row is not that of a turn. */
  first_ms: number | null;
  /**
   * When the previous turn of the conversation ended, if the agent was idle from then until this turn's request. null:
   * this request contains results of tools, or followed at once, or the row is not that of a turn.
   */
  idle_from_ms: number | null;
  is_failed: boolean;
  is_student: boolean;
  /** Names of the monitors that fired for the turn. Empty in other rows. */
  fired: string[];
  /** Id of the child run. Only in rows of child runs. */
  run_id: string | null;
}

interface Waterfall {
  rows: WaterfallRow[];
  scale: TimeScale;
  /** Time during which at least one turn waited for its answer. */
  waiting_ms: number;
  /** Time during which a tool may have worked and no turn waited for its answer. */
  tools_ms: number;
  /** Time between the first and the last of all rows in which no turn, tool or sub-agent worked. */
  own_ms: number;
}

interface Stretch extends Span {
  /** Its start and its length on the axis. */
  drawn_from: number;
  drawn: number;
}

/** A pause is shortened if it is more than this many times as long as its shortened form. */
const CUT_FROM = 2;

/** Converts times to positions on the axis, from 0 to 1, and back. */
export class TimeScale {
  readonly from_ms: number;
  readonly to_ms: number;
  /** Pauses that are drawn shortened: the position of the middle, and the real length. */
  readonly cuts: { at: number; ms: number }[] = [];
  readonly #stretches: Stretch[] = [];
  readonly #whole: number;

  /** @param busy periods that must be visible, at least one */
  constructor(busy: readonly Span[]) {
    const merged = mergeSpans(busy);
    this.from_ms = merged[0]?.from_ms ?? 0;
    this.to_ms = merged.at(-1)?.to_ms ?? 1;
    const longest_ms = Math.max(1, ...merged.map(lengthOf));
    const limit_ms = Math.max(longest_ms, sumOf(merged) / 8);
    let drawn_from = 0;
    const add = (span: Span, drawn: number) => {
      this.#stretches.push({ ...span, drawn_from, drawn });
      drawn_from += drawn;
    };
    const shortened: { at: number; ms: number }[] = [];
    merged.forEach((span, at) => {
      const before = merged[at - 1];
      if (before !== undefined) {
        const pause = { from_ms: before.to_ms, to_ms: span.from_ms };
        const isCut = lengthOf(pause) > CUT_FROM * limit_ms;
        if (isCut) shortened.push({ at: drawn_from + limit_ms / 2, ms: lengthOf(pause) });
        add(pause, isCut ? limit_ms : lengthOf(pause));
      }
      add(span, lengthOf(span));
    });
    this.#whole = Math.max(1, drawn_from);
    for (const { at, ms } of shortened) this.cuts.push({ at: at / this.#whole, ms });
  }

  at(ms: number): number {
    const stretch = this.#stretches.find(({ to_ms }) => ms <= to_ms);
    if (stretch === undefined) return 1;
    const length = lengthOf(stretch);
    const share = length === 0 ? 0 : Math.max(0, ms - stretch.from_ms) / length;
    return (stretch.drawn_from + share * stretch.drawn) / this.#whole;
  }

  /** The time at a position on the axis, from 0 to 1. */
  timeAt(share: number): number {
    const drawn = share * this.#whole;
    const stretch = this.#stretches.find((known) => drawn <= known.drawn_from + known.drawn);
    if (stretch === undefined) return this.to_ms;
    if (stretch.drawn === 0) return stretch.from_ms;
    return stretch.from_ms + ((drawn - stretch.drawn_from) / stretch.drawn) * lengthOf(stretch);
  }
}

export function layOutWaterfall(turns: readonly CapturedTurn[], children: readonly ChildRun[]): Waterfall {
  const spans = turns.map(spanOf);
  const tools = layOutTools(turns);
  const placed = placeChildren(turns, tools, children);
  const rows = turns.flatMap((turn, at) => [
    makeTurnRow(turns, at),
    ...tools.filter(({ exchange_id }) => exchange_id === turn.exchange_id),
    ...placed.filter(({ exchange_id }) => exchange_id === turn.exchange_id),
  ]);
  const scale = new TimeScale([...spans, ...placed]);
  const waiting_ms = sumOf(mergeSpans(spans));
  const worked_ms = sumOf(mergeSpans([...spans, ...tools]));
  const known_ms = sumOf(mergeSpans([...spans, ...tools, ...placed]));
  const own_ms = scale.to_ms - scale.from_ms - known_ms;
  return { rows, scale, waiting_ms, tools_ms: worked_ms - waiting_ms, own_ms: Math.max(0, own_ms) };
}

function makeTurnRow(turns: readonly CapturedTurn[], at: number): WaterfallRow {
  const turn = turns[at]!;
  const span = spanOf(turn);
  const calls = blocksOf(turn.content).flatMap((block) => (block.type === 'tool_call' ? [block.name] : []));
  const before = turns.find(({ exchange_id }) => exchange_id === turn.follows) ?? turns[at - 1];
  const ended_ms = before === undefined ? span.from_ms : spanOf(before).to_ms;
  const isIdle = turn.results.length === 0 && ended_ms < span.from_ms;
  return {
    ...span,
    kind: 'turn',
    exchange_id: turn.exchange_id,
    at,
    label: calls.length > 0 ? `calls ${nameAll(calls)}` : turn.failed ? 'failed' : 'answers',
    first_ms: turn.first_byte_ms === null ? null : span.from_ms + turn.first_byte_ms,
    idle_from_ms: isIdle ? ended_ms : null,
    is_failed: turn.failed || turn.aborted,
    is_student: turn.served_by === 'student',
    fired: turns.flatMap(({ fired }) =>
      fired.filter(({ exchange_id }) => exchange_id === turn.exchange_id).map(({ monitor }) => monitor),
    ),
    run_id: null,
  };
}

/**
 * Makes the rows of tools: one row for the calls of an answer whose results came with the same request. Calls without a
 * known duration get no row.
 */
function layOutTools(turns: readonly CapturedTurn[]): WaterfallRow[] {
  const places = new Map(turns.map(({ exchange_id }, at) => [exchange_id, at]));
  return turns.flatMap((turn) => {
    const to_ms = spanOf(turn).from_ms;
    return [...new Set(turn.results.map(({ exchange_id }) => exchange_id))].flatMap((exchange_id) => {
      const settled = turn.results.filter((result) => result.exchange_id === exchange_id);
      const at = places.get(exchange_id);
      const duration_ms = settled[0]?.duration_ms ?? null;
      if (at === undefined || duration_ms === null) return [];
      return [
        {
          kind: 'tools' as const,
          exchange_id,
          at,
          from_ms: to_ms - duration_ms,
          to_ms,
          label: nameAll(settled.map(({ name }) => name)),
          first_ms: null,
          idle_from_ms: null,
          is_failed: settled.some(({ is_error }) => is_error),
          is_student: false,
          fired: [],
          run_id: null,
        },
      ];
    });
  });
}

/**
 * Makes the rows of sub-agents. A sub-agent is placed below a turn whose tools were running when it began: the turn
 * that called a tool with the sub-agent's task, otherwise the first such turn. If no tool was running, it is placed
 * below the last turn that began before it, or below the first turn of the run.
 */
function placeChildren(
  turns: readonly CapturedTurn[],
  tools: readonly WaterfallRow[],
  children: readonly ChildRun[],
): WaterfallRow[] {
  const agents = children.filter(({ kind }) => kind === null || kind === 'subagent');
  return agents.flatMap((child) => {
    const from_ms = Date.parse(child.started_at);
    const running = tools.filter((row) => row.from_ms <= from_ms && from_ms <= row.to_ms);
    const told = running.find(({ at }) => findStartingCall(turns[at]!, child.task) !== null) ?? running[0];
    const at = told?.at ?? turns.findLastIndex((turn) => spanOf(turn).from_ms <= from_ms);
    const turn = turns[Math.max(0, at)];
    if (turn === undefined) return [];
    const call = findStartingCall(turn, child.task);
    return [
      {
        kind: 'child' as const,
        exchange_id: turn.exchange_id,
        at: Math.max(0, at),
        from_ms,
        to_ms: from_ms + child.duration_ms,
        label: call === null ? child.task || child.run_id : `${call}: ${child.task}`,
        first_ms: null,
        idle_from_ms: null,
        is_failed: child.errors > 0,
        is_student: false,
        fired: [],
        run_id: child.run_id,
      },
    ];
  });
}

const TELLING_CHARACTERS = 60;

/**
 * The name of the tool that the turn called with the first TELLING_CHARACTERS of the sub-agent's task; null: there is
 * no such call, or the task is unknown.
 */
function findStartingCall(turn: CapturedTurn, task: string | null): string | null {
  const words = plain(task ?? '').slice(0, TELLING_CHARACTERS);
  if (words === '') return null;
  for (const block of blocksOf(turn.content))
    if (block.type === 'tool_call' && listTexts(block.input).some((text) => plain(text).includes(words)))
      return block.name;
  return null;
}

function listTexts(input: unknown): string[] {
  if (typeof input === 'string') return [input];
  if (typeof input !== 'object' || input === null) return [];
  return Object.values(input).filter((value): value is string => typeof value === 'string');
}

const plain = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();

/** `read_file, run_tests ×3` */
function nameAll(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${name} ×${count}`)).join(', ');
}

function spanOf({ started_at, latency_ms }: CapturedTurn): Span {
  const from_ms = Date.parse(started_at);
  return { from_ms, to_ms: from_ms + latency_ms };
}

function mergeSpans(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const { from_ms, to_ms } of spans.toSorted((a, b) => a.from_ms - b.from_ms)) {
    const last = merged.at(-1);
    if (last !== undefined && from_ms <= last.to_ms) last.to_ms = Math.max(last.to_ms, to_ms);
    else merged.push({ from_ms, to_ms });
  }
  return merged;
}

function lengthOf({ from_ms, to_ms }: Span): number {
  return to_ms - from_ms;
}

function sumOf(spans: readonly Span[]): number {
  return spans.reduce((sum, span) => sum + lengthOf(span), 0);
}

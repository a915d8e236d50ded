/**
 * Cost, usage and latency of captured traffic by model, agent, tool and other dimensions. Types, constants and
 * queries; any thread.
 */

import { quoteValue } from './run-query/words.ts';

/** The dimensions by which figures can be grouped. */
export const FIGURE_DIMENSIONS = [
  'model',
  'provider',
  'agent',
  'tool',
  'tag',
  'note',
  'credential',
  'served_by',
  'day',
] as const;
export type FigureDimension = (typeof FIGURE_DIMENSIONS)[number];

/** A query for figures. */
export interface FigureQuestion {
  by: FigureDimension;
  /** UTC days such as `2026-11-28`, both included. */
  from_day: string;
  to_day: string;
  /** Counts only exchanges that have all these values. */
  where: Partial<Record<FigureDimension, string>>;
}

/** Maximum number of days in one answer. */
export const FIGURE_DAYS_MAX = 366;

/** Maximum number of rows of one answer; further rows are summed in one row. */
export const FIGURE_ROWS = 200;

/** Figures of some exchanges. */
export interface TrafficFigures {
  exchanges: number;
  turns: number;
  /** Exchanges without a complete answer, or with a status of 400 and above. */
  errors: number;
  student_turns: number;
  /** Without cached tokens. */
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  /** Share of all input tokens that came from a cache; null without input. */
  cache_share: number | null;
  /** Dollars for the upstream's turns; null: no price is known. */
  cost_usd: number | null;
  /** Turns that `cost_usd` leaves out. */
  unpriced_turns: number;
  /** Turns in `cost_usd` whose price is a guess, or whose tokens are estimated. */
  estimated_turns: number;
  /** Latency of turns, to within LATENCY_PRECISION; null without one. */
  latency_p50_ms: number | null;
  latency_p95_ms: number | null;
}

/** Figures of one model, agent, … */
export interface FigureRow extends TrafficFigures {
  /** null: unknown. */
  name: string | null;
}

/** The answer to a query for figures. */
export interface FigureReport {
  by: FigureDimension;
  /** The first and the last UTC day that it covers. */
  from_day: string;
  to_day: string;
  /** false: older exchanges of this period were not read yet. */
  is_whole: boolean;
  /** Number of exchanges in the figures. */
  scanned: number;
  total: TrafficFigures;
  /** The most expensive first; days in their order. */
  rows: FigureRow[];
  /** The sum of the omitted rows; null without any. */
  others: TrafficFigures | null;
}

/** Largest relative error of a percentile. */
export const LATENCY_PRECISION = 0.025;

/** Fields of the run query language by dimension; other dimensions have none. */
const QUERY_FIELDS: Partial<Record<FigureDimension, string>> = {
  model: 'model',
  provider: 'provider',
  agent: 'agent',
  tool: 'tool',
  tag: 'tag',
  note: 'note',
  credential: 'key',
  served_by: 'served',
};

/**
 * Writes the run query that finds the runs behind a row (docs/queries.md).
 * @returns null where no query finds them
 */
export function describeFigureRuns(
  { by, from_day, to_day, where }: FigureQuestion,
  name: string | null,
): string | null {
  const words: string[] = [];
  for (const [dimension, value] of [...Object.entries(where), [by, name] as const]) {
    if (dimension === 'day') continue;
    const field = QUERY_FIELDS[dimension as FigureDimension];
    if (field === undefined || value === null) return null;
    words.push(`${field}:${field === 'served' ? value : `=${quoteValue(value, false)}`}`);
  }
  words.push(by === 'day' ? `started:${name}` : `started:${from_day}..${to_day}`);
  return words.join(' ');
}

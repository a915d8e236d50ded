/**
 * Shared parts of every page of `understudy inspect`: the head of an exchange, labelled blocks, figures. Main thread of
 * the command line.
 */

import { priceExchange } from '../captures/exchange-cost.ts';
import type { ExchangeSource } from '../captures/exchange-source.ts';
import type { RunSummary } from '../captures/inspect.ts';
import { describeEnd } from '../domain/end-cause.ts';
import type { ExchangeRecord, TokenUsage } from '../domain/exchange.ts';
import { hasFailed } from '../domain/golden.ts';
import type { CostBasis, Prices } from '../domain/price.ts';
import type { RunWords } from '../domain/run-mark.ts';
import type { InspectFlags } from './inspect-flags.ts';
import type { CliIo } from './io.ts';
import type { Progress } from './progress.ts';
import { makeHarmlessLine, type Palette, wrapText } from './terminal-text.ts';

/** Width of the column of labels. */
const LABEL_COLUMNS = 12;

/** The open database, the flags, and the properties of the output. */
export interface InspectView {
  readonly source: ExchangeSource;
  /** Total number of exchanges, for the progress. */
  readonly count: number;
  readonly io: CliIo;
  /** Columns of a line. */
  readonly width: number;
  readonly flags: InspectFlags;
  readonly paint: Palette;
  readonly progress: Progress;
  readonly prices: Prices;
}

/** Reads what people and agents said about captured runs: marks and reported outcomes. */
export type FindWords = (runs: { find(runId: string): unknown }) => Promise<Map<string, RunWords>>;

/**
 * `#12  seq 3  +4.2 s  200  claude-x  took 1.2 s …`
 * @param runStartedMs null: the exchange belongs to no run. Then method and path replace the time since the run's start
 */
export function layOutHead(view: InspectView, record: ExchangeRecord, runStartedMs: number | null): string {
  const { strong, dim, bad, good, call } = view.paint;
  const ok = !record.aborted && !hasFailed(record);
  const fields = [strong(`#${record.id}`)];
  if (record.seq !== null) fields.push(`seq ${record.seq}`);
  if (runStartedMs !== null) fields.push(`+${formatMs(Date.parse(record.started_at) - runStartedMs)}`);
  if (runStartedMs === null || record.kind !== 'turn')
    fields.push(makeHarmlessLine(`${record.method} ${record.path}`));
  fields.push(ok ? good(`${record.status}`) : bad(record.status === 0 ? 'no answer' : `${record.status}`));
  if (record.end_cause !== undefined && record.end_cause !== 'upstream_status')
    fields.push(bad(describeEnd(record.end_cause)));
  else if (record.aborted) fields.push(bad('aborted'));
  else if (!ok && record.status >= 200 && record.status < 300) fields.push(bad('broke off'));
  if (record.truncated) fields.push(bad('truncated'));
  if (record.served_by === 'student') fields.push(call('by the student'));
  if (record.model !== null) fields.push(makeHarmlessLine(record.model));
  const { tier } = record.usage;
  if (tier !== undefined) fields.push(makeHarmlessLine(`${tier} tier`));
  fields.push(dim(formatLatency(record)));
  if (record.kind === 'turn') fields.push(dim(formatUsage(record.usage)));
  const { usd, basis, is_unknown } = priceExchange(record, view.prices);
  if (usd !== null) fields.push(dim(formatCost(usd, basis)));
  else if (is_unknown && tier !== undefined && record.usage.output_tokens !== null)
    fields.push(dim('no price for this tier'));
  return wrapText(fields.join('  '), view.width).join('\n    ');
}

/** A labelled block; further lines are aligned with the text. */
export function layOutPart(view: InspectView, label: string, text: string): string {
  const lines = wrapText(text, view.width - LABEL_COLUMNS);
  return `  ${view.paint.dim(label.padEnd(9))} ${lines.join(`\n${' '.repeat(LABEL_COLUMNS)}`)}\n`;
}

/** Names on one line, made harmless. */
export function nameAll(names: string[]): string {
  return names.length === 0 ? '-' : makeHarmlessLine(names.join(', '));
}

/** Formats a count with thousands separators; `-` when unknown. */
export function formatCount(n: number | null): string {
  return n === null ? '-' : n.toLocaleString('en-US');
}

/** `$0.0042`, or `~$0.0042 (guessed price)` for an estimate. */
function formatCost(usd: number, basis: CostBasis | null): string {
  if (basis === 'guessed_price') return `~${formatDollars(usd)} (guessed price)`;
  return basis === 'estimated_tokens' ? `~${formatDollars(usd)} (estimated tokens)` : formatDollars(usd);
}

/** Formats dollars with as many decimals as are meaningful. */
export function formatDollars(usd: number): string {
  if (usd > 0 && usd < 0.000_001) return '<$0.000001';
  return usd === 0 ? '$0' : `$${usd < 0.1 ? usd.toFixed(6).replace(/0+$/, '') : usd.toFixed(2)}`;
}

/** Tokens on one line. */
export function formatUsage(usage: Omit<TokenUsage, 'cache_write_1h_tokens'>): string {
  const read = usage.cache_read_tokens ?? 0;
  const written = usage.cache_write_tokens ?? 0;
  const cache =
    read + written === 0 ? '' : `, cache ${formatCount(read)} read ${formatCount(written)} written`;
  const about = usage.estimated ? '~' : '';
  return `${about}in ${formatCount(usage.input_tokens)} out ${formatCount(usage.output_tokens)}${cache}${usage.estimated ? ' (estimated)' : ''}`;
}

function formatLatency(record: ExchangeRecord): string {
  const whole = `took ${formatMs(record.duration_ms)}`;
  return record.first_byte_ms === null ? whole : `${whole} (first byte ${formatMs(record.first_byte_ms)})`;
}

/** `120 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function formatMs(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1_440)} d ${Math.floor((minutes % 1_440) / 60)} h`;
}

/** A run's kind within its session, in words; '' for an agent's own run. */
export function nameKind(kind: RunSummary['kind']): string {
  return (kind ?? '').replace('_', ' ');
}

/**
 * What every page of `understudy inspect` is made with, and the lines that pages share: the head of an exchange,
 * labelled blocks, figures. Main thread of the command line.
 */

import type { ExchangeSource } from '../analysis/exchange-source.ts';
import type { RunSummary } from '../analysis/inspect.ts';
import type { ExchangeRecord, TokenUsage } from '../domain/exchange.ts';
import { hasFailed } from '../domain/golden.ts';
import type { InspectFlags } from './inspect-flags.ts';
import type { CliIo } from './io.ts';
import type { Progress } from './progress.ts';
import { makeHarmlessLine, type Palette, wrapText } from './terminal-text.ts';

/** Labels of what is said stand in a column of this width. */
const LABEL_COLUMNS = 12;

/** The open database, what was asked of it, and how the answer may look. */
export interface InspectView {
  readonly source: ExchangeSource;
  /** Exchanges in all, for the progress. */
  readonly count: number;
  readonly io: CliIo;
  /** Of a line, in columns. */
  readonly width: number;
  readonly flags: InspectFlags;
  readonly paint: Palette;
  readonly progress: Progress;
}

/** Reads the outcomes of monitor runs that have the id of a captured run. */
export type FindOutcomes = (runs: { find(runId: string): unknown }) => Promise<Map<string, string>>;

/**
 * `#12  seq 3  +4.2 s  200  claude-x  took 1.2 s …`
 * @param runStartedMs null outside a run: then method and path stand in place of the time since
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
  if (record.aborted) fields.push(bad('aborted'));
  else if (!ok && record.status >= 200 && record.status < 300) fields.push(bad('broke off'));
  if (record.truncated) fields.push(bad('truncated'));
  if (record.served_by === 'student') fields.push(call('by the student'));
  if (record.model !== null) fields.push(makeHarmlessLine(record.model));
  fields.push(dim(formatLatency(record)));
  if (record.kind === 'turn') fields.push(dim(formatUsage(record.usage)));
  return wrapText(fields.join('  '), view.width).join('\n    ');
}

/** A labelled block; lines after the first stand under the text. */
export function layOutPart(view: InspectView, label: string, text: string): string {
  const lines = wrapText(text, view.width - LABEL_COLUMNS);
  return `  ${view.paint.dim(label.padEnd(9))} ${lines.join(`\n${' '.repeat(LABEL_COLUMNS)}`)}\n`;
}

/** Names on one line, made harmless. */
export function nameAll(names: string[]): string {
  return names.length === 0 ? '-' : makeHarmlessLine(names.join(', '));
}

/** With its thousands parted; `-` for what is not known. */
export function formatCount(n: number | null): string {
  return n === null ? '-' : n.toLocaleString('en-US');
}

/** Tokens on one line. */
export function formatUsage(usage: TokenUsage): string {
  const read = usage.cache_read_tokens ?? 0;
  const written = usage.cache_write_tokens ?? 0;
  const cache =
    read + written === 0 ? '' : `, cache ${formatCount(read)} read ${formatCount(written)} written`;
  return `in ${formatCount(usage.input_tokens)} out ${formatCount(usage.output_tokens)}${cache}`;
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

/** What a run is within its session, in words; '' for an agent's own. */
export function nameKind(kind: RunSummary['kind']): string {
  return (kind ?? '').replace('_', ' ');
}

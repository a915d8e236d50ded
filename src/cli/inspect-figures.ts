/** `understudy inspect --by`: figures of captured traffic by model, agent, tool and the like. Main thread of the command line. */

import { FigureCube, type KeptFigureParts } from '../captures/figure-cube.ts';
import type { FigureDimension, FigureReport, TrafficFigures } from '../domain/traffic-figures.ts';
import { countOf } from '../std/count-of.ts';
import { sayNotCounted } from './inspect-list.ts';
import { formatCount, formatDollars, formatMs, type InspectView } from './inspect-view.ts';
import { EXIT } from './io.ts';
import { type Cell, formatJson, layOutTable, makeHarmlessLine } from './terminal-text.ts';

/**
 * Shows the figures of whole days.
 * @param kept sums that the service has stored
 * @returns the exit status
 */
export async function showFigures(
  view: InspectView,
  by: FigureDimension,
  kept: KeptFigureParts | null,
  nowMs: number,
): Promise<number> {
  const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  const question = { by, from_day: day(view.flags.since_ms ?? 0), to_day: day(nowMs), where: {} };
  const cube = new FigureCube(view.prices, kept);
  const range = view.source.range?.() ?? listRange(view);
  const report = {
    ...cube.ask(view.source, range, question, () => true),
    not_indexed: view.source.unlisted ?? 0,
  };
  view.progress.clear();
  await view.io.out(view.flags.json ? `${formatJson(report, 2)}\n` : layOutReport(view, report));
  return EXIT.done;
}

function listRange({ source, progress, count }: InspectView): { first_id: number; last_id: number } {
  let [first_id, last_id] = [0, 0];
  for (const { id } of source.summaries()) {
    first_id ||= id;
    last_id = id;
    progress.tell('listing exchanges', id, count);
  }
  return { first_id, last_id };
}

const COLUMNS = ['TURNS', 'FAILED', 'IN', 'CACHED', 'OUT', 'COST', 'P50', 'P95'] as const;

function layOutReport(view: InspectView, report: FigureReport & { not_indexed: number }): string {
  const { by, total, rows, others, scanned, not_indexed, from_day, to_day } = report;
  const lines = rows.map((row) => layOutRow(row.name ?? '-', row));
  if (others !== null) lines.push(layOutRow('(others)', others));
  lines.push(layOutRow('(all)', total));
  const columns = [
    { title: by.toUpperCase().replace('_', ' '), align: 'left' as const },
    ...COLUMNS.map((title) => ({ title, align: 'right' as const })),
  ];
  const since = view.flags.since_ms === undefined ? `until ${to_day}` : `${from_day} to ${to_day}`;
  const unpriced =
    total.unpriced_turns === 0
      ? ''
      : `, ${countOf(total.unpriced_turns, 'turn')} without a known price or tokens`;
  return `${layOutTable(columns, lines, view.width, view.paint)}${countOf(scanned, 'exchange')}, ${since} (UTC days)${unpriced}\n${sayNotCounted(not_indexed)}`;
}

function layOutRow(name: string, figures: TrafficFigures): Cell[] {
  const { turns, errors, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens } = figures;
  const input = input_tokens + cache_read_tokens + cache_write_tokens;
  const cached = figures.cache_share === null ? '-' : `${Math.round(figures.cache_share * 100)} %`;
  const about = figures.estimated_turns > 0 ? '~' : '';
  const more = figures.unpriced_turns > 0 && figures.cost_usd !== null ? '+' : '';
  const cost = figures.cost_usd === null ? '-' : `${about}${formatDollars(figures.cost_usd)}${more}`;
  const time = (ms: number | null): string => (ms === null ? '-' : formatMs(ms));
  return [
    makeHarmlessLine(name),
    formatCount(turns),
    formatCount(errors),
    formatCount(input),
    cached,
    formatCount(output_tokens),
    cost,
    time(figures.latency_p50_ms),
    time(figures.latency_p95_ms),
  ].map((text) => ({ text }));
}

/** `understudy inspect --by`: figures of captured traffic by model, agent, tool and the like. Main thread of the command line. */

import { FigureCube } from '../captures/figure-cube.ts';
import type { FigureDimension, FigureReport, TrafficFigures } from '../domain/traffic-figures.ts';
import { countOf } from '../std/count-of.ts';
import { formatCount, formatDollars, formatMs, type InspectView } from './inspect-view.ts';
import { EXIT } from './io.ts';
import { type Cell, formatJson, layOutTable, makeHarmlessLine } from './terminal-text.ts';

/** Shows the figures of whole days. @returns the exit status */
export async function showFigures(view: InspectView, by: FigureDimension, nowMs: number): Promise<number> {
  let firstId = 0;
  let lastId = 0;
  for (const { id } of view.source.summaries()) {
    firstId ||= id;
    lastId = id;
    view.progress.tell('listing exchanges', id, view.count);
  }
  const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  const question = { by, from_day: day(view.flags.since_ms ?? 0), to_day: day(nowMs), where: {} };
  const report = new FigureCube(view.prices).ask(
    view.source,
    { first_id: firstId, last_id: lastId },
    question,
    () => true,
  );
  view.progress.clear();
  await view.io.out(view.flags.json ? `${formatJson(report, 2)}\n` : layOutReport(view, report));
  return EXIT.done;
}

const COLUMNS = ['TURNS', 'ERR', 'IN', 'CACHED', 'OUT', 'COST', 'P50', 'P95'] as const;

function layOutReport(view: InspectView, report: FigureReport): string {
  const { by, total, rows, others, scanned, from_day, to_day } = report;
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
  return `${layOutTable(columns, lines, view.width, view.paint)}${countOf(scanned, 'exchange')}, ${since} (UTC days)${unpriced}\n`;
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

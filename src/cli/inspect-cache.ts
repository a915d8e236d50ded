/**
 * `understudy inspect --cache`: how the turns of one run or of all runs used the provider's prompt cache, and why turns
 * read less from it than they could have. Main thread of the command line.
 */

import { CacheDoctor } from '../captures/cache-doctor.ts';
import { CacheLedger, type KeptCacheParts } from '../captures/cache-ledger.ts';
import { type CacheReport, CacheSum } from '../captures/cache-sum.ts';
import type { CacheLook, CachePeriod, CacheTotals, PromptDifference } from '../domain/cache-miss.ts';
import { countOf } from '../std/count-of.ts';
import { sayNotCounted } from './inspect-list.ts';
import { formatCount, formatDollars, type InspectView, layOutPart } from './inspect-view.ts';
import { EXIT } from './io.ts';
import { formatJson, layOutTable, makeHarmlessLine } from './terminal-text.ts';

/**
 * Shows the turns of one run.
 * @returns the exit status: 1 for an unknown run
 */
export async function showRunCache(view: InspectView, runId: string): Promise<number> {
  const sum = new CacheSum();
  const looks: CacheLook[] = [];
  const doctor = new CacheDoctor(view.source, view.prices);
  for (const look of doctor.examineRun(runId)) {
    sum.add(look, runId);
    if (view.flags.json) looks.push(look);
    else await view.io.out(layOutLook(view, look));
  }
  const { value: first } = view.source.summaries({ run_id: runId })[Symbol.iterator]().next();
  if (first === undefined) {
    view.io.err(
      `understudy: the database has no run ${formatJson(runId, 0)}.\nTo list its runs: understudy inspect\n`,
    );
    return EXIT.failed;
  }
  if (view.flags.json) {
    await view.io.out(`${formatJson({ run_id: runId, turns: looks, sum: sum.report() }, 2)}\n`);
    return EXIT.done;
  }
  await view.io.out(`\n${layOutSum(view, sum.report())}`);
  return EXIT.done;
}

/**
 * Sums whole UTC days by cause, agent and day.
 * @param kept sums that the service has stored
 * @returns the exit status
 */
export async function showCache(
  view: InspectView,
  kept: KeptCacheParts | null,
  nowMs: number,
): Promise<number> {
  let firstId = 0;
  let lastId = 0;
  for (const { id, not_indexed } of view.source.summaries()) {
    firstId ||= id;
    if (!not_indexed) lastId = id;
    view.progress.tell('listing exchanges', id, view.count);
  }
  const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  const from_day = day(view.flags.since_ms ?? 0);
  const ledger = new CacheLedger(view.prices, kept);
  let examined = 0;
  const isWhole = ledger.follow(view.source, { first_id: firstId, last_id: lastId }, from_day, () => {
    examined += 1;
    view.progress.tell('examining exchanges', examined, view.count);
    return true;
  });
  view.progress.clear();
  const period = {
    ...ledger.sum({ from_day, to_day: day(nowMs), agent: null }, isWhole),
    not_indexed: view.source.unlisted ?? 0,
  };
  await view.io.out(view.flags.json ? `${formatJson(period, 2)}\n` : layOutPeriod(view, period));
  return EXIT.done;
}

function layOutLook(view: InspectView, look: CacheLook): string {
  const { strong, dim, good, bad } = view.paint;
  const head = strong(`#${look.exchange_id}`);
  const read = `read ${formatCount(look.read_tokens)}`;
  switch (look.verdict) {
    case 'hit':
      return `${head}  ${good('hit')}    ${dim(`${read} of ${formatCount(look.expected_tokens)} tokens`)}\n`;
    case 'first':
      return `${head}  first  ${dim(`${read} tokens; no earlier prompt has the same beginning`)}\n`;
    case 'too_short':
      return `${head}  ${dim('short  too short to be cached')}\n`;
    case 'not_told':
      return `${head}  ${dim('?      the provider did not report how much it read from its cache')}\n`;
    case 'miss': {
      const about = look.is_estimate ? 'about ' : '';
      const cost = look.cost_usd === null ? '' : `, ${formatDollars(look.cost_usd)}`;
      const lost = `lost ${about}${formatCount(look.lost_tokens)} tokens${cost}`;
      const against = dim(
        `(${read} of ${formatCount(look.expected_tokens)}, compared with #${look.compared_with})`,
      );
      const text = `${head}  ${bad('miss')}   ${lost} ${against}\n${layOutPart(view, 'why', look.words)}`;
      return look.difference === null ? text : text + layOutDifference(view, look.difference);
    }
  }
}

function layOutDifference(view: InspectView, { place, offset, before, after }: PromptDifference): string {
  const where = offset === 0 ? place : `${place}, after ${countOf(offset, 'character')}`;
  return (
    layOutPart(view, 'where', makeHarmlessLine(where)) +
    layOutPart(view, 'before', view.paint.dim(makeHarmlessLine(before) || '(nothing)')) +
    layOutPart(view, 'now', makeHarmlessLine(after) || '(nothing)')
  );
}

function layOutPeriod(view: InspectView, period: CachePeriod & { not_indexed: number }): string {
  const { from_day, to_day, days, by_agent, by_day } = period;
  const since = view.flags.since_ms === undefined ? `Until ${to_day}` : `${from_day} to ${to_day}`;
  let text = `${since} (UTC days)\n${layOutSum(view, period, days)}`;
  if (by_agent.length > 1)
    text += `\n${layOutTotals(
      view,
      'AGENT',
      by_agent.map(({ agent, ...totals }) => [agent || '-', totals]),
    )}`;
  if (by_day.length > 1)
    text += `\n${layOutTotals(
      view,
      'DAY',
      by_day.map(({ day, ...totals }) => [day, totals]),
    )}`;
  return text + sayNotCounted(period.not_indexed);
}

function layOutTotals(view: InspectView, title: string, rows: readonly [string, CacheTotals][]): string {
  const columns = [
    { title, align: 'left' as const },
    ...['TURNS', 'MISSED', 'TOKENS LOST', 'COST'].map((name) => ({ title: name, align: 'right' as const })),
  ];
  const lines = rows.map(([name, { turns, misses, lost_tokens, cost_usd, unpriced_misses }]) => {
    const more = cost_usd !== null && unpriced_misses > 0 ? '+' : '';
    const cost = misses === 0 ? '-' : cost_usd === null ? 'no price' : `${formatDollars(cost_usd)}${more}`;
    return [
      makeHarmlessLine(name),
      formatCount(turns),
      formatCount(misses),
      formatCount(lost_tokens),
      cost,
    ].map((text) => ({ text }));
  });
  return layOutTable(columns, lines, view.width, view.paint);
}

/** Lays out a sum of cache misses. @param days number of days by which the costs are divided; 1: no division */
function layOutSum(view: InspectView, sum: CacheReport, days = 1): string {
  const { turns, untold_turns, misses, lost_tokens, cost_usd, unpriced_misses, causes } = sum;
  const untold =
    untold_turns === 0
      ? ''
      : `; ${countOf(untold_turns, 'turn')} without a report of what was read from the cache`;
  const price = (usd: number | null): string => {
    if (usd === null) return '';
    return `, ${formatDollars(usd)}${days > 1 ? `, ${formatDollars(usd / days)} a day` : ''}`;
  };
  const unpriced =
    unpriced_misses === 0 ? '' : ` (${countOf(unpriced_misses, 'turn')} without a known price)`;
  const lost = misses === 0 ? '' : `: ${formatCount(lost_tokens)} tokens lost${price(cost_usd)}${unpriced}`;
  let text = `${countOf(turns, 'turn')}, ${formatCount(misses)} of them missed the cache${lost}${untold}\n`;
  for (const { words, place, misses: some, lost_tokens: tokens, cost_usd: usd, runs, agent } of causes) {
    const where = place === null ? '' : ` (${place})`;
    text += `\n  ${view.paint.strong(makeHarmlessLine(`${words}${where}`))}\n`;
    text += layOutPart(
      view,
      'lost',
      `${formatCount(tokens)} tokens in ${countOf(some, 'turn')}${price(usd)}`,
    );
    if (agent !== '') text += layOutPart(view, 'agent', makeHarmlessLine(agent));
    if (runs.length > 0) text += layOutPart(view, 'runs', makeHarmlessLine(runs.join(', ')));
  }
  return text;
}

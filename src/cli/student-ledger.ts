/**
 * `understudy student ledger`: what a student served, how often it was wrong and what that saved. Main thread; reads the
 * file that the gateway of this DATA_DIR keeps.
 */

import { join } from 'node:path';
import { loadConfig } from '../config.ts';
import type { LedgerRow, LedgerTotal } from '../domain/student-ledger.ts';
import { countOf } from '../std/count-of.ts';
import { readAgentNames } from '../student/agent-names.ts';
import {
  type LedgerCopy,
  listLedger,
  readLedgerFile,
  sumLedger,
  totalLedger,
} from '../student/day-ledger.ts';
import { readStudentManifest } from '../student/directory.ts';
import { percent } from '../teaching/taught-student.ts';
import { type CliIo, EXIT } from './io.ts';
import { choosePalette, formatJson, layOutTable, makeHarmlessLine, type Palette } from './terminal-text.ts';

/**
 * Prints the ledger.
 * @returns the exit status
 */
export async function showLedger(
  { by_day, is_json, directory }: { by_day: boolean; is_json: boolean; directory: string | null },
  io: CliIo,
): Promise<number> {
  const config = loadConfig({ listener: 'gateway' });
  const path = config.relegation?.ledger_path ?? join(config.data_dir, 'student-ledger.json');
  let kept: LedgerCopy;
  try {
    kept = (await readLedgerFile(path)) ?? [];
  } catch (error) {
    io.err(`understudy: ${makeHarmlessLine((error as Error).message)}\n`);
    return EXIT.failed;
  }
  const rows = by_day ? listLedger(kept) : sumLedger(kept);
  if (is_json) {
    await io.out(`${formatJson(rows, 2)}\n`);
    return EXIT.done;
  }
  if (rows.length === 0) {
    await io.out('No student has served anything here yet.\n');
    return EXIT.done;
  }
  const named = await nameVariants(directory ?? config.relegation?.directory ?? null);
  const table = layOutLedger(rows, named, by_day, choosePalette(io.has_color));
  await io.out(table + describeTotal(totalLedger(kept)));
  for (const { day, agent, saved_usd } of rows)
    if (saved_usd !== null && saved_usd < 0)
      await io.out(
        `the served steps of ${makeHarmlessLine(agent)} (${day}) cost ${describeDollars(-saved_usd)} more than they saved: late take-overs paid for cold caches, or the student's service is expensive\n`,
      );
  return EXIT.done;
}

/** Names of agent variants, from the student in the directory; empty if there is no student. */
async function nameVariants(directory: string | null): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  if (directory === null) return names;
  const serving = await readStudentManifest(directory).catch(() => null);
  for (const { agent, title } of serving?.coverage.agents ?? [])
    if (title !== undefined) names.set(agent, title);
  // Unreadable names do not fail this command; `student show` reports why they are unreadable.
  const chosen = await readAgentNames(directory).catch(() => new Map<string, string>());
  for (const [agent, name] of chosen) names.set(agent, name);
  return names;
}

function layOutLedger(
  rows: readonly LedgerRow[],
  names: ReadonlyMap<string, string>,
  byDay: boolean,
  palette: Palette,
): string {
  const hasNames = rows.some(({ agent }) => names.has(agent));
  return layOutTable(
    [
      { title: byDay ? 'DAY' : 'SINCE', align: 'left' },
      { title: 'AGENT', align: 'left' },
      { title: 'SERVED', align: 'right' },
      { title: 'AUDITED', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: '95 % BETWEEN', align: 'left' },
      { title: 'LATE', align: 'right' },
      { title: 'SAVED', align: 'right' },
      ...(hasNames ? [{ title: 'NAME', align: 'left' } as const] : []),
    ],
    rows.map((row) => [
      { text: row.day },
      { text: makeHarmlessLine(row.agent) },
      { text: String(row.served) },
      { text: String(row.compared) },
      { text: String(row.wrong), ...(row.wrong > 0 ? { paint: palette.bad } : {}) },
      { text: describeInterval(row) },
      { text: String(row.late) },
      { text: describeSaved(row), ...((row.saved_usd ?? 0) < 0 ? { paint: palette.bad } : {}) },
      ...(hasNames ? [{ text: makeHarmlessLine(names.get(row.agent) ?? '-') }] : []),
    ]),
    Number.POSITIVE_INFINITY,
    palette,
  );
}

/** The saved amount, as the dashboard, the report and the metrics show it, with what is uncertain in it. */
function describeTotal(total: LedgerTotal): string {
  const { since, served, saved_usd, unpriced, guessed } = total;
  const saved = saved_usd === null ? 'the saving is unknown' : `saved ${describeSaved(total)}`;
  const doubts = [
    unpriced === 0 ? '' : `${countOf(unpriced, 'served step')} left out, because GW_PRICES has no price`,
    guessed === 0 ? '' : `${countOf(guessed, 'served step')} marked ~, priced as a model with a similar name`,
  ].filter((doubt) => doubt !== '');
  return `In all since ${since}: ${countOf(served, 'step')} served, ${saved}${doubts.length === 0 ? '' : ` (${doubts.join('; ')})`}\n`;
}

function describeInterval({ wrong_at_least: low, wrong_at_most: high }: LedgerRow): string {
  return low === null || high === null ? '-' : `${percent(low)} and ${percent(high)}`;
}

function describeSaved({ saved_usd, guessed }: Pick<LedgerRow, 'saved_usd' | 'guessed'>): string {
  if (saved_usd === null) return '-';
  return `${guessed > 0 ? '~' : ''}${describeDollars(saved_usd)}`;
}

function describeDollars(usd: number): string {
  return `${usd < 0 ? '-' : ''}$${Math.abs(usd).toFixed(Math.abs(usd) < 1 ? 4 : 2)}`;
}

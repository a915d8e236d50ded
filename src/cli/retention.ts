/** `understudy retention`: shows the clock of deletion by age, and confirms it. Main thread of the command line. */

import { existsSync } from 'node:fs';
import { loadConfig } from '../config.ts';
import { type ClockVerdict, type Cutoff, cutoffsOf, judgeClock } from '../domain/retention-clock.ts';
import { databasePaths } from '../storage/lmdb/stores.ts';
import { refuseHalfRestored } from '../storage/restore-marker.ts';
import {
  capturesNotePath,
  describeVerdict,
  readClock,
  readNote,
  recordsNotePath,
  writeNote,
} from '../storage/retention-clock.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT } from './io.ts';
import { formatJson, makeHarmlessLine } from './terminal-text.ts';

const HELP = `Shows the clock for deletion by age (RETENTION_DAYS), and confirms it.

If a clock jumps ahead, all data suddenly looks old. If the clock has advanced further than the machine's uptime explains,
the service deletes at most one more day of data, warns once an hour, sets understudy_retention_waits_for_confirmation in
/metrics to 1, and waits. It does the same if the machine was restarted and more than 30 days have passed since the last
pass.

Usage: understudy retention [--confirm] [--db FILE] [--json]

  --confirm    accept the present clock; a running service notices within ten minutes
  --db FILE    capture database; default: DATA_DIR/capture.mdb
  --json       as JSON

Correct the clock before you confirm it, because deleted data cannot be restored. Run the command as the user of the
service, with its variables.

Examples:
  understudy retention
  understudy retention --confirm

Exit status: 0 done, 1 failed, 2 wrong use.
`;

/** One of the two databases with deletion by age. */
interface Place {
  of: 'records' | 'captures';
  note: string;
  days: Record<string, number | null>;
}

/** The command's report about one of these databases. */
interface PlaceState {
  of: Place['of'];
  note: string;
  /** null: no pass was recorded, or the record is unreadable. */
  last_accepted: string | null;
  /** null when no pass was recorded. */
  verdict: ClockVerdict | null;
  confirmed: boolean;
  cutoffs: Record<string, Cutoff>;
}

/** Runs `understudy retention`. @returns the exit status @throws UsageError on wrong use */
export async function runRetention(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { confirm: 'switch', db: 'text', json: 'switch' });
  if (values.help) {
    await io.out(HELP);
    return EXIT.done;
  }
  const { data_dir, data_key, capture, retention_days } = loadConfig({ listener: 'gateway', db: values.db });
  const { main } = databasePaths(data_dir, data_key);
  for (const db of [main, capture.db]) refuseHalfRestored(db);
  const { runs, traces, findings, captures } = retention_days;
  const places: Place[] = [
    { of: 'records', note: recordsNotePath(data_dir), days: { runs, traces, findings } },
    { of: 'captures', note: capturesNotePath(capture.db), days: { captures } },
  ];
  const now = readClock();
  const clock = new Date(now.wall_ms).toISOString();
  const states: PlaceState[] = [];
  for (const { of, note, days } of places) {
    const confirmed = values.confirm === true && existsSync(note);
    if (confirmed) await writeNote(note, now, `${note}.confirmed`);
    const last = readNote(note);
    const judgement = judgeClock(last, now);
    states.push({
      of,
      note,
      last_accepted: typeof last === 'object' && last !== null ? new Date(last.wall_ms).toISOString() : null,
      verdict: last === null ? null : judgement.verdict,
      confirmed,
      cutoffs: cutoffsOf(judgement, now.wall_ms, days),
    });
  }
  await io.out(values.json ? `${formatJson({ clock, states }, 2)}\n` : describe(clock, states));
  return EXIT.done;
}

const NAMES = { records: 'Runs, traces and findings', captures: 'Captured exchanges' } as const;

function describe(clock: string, states: readonly PlaceState[]): string {
  const lines = [`The clock says ${clock}.`];
  for (const { of, note, last_accepted, verdict, confirmed, cutoffs } of states) {
    lines.push('', `${NAMES[of]} (${makeHarmlessLine(note)})`);
    if (verdict === null) {
      lines.push('  no pass was recorded yet');
      continue;
    }
    if (confirmed) lines.push('  confirmed: the next pass uses this clock');
    else lines.push(`  last accepted pass: ${last_accepted ?? 'unknown'}`);
    const waits = verdict !== 'accepted';
    lines.push(waits ? `  WAITS: ${describeVerdict({ verdict })}` : '  the clock is accepted');
    for (const [kind, { deleted_before, confirmed_before }] of Object.entries(cutoffs))
      lines.push(
        waits && deleted_before !== confirmed_before
          ? `  ${kind}: deletes data from before ${deleted_before}; after a confirmation, from before ${confirmed_before}`
          : `  ${kind}: deletes data from before ${deleted_before}`,
      );
  }
  if (states.some(({ verdict }) => verdict !== null && verdict !== 'accepted'))
    lines.push('', 'When the clock is right: understudy retention --confirm');
  return `${lines.join('\n')}\n`;
}

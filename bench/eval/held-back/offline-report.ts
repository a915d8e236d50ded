/**
 * The offline measurement as lines of text: only sums, because people who improve the student must not read what a
 * held-back agent does. Pure; bench process.
 */

import { percent, row, sumFigures, tellReasons } from './figure-table.ts';
import type { OfflineResult } from './held-back-result.ts';
import type { TrialFigures } from './trial-figures.ts';

/** Writes the report of offline trials. @returns a table for each number of golden runs, and what was refused by reason */
export function describeOffline(results: readonly OfflineResult[], seed: number): string[] {
  return [...Map.groupBy(results, ({ golden_runs }) => golden_runs)].flatMap(([golden_runs, stage]) =>
    describeStage(golden_runs, stage, seed),
  );
}

function describeStage(golden_runs: number, stage: readonly OfflineResult[], seed: number): string[] {
  const all = sumFigures(stage.map(({ usual }) => usual));
  const limited = sumFigures(stage.map(({ restricted }) => restricted));
  const cpu_s = stage.reduce((sum, { round_cpu_s }) => sum + round_cpu_s, 0);
  return [
    '',
    `Held-back agents offline, ${golden_runs} golden runs of each, seed ${seed}; the rounds took ${cpu_s.toFixed(0)} s of processor time`,
    row('', ['steps', 'served', 'wrong', 'refused:', 'right', 'wrong', 'without', 'whole']),
    ...stage.map(({ agent, usual }) => row(agent, cells(usual))),
    row('all', cells(all)),
    '  Refused by reason, as right + wrong + without an answer:',
    ...stage.map(({ agent, usual }) => row(agent, [tellReasons(usual)])),
    row('all', [tellReasons(all)]),
    `  Sentences that forbid, limit or permit: ${limited.served} of ${limited.steps} steps served in such runs, ${limited.wrong} wrong`,
  ];
}

function cells({ steps, served, wrong, refused, runs, runs_served }: TrialFigures): string[] {
  return [
    String(steps),
    percent(served, steps),
    `${wrong} of ${served}`,
    '',
    percent(refused.right, steps),
    percent(refused.wrong, steps),
    percent(refused.without, steps),
    `${runs_served} of ${runs}`,
  ];
}

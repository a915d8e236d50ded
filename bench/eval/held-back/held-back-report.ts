/** The held-back trial as lines of text. Pure; bench process. */

import { percent, row, sumFigures, tellReasons } from './figure-table.ts';
import type { HeldBackResult, HeldBackStage, Return, SilentChange } from './held-back-result.ts';
import type { TrialFigures } from './trial-figures.ts';

/** The student has recovered if it serves this share of what it served before the silent change. */
const BACK_SHARE = 0.8;
/** Share of a kind of answer that may be wrong. */
const PROMISE = 0.05;
const KIND_SERVED_MIN = 20;
const EXAMPLE_CHARACTERS = 300;

/** Writes the report of live trials. @returns lines of at most 120 characters or so */
export function describeHeldBack(result: HeldBackResult): string[] {
  return [
    ...result.stages.flatMap(describeStage),
    ...(result.silent_change === null ? [] : describeChange(result.silent_change)),
    '',
    `Processor time of the whole trial: ${Math.round(result.cpu_s)} s`,
  ];
}

function describeStage(stage: HeldBackStage): string[] {
  const { golden_runs, round_cpu_s, is_published, live, restricted } = stage;
  const title = `Held-back agents, ${golden_runs} golden runs of each; the round took ${round_cpu_s.toFixed(0)} s of processor time`;
  const all = sumFigures(Object.values(live));
  const limited = sumFigures(Object.values(restricted));
  return [
    '',
    title,
    ...(is_published ? [] : ['  The round published nothing.']),
    row('', ['steps', 'served', 'wrong', 'audited', 'refused:', 'right', 'wrong', 'without', 'whole']),
    ...Object.entries(live).map(([name, figures]) => row(name, cells(figures))),
    row('all', cells(all)),
    `  reasons, as right + wrong + without an answer: ${tellReasons(all)}`,
    `  kinds of answers with errors: ${tellKinds(live) || 'none'}; ${tellPromise(live)}`,
    `  audits that found a wrong answer: ${all.audited_wrong} of ${all.audited}`,
    `  sentences that forbid, limit or permit: ${limited.served} of ${limited.steps} steps served in such runs, ${limited.wrong} wrong`,
    ...[...Object.entries(live), ...Object.entries(restricted)].flatMap(([name, { examples }]) =>
      examples.map((example) => `    wrong: ${name}: ${example.slice(0, EXAMPLE_CHARACTERS)}`),
    ),
  ];
}

function cells({ steps, served, wrong, audited, refused, runs, runs_served }: TrialFigures): string[] {
  return [
    String(steps),
    percent(served, steps),
    percent(wrong, served),
    percent(audited, steps),
    '',
    percent(refused.right, steps),
    percent(refused.wrong, steps),
    percent(refused.without, steps),
    `${runs_served} of ${runs}`,
  ];
}

/** Lists the kinds of answers with errors, by agent, each with the number of wrong answers and of served answers. */
function tellKinds(live: HeldBackStage['live']): string {
  return Object.entries(live)
    .flatMap(([name, { kinds }]) =>
      Object.entries(kinds).flatMap(([kind, { served, wrong }]) =>
        wrong === 0 ? [] : [`${name} ${kind} ${wrong} of ${served}`],
      ),
    )
    .join(', ');
}

/** Tells how many kinds of answers broke the promise, among those that were served often enough to judge. */
function tellPromise(live: HeldBackStage['live']): string {
  const often = Object.values(live)
    .flatMap(({ kinds }) => Object.values(kinds))
    .filter(({ served }) => served >= KIND_SERVED_MIN);
  const broken = often.filter(({ served, wrong }) => wrong > PROMISE * served).length;
  return `of ${often.length} kinds served ${KIND_SERVED_MIN} times or more, ${broken} were wrong in more than ${100 * PROMISE} %`;
}

function describeChange({ golden_runs, changed_runs, agents, rounds_cpu_s }: SilentChange): string[] {
  const rounds = Object.values(agents)[0]?.returns.map(({ new_runs }) => new_runs) ?? [];
  const after = rounds.map((runs) => `served: ${runs} runs after the change`);
  return [
    '',
    `Silent change after ${golden_runs} golden runs: ${changed_runs} runs with the old student, then rounds (${rounds_cpu_s.map((cpu) => `${cpu.toFixed(0)} s`).join(', ')} of processor time)`,
    `  Columns: ${['steps that the old student still served', 'wrong', 'run of the last wrong one', 'served before the change', ...after].join('; ')}`,
    row('', ['still', 'wrong', 'last wrong', 'before', ...rounds.map((runs) => `${runs} runs`), 'back']),
    ...Object.entries(agents).map(([name, { served, wrong, last_wrong_run, served_before, returns }]) =>
      row(name, [
        String(served),
        String(wrong),
        last_wrong_run === 0 ? '-' : `run ${last_wrong_run}`,
        percent(served_before, 1),
        ...returns.map((each) => tellReturn(each)),
        tellBack(served_before, returns),
      ]),
    ),
  ];
}

function tellReturn({ steps, served, wrong }: Return): string {
  return `${percent(served, steps)}${wrong > 0 ? ` (${wrong}!)` : ''}`;
}

/** Tells the number of runs after which the student served nearly as much as before, without an error. */
function tellBack(before: number, returns: readonly Return[]): string {
  if (before === 0) return '-';
  const back = returns.find(
    ({ steps, served, wrong }) => wrong === 0 && served / steps >= BACK_SHARE * before,
  );
  return back === undefined ? 'no' : String(back.new_runs);
}

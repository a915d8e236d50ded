/**
 * Measures how well the six monitors find the steps and runs that people and ledgers marked in public agent runs, and
 * how often the monitors fire in successful runs. `node bench/eval/run.ts monitors [file]`. Prints tables, writes
 * bench/results.
 *
 * A step labelled as loop counts as found if a loop monitor fired there. The loop monitors are compared with simple
 * rules (baselines.ts). The other monitors are counted by step and by run, against the annotated failures that the
 * README of the data assigns to them. Their negatives are the other steps of the annotated runs, and the passed runs of
 * tau-retail with their steps. These monitors are compared with one that always fires; its precision is the prevalence.
 */
import { LOOP_MONITORS } from '../../src/domain/monitors/definitions.ts';
import { digestStep } from '../../src/domain/monitors/digest.ts';
import { maskStep } from '../../src/domain/monitors/masked-step.ts';
import { advanceMonitors, initialMonitors } from '../../src/domain/monitors/monitors.ts';
import { MONITOR_NAMES, type MonitorName } from '../../src/domain/monitors/names.ts';
import { BUILT_IN_PROFILES, findBuiltInProfile } from '../../src/domain/monitors/profiles.ts';
import { saveResult, takeProvenance } from '../results.ts';
import {
  type AgentRun,
  DATA_SETS,
  type DataSet,
  DEFAULT_FILE,
  dataSetOf,
  readAgentRuns,
} from './agent-runs.ts';
import { BASELINES } from './baselines.ts';
import { crossValidate } from './cross-validation.ts';
import { measureSplices } from './drift-splices.ts';

/** Resamples of runs for an interval, and the seed of their generator. */
const RESAMPLES = 1000;
const SEED = 20_261_121;

interface Rates {
  fired: number;
  precision: number;
  recall: number;
  f1: number;
  positives: number;
  judged: number;
  prevalence: number;
}

interface Judged {
  run: AgentRun;
  set: DataSet;
  /** By index in `run.steps`. */
  fired: ReadonlySet<MonitorName>[];
  interventions: number;
}

/** A step or run that is judged: whether annotators marked it, whether the rule fired, and the number of its run. */
interface Item {
  marked: boolean;
  fired: boolean;
  run: number;
}

function rate(items: readonly Item[]): Rates {
  let fired = 0;
  let hits = 0;
  let positives = 0;
  for (const item of items) {
    if (item.fired) fired += 1;
    if (item.marked) positives += 1;
    if (item.fired && item.marked) hits += 1;
  }
  const precision = fired === 0 ? Number.NaN : hits / fired;
  const recall = positives === 0 ? Number.NaN : hits / positives;
  return {
    fired,
    precision,
    recall,
    f1: hits === 0 ? 0 : (2 * hits) / (fired + positives),
    positives,
    judged: items.length,
    prevalence: positives / items.length,
  };
}

/** Estimates the 95 % interval of a rate by resampling whole runs. */
function resample(items: readonly Item[], pick: (rates: Rates) => number): [low: number, high: number] {
  const byRun = new Map<number, Item[]>();
  for (const item of items) {
    const list = byRun.get(item.run);
    if (list === undefined) byRun.set(item.run, [item]);
    else list.push(item);
  }
  const runs = [...byRun.values()];
  let state = SEED;
  const next = (): number => {
    // xorshift32, so that the interval is the same each time.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  const values: number[] = [];
  for (let i = 0; i < RESAMPLES; i++) {
    const drawn = runs.flatMap(() => runs[Math.floor(next() * runs.length)]!);
    const value = pick(rate(drawn));
    if (!Number.isNaN(value)) values.push(value);
  }
  values.sort((a, b) => a - b);
  return [
    values[Math.floor(values.length * 0.025)] ?? Number.NaN,
    values[Math.floor(values.length * 0.975)] ?? Number.NaN,
  ];
}

function judgeRun(run: AgentRun): Judged {
  const profile = findBuiltInProfile(run.task_profile) ?? BUILT_IN_PROFILES.coding;
  let state = initialMonitors(run.task);
  let interventions = 0;
  const fired = run.steps.map((step) => {
    const result = advanceMonitors(state, digestStep(maskStep(step)), profile);
    state = result.state;
    if (result.outcome.intervention !== null) interventions += 1;
    return new Set(result.outcome.fired);
  });
  return { run, set: dataSetOf(run), fired, interventions };
}

const isLoop = (fired: ReadonlySet<MonitorName>): boolean =>
  LOOP_MONITORS.some((monitor) => fired.has(monitor));
const passed = (judged: Judged): boolean => judged.run.labels.outcome === 'success';
const f2 = (value: number): string => (Number.isNaN(value) ? '-' : value.toFixed(2));

function printTable(title: string, rows: Record<string, string | number>[]): void {
  console.log(`\n${title}`);
  if (rows.length === 0) return;
  const columns = Object.keys(rows[0]!);
  const widths = columns.map((name) => Math.max(name.length, ...rows.map((row) => String(row[name]).length)));
  const line = (cells: string[]): string =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
  console.log(line(columns));
  for (const row of rows) console.log(line(columns.map((name) => String(row[name]))));
}

/** Lists the steps that a ledger judged (about 330), each with the rule's verdict. */
function ledgerItems(all: readonly Judged[], fires: (judged: Judged, at: number) => boolean): Item[] {
  const items: Item[] = [];
  all.forEach((judged, run) => {
    const { labels, steps } = judged.run;
    if (judged.set !== 'magentic-one') return;
    steps.forEach((step, at) => {
      const marked = labels.loop_steps.includes(step.step_index);
      if (marked || labels.no_loop_steps.includes(step.step_index))
        items.push({ marked, fired: fires(judged, at), run });
    });
  });
  return items;
}

/** Counts the runs of a kind. @returns `of`: their number; `fired`: in how many of them a rule fires at least once */
function countRuns(
  all: readonly Judged[],
  kind: (judged: Judged) => boolean,
  fires: (judged: Judged, at: number) => boolean,
): { fired: number; of: number } {
  const runs = all.filter(kind);
  return {
    of: runs.length,
    fired: runs.filter((judged) => judged.run.steps.some((_, at) => fires(judged, at))).length,
  };
}

const RUN_KINDS: Record<string, (judged: Judged) => boolean> = {
  'exact loops': (judged) => judged.run.labels.loop_basis === 'exact repeat',
  'hotpot passed': (judged) => judged.set === 'hotpotqa' && passed(judged),
  'airline passed': (judged) => judged.set === 'airline' && passed(judged),
  'airline failed, no loop': (judged) =>
    judged.set === 'airline' && judged.run.labels.outcome === 'failure' && judged.run.labels.loop === false,
  'retail passed': (judged) => judged.set === 'retail' && passed(judged),
  swe: (judged) => judged.set === 'swe-agent',
  'with loop': (judged) => judged.set === 'magentic-one' && judged.run.labels.loop === true,
  without: (judged) => judged.set === 'magentic-one' && judged.run.labels.loop !== true,
};

interface LoopRow {
  rule: string;
  rates: Rates;
  runs: Record<string, { fired: number; of: number }>;
}

function measureLoops(all: readonly Judged[]): LoopRow[] {
  const rules: { name: string; fires: (judged: Judged, at: number) => boolean }[] = [
    { name: LOOP_MONITORS.join(' or '), fires: (judged, at) => isLoop(judged.fired[at]!) },
    ...LOOP_MONITORS.map((monitor) => ({
      name: monitor,
      fires: (judged: Judged, at: number) => judged.fired[at]!.has(monitor),
    })),
    ...BASELINES.map((rule) => ({
      name: rule.name,
      fires: (judged: Judged, at: number) => rule.fires(judged.run.steps, at),
    })),
  ];
  return rules.map(({ name, fires }) => ({
    rule: name,
    rates: rate(ledgerItems(all, fires)),
    runs: Object.fromEntries(
      Object.entries(RUN_KINDS).map(([kind, is]) => [kind, countRuns(all, is, fires)]),
    ),
  }));
}

interface FailureRow {
  monitor: MonitorName;
  steps: Rates;
  runs: Rates;
  steps_always: Rates;
  runs_always: Rates;
}

/**
 * Judges monitors with annotated failures. Each step and each run with a failure is a positive. The other steps of
 * these runs, and the passed retail runs with their steps, are negatives.
 */
function measureFailures(all: readonly Judged[]): FailureRow[] {
  const annotated = MONITOR_NAMES.filter((monitor) =>
    all.some(({ run }) => run.labels.failures.some((failure) => failure.monitor === monitor)),
  ).toSorted();
  return annotated.map((monitor) => {
    const steps: Item[] = [];
    const runs: Item[] = [];
    all.forEach((judged, number) => {
      const at = new Set(
        judged.run.labels.failures
          .filter((failure) => failure.monitor === monitor && failure.agent !== 'User')
          .map((failure) => failure.step),
      );
      if (at.size === 0 && !(judged.set === 'retail' && passed(judged))) return;
      judged.run.steps.forEach((step, i) => {
        steps.push({ marked: at.has(step.step_index), fired: judged.fired[i]!.has(monitor), run: number });
      });
      runs.push({
        marked: at.size > 0,
        fired: judged.fired.some((fired) => fired.has(monitor)),
        run: number,
      });
    });
    const always = (items: Item[]): Rates => rate(items.map((item) => ({ ...item, fired: true })));
    return {
      monitor,
      steps: rate(steps),
      runs: rate(runs),
      steps_always: always(steps),
      runs_always: always(runs),
    };
  });
}

/** Runs with at least one alarm, by monitor and by kind of run. */
function measureAlarms(
  all: readonly Judged[],
): Record<MonitorName, Record<string, { fired: number; of: number }>> {
  const kinds: Record<string, (judged: Judged) => boolean> = { 'all passed': passed };
  for (const set of DATA_SETS) {
    if (all.some((judged) => judged.set === set && passed(judged)))
      kinds[`${set} passed`] = (judged) => judged.set === set && passed(judged);
  }
  for (const set of DATA_SETS) {
    if (all.some((judged) => judged.set === set && !passed(judged)))
      kinds[`${set} failed`] = (judged) => judged.set === set && !passed(judged);
  }
  return Object.fromEntries(
    MONITOR_NAMES.map((monitor) => [
      monitor,
      Object.fromEntries(
        Object.entries(kinds).map(([kind, is]) => [
          kind,
          countRuns(all, is, (judged, at) => judged.fired[at]!.has(monitor)),
        ]),
      ),
    ]),
  ) as Record<MonitorName, Record<string, { fired: number; of: number }>>;
}

/** Runs the measurement. @param file the labelled runs; by default the part of them that is for tuning */
export function evaluateMonitors(file = DEFAULT_FILE): void {
  const runs = readAgentRuns(file);
  if (runs === null) {
    console.error(`no labelled runs at ${file}: nothing measured`);
    process.exitCode = 1;
    return;
  }
  const before = process.cpuUsage();
  const all = runs.map(judgeRun);
  const used = process.cpuUsage(before);
  const steps = runs.reduce((sum, run) => sum + run.steps.length, 0);
  const cpu_us_per_step = (used.user + used.system) / steps;
  console.log(`${runs.length} runs, ${steps} steps, ${cpu_us_per_step.toFixed(0)} µs of CPU a step`);

  const loops = measureLoops(all);
  const own = ledgerItems(all, (judged, at) => isLoop(judged.fired[at]!));
  const interval = { precision: resample(own, (r) => r.precision), recall: resample(own, (r) => r.recall) };
  printLoops(loops);
  console.log(
    `95 % interval of the first row, runs resampled: P ${interval.precision.map(f2).join(' to ')}, R ${interval.recall.map(f2).join(' to ')}`,
  );
  const validation = crossValidate(runs);
  const { precision, recall } = validation;
  console.log(
    `weights fitted on other tasks: P ${f2(precision.mean)} (${f2(precision.low)} to ${f2(precision.high)}), R ${f2(recall.mean)} (${f2(recall.low)} to ${f2(recall.high)}), alarms on passed airline runs ${validation.airline_alarms.toFixed(1)}; on all: ${validation.weights.map(f2).join(', ')}`,
  );
  const failures = measureFailures(all);
  printFailures(failures);
  const alarms = measureAlarms(all);
  printAlarms(alarms);
  const splices = measureSplices(runs);
  printSplices(splices);
  const path = saveResult({
    suite: 'monitors',
    ...takeProvenance(),
    ...{ runs: runs.length, steps, cpu_us_per_step, loops, interval, validation, failures, alarms, splices },
  });
  console.log(`\n${path}`);
}

function printLoops(loops: ReturnType<typeof measureLoops>): void {
  const prevalence = loops[0]!.rates;
  printTable(
    `Loops: steps judged by the ledger (${prevalence.judged}, prevalence ${f2(prevalence.prevalence)}), and runs with an alarm`,
    loops.map(({ rule, rates, runs: kinds }) => ({
      rule,
      fired: rates.fired,
      P: f2(rates.precision),
      R: f2(rates.recall),
      F1: f2(rates.f1),
      ...Object.fromEntries(
        Object.entries(kinds).map(([kind, count]) => [`${kind} (${count.of})`, count.fired]),
      ),
    })),
  );
}

function printFailures(failures: ReturnType<typeof measureFailures>): void {
  printTable(
    'Other monitors: annotated steps and runs, against the other steps and the passed tau-retail runs',
    failures.flatMap((row) =>
      (['steps', 'runs'] as const).map((unit) => ({
        monitor: `${row.monitor}, ${unit}`,
        marked: row[unit].positives,
        of: row[unit].judged,
        fired: row[unit].fired,
        P: f2(row[unit].precision),
        R: f2(row[unit].recall),
        F1: f2(row[unit].f1),
        'always P': f2(row[`${unit}_always`].precision),
        'always F1': f2(row[`${unit}_always`].f1),
      })),
    ),
  );
}

function printAlarms(alarms: ReturnType<typeof measureAlarms>): void {
  printTable(
    'Runs with an alarm',
    MONITOR_NAMES.map((monitor) => ({
      monitor,
      ...Object.fromEntries(
        Object.entries(alarms[monitor]).map(([kind, count]) => [`${kind} (${count.of})`, count.fired]),
      ),
    })),
  );
}

function printSplices(splices: ReturnType<typeof measureSplices>): void {
  printTable(
    'silent_topic_drift: runs of the row that continue with steps of a run of the column, and how many the monitor reported',
    DATA_SETS.map((from) => ({
      run: from,
      ...Object.fromEntries(
        splices.filter((row) => row.from === from).map(({ to, told, runs: of }) => [to, `${told} of ${of}`]),
      ),
    })),
  );
}

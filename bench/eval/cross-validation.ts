/**
 * Fits the weights of semantic_loop's logistic regression, and measures their quality on other runs, by repeated
 * cross-validation over whole tasks. Part of the monitors' evaluation.
 *
 * The fit uses the steps that the ledger judged and, at a quarter of their weight, the steps of passed runs (none of
 * which is a loop). The fit is Newton's method with a ridge penalty. Only steps to which the rule applies take part.
 */
import { digestStep } from '../../src/domain/monitors/digest.ts';
import { StepFeatures } from '../../src/domain/monitors/features.ts';
import { maskStep } from '../../src/domain/monitors/masked-step.ts';
import { makeMemory, RunMemory } from '../../src/domain/monitors/memory.ts';
import { LIKE_STEPS, measureParaphrase } from '../../src/domain/monitors/semantic-loop.ts';
import { type AgentRun, type DataSet, dataSetOf } from './agent-runs.ts';

const FOLDS = 6;
const REPEATS = 10;
const RIDGE = 3;
const PASSED_WEIGHT = 0.25;
/**
 * Added to the fitted bias in every fold. It trades some precision for recall, so that both goals (precision 0.65,
 * recall 0.5) are met with a margin.
 */
const BIAS_SHIFT = 0.1;

/** In the order of the weights. */
const WEIGHED = ['repetition', 'answered', 'retry', 'sameness'] as const;

interface Row {
  run: number;
  set: DataSet;
  passed: boolean;
  /** 1: a loop; 0: no loop; null: the ledger did not judge the step. */
  label: 0 | 1 | null;
  /** null: the rule does not apply to this step. */
  measures: number[] | null;
  /** Number of similar earlier steps. With too few, the rule does not fire. */
  like: number;
}

/** Solves the symmetric system by elimination with pivots. It overwrites `matrix` and `vector`. */
function solve(matrix: number[][], vector: number[]): number[] {
  const size = vector.length;
  for (let column = 0; column < size; column++) {
    let pivot = column;
    for (let row = column + 1; row < size; row++)
      if (Math.abs(matrix[row]![column]!) > Math.abs(matrix[pivot]![column]!)) pivot = row;
    [matrix[column], matrix[pivot]] = [matrix[pivot]!, matrix[column]!];
    [vector[column], vector[pivot]] = [vector[pivot]!, vector[column]!];
    for (let row = column + 1; row < size; row++) {
      const factor = matrix[row]![column]! / matrix[column]![column]!;
      for (let k = column; k < size; k++) matrix[row]![k]! -= factor * matrix[column]![k]!;
      vector[row]! -= factor * vector[column]!;
    }
  }
  const result = new Array<number>(size).fill(0);
  for (let row = size - 1; row >= 0; row--) {
    let sum = vector[row]!;
    for (let k = row + 1; k < size; k++) sum -= matrix[row]![k]! * result[k]!;
    result[row] = sum / matrix[row]![row]!;
  }
  return result;
}

/**
 * Fits a logistic regression to the rows, with a ridge penalty on measures that are divided by their spread.
 * @returns weights for the unscaled measures, and last the bias
 */
function fitWeights(rows: readonly { x: number[]; y: number; weight: number }[]): number[] {
  const size = rows[0]!.x.length;
  const mean = Array.from(
    { length: size },
    (_, k) => rows.reduce((sum, row) => sum + row.x[k]!, 0) / rows.length,
  );
  const spread = mean.map(
    (center, k) =>
      Math.sqrt(rows.reduce((sum, row) => sum + (row.x[k]! - center) ** 2, 0) / rows.length) + 1e-9,
  );
  const scaled = rows.map((row) => [...row.x.map((value, k) => (value - mean[k]!) / spread[k]!), 1]);
  let weights = new Array<number>(size + 1).fill(0);
  for (let round = 0; round < 40; round++) {
    const gradient = new Array<number>(size + 1).fill(0);
    const hessian = gradient.map(() => new Array<number>(size + 1).fill(0));
    rows.forEach((row, i) => {
      const z = scaled[i]!;
      const p = 1 / (1 + Math.exp(-z.reduce((sum, value, k) => sum + value * weights[k]!, 0)));
      for (let a = 0; a <= size; a++) {
        gradient[a]! += row.weight * (p - row.y) * z[a]!;
        for (let b = 0; b <= size; b++) hessian[a]![b]! += row.weight * p * (1 - p) * z[a]! * z[b]!;
      }
    });
    for (let k = 0; k < size; k++) {
      gradient[k]! += RIDGE * weights[k]!;
      hessian[k]![k]! += RIDGE;
    }
    const change = solve(hessian, gradient);
    weights = weights.map((value, k) => value - change[k]!);
    if (Math.max(...change.map(Math.abs)) < 1e-7) break;
  }
  const own = weights.slice(0, size).map((value, k) => value / spread[k]!);
  return [...own, weights[size]! - own.reduce((sum, value, k) => sum + value * mean[k]!, 0)];
}

function measureRuns(runs: readonly AgentRun[]): Row[] {
  return runs.flatMap((run, number) => {
    const memory = new RunMemory(makeMemory(run.task));
    const set = dataSetOf(run);
    return run.steps.map((step): Row => {
      const features = new StepFeatures(digestStep(maskStep(step)).features);
      const measured = measureParaphrase(features, memory);
      memory.remember(features);
      const { labels } = run;
      const label = labels.loop_steps.includes(step.step_index)
        ? 1
        : labels.no_loop_steps.includes(step.step_index)
          ? 0
          : null;
      return {
        run: number,
        set,
        passed: labels.outcome === 'success',
        label: set === 'magentic-one' ? label : null,
        measures: measured === null ? null : WEIGHED.map((name) => measured.measure[name]),
        like: measured?.like.length ?? 0,
      };
    });
  });
}

interface CrossValidation {
  /** Weights on all runs: repetition, answered, retry, sameness, bias (shifted). */
  weights: number[];
  precision: { mean: number; low: number; high: number };
  recall: { mean: number; low: number; high: number };
  /** Passed airline runs with an alarm, as the mean over the repeats. */
  airline_alarms: number;
}

/** For each fold, fits on all other folds and judges this fold. Repeats this REPEATS times, each with other folds. */
export function crossValidate(runs: readonly AgentRun[]): CrossValidation {
  const rows = measureRuns(runs);
  const fitOn = (use: (row: Row) => boolean): number[] => {
    const weights = fitWeights(
      rows.flatMap((row) =>
        row.measures !== null && use(row) && (row.label !== null || row.passed)
          ? [{ x: row.measures, y: row.label ?? 0, weight: row.label === null ? PASSED_WEIGHT : 1 }]
          : [],
      ),
    );
    weights[weights.length - 1]! += BIAS_SHIFT;
    return weights;
  };
  const tasks = [...new Set(runs.map((run) => run.task))];
  const precisions: number[] = [];
  const recalls: number[] = [];
  let alarms = 0;
  let state = 1;
  for (let round = 0; round < REPEATS; round++) {
    const foldOf = new Map<string, number>();
    for (const task of tasks) {
      // A linear congruential generator, so that the folds are the same each time.
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      foldOf.set(task, Math.floor((state / 2 ** 32) * FOLDS));
    }
    const fold = (row: Row): number => foldOf.get(runs[row.run]!.task)!;
    const weights = Array.from({ length: FOLDS }, (_, out) => fitOn((row) => fold(row) !== out));
    let fired = 0;
    let hits = 0;
    let marked = 0;
    const alarmed = new Set<number>();
    for (const row of rows) {
      const own = weights[fold(row)]!;
      const fires =
        row.measures !== null &&
        row.like >= LIKE_STEPS &&
        row.measures.reduce((sum, value, k) => sum + value * own[k]!, own.at(-1)!) >= 0;
      if (row.label !== null) {
        if (fires) fired += 1;
        if (row.label === 1) marked += 1;
        if (fires && row.label === 1) hits += 1;
      } else if (fires && row.passed && row.set === 'airline') alarmed.add(row.run);
    }
    precisions.push(hits / fired);
    recalls.push(hits / marked);
    alarms += alarmed.size;
  }
  const spread = (values: number[]): { mean: number; low: number; high: number } => ({
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    low: Math.min(...values),
    high: Math.max(...values),
  });
  return {
    weights: fitOn(() => true),
    precision: spread(precisions),
    recall: spread(recalls),
    airline_alarms: alarms / REPEATS,
  };
}

/**
 * The report of an A/B experiment over its runs: rates per arm, the effect of `on` compared with `off`, and whether the
 * split between the arms is the intended one (sample ratio mismatch). Runs are added one by one, in any order; memory
 * grows with the number of assignment units, not of runs. Pure; server threads.
 *
 * Methods. A rate is the share of the finished runs that succeeded.
 * - The interval of a rate is Wilson's score interval (JASA 22, 1927). The interval of the difference of two rates is
 *   Newcombe's hybrid of their intervals (Statistics in Medicine 17, 1998, method 10). The p-value is that of the
 *   pooled two-sided z test (R: prop.test without continuity correction).
 * - The runs of one assignment unit (a user, a repository) are not independent. So n is divided by the design effect:
 *   the variance by the delta method over units (Deng, Knoblich, Lu, KDD 2018), divided by the binomial variance. It is
 *   at least 1 (Wilson with an effective sample size: Dean and Pagano, JSSAM 3, 2015).
 * - The always-valid interval is valid at all times simultaneously, however often it is looked at and whenever the
 *   experiment is stopped. It is the normal-mixture confidence sequence (Johari, Pekelis, Walsh, arXiv:1512.04922;
 *   Waudby-Smith and others, Annals of Statistics 52, 2024), which is asymptotic, with variances smoothed by one
 *   success and one failure per arm.
 * - SRM is Pearson's chi-square on units, one degree of freedom.
 *
 * A unit with runs in both arms (a mixed unit) changed its arm after its assignment. The report counts and names mixed
 * units. For the effect and SRM, a mixed unit counts in its first arm. For the effect, only its runs in that arm count,
 * because the first arm may have influenced later runs. In the figures of each arm, all runs count.
 */

import {
  alwaysValidInterval,
  chiSquareTail,
  type Interval,
  newcombeInterval,
  pooledPValue,
  type Sample,
  wilsonInterval,
} from './proportions.ts';
import { classifyOutcome, type RunSummary } from './run-summary.ts';

interface ArmReport {
  runs: number;
  finished: number;
  successes: number;
  /** Share of successes among the finished runs. `success_rate` to `mean_tokens` are null while no run has finished. */
  success_rate: number | null;
  ci95: Interval | null;
  mean_steps: number | null;
  mean_tokens: number | null;
  mean_duration_ms: number | null;
}

interface VersionReport {
  svc_version: string;
  arm: 'on' | 'off';
  runs: number;
  successes: number;
  success_rate: number | null;
}

export interface ExperimentReport {
  experiment_id: string;
  arms: { on: ArmReport; off: ArmReport };
  /** All null until both arms have a finished run. */
  effect: {
    success_rate_diff: number | null;
    ci95: Interval | null;
    p_value: number | null;
    always_valid_ci95: Interval | null;
  };
  srm: {
    expected_on: number;
    /** Share of the units; null without units. */
    observed_on: number | null;
    chi_square: number | null;
    p_value: number | null;
    /** Finite even if the p-value itself is too small for a number. */
    log10_p_value: number | null;
    flagged: boolean;
    /** Units in each arm; a mixed unit counts in its first arm. */
    units: { on: number; off: number };
    /** The verdict on the split. */
    verdict: 'no_units' | 'too_few_units' | 'as_expected' | 'mismatch';
  };
  /** Units with runs in both arms. */
  mixed_units: number;
  /** Names of the first MIXED_NAMES mixed units. */
  mixed_unit_names: string[];
  by_version: VersionReport[];
}

type ArmName = 'on' | 'off';

/** SRM is reported at this level (contract document 4, "Experiments"), which is strict enough for frequent checks. */
const SRM_P_VALUE = 0.001;
/**
 * If fewer units are expected in an arm, SRM is not tested (contract document 4, "Experiments"), because the chi-square
 * approximation fails.
 */
const SRM_UNITS_AN_ARM = 8;
/** Maximum number of named units. */
const MIXED_NAMES = 50;
/** Maximum number of rows of `by_version`: a row is a version in an arm, and those with the most runs are shown. */
const VERSIONS = 200;
/**
 * Maximum number of versions in arms that are counted separately. Runs of further versions count only in the sums of
 * the arms.
 */
const VERSIONS_COUNTED = 10_000;

/** Sums of one arm. */
interface ArmSums {
  runs: number;
  finished: number;
  successes: number;
  steps: number;
  tokens: number;
  duration_ms: number;
}

/** Runs of one unit in one arm. */
interface UnitSums {
  runs: number;
  finished: number;
  successes: number;
}

/** An assignment unit with one or more runs. */
interface Unit {
  on?: UnitSums;
  off?: UnitSums;
  /** The unit's earliest run, and the arm of that run. */
  first: Pick<RunSummary, 'started_at' | 'run_id'> & { arm: ArmName };
}

/** Counts runs; `report` may be called at any time. */
export class ExperimentTally {
  readonly #arms: Record<ArmName, ArmSums> = { on: emptySums(), off: emptySums() };
  /** Sums of the runs without a unit name; each of these runs is a unit. */
  readonly #singles: Record<ArmName, UnitSums> = { on: emptyUnit(), off: emptyUnit() };
  readonly #units = new Map<string, Unit>();
  readonly #versions = new Map<string, UnitSums & { svc_version: string; arm: ArmName }>();

  /**
   * Counts a run.
   * @param run of this experiment; a run without an arm is ignored
   */
  add(run: RunSummary): void {
    const { arm } = run;
    if (arm !== 'on' && arm !== 'off') return;
    const isFinished = run.status === 'finished';
    const isSuccess = isFinished && classifyOutcome(run.outcome) === 'success';
    const sums = this.#arms[arm];
    sums.runs++;
    if (isFinished) {
      sums.finished++;
      sums.steps += run.steps;
      sums.tokens += run.tokens;
      sums.duration_ms += run.duration_ms;
      if (isSuccess) sums.successes++;
    }
    const unit = run.assignment_unit === '' ? this.#singles[arm] : this.#unitOf(run, arm);
    unit.runs++;
    if (isFinished) unit.finished++;
    if (isSuccess) unit.successes++;
    this.#addVersion(run.svc_version, arm, isFinished, isSuccess);
  }

  /**
   * Makes the report.
   * @param expectedOn share of units that should be in `on`, between 0 and 1 exclusive
   */
  report(experiment_id: string, expectedOn: number): ExperimentReport {
    return {
      experiment_id,
      arms: { on: this.#reportArm('on'), off: this.#reportArm('off') },
      effect: this.#reportEffect(),
      srm: this.#reportSrm(expectedOn),
      ...this.#findMixed(),
      by_version: this.#reportVersions(),
    };
  }

  #unitOf(run: RunSummary, arm: ArmName): UnitSums {
    // Two projects may use the same names for different units.
    const key = `${run.project_id}\0${run.assignment_unit}`;
    const { started_at, run_id } = run;
    let unit = this.#units.get(key);
    if (unit === undefined) {
      unit = { first: { started_at, run_id, arm } };
      this.#units.set(key, unit);
    } else if (
      (compareText(started_at, unit.first.started_at) || compareText(run_id, unit.first.run_id)) < 0
    ) {
      unit.first = { started_at, run_id, arm };
    }
    unit[arm] ??= emptyUnit();
    return unit[arm];
  }

  #addVersion(svc_version: string, arm: ArmName, isFinished: boolean, isSuccess: boolean): void {
    const key = `${arm}\0${svc_version}`;
    let version = this.#versions.get(key);
    if (version === undefined) {
      if (this.#versions.size >= VERSIONS_COUNTED) return;
      version = { svc_version, arm, ...emptyUnit() };
      this.#versions.set(key, version);
    }
    version.runs++;
    if (isFinished) version.finished++;
    if (isSuccess) version.successes++;
  }

  #reportVersions(): VersionReport[] {
    return [...this.#versions.values()]
      .sort((a, b) => b.runs - a.runs)
      .slice(0, VERSIONS)
      .sort((a, b) => compareText(a.svc_version, b.svc_version) || compareText(b.arm, a.arm))
      .map(({ svc_version, arm, runs, finished, successes }) => {
        return {
          svc_version,
          arm,
          runs,
          successes,
          success_rate: finished === 0 ? null : successes / finished,
        };
      });
  }

  #reportArm(arm: ArmName): ArmReport {
    const { runs, finished, successes, steps, tokens, duration_ms } = this.#arms[arm];
    const sample = this.#sample(arm, true);
    const mean = (sum: number) => (finished === 0 ? null : sum / finished);
    return {
      runs,
      finished,
      successes,
      success_rate: mean(successes),
      ci95: sample === null ? null : wilsonInterval(sample.rate, sample.size),
      mean_steps: mean(steps),
      mean_tokens: mean(tokens),
      mean_duration_ms: mean(duration_ms),
    };
  }

  #reportEffect(): ExperimentReport['effect'] {
    const [on, off] = [this.#sample('on', false), this.#sample('off', false)];
    if (on === null || off === null) {
      return { success_rate_diff: null, ci95: null, p_value: null, always_valid_ci95: null };
    }
    return {
      success_rate_diff: on.rate - off.rate,
      ci95: newcombeInterval(on, off),
      p_value: pooledPValue(on, off),
      always_valid_ci95: alwaysValidInterval(on, off),
    };
  }

  #reportSrm(expectedOn: number): ExperimentReport['srm'] {
    const counts = { on: this.#singles.on.runs, off: this.#singles.off.runs };
    for (const unit of this.#units.values()) counts[unit.first.arm]++;
    const units = counts.on + counts.off;
    const split = { expected_on: expectedOn, units: counts };
    if (units === 0) {
      const nothing = { observed_on: null, chi_square: null, p_value: null, log10_p_value: null };
      return { ...split, ...nothing, flagged: false, verdict: 'no_units' };
    }
    const chi_square = (counts.on - units * expectedOn) ** 2 / (units * expectedOn * (1 - expectedOn));
    const { p_value, log_p_value } = chiSquareTail(chi_square);
    const isEnough = units * Math.min(expectedOn, 1 - expectedOn) >= SRM_UNITS_AN_ARM;
    const flagged = isEnough && p_value < SRM_P_VALUE;
    const verdict = isEnough ? (flagged ? 'mismatch' : 'as_expected') : 'too_few_units';
    const log10_p_value = log_p_value / Math.LN10;
    return { ...split, observed_on: counts.on / units, chi_square, p_value, log10_p_value, flagged, verdict };
  }

  #findMixed(): Pick<ExperimentReport, 'mixed_units' | 'mixed_unit_names'> {
    const names: string[] = [];
    for (const [key, unit] of this.#units)
      if (unit.on !== undefined && unit.off !== undefined) names.push(key.slice(key.indexOf('\0') + 1));
    return { mixed_units: names.length, mixed_unit_names: names.sort(compareText).slice(0, MIXED_NAMES) };
  }

  /**
   * Computes the rate of an arm with its effective sample size.
   * @param withLater whether runs of a mixed unit in its second arm count
   * @returns null if no run of the arm has finished
   */
  #sample(arm: ArmName, withLater: boolean): Sample | null {
    let { finished, successes } = this.#singles[arm];
    let units = finished;
    let hasSeveral = false;
    for (const unit of this.#units.values()) {
      const mine = unit[arm];
      if (mine === undefined || mine.finished === 0 || (!withLater && unit.first.arm !== arm)) continue;
      finished += mine.finished;
      successes += mine.successes;
      units++;
      hasSeveral ||= mine.finished > 1;
    }
    if (finished === 0) return null;
    const rate = successes / finished;
    if (!hasSeveral) return { rate, size: finished };
    // Delta method: the variance of sum(s)/sum(n) over units is that of the residuals s - rate * n.
    const single = this.#singles[arm];
    let residuals = single.successes * (1 - rate) ** 2 + (single.finished - single.successes) * rate ** 2;
    for (const unit of this.#units.values()) {
      const mine = unit[arm];
      if (mine === undefined || mine.finished === 0 || (!withLater && unit.first.arm !== arm)) continue;
      residuals += (mine.successes - rate * mine.finished) ** 2;
    }
    const binomial = (rate * (1 - rate)) / finished;
    // With one unit, or if all runs are alike, the correlation within units is unknown. Then a unit counts as one
    // run.
    if (units < 2 || binomial === 0) return { rate, size: units };
    const variance = (units / (units - 1)) * (residuals / finished ** 2);
    return { rate, size: finished / Math.max(1, variance / binomial) };
  }
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function emptySums(): ArmSums {
  return { runs: 0, finished: 0, successes: 0, steps: 0, tokens: 0, duration_ms: 0 };
}

function emptyUnit(): UnitSums {
  return { runs: 0, finished: 0, successes: 0 };
}

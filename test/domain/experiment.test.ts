/** The statistics of experiment reports against published and independently computed values, and by simulation. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExperimentTally } from '../../src/domain/experiment.ts';
import {
  alwaysValidInterval,
  chiSquareTail,
  newcombeInterval,
  pooledPValue,
  wilsonInterval,
} from '../../src/domain/proportions.ts';
import type { RunSummary } from '../../src/domain/run-summary.ts';
import { createPrng } from '../../src/std/prng.ts';

let nextRun = 0;

function run(arm: RunSummary['arm'], success: boolean | null, more: Partial<RunSummary> = {}): RunSummary {
  return {
    run_id: `run-${nextRun++}`,
    org_id: 'org',
    project_id: 'default',
    experiment_id: 'exp',
    arm,
    assignment_unit: '',
    svc_version: '',
    status: success === null ? 'running' : 'finished',
    outcome: success === null ? '' : success ? 'success' : 'failure: Timeout',
    steps: 10,
    tokens: 1_000,
    duration_ms: 5_000,
    started_at: '2026-01-01T00:00:00.000Z',
    finished_at: success === null ? null : '2026-01-01T00:00:05.000Z',
    ...more,
  };
}

/** Adds `finished` runs, of which `successes` are successful. */
function fill(tally: ExperimentTally, arm: 'on' | 'off', successes: number, finished: number): void {
  for (let i = 0; i < finished; i++) tally.add(run(arm, i < successes));
}

describe('intervals and tests', () => {
  it.each([
    // Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3 (score).
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
  ])('give the score interval of %i in %i', (successes, size, low, high) => {
    const interval = wilsonInterval(successes / size, size);
    expect(interval[0]).toBeCloseTo(low, 4);
    expect(interval[1]).toBeCloseTo(high, 4);
  });

  it.each([
    // Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10.
    [56, 70, 48, 80, 0.0524, 0.3339],
    [9, 10, 3, 10, 0.1705, 0.809],
    [6, 7, 2, 7, 0.0582, 0.8062],
    [5, 56, 0, 29, -0.0381, 0.1926],
    [10, 10, 0, 10, 0.6075, 1],
  ])('give the interval of %i/%i - %i/%i', (a, m, b, n, low, high) => {
    const interval = newcombeInterval({ rate: a / m, size: m }, { rate: b / n, size: n });
    expect(interval[0]).toBeCloseTo(low, 4);
    expect(interval[1]).toBeCloseTo(high, 4);
  });

  it('give the p-value of the chi-square test without correction', () => {
    // scipy 1.17: chi2_contingency([[56, 14], [48, 32]], correction=False); R: prop.test(c(56, 48), c(70, 80), correct
    // = FALSE)
    const p = pooledPValue({ rate: 56 / 70, size: 70 }, { rate: 48 / 80, size: 80 });
    expect(p).toBeCloseTo(0.008045081368, 10);
    expect(pooledPValue({ rate: 1, size: 5 }, { rate: 1, size: 9 })).toBe(1);
  });

  it('give p = 1 if there is no difference', () => {
    expect(chiSquareTail(0).p_value).toBe(1);
    expect(pooledPValue({ rate: 0.5, size: 20 }, { rate: 0.5, size: 10 })).toBe(1);
  });

  it.each([
    [3.841458820694124, 0.05],
    [10.827566170662733, 0.001],
    [19.6, 9.54691984523815e-6],
  ])('give the tail of chi-square beyond %d', (x, p) => {
    expect(Math.abs(chiSquareTail(x).p_value / p - 1)).toBeLessThan(1e-3);
  });

  it('keep the always-valid interval valid under peeking, unlike the fixed one', () => {
    const random = createPrng(20_260_101);
    const [trials, runsAnArm] = [400, 1_000];
    let [outside, outsideFixed] = [0, 0];
    for (let trial = 0; trial < trials; trial++) {
      let [on, off, missed, missedFixed] = [0, 0, false, false];
      for (let size = 1; size <= runsAnArm; size++) {
        if (random.chance(0.7)) on++;
        if (random.chance(0.6)) off++;
        if (size < 20 || size % 10 > 0) continue;
        const samples = [
          { rate: on / size, size },
          { rate: off / size, size },
        ] as const;
        const [low, high] = alwaysValidInterval(...samples);
        const fixed = newcombeInterval(...samples);
        missed ||= low > 0.1 || high < 0.1;
        missedFixed ||= fixed[0] > 0.1 || fixed[1] < 0.1;
      }
      if (missed) outside++;
      if (missedFixed) outsideFixed++;
    }
    expect(outside / trials).toBeLessThanOrEqual(0.05);
    expect(outsideFixed / trials).toBeGreaterThan(0.15);
  });
});

describe('the report', () => {
  it('is empty but complete before the first run', () => {
    const arm = {
      runs: 0,
      finished: 0,
      successes: 0,
      success_rate: null,
      ci95: null,
      mean_steps: null,
      mean_tokens: null,
      mean_duration_ms: null,
    };
    expect(new ExperimentTally().report('none', 0.5)).toEqual({
      experiment_id: 'none',
      arms: { on: arm, off: arm },
      effect: { success_rate_diff: null, ci95: null, p_value: null, always_valid_ci95: null },
      srm: {
        expected_on: 0.5,
        observed_on: null,
        chi_square: null,
        p_value: null,
        log10_p_value: null,
        flagged: false,
        units: { on: 0, off: 0 },
        verdict: 'no_units',
      },
      mixed_units: 0,
      mixed_unit_names: [],
      by_version: [],
    });
  });

  it('counts and averages finished runs, and skips runs without an arm', () => {
    const tally = new ExperimentTally();
    tally.add(run('on', true, { steps: 4, tokens: 100, duration_ms: 1_000, svc_version: 'b' }));
    tally.add(run('on', false, { steps: 8, tokens: 300, duration_ms: 3_000, svc_version: 'b' }));
    tally.add(run('on', null, { svc_version: 'a' }));
    tally.add(run('off', true, { svc_version: 'a' }));
    tally.add(run('', true));
    tally.add(run('off', null, { outcome: 'success' }));
    const { arms, by_version } = tally.report('exp', 0.5);
    expect(arms.on).toMatchObject({
      runs: 3,
      finished: 2,
      successes: 1,
      success_rate: 0.5,
      mean_steps: 6,
      mean_tokens: 200,
      mean_duration_ms: 2_000,
    });
    expect(arms.off).toMatchObject({ runs: 2, finished: 1, successes: 1, success_rate: 1 });
    expect(by_version).toEqual([
      { svc_version: '', arm: 'off', runs: 1, successes: 0, success_rate: null },
      { svc_version: 'a', arm: 'on', runs: 1, successes: 0, success_rate: null },
      { svc_version: 'a', arm: 'off', runs: 1, successes: 1, success_rate: 1 },
      { svc_version: 'b', arm: 'on', runs: 2, successes: 1, success_rate: 0.5 },
    ]);
  });

  it('reports the effect of single runs by the published formulas', () => {
    const tally = new ExperimentTally();
    fill(tally, 'on', 56, 70);
    fill(tally, 'off', 48, 80);
    const { effect } = tally.report('exp', 0.5);
    expect(effect.success_rate_diff).toBeCloseTo(0.2, 12);
    expect(effect.ci95![0]).toBeCloseTo(0.0524, 4);
    expect(effect.ci95![1]).toBeCloseTo(0.3339, 4);
    expect(effect.p_value).toBeCloseTo(0.008045, 5);
    expect(effect.always_valid_ci95![0]).toBeLessThan(effect.ci95![0]);
    expect(effect.always_valid_ci95![1]).toBeGreaterThan(effect.ci95![1]);
  });

  it('widens the interval by the delta method if the runs of a unit correlate', () => {
    const tally = new ExperimentTally();
    // Successes and finished runs of each unit.
    for (const [unit, [successes, finished]] of [
      [4, 4],
      [0, 4],
      [3, 4],
      [1, 2],
      [2, 2],
    ].entries()) {
      for (let i = 0; i < finished!; i++)
        tally.add(run('on', i < successes!, { assignment_unit: `u${unit}` }));
    }
    fill(tally, 'off', 8, 16);
    const { arms } = tally.report('exp', 0.5);
    expect(arms.on).toMatchObject({ runs: 16, finished: 16, successes: 10, success_rate: 0.625 });
    // numpy: variance of the ratio of means over units 0.0457764, design effect 3.125, effective size 5.12.
    expect(arms.on.ci95![0]).toBeCloseTo(0.24995252186659256, 6);
    expect(arms.on.ci95![1]).toBeCloseTo(0.8928813655183696, 6);
  });

  it('counts a unit that always does the same as one observation', () => {
    const tally = new ExperimentTally();
    for (let unit = 0; unit < 5; unit++) {
      for (let i = 0; i < 20; i++) tally.add(run('on', true, { assignment_unit: `u${unit}` }));
    }
    expect(tally.report('exp', 0.5).arms.on.ci95).toEqual(wilsonInterval(1, 5));
  });

  it('names a unit in both arms, and uses the runs of its first arm', () => {
    const tally = new ExperimentTally();
    const clean = new ExperimentTally();
    for (const target of [tally, clean]) {
      for (let i = 0; i < 30; i++) target.add(run('on', i % 2 === 0, { assignment_unit: `on-${i}` }));
      for (let i = 0; i < 30; i++) target.add(run('off', i % 3 === 0, { assignment_unit: `off-${i}` }));
    }
    const assignment_unit = 'mixed';
    const at = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, '0')}.000Z`;
    // Runs arrive in any order: the one that started first is the third here.
    for (const second of [5, 4, 2, 3])
      tally.add(run(second < 4 ? 'off' : 'on', true, { assignment_unit, started_at: at(second) }));
    for (let i = 0; i < 2; i++) clean.add(run('off', true, { assignment_unit }));
    const [report, expected] = [tally.report('exp', 0.5), clean.report('exp', 0.5)];
    expect(report.effect).toEqual(expected.effect);
    expect(report.srm).toEqual(expected.srm);
    expect(report).toMatchObject({ mixed_units: 1, mixed_unit_names: ['mixed'] });
    expect(expected).toMatchObject({ mixed_units: 0, mixed_unit_names: [] });
    expect(report.arms.on.runs).toBe(32);
  });

  it('has the right sign if most units changed their arm', () => {
    const tally = new ExperimentTally();
    const prng = createPrng(7);
    for (let unit = 0; unit < 400; unit++) {
      const assignment_unit = `u${unit}`;
      const first = prng.chance(0.5) ? 'on' : 'off';
      // `on` is better, and a unit changes its arm after each failure, so the units that stay in one arm look alike.
      for (let i = 0, arm: 'on' | 'off' = first; i < 4; i++) {
        const isSuccess = prng.chance(arm === 'on' ? 0.7 : 0.4);
        tally.add(run(arm, isSuccess, { assignment_unit, started_at: `2026-01-01T00:00:0${i}.000Z` }));
        if (!isSuccess) arm = arm === 'on' ? 'off' : 'on';
      }
    }
    const { effect, mixed_units } = tally.report('exp', 0.5);
    expect(mixed_units).toBeGreaterThan(200);
    expect(effect.ci95![0]).toBeGreaterThan(0);
  });

  it('does not treat the same name in two projects as one unit', () => {
    const tally = new ExperimentTally();
    tally.add(run('on', true, { assignment_unit: 'u', project_id: 'a' }));
    tally.add(run('off', true, { assignment_unit: 'u', project_id: 'b' }));
    expect(tally.report('exp', 0.5).effect.success_rate_diff).toBe(0);
  });
});

describe('sample ratio mismatch', () => {
  /** Units of one run each. */
  function srmOf(on: number, off: number, expected = 0.5) {
    const tally = new ExperimentTally();
    for (let i = 0; i < on; i++) tally.add(run('on', null, { assignment_unit: `on-${i}` }));
    for (let i = 0; i < off; i++) tally.add(run('off', null));
    return tally.report('exp', expected).srm;
  }

  it('is Pearson’s test on units', () => {
    // scipy: chisquare([430, 570], [500, 500]) = 19.6, p = 9.547e-06
    const srm = srmOf(430, 570);
    expect(srm.chi_square).toBeCloseTo(19.6, 10);
    expect(srm.p_value).toBeCloseTo(9.547e-6, 8);
    expect(srm).toMatchObject({ observed_on: 0.43, flagged: true });
    expect(srmOf(60, 20, 0.75)).toMatchObject({ chi_square: 0, flagged: false });
    expect(srmOf(60, 20, 0.75).p_value).toBeCloseTo(1, 12);
  });

  it('is reported below 0.001, with a note if too few units are expected in an arm', () => {
    expect(srmOf(40, 8)).toMatchObject({ flagged: true, verdict: 'mismatch' });
    // An arm that should have twenty units has none.
    expect(srmOf(40, 0)).toMatchObject({ flagged: true, verdict: 'mismatch', units: { on: 40, off: 0 } });
    expect(srmOf(15, 0)).toMatchObject({ flagged: false, verdict: 'too_few_units', observed_on: 1 });
    expect(srmOf(16, 0)).toMatchObject({ flagged: true, verdict: 'mismatch' });
    expect(srmOf(60, 30)).toMatchObject({ flagged: false, verdict: 'as_expected' });
    expect(srmOf(60, 30).p_value).toBeGreaterThan(0.001);
    expect(srmOf(0, 0)).toMatchObject({ flagged: false, verdict: 'no_units', log10_p_value: null });
  });

  it.each([
    // Upper tails of the chi-square distribution with one degree of freedom by erfc(sqrt(x / 2)) to 60 digits.
    [0.5, 0.4795001221869535, -0.31921127782572034],
    [3.841458820694124, 0.05000000000000006, -1.3010299956639806],
    [7.9, 0.004943479736228247, -2.3059672417166577],
    [8.1, 0.004426525857919831, -2.3539369944695268],
    [19.6, 9.546919845238153e-6, -5.02013672370271],
    [50, 1.537459794428035e-12, -11.813196232486758],
    [150, 1.7336432457178264e-34, -33.76104026808051],
    [400, 5.5072482372124675e-89, -88.2590653474116],
    [1300, 1.1303728441492743e-284, -283.9467782844378],
    [2000, 0.0, -436.043273716073],
  ])('keeps its digits in the tail: %d', (chiSquare, p, log10) => {
    const { p_value, log_p_value } = chiSquareTail(chiSquare);
    if (p > 0) expect(p_value / p).toBeCloseTo(1, 9);
    else expect(p_value).toBe(0);
    expect(log_p_value / Math.LN10 / log10).toBeCloseTo(1, 11);
  });

  it('counts units, not runs', () => {
    const tally = new ExperimentTally();
    for (let i = 0; i < 500; i++) tally.add(run('on', true, { assignment_unit: `on-${i % 10}` }));
    for (let i = 0; i < 10; i++) tally.add(run('off', true, { assignment_unit: `off-${i}` }));
    expect(tally.report('exp', 0.5).srm).toMatchObject({ observed_on: 0.5, flagged: false });
  });
});

describe('the report of arbitrary runs', () => {
  it('stays within its ranges and does not depend on their order', () => {
    const anyRun = fc.record({
      arm: fc.constantFrom('on' as const, 'off' as const, '' as const),
      success: fc.constantFrom(true, false, null),
      unit: fc.constantFrom('', 'a', 'b', 'c', '__proto__'),
      version: fc.constantFrom('', '1', 'constructor'),
    });
    fc.assert(
      fc.property(
        fc.array(anyRun, { maxLength: 60 }),
        fc.double({ min: 0.01, max: 0.99, noNaN: true }),
        (list, share) => {
          const [forward, backward] = [new ExperimentTally(), new ExperimentTally()];
          const runs = list.map(({ arm, success, unit, version }) =>
            run(arm, success, { assignment_unit: unit, svc_version: version }),
          );
          for (const run of runs) forward.add(run);
          for (const run of runs.toReversed()) backward.add(run);
          const report = forward.report('exp', share);
          const numbers = JSON.stringify(report, (_, value) =>
            typeof value === 'number' ? Number(value.toFixed(9)) : value,
          );
          const other = JSON.stringify(backward.report('exp', share), (_, value) =>
            typeof value === 'number' ? Number(value.toFixed(9)) : value,
          );
          expect(other).toBe(numbers);
          for (const arm of [report.arms.on, report.arms.off]) {
            if (arm.ci95 === null) expect(arm.finished).toBe(0);
            else {
              expect(arm.ci95[0]).toBeGreaterThanOrEqual(0);
              expect(arm.ci95[0]).toBeLessThanOrEqual(arm.success_rate! + 1e-12);
              expect(arm.ci95[1]).toBeGreaterThanOrEqual(arm.success_rate! - 1e-12);
              expect(arm.ci95[1]).toBeLessThanOrEqual(1);
            }
          }
          const { effect } = report;
          if (effect.success_rate_diff !== null) {
            for (const [low, high] of [effect.ci95!, effect.always_valid_ci95!]) {
              expect(low).toBeGreaterThanOrEqual(-1);
              expect(high).toBeLessThanOrEqual(1);
              expect(low).toBeLessThanOrEqual(effect.success_rate_diff + 1e-9);
              expect(high).toBeGreaterThanOrEqual(effect.success_rate_diff - 1e-9);
            }
            expect(effect.p_value).toBeGreaterThanOrEqual(0);
            expect(effect.p_value).toBeLessThanOrEqual(1);
          }
        },
      ),
    );
  });
});

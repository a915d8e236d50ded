/** What a command that runs for minutes prints about its progress, on a terminal and elsewhere. */
import { describe, expect, it } from 'vitest';
import { Progress } from '../../src/cli/progress.ts';
import { describeRemaining, RemainingTime } from '../../src/cli/remaining-time.ts';

describe('the remaining time', () => {
  it('follows from the pace of the last half minute', () => {
    const remaining = new RemainingTime();
    expect(remaining.estimate(0, 0, 1_000)).toBeNull();
    expect(remaining.estimate(1_000, 10, 1_000)).toBeNull();
    // At 10 per second, the remaining 980 take 98 s.
    expect(remaining.estimate(2_000, 20, 1_000)).toBe(98_000);
    // Nothing is finished for 2 s, so the estimated speed falls.
    expect(remaining.estimate(4_000, 20, 1_000)).toBe(196_000);
    // After a minute at 1 per second, the faster beginning no longer counts.
    for (let second = 5; second < 65; second += 1) remaining.estimate(second * 1_000, 16 + second, 1_000);
    expect(remaining.estimate(65_000, 81, 1_000)).toBeCloseTo(919_000, 0);
  });

  it('is unknown at the beginning of a new part, and without a total', () => {
    const remaining = new RemainingTime();
    remaining.estimate(0, 0, 10);
    expect(remaining.estimate(5_000, 5, 10)).toBe(5_000);
    expect(remaining.estimate(6_000, 6, 34)).toBeNull();
    expect(remaining.estimate(9_000, 7, 34)).toBe(81_000);
    expect(remaining.estimate(10_000, 0, 34)).toBeNull();
    expect(remaining.estimate(20_000, 5, 0)).toBeNull();
    expect(remaining.estimate(40_000, 9, 0)).toBeNull();
  });

  it('is not shown when everything is finished', () => {
    const remaining = new RemainingTime();
    remaining.estimate(0, 0, 10);
    expect(remaining.estimate(5_000, 10, 10)).toBeNull();
  });

  it.each([
    [0, 'about 0 s left'],
    [89_001, 'about 2 min left'],
    [40_000, 'about 40 s left'],
    [5 * 60_000, 'about 5 min left'],
    [3 * 3_600_000, 'about 3 h left'],
  ])('is described in words for %i ms', (ms, words) => {
    expect(describeRemaining(ms)).toBe(words);
  });
});

/** A command's standard error, with a clock that the test sets. */
function watch(terminal: boolean, hasLines: boolean) {
  const clock = { ms: 0 };
  const told: string[] = [];
  const io = {
    out: async () => {},
    err: (text: string) => void told.push(text),
    is_terminal: terminal,
    has_color: false,
    shows_progress: terminal,
  };
  return { clock, told, progress: new Progress(io, () => clock.ms, hasLines) };
}

describe('progress', () => {
  it('is one updated line on a terminal, with the share and the remaining time', () => {
    const { clock, told, progress } = watch(true, true);
    progress.announce('calibrating on 90 runs, 1 of 4', 0, 34);
    clock.ms = 10_000;
    progress.tell('calibrating on 90 runs, 1 of 4', 1, 34);
    clock.ms = 12_000;
    progress.repeat();
    progress.clear();
    expect(told).toEqual([
      '\r\x1b[Kcalibrating on 90 runs, 1 of 4',
      '\r\x1b[Kcalibrating on 90 runs, 1 of 4 (2 %, about 6 min left)',
      '\r\x1b[Kcalibrating on 90 runs, 1 of 4 (2 %, about 7 min left)',
      '\r\x1b[K',
    ]);
  });

  it('is one line each half minute without a terminal, and no line for quick work', () => {
    const { clock, told, progress } = watch(false, true);
    progress.announce('reading runs', 0, 100);
    for (clock.ms = 1_000; clock.ms < 75_000; clock.ms += 1_000) {
      progress.tell('reading\nruns', clock.ms / 1_000, 100);
      if (clock.ms === 29_000) expect(told).toEqual([]);
    }
    progress.clear();
    expect(told).toHaveLength(2);
    expect(told[0]).toMatch(/^progress: reading.runs \(30 %, about 70 s left\)\n$/);
    expect(told[1]).toContain('(60 %, about 40 s left)');
  });

  it('is not shown without a terminal for quick commands', () => {
    const { clock, told, progress } = watch(false, false);
    progress.announce('listing');
    clock.ms = 100_000;
    progress.tell('listing', 5, 10);
    progress.repeat();
    progress.clear();
    expect(told).toEqual([]);
  });
});

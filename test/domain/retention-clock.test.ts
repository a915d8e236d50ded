/**
 * Whether deletion by age may trust the clock: after a jump that the uptime does not explain, data ages by one day at
 * most.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CLOCK_SLACK_MS,
  type ClockReading,
  cutoffsOf,
  judgeClock,
  OFF_MS_MAX,
  UNCONFIRMED_MS,
} from '../../src/domain/retention-clock.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW = Date.parse('2026-11-28T12:00:00.000Z');
const LAST: ClockReading = { wall_ms: NOW, uptime_ms: 5 * DAY_MS, boot_id: 'a' };
const moved = (wallMs: number, upMs: number, boot_id = 'a'): ClockReading => ({
  wall_ms: LAST.wall_ms + wallMs,
  uptime_ms: boot_id === 'a' ? LAST.uptime_ms + upMs : upMs,
  boot_id,
});

/** Between two deletion passes: the time that passes, and how far the wall clock is set. */
const step = fc.record({
  passed_ms: fc.integer({ min: 0, max: 40 * DAY_MS }),
  jump_ms: fc.oneof(
    fc.constant(0),
    fc.integer({ min: -20 * DAY_MS, max: 20 * DAY_MS }),
    fc.integer({ min: -5_000 * DAY_MS, max: 5_000 * DAY_MS }),
  ),
  restarts: fc.boolean(),
});

describe('the clock for deletion by age', () => {
  it('is accepted at the first pass, and later if the uptime explains the elapsed time', () => {
    expect(judgeClock(null, LAST)).toEqual({ verdict: 'accepted', now_ms: NOW, note: LAST });
    for (const upMs of [0, 10 * 60_000, DAY_MS, 400 * DAY_MS]) {
      const now = moved(upMs + CLOCK_SLACK_MS, upMs);
      expect(judgeClock(LAST, now)).toEqual({ verdict: 'accepted', now_ms: now.wall_ms, note: now });
      expect(judgeClock(LAST, moved(upMs + CLOCK_SLACK_MS + 1, upMs)).verdict).toBe('ahead');
    }
  });

  it('is accepted across a start of the machine for 30 days, because the time off is unknown', () => {
    expect(judgeClock(LAST, moved(OFF_MS_MAX, 60_000, 'b')).verdict).toBe('accepted');
    expect(judgeClock(LAST, moved(OFF_MS_MAX + 1, 60_000, 'b')).verdict).toBe('ahead');
    // A lower uptime shows that the machine was started again, even with the same boot id.
    expect(judgeClock(LAST, moved(DAY_MS, -1)).verdict).toBe('accepted');
  });

  it('adds one day of age after a jump of ten years, however often it is judged', () => {
    for (const upMs of [0, HOUR_MS, 9 * DAY_MS]) {
      const judged = judgeClock(LAST, moved(3_650 * DAY_MS, upMs));
      expect(judged).toEqual({ verdict: 'ahead', now_ms: NOW + UNCONFIRMED_MS, note: null });
    }
    expect(judgeClock(LAST, moved(2 * HOUR_MS, 0)).now_ms).toBe(NOW + 2 * HOUR_MS);
  });

  it('may be set back and return: meanwhile nothing is recorded, and ages count by the clock as it is', () => {
    const back = judgeClock(LAST, moved(-3_650 * DAY_MS, 60_000));
    expect(back).toEqual({ verdict: 'behind', now_ms: NOW - 3_650 * DAY_MS, note: null });
    expect(judgeClock(LAST, moved(-CLOCK_SLACK_MS, 0))).toMatchObject({ verdict: 'accepted', note: null });
    expect(judgeClock(LAST, moved(120_000, 120_000)).verdict).toBe('accepted');
  });

  it('adds no age while the record cannot be read', () => {
    expect(judgeClock('unreadable', LAST)).toEqual({ verdict: 'unknown', now_ms: 0, note: null });
  });

  it('never adds more age than has passed and the bounds allow', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 20 }), (steps) => {
        let last: ClockReading = LAST;
        let now = { ...LAST };
        let boot = 0;
        for (const { passed_ms, jump_ms, restarts } of steps) {
          if (restarts) boot++;
          now = {
            wall_ms: now.wall_ms + passed_ms + jump_ms,
            uptime_ms: restarts ? Math.min(passed_ms, HOUR_MS) : now.uptime_ms + passed_ms,
            boot_id: boot === 0 ? 'a' : `b${boot}`,
          };
          const judged = judgeClock(last, now);
          const upMs = now.boot_id === last.boot_id ? now.uptime_ms - last.uptime_ms : null;
          const explainedMs = upMs === null ? OFF_MS_MAX : upMs + CLOCK_SLACK_MS;
          // Ages never count from a time after the wall clock, nor later than the explained time plus one day.
          expect(judged.now_ms).toBeLessThanOrEqual(now.wall_ms);
          expect(judged.now_ms - last.wall_ms).toBeLessThanOrEqual(Math.max(explainedMs, UNCONFIRMED_MS));
          // Only an accepted pass changes the record, and never to an earlier time.
          if (judged.verdict !== 'accepted') {
            expect(judged.note).toBeNull();
            expect(judged.now_ms - last.wall_ms).toBeLessThanOrEqual(UNCONFIRMED_MS);
          } else expect(judged.now_ms).toBe(now.wall_ms);
          if (judged.note !== null) {
            expect(judged.note.wall_ms).toBeGreaterThanOrEqual(last.wall_ms);
            last = judged.note;
          }
        }
      }),
    );
  });

  it('shows for each kind how much age a confirmation would add', () => {
    const judged = judgeClock(LAST, moved(10 * DAY_MS, 0));
    expect(cutoffsOf(judged, NOW + 10 * DAY_MS, { runs: 30, traces: null })).toEqual({
      runs: { deleted_before: '2026-10-30T12:00:00.000Z', confirmed_before: '2026-11-08T12:00:00.000Z' },
    });
  });
});

/**
 * Whether deletion by age may trust the wall clock. A clock that jumps ahead makes everything old at once. So after a
 * jump that the uptime of the machine does not explain, at most one more day is deleted until an operator confirms the
 * clock. Pure; any thread.
 */

/**
 * Deletion by age: how often it looks for expired rows, how many rows it deletes at a time, the pause after each
 * portion, and how often it warns while it waits for a confirmation of the clock.
 */
export const RETENTION = { every_ms: 600_000, rows: 50, pause_ms: 20, warn_every_ms: 3_600_000 };

/** The wall clock and the uptime of the machine. */
export interface ClockReading {
  wall_ms: number;
  /** Time since the machine started (`boot_id`). */
  uptime_ms: number;
  /** Identifies this start of the machine. */
  boot_id: string;
}

/**
 * `accepted`: the machine's uptime explains the clock, or this is the first pass. `ahead`, `behind`: the uptime does
 * not explain it. `unknown`: the note of the last accepted pass is not readable.
 */
export type ClockVerdict = 'accepted' | 'ahead' | 'behind' | 'unknown';

export interface ClockJudgement {
  verdict: ClockVerdict;
  /** The time from which ages count; never later than the wall clock. */
  now_ms: number;
  /** The note for the next pass; null: unchanged. */
  note: ClockReading | null;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A correction may move the clock this far without counting as a jump. */
export const CLOCK_SLACK_MS = HOUR_MS;
/**
 * It is unknown how long a machine was off before a restart. If the clock advanced by more than this between a pass
 * before the restart and one after it, it jumped.
 */
export const OFF_MS_MAX = 30 * DAY_MS;
/**
 * While deletion waits for a confirmation of the clock, ages are counted from at most this long after the last accepted
 * pass. So a wrong clock makes only that much more data old.
 */
export const UNCONFIRMED_MS = DAY_MS;

/**
 * Judges the clock at the beginning of a pass.
 * @param last the clock at the last accepted pass; null before the first, when nothing can be compared
 */
export function judgeClock(last: ClockReading | 'unreadable' | null, now: ClockReading): ClockJudgement {
  if (last === 'unreadable') return { verdict: 'unknown', now_ms: Math.min(0, now.wall_ms), note: null };
  if (last === null) return { verdict: 'accepted', now_ms: now.wall_ms, note: now };
  const advancedMs = now.wall_ms - last.wall_ms;
  if (advancedMs > explainedMs(last, now))
    return { verdict: 'ahead', now_ms: last.wall_ms + Math.min(advancedMs, UNCONFIRMED_MS), note: null };
  // The note keeps the later time. So a clock that returns to it does not count as having jumped.
  if (advancedMs < 0)
    return { verdict: advancedMs < -CLOCK_SLACK_MS ? 'behind' : 'accepted', now_ms: now.wall_ms, note: null };
  return { verdict: 'accepted', now_ms: now.wall_ms, note: now };
}

/**
 * Computes the longest time that can have passed between the two readings: by the machine's uptime, or OFF_MS_MAX if
 * the machine has restarted in between.
 */
function explainedMs(last: ClockReading, now: ClockReading): number {
  const upMs = now.uptime_ms - last.uptime_ms;
  return now.boot_id === last.boot_id && upMs >= 0 ? upMs + CLOCK_SLACK_MS : OFF_MS_MAX;
}

/** The times up to which a kind of data is deleted now, and would be deleted after a confirmation. */
export interface Cutoff {
  deleted_before: string;
  confirmed_before: string;
}

/**
 * Computes for each kind of data up to which time it is deleted now, and would be deleted after a confirmation of the
 * clock.
 * @param wallMs the wall clock, in milliseconds since the epoch
 * @param days for which each kind is kept; null: without limit, and the result leaves the kind out
 */
export function cutoffsOf(
  { now_ms }: Pick<ClockJudgement, 'now_ms'>,
  wallMs: number,
  days: Readonly<Record<string, number | null>>,
): Record<string, Cutoff> {
  const at = (ms: number) => new Date(ms).toISOString();
  return Object.fromEntries(
    Object.entries(days).flatMap(([kind, kept]) =>
      kept === null
        ? []
        : [
            [
              kind,
              { deleted_before: at(now_ms - kept * DAY_MS), confirmed_before: at(wallMs - kept * DAY_MS) },
            ],
          ],
    ),
  );
}

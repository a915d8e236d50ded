/** Estimates how long a part of some work still takes, from its recent pace. Pure; main thread. */

/** The pace is measured over at least this time, because work often begins faster or slower than it continues. */
const PACE_MS = 30_000;
/** An estimate needs this much observed time. */
const OBSERVED_MS = 2_000;
/** Maximum number of observations: one for each second of the pace, and one before it. */
const OBSERVATIONS = 32;
const OBSERVED_EVERY_MS = 1_000;

interface Observation {
  at_ms: number;
  done: number;
}

/** Estimates the remaining time of each part of the work, one part after the other. */
export class RemainingTime {
  readonly #seen: Observation[] = [];
  #of = 0;

  /**
   * Takes a count of finished units. Another total, or fewer finished units, means that another part has begun.
   * @returns milliseconds; null while the pace is unknown, and when all units are finished
   */
  estimate(nowMs: number, done: number, of: number): number | null {
    const last = this.#seen.at(-1);
    if (of !== this.#of || (last !== undefined && done < last.done)) this.#seen.length = 0;
    this.#of = of;
    this.#observe({ at_ms: nowMs, done });
    const first = this.#seen[0]!;
    const observedMs = nowMs - first.at_ms;
    if (done >= of || done === first.done || observedMs < OBSERVED_MS) return null;
    return (observedMs / (done - first.done)) * (of - done);
  }

  #observe(now: Observation): void {
    const seen = this.#seen;
    const last = seen.at(-1);
    // Observe only when a unit is done, so that units that take minutes each are measured from end to end.
    if (last === undefined || (now.done > last.done && now.at_ms - last.at_ms >= OBSERVED_EVERY_MS))
      seen.push(now);
    while (seen.length > OBSERVATIONS || (seen.length > 2 && now.at_ms - seen[1]!.at_ms > PACE_MS))
      seen.shift();
  }
}

/** Describes a remaining time: `about 2 min left`, `about 40 s left`. */
export function describeRemaining(ms: number): string {
  const seconds = Math.ceil(ms / 1_000);
  if (seconds < 90) return `about ${seconds} s left`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `about ${minutes} min left`;
  return `about ${Math.round(minutes / 60)} h left`;
}

/**
 * The seven keys of `fsmThresholds`, which determine when the difficulty machine changes its state,
 * with their defaults and bounds. Any thread.
 */

/**
 * When the difficulty machine changes its state. Thresholds and the margin are difficulties, in [0, 1]. Windows are
 * numbers of steps.
 */
export interface FsmThresholds {
  /**
   * SLOW ends when the mean of the last `fastWindow` difficulties is at most this, and below `slowThreshold` by more
   * than the margin.
   */
  fastThreshold: number;
  /** SLOW begins when the mean of the last `slowWindow` difficulties is at least this. */
  slowThreshold: number;
  /** FAST changes to SKIP when the mean of the last `skipWindow` difficulties is at most this. SLOW never does. */
  skipThreshold: number;
  /**
   * SLOW and SKIP end only when the mean of the last `fastWindow` difficulties has passed the threshold at which they
   * began by more than this margin. SKIP also ends when SLOW begins.
   */
  hysteresisMargin: number;
  fastWindow: number;
  slowWindow: number;
  skipWindow: number;
}

/**
 * These values were chosen on 3,500 steps of public agents (docs/difficulty.md). Half of the steps score below 0.09,
 * and one in ten above 0.24. Two hard steps select the slow model, three ordinary steps return to the fast model, and
 * four easy steps lead to SKIP.
 */
const DEFAULT_THRESHOLDS: Readonly<FsmThresholds> = {
  fastThreshold: 0.15,
  slowThreshold: 0.3,
  skipThreshold: 0.06,
  hysteresisMargin: 0.05,
  fastWindow: 3,
  slowWindow: 2,
  skipWindow: 4,
};

/** Maximum number of difficulty scores that the state machine keeps. */
const WINDOW_MAX = 1_000;

/**
 * Returns the defaults, replaced by the given values.
 * @param given differences from the defaults; undefined values are ignored
 * @throws RangeError, which names the key, for an unknown key, a number out of range, or thresholds in the wrong order
 */
export function readThresholds(given: Partial<FsmThresholds> = {}): Readonly<FsmThresholds> {
  const read: FsmThresholds = { ...DEFAULT_THRESHOLDS };
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(DEFAULT_THRESHOLDS, key)) {
      const known = Object.keys(DEFAULT_THRESHOLDS).join(', ');
      throw new RangeError(`fsmThresholds.${key} is unknown; the keys are ${known}`);
    }
    if (value === undefined) continue;
    const name = key as keyof FsmThresholds;
    if (name.endsWith('Window')) {
      if (!Number.isInteger(value) || value < 1 || value > WINDOW_MAX)
        throw new RangeError(`fsmThresholds.${name} must be a whole number from 1 to ${WINDOW_MAX}`);
    } else if (typeof value !== 'number' || !(value >= 0 && value <= 1)) {
      throw new RangeError(`fsmThresholds.${name} must be a number from 0 to 1`);
    }
    read[name] = value;
  }
  if (read.skipThreshold > read.fastThreshold || read.fastThreshold > read.slowThreshold) {
    const order = `${read.skipThreshold}, ${read.fastThreshold}, ${read.slowThreshold}`;
    throw new RangeError(
      `fsmThresholds must increase in the order skipThreshold, fastThreshold, slowThreshold; they are ${order}`,
    );
  }
  return Object.freeze(read);
}

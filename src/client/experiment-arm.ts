/**
 * Assigns a unit to an arm of an experiment. The result for a unit is the same on every machine and
 * in the clients of both languages. Pure; any thread.
 */
import { startOfSha256 } from './sha256.ts';

export type Arm = 'on' | 'off';

/**
 * Computes SHA-256 over `experiment_id`, a zero byte and the unit, and takes the first 32 bits as a share of 2^32. The
 * arm is `on` if this share is below `onShare`.
 * @param onShare share of the units that are `on`, in [0, 1]
 */
export function assignArm(experimentId: string, unit: string, onShare = 0.5): Arm {
  return startOfSha256(`${experimentId}\0${unit}`) / 2 ** 32 < onShare ? 'on' : 'off';
}

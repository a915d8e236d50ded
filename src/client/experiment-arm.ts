/**
 * Which arm of an experiment a unit is in: the same for the same unit, on every machine and in both languages. Pure; any thread.
 */
import { createHash } from 'node:crypto';

export type Arm = 'on' | 'off';

/**
 * The first 32 bits of SHA-256 over `experiment_id`, a zero byte and the unit, as a share of 2^32: `on` where it is below.
 * @param onShare of the units that are `on`, in [0, 1]
 */
export function assignArm(experimentId: string, unit: string, onShare = 0.5): Arm {
  const digest = createHash('sha256').update(`${experimentId}\0${unit}`, 'utf8').digest();
  return digest.readUInt32BE(0) / 2 ** 32 < onShare ? 'on' : 'off';
}

/**
 * Seals the live file when it has grown large or old. LMDB never makes a file smaller: pages that a long reader has kept from being
 * used again stay in it. A sealed file is written anew, without free pages, and takes no more than what it holds. Capture
 * process.
 */
import { type Clock, systemClock } from '../../std/clock.ts';

/** The log, as far as it is needed. */
interface SealableLog {
  /** When the first exchange of the live file began; null: it holds none. */
  readFirstStart(): Promise<number | null>;
  rotate(): Promise<unknown>;
  stats(): { bytes: number; packing: { unindexed: number } };
}

const DAY_MS = 86_400_000;

/** When a live file is sealed. */
interface SealLimits {
  /** It has so many bytes. */
  bytes: number;
  /** It has at least so many, and its first exchange is so old. Smaller files are not sealed: each costs readers an open file. */
  old_bytes: number;
  old_ms: number;
}

export const SEAL_LIMITS: SealLimits = { bytes: 1 << 30, old_bytes: 64 << 20, old_ms: DAY_MS };
/** Sealing waits for the index while it lacks more, until the file is twice as large: the new file would lack their runs. */
const UNINDEXED_MAX = 10_000;

/** Whether the live file is due. @param ageMs of its first exchange; null: it holds none */
export function isDueForSealing(
  bytes: number,
  ageMs: number | null,
  unindexed: number,
  limits: SealLimits = SEAL_LIMITS,
): boolean {
  if (ageMs === null) return false;
  if (unindexed > UNINDEXED_MAX && bytes < 2 * limits.bytes) return false;
  return bytes >= limits.bytes || (bytes >= limits.old_bytes && ageMs >= limits.old_ms);
}

/** Looks once, and seals the live file if it is due. @returns whether it was. @throws the storage's error */
export async function sealWhenDue(
  log: SealableLog,
  limits: SealLimits = SEAL_LIMITS,
  clock: Pick<Clock, 'wallMs'> = systemClock,
): Promise<boolean> {
  const { bytes, packing } = log.stats();
  // Nearly always: the first exchange is not read for it.
  if (bytes < limits.old_bytes) return false;
  const first = await log.readFirstStart();
  const ageMs = first === null ? null : clock.wallMs() - first;
  if (!isDueForSealing(bytes, ageMs, packing.unindexed, limits)) return false;
  await log.rotate();
  return true;
}

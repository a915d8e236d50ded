/**
 * Seals the live file when it is large or old, or when half of it is unused. LMDB never shrinks a file. Free pages stay
 * in it: those that an erasure freed, and those that could not be reused during a long read. A sealed file is a copy
 * without free pages. Capture process.
 */
import { type Clock, systemClock } from '../../std/clock.ts';

/** The methods of the log that sealing needs. */
interface SealableLog {
  /** Start time of the first exchange in the live file; null if it is empty. */
  readFirstStart(): Promise<number | null>;
  rotate(): Promise<unknown>;
  stats(): { packed_bytes: number; unused_bytes: number; packing: { unindexed: number } };
}

const DAY_MS = 86_400_000;

/** When a live file is sealed. */
interface SealLimits {
  /** A file is sealed when it has this size. Here and below, its waiting blocks count as if they were packed. */
  bytes: number;
  /**
   * A file of at least `old_bytes` is sealed when its first exchange is `old_ms` old. Smaller files are not sealed by
   * age, because readers must open each sealed file.
   */
  old_bytes: number;
  old_ms: number;
  /** A file of any size is sealed when its first exchange is this old; null: there is no such limit. */
  any_ms: number | null;
  /** A file of at least this size is sealed when half of it is unused. */
  wasteful_bytes: number;
}

export const SEAL_LIMITS: SealLimits = {
  bytes: 1 << 30,
  old_bytes: 64 << 20,
  old_ms: DAY_MS,
  any_ms: null,
  wasteful_bytes: 16 << 20,
};
/**
 * While the index lacks more exchanges than this, sealing waits until the file has twice the size. The reason is that
 * turns in the next file can continue only conversations that are indexed.
 */
const UNINDEXED_MAX = 10_000;

/** Whether the live file is due for sealing. @param ageMs age of its first exchange; null if it is empty */
export function isDueForSealing(
  bytes: number,
  ageMs: number | null,
  unindexed: number,
  limits: SealLimits = SEAL_LIMITS,
): boolean {
  if (ageMs === null) return false;
  if (unindexed > UNINDEXED_MAX && bytes < 2 * limits.bytes) return false;
  if (limits.any_ms !== null && ageMs >= limits.any_ms) return true;
  return bytes >= limits.bytes || (bytes >= limits.old_bytes && ageMs >= limits.old_ms);
}

/** Checks once, and seals the live file if it is due. @returns whether it was sealed. @throws the storage's error */
export async function sealWhenDue(
  log: SealableLog,
  limits: SealLimits = SEAL_LIMITS,
  clock: Pick<Clock, 'wallMs'> = systemClock,
): Promise<boolean> {
  const { packed_bytes: bytes, unused_bytes, packing } = log.stats();
  const isWasteful = bytes >= limits.wasteful_bytes && unused_bytes >= bytes / 2;
  // The usual case: the first exchange need not be read.
  if (bytes < limits.old_bytes && !isWasteful && limits.any_ms === null) return false;
  const first = await log.readFirstStart();
  const ageMs = first === null ? null : clock.wallMs() - first;
  const isUseful = isWasteful && first !== null && packing.unindexed <= UNINDEXED_MAX;
  if (!isUseful && !isDueForSealing(bytes, ageMs, packing.unindexed, limits)) return false;
  await log.rotate();
  return true;
}

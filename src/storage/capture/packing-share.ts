/**
 * How much of one core may go into what was put off while exchanges came: packing raw blocks, and the index. Some share is
 * always there, and it grows with what waits, so that under a load without a pause what waits comes to rest where as much is
 * packed as comes in. The share changes little by little with the backlog, so nothing swings. Pure;
 * capture process.
 */

/** What was put off. */
export interface TidyBacklog {
  waiting_blocks: number;
  waiting_bytes: number;
  /** Seconds since the oldest of them was stored; 0 without any. */
  oldest_s: number;
  /** Exchanges that the index does not have yet. */
  unindexed: number;
}

/** The share that is always there. */
export const LEAST_SHARE = 0.05;
/** The largest for packing: the rest is for what comes. */
const PACKING_SHARE_MAX = 0.5;
/** The same for the index: readers can do without it, only slower. */
const INDEX_SHARE_MAX = 0.1;
/**
 * Packing gets its largest share when as many bytes wait as the database holds, for then the disk holds twice what it would
 * at rest; or so many, since a young database holds next to nothing.
 */
const WAITING_BYTES = 2 ** 31;
/** The same when the oldest block has waited so long. */
const WAITING_S = 600;
/** The index gets its largest share when it lacks so many exchanges. */
const UNINDEXED = 500_000;

/** 0: nothing waits to be packed; 1: as much as may. */
export function measurePackingNeed(backlog: TidyBacklog, packedBytes: number): number {
  const byBytes = backlog.waiting_bytes / Math.max(WAITING_BYTES, packedBytes);
  return Math.min(1, Math.max(byBytes, backlog.oldest_s / WAITING_S));
}

/**
 * Part of one core, from `LEAST_SHARE` on.
 * @param packedBytes of the database without what waits
 */
export function chooseTidyShare(backlog: TidyBacklog, packedBytes: number): number {
  const packing = mix(PACKING_SHARE_MAX, measurePackingNeed(backlog, packedBytes));
  const indexing = mix(INDEX_SHARE_MAX, Math.min(1, backlog.unindexed / UNINDEXED));
  return Math.max(packing, indexing);
}

function mix(most: number, need: number): number {
  return LEAST_SHARE + (most - LEAST_SHARE) * need;
}

/** One pass over what was put off. */
export interface TidyPass {
  /** Blocks that were packed, or exchanges that were indexed; 0 when nothing is left. */
  done: number;
  took_ms: number;
  /** Of one core, that such passes may take while exchanges come. */
  share: number;
}

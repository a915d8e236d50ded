/**
 * The share of one core for work that was postponed while exchanges arrived: packing raw blocks, indexing exchanges
 * that were stored without being read, and the full-text index. Each always gets some share. The share grows with the backlog, so that under a
 * constant load the backlog stabilizes where work is done as fast as it arrives. Small changes of the backlog change
 * the share only slightly, so it does not oscillate. Pure; capture process.
 */

/** The postponed work. */
export interface TidyBacklog {
  waiting_blocks: number;
  waiting_bytes: number;
  /** Seconds since the oldest waiting block was stored; 0 without any. */
  oldest_s: number;
  /** Exchanges that are not indexed yet. */
  unindexed: number;
  /** Seconds since the oldest of these was stored; 0 without any. */
  unindexed_s: number;
  /** Exchanges that the full-text index does not have yet. */
  unsearched: number;
}

/** The smallest share. */
export const LEAST_SHARE = 0.05;
/** The largest share: the rest is for new exchanges. */
const SHARE_MAX = 0.5;
/** The largest share for the index, which must not fall behind for good. */
const INDEX_SHARE_MAX = 0.8;
/**
 * Packing gets its largest share when as many bytes wait as the packed database has, because the disk then holds
 * twice as much as necessary. A new database has very few bytes, so at least this many must wait.
 */
const WAITING_BYTES = 2 ** 31;
/** Age of the oldest waiting block at which packing gets its largest share. */
const WAITING_S = 600;
/** Delay of the index at which it gets its largest share. Lists are out of date by this delay. */
const INDEX_BEHIND_S = 8;

/** Exchanges at which the full-text index gets its largest share: a minute of heavy traffic. */
const UNSEARCHED = 30_000;

/** 0: nothing waits to be packed; 1: packing gets its largest share. */
export function measurePackingNeed(backlog: TidyBacklog, packedBytes: number): number {
  const byBytes = backlog.waiting_bytes / Math.max(WAITING_BYTES, packedBytes);
  return Math.min(1, Math.max(byBytes, backlog.oldest_s / WAITING_S));
}

/** 0: everything is indexed; 1: the index gets its largest share. */
export function measureIndexNeed({ unindexed, unindexed_s }: TidyBacklog): number {
  return unindexed === 0 ? 0 : Math.min(1, unindexed_s / INDEX_BEHIND_S);
}

/**
 * Share of one core, at least `LEAST_SHARE`.
 * @param packedBytes size of the database without waiting blocks
 */
export function chooseTidyShare(backlog: TidyBacklog, packedBytes: number): number {
  const need = Math.max(
    measurePackingNeed(backlog, packedBytes),
    Math.min(1, backlog.unsearched / UNSEARCHED),
  );
  return Math.max(growShare(need, SHARE_MAX), growShare(measureIndexNeed(backlog), INDEX_SHARE_MAX));
}

function growShare(need: number, most: number): number {
  return LEAST_SHARE + (most - LEAST_SHARE) * need;
}

/** If the need is at least this high, packing or indexing comes first in three of four passes. */
const URGENT_NEED = 0.25;
const TURNS = 4;

/**
 * Which of the two comes first in a pass: the more urgent one in three of four passes, otherwise each in turn.
 * @param pass number of the pass
 */
export function comesPackingFirst(pass: number, packingNeed: number, indexNeed: number): boolean {
  const turn = pass % TURNS;
  if (Math.max(packingNeed, indexNeed) < URGENT_NEED) return turn % 2 === 1;
  return packingNeed > indexNeed ? turn > 0 : turn === 0;
}

/** The result of one pass over the postponed work. */
export interface TidyPass {
  /** Blocks that were packed, or exchanges that were indexed; 0 when nothing is left. */
  done: number;
  took_ms: number;
  /** Share of one core that such passes may use while exchanges arrive. */
  share: number;
}

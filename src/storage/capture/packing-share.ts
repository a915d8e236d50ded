/**
 * Computes the share of one core for work that was postponed while exchanges arrived: packing raw blocks, indexing
 * exchanges that were stored without their facts, and the full-text index. The share is never zero. It grows with the
 * backlog, so that under a constant load the backlog becomes stable at the size at which work is done as fast as it
 * arrives. Small changes of the backlog change the share only slightly, so it does not oscillate. Pure; capture
 * process.
 */

/** The postponed work. */
export interface TidyBacklog {
  waiting_blocks: number;
  waiting_bytes: number;
  /** Seconds since the oldest waiting block was stored; 0 if none waits. */
  oldest_s: number;
  /** Exchanges that are not indexed yet. */
  unindexed: number;
  /** Seconds since the oldest exchange that is not indexed was stored; 0 if all are indexed. */
  unindexed_s: number;
  /** Exchanges that the full-text index does not have yet. */
  unsearched: number;
}

/** The smallest share. */
export const LEAST_SHARE = 0.05;
/** Maximum share for packing and for the full-text index. The rest is for new exchanges. */
const SHARE_MAX = 0.5;
/** Maximum share for the index. It is larger, so that the index can catch up under constant load. */
const INDEX_SHARE_MAX = 0.8;
/**
 * Packing gets its maximum share when the waiting blocks are as large as the packed database, because the disk then
 * holds twice as much as necessary. For a small database, this many bytes must wait instead.
 */
const WAITING_BYTES = 2 ** 31;
/** Age of the oldest waiting block at which packing gets its maximum share. */
const WAITING_S = 600;
/** Delay at which the index gets its maximum share. The delay is how old the data in lists are. */
const INDEX_BEHIND_S = 8;

/** Number of missing exchanges at which the full-text index gets its maximum share: a minute of heavy traffic. */
const UNSEARCHED = 30_000;

/** Measures how urgent packing is, from 0 (no block waits) to 1 (packing gets its maximum share). */
export function measurePackingNeed(backlog: TidyBacklog, packedBytes: number): number {
  const byBytes = backlog.waiting_bytes / Math.max(WAITING_BYTES, packedBytes);
  return Math.min(1, Math.max(byBytes, backlog.oldest_s / WAITING_S));
}

/** Measures how urgent indexing is, from 0 (everything is indexed) to 1 (the index gets its maximum share). */
export function measureIndexNeed({ unindexed, unindexed_s }: TidyBacklog): number {
  return unindexed === 0 ? 0 : Math.min(1, unindexed_s / INDEX_BEHIND_S);
}

/**
 * Chooses the share of one core for postponed work, at least `LEAST_SHARE`.
 * @param packedBytes size of the database without waiting blocks
 */
export function chooseTidyShare(backlog: TidyBacklog, packedBytes: number): number {
  return Math.max(
    choosePackingShare(backlog, packedBytes),
    growShare(Math.min(1, backlog.unsearched / UNSEARCHED), SHARE_MAX),
    growShare(measureIndexNeed(backlog), INDEX_SHARE_MAX),
  );
}

/**
 * Chooses the share of one core for packing alone, while other postponed work waits.
 * @param packedBytes size of the database without waiting blocks
 */
export function choosePackingShare(backlog: TidyBacklog, packedBytes: number): number {
  return growShare(measurePackingNeed(backlog, packedBytes), SHARE_MAX);
}

function growShare(need: number, most: number): number {
  return LEAST_SHARE + (most - LEAST_SHARE) * need;
}

/** If the need is at least this high, packing or indexing is urgent. */
const URGENT_NEED = 0.25;
const TURNS = 4;

/**
 * Whether packing comes before indexing in a pass. If both are urgent, the more urgent one comes first in three of four
 * passes. If only one is urgent, it comes first, except that packing leaves one of four passes to the index. Otherwise
 * they take turns.
 * @param pass number of the pass
 */
export function comesPackingFirst(pass: number, packingNeed: number, indexNeed: number): boolean {
  const turn = pass % TURNS;
  if (Math.max(packingNeed, indexNeed) < URGENT_NEED) return turn % 2 === 1;
  if (packingNeed > indexNeed) return turn > 0;
  return packingNeed >= URGENT_NEED && turn === 0;
}

/** The result of one pass over the postponed work. */
export interface TidyPass {
  /** Number of packed blocks or indexed exchanges, plus steps of the full-text index; 0 when nothing is left. */
  done: number;
  took_ms: number;
  /** Share of one core that such passes may use while exchanges arrive. */
  share: number;
}

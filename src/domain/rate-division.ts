/**
 * How boxes divide one key's rate among them: each box gets a part in proportion to the requests that arrive at it. The
 * parts never add up to more than the whole, in whatever order boxes act, and without clocks. For this, a box stops
 * using a part before it writes that the part is free, and writes that it takes a part before it uses it. Pure; any
 * thread.
 */

/** One box's entry about a key's rate. */
interface BoxPart {
  /** The requests that arrive at the box, as a part of the key's rate: 0 … 1. */
  demand: number;
  /** Part of the key's rate that the box may use at most: 0 … 1. */
  held: number;
}

/**
 * The parts of one key by box. Each box changes its own entry only. It also removes the entries of boxes that have
 * gone, and adds those of live boxes that are missing.
 */
export type RateDivision = ReadonlyMap<string, BoxPart>;

/** All boxes together keep this part in equal shares, so that a box without demand answers its first requests. */
const RESERVED = 0.1;
/** Demand of all boxes together below which they divide the rate equally. */
const IDLE = 0.01;
/** The share of the demand that remains at the next measurement if no requests arrive. */
const DECAY = 0.7;
/** Smaller changes of a part, and of a demand, are not worth writing. */
const SMALL = { held: 0.005, demand: 0.05 };
/** Tolerance for rounding errors in sums of fractions. */
const ROUNDING = 1e-9;

/**
 * Computes the part of a key's rate that a box may use if the key's division has no entry for the box.
 * @param boxes number of all boxes
 */
export function reservedPart(boxes: number): number {
  return RESERVED / boxes;
}

/**
 * Calculates a box's demand for a key after a measurement. Demand rises at once and falls slowly.
 * @param before the demand after the last measurement
 * @param now the requests that arrived since then, as a part of the key's rate
 * @returns 0 … 1, and 0 instead of a demand below half of IDLE
 */
export function followDemand(before: number, now: number): number {
  const demand = Math.min(1, Math.max(now, before * DECAY));
  return demand < IDLE / 2 ? 0 : demand;
}

/**
 * Calculates the division of a key's rate that a box must write after it has measured its demand. The division has an
 * entry for each live box. Only the entry of `box` is calculated; the others stay as they are, or are added without
 * demand.
 * @param known the division that is written now; null: none is written, and each box has an equal part
 * @param box the name of the box that calls
 * @param live the names of all live boxes, including `box`
 * @param demand the demand of `box`, from `followDemand`
 * @returns the division to write; null: remove the written division, because each box has an equal part from now on;
 *   undefined: leave what is written
 */
export function divideRate(
  known: RateDivision | null,
  box: string,
  live: ReadonlySet<string>,
  demand: number,
): RateDivision | null | undefined {
  // A single box has the whole rate.
  if (live.size === 1) return known === null ? undefined : null;
  const equal = 1 / live.size;
  const former = known?.get(box);
  const parts = new Map<string, BoxPart>();
  // A box that joined later has only the reserved part, until it writes an entry (RateExchange).
  const unknown = known === null ? equal : reservedPart(live.size);
  for (const other of live) parts.set(other, known?.get(other) ?? { demand: 0, held: unknown });
  const own = { demand, held: former?.held ?? unknown };
  parts.set(box, own);
  const total = sum(parts, 'demand');
  const target = total < IDLE ? equal : reservedPart(live.size) + ((1 - RESERVED) * demand) / total;
  const free = Math.max(0, 1 - sum(parts, 'held'));
  own.held = Math.min(target, own.held + free);
  if (total < IDLE && [...parts.values()].every(({ held }) => held <= equal + SMALL.held))
    return known === null ? undefined : null;
  if (known === null || former === undefined) return parts;
  const hasChanged =
    Math.abs(own.held - former.held) > SMALL.held ||
    Math.abs(demand - former.demand) > SMALL.demand ||
    (demand === 0) !== (former.demand === 0);
  return hasChanged ? parts : undefined;
}

/**
 * Whether the box uses more than half of its part of a key's rate, so that the division is worth following.
 * @param part of the box, 0 … 1
 */
export function isRateWanted(demand: number, part: number): boolean {
  return demand > part / 2 + ROUNDING;
}

function sum(parts: RateDivision, field: keyof BoxPart): number {
  let all = 0;
  for (const part of parts.values()) all += part[field];
  return all;
}

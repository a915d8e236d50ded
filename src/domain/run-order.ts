/**
 * The order of a run's exchanges: the order in which its client sent them. All readers of runs use it. Pure; any
 * thread. Two exchanges with `x-svc-seq` are ordered by this number. Without it, an exchange comes after the exchange
 * whose answer its request repeats (`follows`). All other exchanges are ordered by the arrival of their requests. Ids
 * do not matter, because they follow the order of storage. Only records from before 0.2.0, which have no arrival stamp,
 * are ordered by their start time and then by id. Bound: a run is ordered as a whole up to RUN_ORDER_EXCHANGES
 * exchanges. A longer run is ordered in windows of that size, so an exchange that was stored more than half a window
 * late appears at the beginning of a window.
 */
import type { ExchangeRecord } from './exchange.ts';

/** Maximum number of exchanges of a run that is ordered as a whole, about 600 bytes each. */
const RUN_ORDER_EXCHANGES = 8_192;

/** The fields on which the order depends. */
export type PlacedExchange = Pick<ExchangeRecord, 'id' | 'seq' | 'started_at' | 'arrival' | 'follows'>;

/** Stamps for each millisecond, as src/gateway/capture/arrival-counter.ts has them. */
const STAMPS_PER_MS = 1_024;

/**
 * Makes a sortable number of the arrival of the request. For a record without an arrival stamp, the start time is used.
 */
export function arrivalOf({ arrival, started_at }: Pick<PlacedExchange, 'arrival' | 'started_at'>): number {
  return arrival ?? Date.parse(started_at) * STAMPS_PER_MS;
}

/** Puts the exchanges of one run, given in any order, into the order of the run. */
export function orderRun<T extends PlacedExchange>(exchanges: readonly T[]): T[] {
  const stamps = new Map<T, number>();
  for (const exchange of exchanges) stamps.set(exchange, arrivalOf(exchange));
  const byArrival = (a: T, b: T): number => stamps.get(a)! - stamps.get(b)! || a.id - b.id;
  const arrived = [...exchanges].sort(byArrival);
  const numbered = arrived.filter(({ seq }) => seq !== null).sort((a, b) => a.seq! - b.seq!);
  return followAnswers(mergeNumbered(arrived, numbered, byArrival));
}

/**
 * Merges exchanges with and without numbers. Numbered exchanges keep the order of their numbers. Each other exchange is
 * placed before the first numbered one that arrived after it.
 */
function mergeNumbered<T extends PlacedExchange>(
  arrived: T[],
  numbered: readonly T[],
  byArrival: (a: T, b: T) => number,
): T[] {
  if (numbered.length === 0) return arrived;
  const merged: T[] = [];
  const others = arrived.filter(({ seq }) => seq === null);
  let at = 0;
  for (const exchange of numbered) {
    while (at < others.length && byArrival(others[at]!, exchange) < 0) merged.push(others[at++]!);
    merged.push(exchange);
  }
  merged.push(...others.slice(at));
  return merged;
}

/** Moves each exchange before the exchanges that follow it. */
function followAnswers<T extends PlacedExchange>(ordered: T[]): T[] {
  const places = new Map(ordered.map((exchange, place) => [exchange.id, place]));
  const findBefore = ({ follows, seq }: T): T | undefined => {
    const before = follows === undefined ? undefined : ordered[places.get(follows) ?? -1];
    return seq !== null && before?.seq != null ? undefined : before;
  };
  if (ordered.every((exchange, place) => places.get(findBefore(exchange)?.id ?? exchange.id)! <= place))
    return ordered;
  const told = new Set<T>();
  for (const exchange of ordered) {
    const chain = new Set<T>();
    // The loop also ends if exchanges follow each other in a cycle.
    for (let at: T | undefined = exchange; at !== undefined && !told.has(at) && !chain.has(at); ) {
      chain.add(at);
      at = findBefore(at);
    }
    for (const turn of [...chain].reverse()) told.add(turn);
  }
  return [...told];
}

/** Collects a run's exchanges in any order, and returns them in the order of the run. */
export class RunOrder<T extends PlacedExchange> {
  readonly #most: number;
  #held: T[] = [];

  /**
   * @param most exchanges that are kept at a time
   */
  constructor(most: number = RUN_ORDER_EXCHANGES) {
    this.#most = most;
  }

  /**
   * Adds an exchange.
   * @returns the first exchanges of a run that is too long to be kept as a whole; usually empty
   */
  add(exchange: T): T[] {
    this.#held.push(exchange);
    if (this.#held.length <= this.#most) return [];
    const ordered = orderRun(this.#held);
    this.#held = ordered.splice(ordered.length >>> 1);
    return ordered;
  }

  /** Returns the exchanges that are left, in order. */
  end(): T[] {
    const ordered = orderRun(this.#held);
    this.#held = [];
    return ordered;
  }
}

/** Yields the exchanges of one run, given in any order, in the order of the run. */
export function* inRunOrder<T extends PlacedExchange>(
  exchanges: Iterable<T>,
  most: number = RUN_ORDER_EXCHANGES,
): Generator<T> {
  const order = new RunOrder<T>(most);
  for (const exchange of exchanges) yield* order.add(exchange);
  yield* order.end();
}

/**
 * Whether an exchange comes after another exchange, judged by these two alone. Also true if their requests have the
 * same arrival.
 */
export function standsBehind(exchange: PlacedExchange, other: PlacedExchange): boolean {
  if (exchange.seq !== null && other.seq !== null && exchange.seq !== other.seq)
    return exchange.seq > other.seq;
  return arrivalOf(exchange) >= arrivalOf(other);
}

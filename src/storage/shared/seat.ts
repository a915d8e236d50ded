/**
 * Memory that all threads of a box share, with data of the store thread: its id, the position that the view shows, how
 * old the view may be, the number of live boxes, the numbers of its notices, and counters. Any thread; the store thread
 * writes it.
 */

/** Connects a thread to the store thread of its box. Plain data. */
export interface StoreSeat {
  /** Identifies the database whose rows the view shows. */
  identity: string;
  state: SharedArrayBuffer;
}

const THREAD = 0;
const POSITION = 1;
const CURRENT_AT = 2;
const BOXES = 3;
const NOTICES = 4;
const CHANGES = 5;
const APPLIED = 6;
const FOLLOWERS = 7;
const FIRST_COUNT = 8;
/**
 * Counters of the store thread since the start of the process:
 *   conflicts      proposals with a conflict
 *   live_losses    events of the live stream that were dropped
 *   take_overs     actors that this box took from others
 *   lost_commits   commits that were lost because another box took the actor
 *   held_takings   take-overs that had to wait for another box
 *   run_ticks      round trips to the database that stored commits of actors or took actors
 *   run_commits    actors' commits in these round trips, lost ones included
 */
const COUNTS = [
  'conflicts',
  'live_losses',
  'take_overs',
  'lost_commits',
  'held_takings',
  'run_ticks',
  'run_commits',
] as const;
const FIELDS = FIRST_COUNT + COUNTS.length;
const NO_THREAD = -1n;
const NANOSECONDS = 1_000_000n;

type SeatCount = (typeof COUNTS)[number];

/** Reads and writes a seat's memory. */
export class SeatState {
  readonly #fields: BigInt64Array;

  constructor(memory: SharedArrayBuffer) {
    this.#fields = new BigInt64Array(memory);
  }

  /** Memory for {@link SeatState}, to be shared by all threads. */
  static allocate(): SharedArrayBuffer {
    const memory = new SharedArrayBuffer(FIELDS * BigInt64Array.BYTES_PER_ELEMENT);
    new BigInt64Array(memory)[THREAD] = NO_THREAD;
    return memory;
  }

  /** Id of the store thread; null: it does not run now. */
  get thread(): number | null {
    const id = Atomics.load(this.#fields, THREAD);
    return id === NO_THREAD ? null : Number(id);
  }

  set thread(id: number | null) {
    Atomics.store(this.#fields, THREAD, id === null ? NO_THREAD : BigInt(id));
  }

  /** Position that the view shows. */
  get position(): number {
    return Number(Atomics.load(this.#fields, POSITION));
  }

  set position(position: number) {
    Atomics.store(this.#fields, POSITION, BigInt(position));
  }

  /**
   * Whether the view and the indexes in memory have reached the position. A notice is counted before its position is
   * published.
   */
  hasReached(position: number): boolean {
    return this.position >= position && this.applied >= this.changes;
  }

  /** Number of live boxes, including this one. While the database is unreachable, the last known number. */
  get boxes(): number {
    return Math.max(1, Number(Atomics.load(this.#fields, BOXES)));
  }

  set boxes(boxes: number) {
    Atomics.store(this.#fields, BOXES, BigInt(boxes));
  }

  /** Number of threads with indexes in memory that followed the last store thread. */
  get followers(): number {
    return Number(Atomics.load(this.#fields, FOLLOWERS));
  }

  set followers(count: number) {
    Atomics.store(this.#fields, FOLLOWERS, BigInt(count));
  }

  countOf(name: SeatCount): number {
    return Number(Atomics.load(this.#fields, FIRST_COUNT + COUNTS.indexOf(name)));
  }

  count(name: SeatCount, by = 1): void {
    Atomics.add(this.#fields, FIRST_COUNT + COUNTS.indexOf(name), BigInt(by));
  }

  /** How old the view may be, in milliseconds. */
  get stale_ms(): number {
    return Number((process.hrtime.bigint() - Atomics.load(this.#fields, CURRENT_AT)) / NANOSECONDS);
  }

  /** Records that the view has everything that was committed at least this long ago. */
  noteStale(milliseconds: number): void {
    if (!Number.isFinite(milliseconds)) return;
    const age = BigInt(Math.round(milliseconds)) * NANOSECONDS;
    Atomics.store(this.#fields, CURRENT_AT, process.hrtime.bigint() - age);
  }

  /** Number of notices about actors that other boxes took. A notice is sent before its position is published. */
  get notices(): number {
    return Number(Atomics.load(this.#fields, NOTICES));
  }

  set notices(count: number) {
    Atomics.store(this.#fields, NOTICES, BigInt(count));
  }

  /** Number of notices about rows that other boxes changed. A notice is sent before its position is published. */
  get changes(): number {
    return Number(Atomics.load(this.#fields, CHANGES));
  }

  set changes(count: number) {
    Atomics.store(this.#fields, CHANGES, BigInt(count));
  }

  /** Number of the last notice about changed rows that all indexes in memory have applied. */
  get applied(): number {
    return Number(Atomics.load(this.#fields, APPLIED));
  }

  set applied(count: number) {
    Atomics.store(this.#fields, APPLIED, BigInt(count));
  }
}

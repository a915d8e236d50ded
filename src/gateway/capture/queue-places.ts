/**
 * The capacity of the capture queue (`GW_MAX_QUEUE`), which all server threads of a process share. Together they never
 * hold more exchanges than that. Server threads.
 */
export class QueuePlaces {
  readonly #taken: Int32Array;
  readonly #most: number;

  /**
   * @param most number of places
   * @param memory from {@link QueuePlaces.allocate}; default: separate memory
   */
  constructor(most: number, memory: SharedArrayBuffer = QueuePlaces.allocate()) {
    this.#most = most;
    this.#taken = new Int32Array(memory);
  }

  static allocate(): SharedArrayBuffer {
    return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  }

  /** Share of the places that are taken. */
  get share(): number {
    return Atomics.load(this.#taken, 0) / this.#most;
  }

  get areTaken(): boolean {
    return Atomics.load(this.#taken, 0) >= this.#most;
  }

  /** Takes a place if one is free. @returns whether one was free */
  take(): boolean {
    if (Atomics.add(this.#taken, 0, 1) < this.#most) return true;
    this.give(1);
    return false;
  }

  give(places: number): void {
    Atomics.sub(this.#taken, 0, places);
  }
}

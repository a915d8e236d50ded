/**
 * Busy-polls: keeps a server thread's loop from sleeping right after an answer. A core that sleeps,
 * especially in a virtual machine, resumes late and with cold caches: then a step that directly
 * follows another takes a third longer (`bench/notes/steps.md`). So the loop polls, in case the
 * client sends another request. It polls for about as long as a sleep would cost. Polling for that
 * time never costs more than twice the best possible choice (Karlin, Li, Manasse and Owicki,
 * "Empirical studies of competitive spinning", 1991). Server threads.
 */

/**
 * After a tick that answered several requests, the loop does not poll for this time. With several
 * clients, requests that arrive during a sleep are read together, which is cheaper: eight
 * connections got 5 % fewer answers with polling.
 */
const CROWDED_MS = 100;

export class BusyPoll {
  readonly #busyPollMs: number;
  readonly #readClock: () => number;
  /** Unanswered requests. */
  #open = 0;
  /** Answers since the last turn of the loop. */
  #answered = 0;
  #untilMs = 0;
  #crowdedUntilMs = 0;
  #isPolling = false;

  /**
   * @param busy_poll_us how long to poll after the last answer; 0: never
   * @param readClock monotonic, in milliseconds
   */
  constructor(busy_poll_us: number, readClock = () => performance.now()) {
    this.#busyPollMs = busy_poll_us / 1_000;
    this.#readClock = readClock;
  }

  /** Whether the loop is kept from sleeping. */
  get isPolling(): boolean {
    return this.#isPolling;
  }

  /** Notes that a request has arrived. */
  open(): void {
    this.#open++;
  }

  /** Notes that a request was answered, and starts to poll if no other request is open. */
  close(): void {
    this.#open--;
    if (this.#busyPollMs === 0) return;
    this.#answered++;
    // Do not poll while requests are open: they wait for work that takes longer than a sleep costs.
    if (this.#open > 0) return;
    const now = this.#readClock();
    this.#untilMs = now + this.#busyPollMs;
    if (this.#isPolling || now < this.#crowdedUntilMs) return;
    this.#isPolling = true;
    this.#answered = 1;
    setImmediate(this.#tick);
  }

  readonly #tick = (): void => {
    const now = this.#readClock();
    if (this.#answered > 1) this.#crowdedUntilMs = now + CROWDED_MS;
    this.#isPolling = this.#answered <= 1 && this.#open === 0 && now < this.#untilMs;
    this.#answered = 0;
    if (this.#isPolling) setImmediate(this.#tick);
  };
}

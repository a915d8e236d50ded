/**
 * A circuit breaker for requests to the service. A request without an answer opens the circuit, and
 * so do several server errors or broken connections in a row. Then no request is sent for a while,
 * until one request may probe the service. Time is monotonic. Any thread.
 *
 *     closed --no answer, or FAILURES_MAX errors in a row--> open
 *     open --cool-down over, or a probe was asked for--> half-open (one request)
 *     half-open --any answer but an error of the server's--> closed
 *     half-open --no answer, or such an error--> open, for twice as long
 */

export type CircuitState = 'closed' | 'open' | 'half-open';

/** Number of server errors in a row that open the circuit. */
const FAILURES_MAX = 5;
const COOL_DOWN_MS = 1_000;
const COOL_DOWN_MAX_MS = 30_000;

export class Circuit {
  #state: CircuitState = 'closed';
  #failures = 0;
  #coolDownMs = COOL_DOWN_MS;
  #opensUntil = 0;
  readonly #nowMs: () => number;

  /** @param nowMs monotonic */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** Milliseconds until a request may be sent as a probe; 0: now. */
  get waitMs(): number {
    return this.#state === 'open' ? Math.max(0, this.#opensUntil - this.#nowMs()) : 0;
  }

  /**
   * Asks for permission to send a request. A caller that gets true must report the outcome with one of the three
   * functions below.
   */
  admit(): boolean {
    if (this.#state === 'closed') return true;
    if (this.#state === 'half-open' || this.waitMs > 0) return false;
    this.#state = 'half-open';
    return true;
  }

  /** Allows the next request, however recently the last request failed. */
  hurry(): void {
    this.#opensUntil = 0;
  }

  /** Notes that the service answered, with success or with a refusal. */
  noteAnswer(): void {
    this.#state = 'closed';
    this.#failures = 0;
    this.#coolDownMs = COOL_DOWN_MS;
  }

  /** Notes that the service answered with a server error. */
  noteServerError(): void {
    this.#failures += 1;
    if (this.#state === 'half-open' || this.#failures >= FAILURES_MAX) this.noteSilence();
  }

  /** Notes that the service did not answer. */
  noteSilence(): void {
    // Only the first of several concurrent requests without an answer opens the circuit.
    if (this.#state === 'open') return;
    if (this.#state === 'half-open') this.#coolDownMs = Math.min(2 * this.#coolDownMs, COOL_DOWN_MAX_MS);
    this.#state = 'open';
    this.#failures = 0;
    this.#opensUntil = this.#nowMs() + this.#coolDownMs;
  }

  /** Notes that the caller aborted the request. This does not show whether the service works. */
  noteNothing(): void {
    if (this.#state !== 'half-open') return;
    this.#state = 'open';
  }
}

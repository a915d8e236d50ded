/**
 * A circuit breaker for requests to the service. A request without an answer opens the circuit, and
 * so do several server errors or broken connections in a row. While the circuit is open, no request is sent. After a
 * pause, one request may probe the service. Time is monotonic. Any thread.
 *
 *     closed --no answer, or FAILURES_MAX errors in a row--> open, with a pause of COOL_DOWN_MS
 *     open --a request is to be sent, and the pause is over or `hurry` was called--> half-open (one request)
 *     half-open --any answer except a server error--> closed
 *     half-open --no answer, a server error or a broken connection--> open; the pause doubles, up to COOL_DOWN_MAX_MS
 *     half-open --the request was aborted--> open, without a pause
 */

export type CircuitState = 'closed' | 'open' | 'half-open';

/** Number of server errors or broken connections in a row that open the circuit. */
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

  /** Milliseconds until an open circuit lets a request probe the service; 0: now, or the circuit is not open. */
  get waitMs(): number {
    return this.#state === 'open' ? Math.max(0, this.#opensUntil - this.#nowMs()) : 0;
  }

  /**
   * Asks for permission to send a request. The first permission of an open circuit makes it half-open. A caller that
   * gets true must report the outcome with one of the `note` functions.
   */
  admit(): boolean {
    if (this.#state === 'closed') return true;
    if (this.#state === 'half-open' || this.waitMs > 0) return false;
    this.#state = 'half-open';
    return true;
  }

  /**
   * Ends the pause of an open circuit, so that the next request may be sent at once. Changes nothing in the other
   * states.
   */
  hurry(): void {
    this.#opensUntil = 0;
  }

  /** Notes that the service answered, with success or with a refusal. */
  noteAnswer(): void {
    this.#state = 'closed';
    this.#failures = 0;
    this.#coolDownMs = COOL_DOWN_MS;
  }

  /** Notes that the service answered with a server error or an unexpected answer, or that the connection broke. */
  noteServerError(): void {
    this.#failures += 1;
    if (this.#state === 'half-open' || this.#failures >= FAILURES_MAX) this.noteSilence();
  }

  /** Notes that the service did not answer in time or could not be reached. */
  noteSilence(): void {
    // Only the first of several concurrent requests without an answer opens the circuit.
    if (this.#state === 'open') return;
    if (this.#state === 'half-open') this.#coolDownMs = Math.min(2 * this.#coolDownMs, COOL_DOWN_MAX_MS);
    this.#state = 'open';
    this.#failures = 0;
    this.#opensUntil = this.#nowMs() + this.#coolDownMs;
  }

  /**
   * Notes that the caller aborted the request, which does not show whether the service works. If the circuit was
   * half-open, the next request may probe the service at once.
   */
  noteNothing(): void {
    if (this.#state !== 'half-open') return;
    this.#state = 'open';
  }
}

/**
 * The option `tokenBudget`: a soft cap on a run's tokens. Reaching it calls a callback, but stops
 * nothing. Any thread.
 */

/** Argument of the callback, which is called once per run. */
export interface TokenBudgetReached {
  budget: number;
  /** Tokens of the run so far, including the step that reached the budget. */
  spent: number;
}

/** Counts the tokens of one run. */
export class TokenBudget {
  readonly #budget: number | undefined;
  readonly #tell: ((reached: TokenBudgetReached) => unknown) | undefined;
  #spent = 0;

  /**
   * @param budget tokens; undefined: no budget
   * @param tell called once, when the sum of the steps' tokens reaches the budget. Its errors are dropped,
   *   because it runs inside the agent's step
   * @throws RangeError for a budget that is not a positive whole number
   */
  constructor(budget?: number, tell?: (reached: TokenBudgetReached) => unknown) {
    if (budget !== undefined && !(Number.isSafeInteger(budget) && budget > 0))
      throw new RangeError('tokenBudget must be a whole number above 0');
    this.#budget = budget;
    this.#tell = tell;
  }

  get spent(): number {
    return this.#spent;
  }

  get is_reached(): boolean {
    return this.#budget !== undefined && this.#spent >= this.#budget;
  }

  /** Adds the tokens of a step, rounded down. Any value but a finite number above 0 is ignored. */
  spend(tokens: number | undefined): void {
    if (typeof tokens !== 'number' || !(tokens > 0) || !Number.isFinite(tokens)) return;
    const was = this.is_reached;
    this.#spent += Math.floor(tokens);
    if (!was && this.is_reached) this.#notify(this.#budget!);
  }

  #notify(budget: number): void {
    try {
      const said = this.#tell?.({ budget, spent: this.#spent });
      if (said instanceof Promise) said.catch(() => {});
    } catch {
      // An error of the callback must not stop the agent's step.
    }
  }
}

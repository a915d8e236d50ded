/**
 * The student's ledger: day-ledger.ts of src/student computes it, and all screens, commands and metrics show it.
 * Types; any thread.
 */

/** The figures of one agent on one day, or summed over several days. */
export interface LedgerRow {
  day: string;
  agent: string;
  served: number;
  compared: number;
  wrong: number;
  /**
   * Bounds of the error rate: the true rate is above the first and below the second, each with 95 % confidence; null
   * without a comparison.
   */
  wrong_at_least: number | null;
  wrong_at_most: number | null;
  input_tokens: number;
  output_tokens: number;
  /**
   * Dollars, minus the cost of late take-overs; negative when the student cost more than it saved. null without prices.
   */
  saved_usd: number | null;
  /** Served steps that `saved_usd` leaves out because their price is unknown. */
  unpriced: number;
  /** Served steps in `saved_usd` whose price is that of a model with a similar name. */
  guessed: number;
  /** Late take-overs, and the additional charge of the upstream because its prompt cache was cold. */
  late: number;
  late_usd: number;
}

/** The ledger in the stats. */
export interface LedgerReport {
  /** One row for each agent, over the days that are kept. */
  ledger: LedgerRow[];
  ledger_total: LedgerTotal;
}

/** The figures of all agents over all days that are kept. */
export interface LedgerTotal extends Omit<LedgerRow, 'day' | 'agent'> {
  /** The first day that is kept; null when nothing was counted yet. */
  since: string | null;
}

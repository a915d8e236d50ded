/** What the student's ledger says of one agent. Types alone; made on the student's thread, shown by server threads and the command line. */

/** The figures of one agent on one day, or of several together. */
export interface LedgerRow {
  day: string;
  agent: string;
  served: number;
  compared: number;
  wrong: number;
  /** Share of wrong answers: 95 % confidence each that the true one is above, and below it; null without a comparison. */
  wrong_at_least: number | null;
  wrong_at_most: number | null;
  input_tokens: number;
  output_tokens: number;
  /** Dollars, less what late take-overs cost; below 0 the student cost more than it saved. null without prices. */
  saved_usd: number | null;
  late: number;
  late_usd: number;
}

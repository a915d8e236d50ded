/**
 * The report about a student for operators (src/student/student-report.ts). Types; any thread.
 */

import type { LedgerRow, LedgerTotal } from './student-ledger.ts';

export interface StudentReport {
  /** `shadow`: the student is asked, but the upstream serves. */
  mode: 'on' | 'shadow' | 'off';
  /** Golden runs that a student needs. */
  golden_runs_needed: number;
  /** The parts of the report that could not be read, with the reasons. */
  problems: string[];
  /** Whether a new student serves only after an operator publishes it. */
  held: boolean;
  /** The serving version; null: no version serves. */
  serving: number | null;
  /** Newest first. */
  versions: {
    version: number;
    /** Share of the runs that this version serves; 0: it does not serve. */
    share: number;
    made_at: string | null;
    valid_until: string | null;
    golden_runs: number | null;
    agents: number | null;
    /** Held-out steps, how many of them it served, and how many of those were wrong. */
    steps: number | null;
    served: number | null;
    errors: number | null;
    /** Upper bound of the true share of errors, with 95 % confidence. */
    error_at_most: number | null;
    tokens_saved_share: number | null;
    /** Steps that it did not serve, by reason. */
    uncovered: Record<string, number>;
    /** Why its manifest is not readable; '' if it is. */
    problem: string;
  }[];
  /** For the serving version, otherwise for the newest. */
  agents: {
    agent: string;
    /** The operator's name for it, otherwise the first words of its prompt; '' without either. */
    name: string;
    /** Whether an operator gave it this name. */
    is_named: boolean;
    tools: string[];
    state: 'serving' | 'not_served' | 'suspended';
    suspended_by: 'audit' | 'operator' | null;
    runs: number;
    measured: { steps: number; served: number; errors: number };
    /** Audits of served steps since `measured`: how many were compared, and how many of those were wrong. */
    compared: number;
    wrong: number;
    kinds: {
      kind: string;
      refused: 'too_few' | 'too_wrong' | 'never_serve' | null;
      /** Why the kind is not served, and what would change that; '' if it is served. */
      refusal: string;
      runs: number;
      steps: number;
      errors: number;
      error_at_most: number;
      is_suspended: boolean;
    }[];
  }[];
  /** Figures of the ledger by day and agent. */
  ledger: LedgerRow[];
  /** The totals; null if the ledger is not readable, or without a student. */
  ledger_total: LedgerTotal | null;
}

/**
 * Counts what relegation has done on one server thread since its start: steps served, fallbacks by
 * reason, tokens saved, and in shadow mode how often the student agreed. Server threads; the admin
 * routes add up the counts of all threads. Costs are in the ledger of the student's thread
 * (src/student/day-ledger.ts).
 *
 * relegation.ts decides which requests are steps. Each step is counted once: as served, or as a fallback with its
 * reason. A step whose client disconnects before the decision is not counted.
 */

import { ERROR_REASONS, type FallbackReason, type ServedStep } from '../../student/serving/protocol.ts';

/** One server thread's share of `relegation` in the stats. */
export interface RelegationCounters {
  served: number;
  fallback: number;
  errors: number;
  fallbacks: Partial<Record<FallbackReason, number>>;
  tokens_saved: { input: number; output: number };
  /**
   * Audited steps: how many were sent to the upstream, how many answers were compared, how many
   * agreed, and for how many the two ways to parse the upstream's answer had different results.
   */
  audit: { asked: number; compared: number; agreed: number; reading_differs: number };
  shadow: { would_serve: number; compared: number; agreed: number; reading_differs: number };
}

/** Makes counters that are all 0. */
export function emptyCounters(): RelegationCounters {
  return {
    served: 0,
    fallback: 0,
    errors: 0,
    fallbacks: {},
    tokens_saved: { input: 0, output: 0 },
    audit: { asked: 0, compared: 0, agreed: 0, reading_differs: 0 },
    shadow: { would_serve: 0, compared: 0, agreed: 0, reading_differs: 0 },
  };
}

/** Adds one server thread's counts to a sum, in place. */
export function addCounters(sum: RelegationCounters, more: RelegationCounters): void {
  sum.served += more.served;
  sum.fallback += more.fallback;
  sum.errors += more.errors;
  for (const [reason, count] of Object.entries(more.fallbacks) as [FallbackReason, number][]) {
    sum.fallbacks[reason] = (sum.fallbacks[reason] ?? 0) + count;
  }
  sum.tokens_saved.input += more.tokens_saved.input;
  sum.tokens_saved.output += more.tokens_saved.output;
  sum.audit.asked += more.audit.asked;
  sum.audit.compared += more.audit.compared;
  sum.audit.agreed += more.audit.agreed;
  sum.audit.reading_differs += more.audit.reading_differs;
  sum.shadow.would_serve += more.shadow.would_serve;
  sum.shadow.compared += more.shadow.compared;
  sum.shadow.agreed += more.shadow.agreed;
  sum.shadow.reading_differs += more.shadow.reading_differs;
}

export class RelegationLedger {
  readonly #counters = emptyCounters();

  served(step: ServedStep): void {
    const counters = this.#counters;
    counters.served++;
    counters.tokens_saved.input += step.input_tokens;
    counters.tokens_saved.output += step.output_tokens;
  }

  fallback(reason: FallbackReason): void {
    const counters = this.#counters;
    counters.fallback++;
    counters.fallbacks[reason] = (counters.fallbacks[reason] ?? 0) + 1;
    if (ERROR_REASONS.has(reason)) counters.errors++;
  }

  /** Counts a step in shadow mode that the student would have served. */
  wouldServe(): void {
    this.#counters.shadow.would_serve++;
    this.fallback('shadow');
  }

  /** Counts an audited step: the upstream serves it for comparison, although the student would have served it. */
  audited(): void {
    this.#counters.audit.asked++;
    this.fallback('audit');
  }

  compared(agreed: boolean, readingDiffers: boolean, mode: 'on' | 'shadow'): void {
    const counts = mode === 'shadow' ? this.#counters.shadow : this.#counters.audit;
    counts.compared++;
    if (agreed) counts.agreed++;
    if (readingDiffers) counts.reading_differs++;
  }

  counters(): RelegationCounters {
    return structuredClone(this.#counters);
  }
}

/** Relegation's decision about a captured exchange in words, without the answer. Pure; any thread. */

import type { ExchangeRecord } from '../domain/exchange.ts';
import { describeDecision, describeRemedy } from '../domain/relegation-words.ts';

export interface ToldDecision {
  decision: string;
  /** The decision as words. */
  words: string;
  /** The condition under which the student would serve the step, as a clause; '' if it is served. */
  remedy: string;
  student_version: number | null;
  agent: string | null;
  kind: string | null;
  score: number | null;
}

/**
 * Describes the decision about an exchange.
 * @returns null without a decision
 */
export function tellDecision({ relegation }: Pick<ExchangeRecord, 'relegation'>): ToldDecision | null {
  if (relegation === undefined) return null;
  const { decision, student_version, agent, kind, score } = relegation;
  const words = describeDecision(decision) ?? decision.replaceAll('_', ' ');
  const remedy = describeRemedy(decision);
  return { decision, words, remedy, student_version, agent, kind, score };
}

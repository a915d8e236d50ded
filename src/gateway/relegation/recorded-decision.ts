/**
 * Writes relegation's decision about a step as the JSON that capture stores with the exchange.
 * Pure; server threads.
 */

import type { RecordedDecision } from '../../domain/exchange.ts';
import type { FallbackReason, StepFinding } from '../../student/serving/protocol.ts';

/**
 * Maximum length of a recorded decision in characters. A student's answer that would exceed it is
 * left out.
 */
const DECISION_CHARACTERS = 32_768;

/** Cache of decisions without a finding: there are few different ones. */
const written = new Map<string, string>();

/**
 * @param version the student's version; null: it was not asked
 * @param finding null if the student found nothing or did not answer in time
 * @returns JSON without line ends; an answer that is too long is left out
 */
export function writeDecision(
  decision: FallbackReason | 'served' | 'would_serve',
  version: number | null,
  finding: StepFinding | null,
): string {
  if (finding !== null) {
    const { agent, kind, score, answer } = finding;
    const facts = JSON.stringify({
      decision,
      student_version: version,
      agent,
      kind,
      score: score === null ? null : Number(score.toFixed(4)),
    } satisfies Omit<RecordedDecision, 'answer'>);
    const text = `${facts.slice(0, -1)},"answer":${answer ?? 'null'}}`;
    return text.length <= DECISION_CHARACTERS || answer === undefined
      ? text
      : writeDecision(decision, version, { agent, kind, score });
  }
  const key = `${decision} ${version}`;
  let text = written.get(key);
  if (text === undefined) {
    text = JSON.stringify({
      decision,
      student_version: version,
      agent: null,
      kind: null,
      score: null,
      answer: null,
    } satisfies RecordedDecision);
    if (written.size >= 1_000) written.clear();
    written.set(key, text);
  }
  return text;
}

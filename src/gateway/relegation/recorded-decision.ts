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

/**
 * Decisions without a finding that were written before. There are few different ones; at 1,000 the cache is emptied.
 */
const written = new Map<string, string>();

/**
 * Writes a decision as JSON. A student's answer with which the text would be too long is left out.
 * @param version the student's version; null: the student was not asked
 * @param finding null if the student was not asked, found nothing, or did not answer in time
 * @returns JSON without line ends
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

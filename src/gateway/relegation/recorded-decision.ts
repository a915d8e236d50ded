/** What relegation decided about a step, as capture keeps it with the exchange. Pure; server threads. */

import type { RecordedDecision } from '../../domain/exchange.ts';
import { DECISION_CHARACTERS } from '../../limits.ts';
import type { FallbackReason, StepFinding } from '../../student/serving/protocol.ts';

/** Of decisions without a finding, which are mostly the same few. */
const written = new Map<string, string>();

/**
 * @param version of the student; null: it was not asked
 * @param finding null: the student found nothing, or was not heard
 * @returns JSON without line ends; an answer that is too long to keep is left out
 */
export function writeDecision(
  decision: FallbackReason | 'served' | 'would_serve',
  version: number | null,
  finding: StepFinding | null,
): string {
  if (finding !== null) {
    const { agent, kind, score, answer } = finding;
    const text = JSON.stringify({
      decision,
      student_version: version,
      agent,
      kind,
      score: score === null ? null : Number(score.toFixed(4)),
      answer: answer ?? null,
    } satisfies RecordedDecision);
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

/**
 * The intervention text for an agent when a monitor fires: the problem, the evidence (steps and results), and
 * what to do instead. It is written for a model that reads it as a system message. Pure; any thread.
 *
 * Quotes from the run are cleaned, cut, in double quotes, and introduced as quotes, so that the model reads
 * them as evidence and not as instructions.
 */

import { MONITORS } from './definitions.ts';
import type { StepDigest } from './digest.ts';
import type { Finding } from './finding.ts';
import type { InterventionTexts } from './monitor.ts';
import type { MonitorName } from './names.ts';

/** `nudge`: change course. `stop`: the nudge did not help; end this line of work. */
export type InterventionLevel = 'nudge' | 'stop';

export interface Intervention {
  failure_type: MonitorName;
  /** For the model, at most INTERVENTION_CHARACTERS. */
  text: string;
  level: InterventionLevel;
}

/** Maximum length of an intervention text in UTF-16 units (contract document 4, "v1"). */
export const INTERVENTION_CHARACTERS = 1200;

/** Writes the indices of steps: "step 4", "steps 4, 7 and 9". */
function nameSteps(steps: readonly number[]): string {
  if (steps.length === 1) return `step ${steps[0]}`;
  return `steps ${steps.slice(0, -1).join(', ')} and ${steps.at(-1)}`;
}

/** Quotes what this step did. */
function quoteCall(digest: StepDigest): string {
  const action = digest.action === '' ? '' : ` ${digest.action}`;
  if (digest.input !== '') return `${action} "${digest.input}"`;
  return digest.thought !== '' && action === '' ? ` "${digest.thought}"` : action;
}

/** Writes the sentence with the evidence: the earlier steps, this step and its result. */
function writeEvidence(
  texts: InterventionTexts,
  finding: Finding,
  digest: StepDigest,
  isResultKnown: boolean,
): string {
  const lead = texts.lead ?? '{steps}, then ';
  const earlier = finding.steps.length === 0 ? '' : lead.replace('{steps}', nameSteps(finding.steps));
  const call = quoteCall(digest);
  const doing = call === '' ? '' : `:${call}`;
  // A step without a call has no result.
  const isEmpty = isResultKnown && (digest.action !== '' || digest.input !== '');
  const empty = isEmpty ? ' The result was empty.' : '';
  const outcome = digest.outcome === '' ? empty : ` The result now: "${digest.outcome}".`;
  return `Evidence: ${earlier}step ${digest.step_index}${doing}.${outcome}`;
}

/**
 * Writes the intervention for a monitor's finding at the step of `digest`.
 * @param isResultKnown false if the step's sender left out its result
 */
export function writeIntervention(
  monitor: MonitorName,
  level: InterventionLevel,
  finding: Finding,
  digest: StepDigest,
  isResultKnown: boolean,
): Intervention {
  const texts = MONITORS[monitor].texts[finding.kind]!;
  const changes = finding.count === 1 ? 'change' : `${finding.count} changes`;
  const what = texts.what.replace('{n}', String(finding.count)).replace('{changes}', changes);
  const head =
    level === 'nudge'
      ? `Run monitor: ${monitor}.`
      : `Run monitor: ${monitor}, second notice, nothing has changed.`;
  const advice = level === 'nudge' ? `Instead: ${texts.instead}` : `Stop: ${texts.stop}`;
  const text = `${head} ${what}. ${writeEvidence(texts, finding, digest, isResultKnown)} ${advice}`;
  return { failure_type: monitor, level, text: text.slice(0, INTERVENTION_CHARACTERS) };
}

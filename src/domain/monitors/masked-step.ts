/**
 * A step whose texts were searched for secrets once. All texts that are stored or quoted come from this copy. From the
 * original texts, the monitors derive only numbers. Pure; any thread.
 */

import { areFreeOfKeys, maskText } from '../../redaction/mask.ts';

/** A step as its sender describes it, with every field present. */
export interface MonitorStep {
  step_index: number;
  action: string;
  /** null: unknown. Telemetry often leaves out contents. */
  action_input: string | null;
  thought: string;
  /** null: unknown. */
  observation: string | null;
  is_error: boolean;
  tokens: number;
}

/** The texts of a step. null: unknown. */
export type StepTextFields = Pick<MonitorStep, 'action' | 'action_input' | 'thought' | 'observation'>;

export interface MaskedStep {
  sent: MonitorStep;
  /** At least the first `SHOWN_CHARACTERS` of each text, without secrets. */
  shown: StepTextFields;
  /** Whether no text has a secret in its first `SHOWN_CHARACTERS`. If so, `shown` contains the original texts. */
  is_plain: boolean;
}

/** Longest stored text of a step, in UTF-16 units, by field. */
export const STEP_COPY = { action: 200, action_input: 400, thought: 400, observation: 600 } as const;

/** Secrets are searched for up to this many characters after a cut. Every key and most tokens are shorter. */
const SECRET_MARGIN = 1_024;

/** Characters searched in every text, in UTF-16 units. A quote uses no more. */
export const SHOWN_CHARACTERS = STEP_COPY.action + SECRET_MARGIN;

/** Masks a step before it is cut, because a secret that is cut can no longer be recognized. */
export function maskStep(sent: MonitorStep): MaskedStep {
  const { action, action_input, thought, observation } = sent;
  const beginnings = [
    beginningOf(action, STEP_COPY.action),
    beginningOf(action_input ?? '', STEP_COPY.action_input),
    beginningOf(thought, STEP_COPY.thought),
    beginningOf(observation ?? '', STEP_COPY.observation),
  ] as const;
  // One search of all texts, which finds nothing in nearly every step.
  if (areFreeOfKeys(beginnings)) return { sent, shown: sent, is_plain: true };
  const shown: StepTextFields = {
    action: maskText(beginnings[0]),
    action_input: action_input === null ? null : maskText(beginnings[1]),
    thought: maskText(beginnings[2]),
    observation: observation === null ? null : maskText(beginnings[3]),
  };
  return { sent, shown, is_plain: false };
}

/** Makes the stored copy of a step's texts: cut, without secrets. */
export function copyStep({ shown }: MaskedStep): StepTextFields {
  const { action, action_input, thought, observation } = shown;
  return {
    action: cut(action, STEP_COPY.action),
    action_input: action_input === null ? null : cut(action_input, STEP_COPY.action_input),
    thought: cut(thought, STEP_COPY.thought),
    observation: observation === null ? null : cut(observation, STEP_COPY.observation),
  };
}

function beginningOf(text: string, copied: number): string {
  return text.slice(0, copied + SECRET_MARGIN);
}

function cut(text: string, units: number): string {
  return text.length <= units ? text : text.slice(0, units).toWellFormed();
}

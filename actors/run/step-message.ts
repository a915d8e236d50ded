/**
 * The message with a step for a run. The sender masks the step and computes its digest, which is most of the work,
 * because the run handles one step at a time. Server threads.
 */
import { digestStep, type StepDigest } from '../../src/domain/monitors/digest.ts';
import {
  copyStep,
  type MonitorStep,
  maskStep,
  type StepTextFields,
} from '../../src/domain/monitors/masked-step.ts';
import type { StepEvent } from '../../src/domain/run.ts';

/** A step's message. It is an array, because msgpack encodes and decodes an array in half the time of an object. */
export type StepMessage = readonly [
  /** The project to which the caller is limited; null: no limit. */
  project_id: string | null,
  step_index: number,
  is_error: boolean,
  tokens: number,
  digest: readonly [action: string, input: string, thought: string, outcome: string, features: Uint8Array],
  copy: readonly [action: string, action_input: string | null, thought: string, observation: string | null],
];

/** Masks a step, computes its digest and makes the message. @param projectId null: the caller is not limited to a project */
export function packStep(projectId: string | null, step: MonitorStep): StepMessage {
  const masked = maskStep(step);
  const { step_index, action, input, thought, outcome, features } = digestStep(masked);
  const copy = copyStep(masked);
  return [
    projectId,
    step_index,
    step.is_error,
    step.tokens,
    [action, input, thought, outcome, features],
    [copy.action, copy.action_input, copy.thought, copy.observation],
  ];
}

export function projectOf(message: StepMessage): string | null {
  return message[0];
}

export function stepIndexOf(message: StepMessage): number {
  return message[1];
}

/** A step in the form in which a run records it: its event, and the texts of its row. */
export interface RecordableStep {
  event: StepEvent;
  copy: StepTextFields;
}

/** Makes a step that the run can record from its message. @param atMs when the message reached the run */
export function unpackStep(message: StepMessage, atMs: number): RecordableStep {
  const [, step_index, is_error, tokens, [action, input, thought, outcome, features], texts] = message;
  const digest: StepDigest = { step_index, action, input, thought, outcome, features };
  return {
    event: { type: 'step', at_ms: atMs, step_index, is_error, tokens, digest },
    copy: { action: texts[0], action_input: texts[1], thought: texts[2], observation: texts[3] },
  };
}

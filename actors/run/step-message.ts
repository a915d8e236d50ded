/**
 * A step on its way to its run. What can be said of it without the run (its digest, and the masked beginnings of its texts) is
 * worked out where it is sent from, if the run lives on another thread: that is most of a step's work, and only the rest of it
 * has to be done one after the other. Within a thread the run does both. Server threads.
 */
import { digestStep, type MonitorStep, type StepDigest } from '../../src/domain/monitors/digest.ts';
import { PLAIN_CHARACTERS } from '../../src/domain/monitors/quote.ts';
import type { StepCopy, StepEvent } from '../../src/domain/run.ts';
import { STEP_COPY } from '../../src/limits.ts';
import { areFreeOfKeys, maskText } from '../../src/redaction/mask.ts';
import { PackablePayload } from '../../src/runtime/link.ts';

const COPIED = Object.entries(STEP_COPY) as [keyof StepCopy, number][];
/** How far beyond a cut a secret is looked for: longer than any key, and most tokens. */
const SECRET_MARGIN = PLAIN_CHARACTERS;

/** A step for its run. */
export class StepMessage extends PackablePayload {
  /** The project that the caller is held to; null: none. */
  readonly project_id: string | null;
  readonly step: MonitorStep;

  constructor(projectId: string | null, step: MonitorStep) {
    super();
    this.project_id = projectId;
    this.step = step;
  }

  pack(): PackedStep {
    const { is_error, tokens } = this.step;
    const { digest, copy } = look(this.step);
    const { step_index, action, input, thought, outcome, features } = digest;
    const { action_input, observation } = copy;
    return [
      this.project_id,
      step_index,
      is_error,
      tokens,
      [action, input, thought, outcome, features],
      [copy.action, action_input, copy.thought, observation],
    ];
  }
}

/** What was looked at, by position, which msgpack writes and reads in half the time of named fields. */
export type PackedStep = readonly [
  project_id: string | null,
  step_index: number,
  is_error: boolean,
  tokens: number,
  digest: readonly [action: string, input: string, thought: string, outcome: string, features: Uint8Array],
  copy: readonly [action: string, action_input: string, thought: string, observation: string],
];

/** A step as far as it has been looked at: what is journaled of it, and what its row says. */
export interface SeenStep {
  event: StepEvent;
  copy: StepCopy;
}

export function projectOf(message: StepMessage | PackedStep): string | null {
  return message instanceof StepMessage ? message.project_id : message[0];
}

export function stepIndexOf(message: StepMessage | PackedStep): number {
  return message instanceof StepMessage ? message.step.step_index : message[1];
}

/** The same, whether the step comes from this thread or another. @param atMs when it came to its run */
export function lookAt(message: StepMessage | PackedStep, atMs: number): SeenStep {
  if (message instanceof StepMessage) {
    const { step_index, is_error, tokens } = message.step;
    const { digest, copy } = look(message.step);
    return { event: { type: 'step', at_ms: atMs, step_index, is_error, tokens, digest }, copy };
  }
  const [, step_index, is_error, tokens, seen, copied] = message;
  const [action, input, thought, outcome, features] = seen;
  const digest: StepDigest = { step_index, action, input, thought, outcome, features };
  const copy = { action: copied[0], action_input: copied[1], thought: copied[2], observation: copied[3] };
  return { event: { type: 'step', at_ms: atMs, step_index, is_error, tokens, digest }, copy };
}

function look(step: MonitorStep): { digest: StepDigest; copy: StepCopy } {
  // Nearly all steps are: then there is nothing to mask, in the copy or in what is quoted.
  const isPlain = areFreeOfKeys(COPIED.map(([field, units]) => step[field].slice(0, units + SECRET_MARGIN)));
  const copy = {} as StepCopy;
  for (const [field, units] of COPIED)
    copy[field] = isPlain ? cut(step[field], units) : cutMasked(step[field], units);
  return { digest: digestStep(step, isPlain), copy };
}

/** Masked before it is cut, or a secret at the cut would lose the shape by which it is known. */
function cutMasked(text: string, units: number): string {
  if (text.length <= units) return maskText(text);
  const masked = maskText(text.slice(0, units + SECRET_MARGIN));
  return masked.slice(0, units).toWellFormed();
}

function cut(text: string, units: number): string {
  return text.length <= units ? text : text.slice(0, units).toWellFormed();
}

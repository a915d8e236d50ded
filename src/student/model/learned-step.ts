/** A golden step as a student learns from it. Plain data; any thread. */

import type { AnswerDigest } from './answer.ts';
import type { StepDigest } from './step.ts';

/** A golden step. */
export interface LearnedStep {
  /** Steps of one run never support each other. */
  run_id: string;
  step: StepDigest;
  answer: AnswerDigest;
  /** The captured exchange; absent: the step was not captured. */
  exchange_id?: number;
}

/**
 * How sure a student must be so that at most a target share of what it serves is wrong; and how good it then is. Pure;
 * analysis.
 */

import type { FitOptions, LearnedStep, MakeStudentIndex, Student } from './student.ts';

export interface CalibrationOptions extends FitOptions {
  /** Share of wrong answers among served ones, 0 … 1; 0.05 when left out. */
  target_error?: number;
  /** Parts that the runs are cut into; 5 when left out. */
  folds?: number;
  makeIndex: MakeStudentIndex;
}

export interface CurvePoint {
  target_error: number;
  /** −1: nothing is served. */
  threshold: number;
  served: number;
  errors: number;
  /** Served of all steps. */
  coverage: number;
  /** Errors of served ones; 0 when none was. */
  error: number;
}

export interface Calibration {
  /** Goes into `decide`; −1: nothing is served, for want of evidence. */
  threshold: number;
  target_error: number;
  /** For the manifest: `cross-fitted split-conformal selection by run, N folds`. */
  method: string;
  runs: number;
  steps: number;
  /** At {@link Calibration.threshold}, on steps whose runs the student did not know. */
  served: number;
  errors: number;
  /** The same for several targets. */
  curve: CurvePoint[];
}

/** Fits on some of the runs, asks about the others, in turns. The threshold then serves a student fitted on all runs. */
export function calibrateStudent(steps: readonly LearnedStep[], options: CalibrationOptions): Calibration {
  void steps;
  void options;
  throw new Error('to come');
}

/** What a student did on steps that it had not learnt. */
export interface Measurement {
  runs: number;
  steps: number;
  served: number;
  errors: number;
  coverage: number;
  error: number;
  fallbacks: Partial<Record<string, number>>;
  /** Of the golden answers: all, and those of served steps. */
  input_tokens: number;
  output_tokens: number;
  served_input_tokens: number;
  served_output_tokens: number;
}

/** Step by step, each with the context that the golden run had. */
export function measureStudent(
  student: Student,
  threshold: number,
  steps: readonly LearnedStep[],
): Measurement {
  void student;
  void threshold;
  void steps;
  throw new Error('to come');
}

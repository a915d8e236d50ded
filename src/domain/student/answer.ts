/** An answer as the student learns from it. Pure; analysis and the student's thread. */

import type { NormalAnswer } from '../turn.ts';
import type { StudentAnswer } from './decision.ts';

/** An exemplar: bounded, ids of calls emptied, text and calls alone. Plain JSON. */
export type AnswerDigest = StudentAnswer;

/**
 * @returns null for what cannot be an exemplar: refusals, answers that were cut or that hold anything but text, calls
 *   and thinking (which is left out), texts or inputs above STUDENT_ANSWER_BYTES
 */
export function digestAnswer(answer: NormalAnswer): AnswerDigest | null {
  void answer;
  throw new Error('to come');
}

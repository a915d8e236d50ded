/**
 * When two answers say the same: what "error" means wherever a student is measured. Pure; any thread.
 */

import type { StudentAnswer } from './decision.ts';

export function answersAgree(a: Pick<StudentAnswer, 'content'>, b: Pick<StudentAnswer, 'content'>): boolean {
  void a;
  void b;
  throw new Error('to come');
}

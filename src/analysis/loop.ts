/**
 * Whether a new student is published or the present one stays, and why. The rule of
 * `distill` and of `loop`. Pure but for what it asks; command line.
 */

import type { StudentManifest } from '../student/model/manifest.ts';
import type { MakeStudentIndex } from '../student/model/student.ts';
import type { StudentModel } from '../student/model/student-model.ts';
import {
  type Comparison,
  compareStudents,
  type Gate,
  type JudgeFit,
  judgeComparison,
  judgeStudent,
  type TaughtStudent,
} from './distill.ts';

/** A student that is in the directory. */
export interface PublishedStudent {
  manifest: StudentManifest;
  model: StudentModel;
}

export interface Verdict {
  publish: boolean;
  /** Why not; '' when it is published. */
  reason: string;
  comparison: Comparison | null;
}

/**
 * Publish what passes the gate and is not worse than what is there.
 * @param published null: nothing to compare with
 * @param isFit as `teachStudent` had it
 */
export async function judgeRound(
  taught: TaughtStudent,
  published: PublishedStudent | null,
  gate: Gate,
  makeIndex: MakeStudentIndex,
  isFit: JudgeFit = () => true,
): Promise<Verdict> {
  const short = judgeStudent(taught, gate);
  if (short !== null) return { publish: false, reason: short, comparison: null };
  const comparison = published === null ? null : await compareStudents(taught, published, makeIndex, isFit);
  const worse = judgeComparison(comparison, gate);
  return { publish: worse === null, reason: worse ?? '', comparison };
}

/**
 * Decides whether a new student is published or the current one stays, with the reason. `distill` and `loop`
 * share this rule. Pure except for its service; command line.
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
} from './taught-student.ts';

/** The student that the directory serves. */
export interface PublishedStudent {
  manifest: StudentManifest;
  model: StudentModel;
}

interface Verdict {
  publish: boolean;
  /** Why the student is not published; '' when it is published. */
  reason: string;
  comparison: Comparison | null;
}

/**
 * Decides to publish a student that passes the gate and is not worse than the current student.
 * @param published null: there is nothing to compare with
 * @param isFit as passed to `teachStudent`
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

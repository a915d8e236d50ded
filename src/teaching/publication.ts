/**
 * Decides whether a new student is published or the current one stays, with the reason. `distill` and `loop`
 * share this rule. Pure except for `isFit`; command line.
 */

import type { StudentManifest } from '../student/model/manifest.ts';
import type { MakeStudentIndex } from '../student/model/student.ts';
import type { StudentModel } from '../student/model/student-model.ts';
import { summarizeMeasures } from './student-measures.ts';
import {
  compareStudents,
  type Gate,
  type JudgeFit,
  judgeComparison,
  judgeMeasures,
  type MeasuredFigures,
} from './taught-student.ts';

/** The serving version: its manifest, and the model that the manifest's figures describe. */
export interface PublishedStudent {
  manifest: StudentManifest;
  model: StudentModel;
}

interface Judging {
  /** null: no published student to compare with. */
  published: PublishedStudent | null;
  gate: Gate;
  makeIndex: MakeStudentIndex;
  /** As passed to `teachStudent`. */
  isFit?: JudgeFit;
}

/**
 * Decides whether a measured student may be published.
 * @returns why a student with these figures cannot be published: it fails the gate, or it is worse than the published
 * student; null: it can be published
 */
export async function refuseMeasured(
  measured: MeasuredFigures,
  { published, gate, makeIndex, isFit = () => true }: Judging,
): Promise<string | null> {
  const short = judgeMeasures(summarizeMeasures(measured.steps), gate);
  if (short !== null || published === null) return short;
  return judgeComparison(await compareStudents(measured, published, makeIndex, isFit), gate);
}

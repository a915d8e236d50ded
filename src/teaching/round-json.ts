/** A round's report in the form of `--json`, which the round's thread also sends. Plain data. */

import type { StudentManifestDraft } from '../student/model/manifest.ts';
import type { CurvePoint } from './calibration.ts';
import type { RoundReport } from './round.ts';
import type { SilentChange } from './silent-changes.ts';
import type { AnswerKindMeasure } from './student-measures.ts';
import type { EndedAfter } from './taught-student.ts';

export interface RoundJson
  extends Pick<RoundReport, 'outcome' | 'reason' | 'version' | 'taught_runs' | 'patterns'> {
  out: string;
  runs: number;
  looked_at: number;
  passed_over: number;
  too_old: number;
  read: number;
  golden: number;
  steps: number;
  not_golden: RoundReport['material']['not_golden'];
  untaught: RoundReport['material']['untaught'];
  /** The new student, published or not; null when the round ended before that. */
  student:
    | (StudentManifestDraft & {
        /** Negative when nothing would be served. */
        threshold: number;
        by_answer: AnswerKindMeasure[];
        changes: SilentChange[];
        curve: CurvePoint[];
        /** The work after which the round ended early; null if it did not. */
        ended_after: EndedAfter | null;
      })
    | null;
}

/** Makes the report in JSON. It leaves out the student's model and the single steps on which it was measured. */
export function toRoundJson(report: RoundReport, out: string): RoundJson {
  const { outcome, reason, version, material, taught_runs, patterns, student } = report;
  return {
    outcome,
    reason,
    version,
    out,
    ...material,
    taught_runs,
    patterns,
    student:
      student === null
        ? null
        : {
            ...student.draft,
            threshold: student.threshold,
            by_answer: student.by_answer,
            changes: student.changes,
            curve: student.calibration.curve,
            ended_after: student.ended_after,
          },
  };
}

/** A valid student manifest, which tests and benches change where they need to. Pure; any thread. */
import { ERROR_DEFINITION, type StudentManifestDraft } from '../src/student/model/manifest.ts';

export function makeDraft(over: Partial<StudentManifestDraft> = {}): StudentManifestDraft {
  return {
    made_at: '2026-03-01T10:00:00.000Z',
    made_by: 'understudy 0.1.0',
    student: { kind: 'exemplar' },
    coverage: { threshold: 0.25, target_error: 0.05, method: 'split conformal' },
    measured: {
      held_out_runs: 6,
      steps: 40,
      served: 30,
      errors: 1,
      coverage: 0.75,
      error: 1 / 30,
      error_at_most: 0.15,
      in_a_row: { served: 24, errors: 1 },
      whole_runs: 4,
      tokens_saved_share: 0.7,
      uncovered: { too_far: 10 },
      error_definition: ERROR_DEFINITION,
    },
    golden: {
      runs: 30,
      teaching_runs: 24,
      steps: 160,
      held_out_below: 0.25,
      fingerprint: 'f',
      first_exchange_id: 1,
      last_exchange_id: 240,
    },
    ...over,
  };
}

/** What relegation decided about a step, in words: for people who ask why. Data; any thread. */

/** What is decided without a student, or in spite of one, and what a student says of a step that it does not cover. */
const DECISIONS: Readonly<Record<string, string>> = {
  served: 'the student served it',
  would_serve: 'the student would have served it (shadow mode)',
  shadow: 'the student would have served it (shadow mode)',
  audit: 'the student would have served it; the upstream did, for comparison',
  taken_over: 'the upstream serves this run',
  unknown_run: 'the gateway does not know the run',
  suspended: 'the student was wrong too often with this agent or kind of answer, or an operator suspended it',
  canary: 'the version serves a share of the runs, and this run is not in it',
  expired: 'the student is too old',
  failed: 'the student failed',
  untranslatable: 'the model behind the student cannot be told such a step as it was meant',
  loading: 'the student was not loaded',
  busy: 'the student had enough to do',
  timeout: 'the student was late',
  crashed: 'the student’s thread ended',
  too_large: 'the body is too large for a student',
  slow_body: 'the rest of the body was long in coming',
  encoded: 'the body is compressed, or not JSON by its content type',
  unknown_credential: 'neither the operator nor the upstream had accepted the credential',
  no_credential: 'it came without a credential',
  unknown_agent: 'no golden run had this system prompt, these tools and settings',
  other_value: 'the prompt or the task has another value than all golden runs had',
  unsupported: 'the request asks for an answer that no student gives',
  too_far: 'no golden step is near enough, or the step has something that none had',
  disagreement: 'the golden steps beside it were answered differently',
  missing_value: 'the answer needs a value that the step does not hold',
  unproven: 'this kind of answer has too little evidence, was wrong too often, or is excepted',
  bad_request: 'the upstream might refuse the request: golden runs never sent one like it',
  invalid: 'the answer would break the request’s own rules',
};

/** null for a decision that nothing is known of. */
export function describeDecision(decision: string): string | null {
  return DECISIONS[decision] ?? null;
}

/**
 * Relegation's decisions about steps in words, and what would make the student serve such a step. Data; any thread.
 */

/**
 * Two clauses: the decision in words, and its remedy as the end of a sentence that begins with "it". The remedy is
 * '' if no change is needed.
 */
type DecisionWords = readonly [words: string, remedy: string];

/**
 * The words for each decision: that the student served or would have served the step, that the student was not asked or
 * its answer was not used, or why the student does not cover the step.
 */
const DECISIONS: Readonly<Record<string, DecisionWords>> = {
  served: ['the student served it', ''],
  would_serve: [
    'the student would have served it, but shadow mode only compares',
    'would be served with GW_RELEGATION=on',
  ],
  shadow: [
    'the student would have served it, but shadow mode only compares',
    'would be served with GW_RELEGATION=on',
  ],
  audit: [
    'the student would have served it, but an audit compares the upstream’s answer',
    'would be served if it was not audited: GW_RELEGATION_AUDIT sets the share of audits',
  ],
  taken_over: [
    'the upstream serves the rest of this run, because it served an earlier step',
    'would be served if the student had served the run so far, or without GW_RELEGATION_STICKY',
  ],
  unknown_run: [
    'the gateway does not know the beginning of the run',
    'would be served if the gateway had seen the run from its beginning, or without GW_RELEGATION_STICKY',
  ],
  suspended: [
    'audits or an operator suspended this agent variant or kind of answer',
    'would be served after a round with newer golden runs, or after understudy student resume',
  ],
  canary: [
    'the version serves only a share of the runs, and this run is not in it',
    'would be served if the version served all runs: understudy student publish --share 1',
  ],
  expired: ['the student’s validity has ended', 'would be served after a new round: understudy loop --once'],
  failed: [
    'the student failed, or its answer broke a rule of the request',
    'would be served if the student did not fail: the log says why it did',
  ],
  untranslatable: [
    'the whole step cannot be translated for the model behind the student',
    'would be served if the whole request could be translated: understudy relegation explain names the part',
  ],
  no_student: [
    'no student is published in SVC_DISTILL_DIR',
    'would be served after a round publishes a student: understudy loop --once',
  ],
  loading: ['the student was being loaded', 'would be served a moment later'],
  busy: ['the student was busy with other steps', 'would be served if fewer steps came at once'],
  timeout: [
    'the student did not answer in time',
    'would be served if the student answered within GW_STUDENT_TIMEOUT_MS',
  ],
  crashed: [
    'the student’s thread ended',
    'would be served if the thread did not end: the log says why it did',
  ],
  too_large: ['the body is larger than 2 MiB', 'would be served if the body had at most 2 MiB'],
  slow_body: [
    'the rest of the body took longer than a second',
    'would be served if the whole body arrived within a second',
  ],
  encoded: [
    'the body is compressed, or not JSON by its content type',
    'would be served if it came as JSON without compression',
  ],
  unknown_credential: [
    'neither SVC_STUDENT_KEYS nor the upstream had accepted the credential',
    'would be served if SVC_STUDENT_KEYS named the key, or after the upstream has accepted it once',
  ],
  no_credential: ['it came without a credential', 'would be served with a credential'],
  unknown_agent: [
    'no golden run had this system prompt with this model, these tools and settings',
    'would be served after a round with golden runs of this agent variant',
  ],
  other_value: [
    'the prompt or the task has another value where all golden runs had the same one',
    'would be served after a round with golden runs that have different values at this place of the prompt or the task',
  ],
  unsupported: [
    'the request asks for an answer that no student can give',
    'would be served if it asked only for text and function calls',
  ],
  too_far: [
    'no golden step is near enough, or the step has something that no golden step had',
    'would be served after a round with golden runs that have such steps',
  ],
  disagreement: [
    'golden runs answered such steps differently, or no rule explains their answers',
    'would be served if golden runs answered such steps alike, or with values that the step holds',
  ],
  missing_value: [
    'the answer needs a value that the step does not hold, or holds in several ways',
    'would be served if the step held every value of the answer in the place where golden steps had it',
  ],
  unproven: [
    'this kind of answer has too little evidence, was wrong too often, or is excluded',
    'would be served if more golden runs had this kind of answer without an error: understudy student show says how many',
  ],
  bad_request: [
    'the upstream might refuse the request, since golden runs sent none like it',
    'would be served after a round with golden runs that sent such requests',
  ],
  invalid: [
    'the answer would break a rule of the request: its tools, their schemas, the choice among them, or its length',
    'would be served if the request allowed the answer',
  ],
};

/** Decisions in which the student did not refuse. */
const ANSWERED = new Set(['served', 'would_serve', 'shadow', 'audit']);

/** Describes a decision in words; null for an unknown decision. */
export function describeDecision(decision: string): string | null {
  return DECISIONS[decision]?.[0] ?? null;
}

/**
 * Describes, as a clause, what would make the student serve a step with this decision; '' for a step that it served,
 * and for an unknown decision.
 */
export function describeRemedy(decision: string): string {
  return DECISIONS[decision]?.[1] ?? '';
}

/** Describes the decision and its remedy in sentences. An unknown decision is described by its own words. */
export function tellInSentences(decision: string): string {
  const words = describeDecision(decision) ?? decision.replaceAll('_', ' ');
  const said = ANSWERED.has(decision)
    ? `${words.charAt(0).toUpperCase()}${words.slice(1)}.`
    : `The upstream served it: ${words}.`;
  const remedy = describeRemedy(decision);
  return remedy === '' ? said : `${said} It ${remedy}.`;
}

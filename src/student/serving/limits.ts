/** Bounds of serving that the gateway and the command line also use. Constants only; any thread. */

/** Maximum number of steps of one server thread that wait for the student. Further steps go to the upstream. */
export const STEPS_UNDER_WAY = 64;
/**
 * How long a step waits for a student that answers itself (`exemplar`), and for a student that asks a service (`http`).
 */
export const STUDENT_TIMEOUT_MS = { exemplar: 100, http: 10_000 } as const;
/** Number of consecutive failures after which a service is not asked for a while. */
export const SERVICE_FAILURES_MAX = 12;
/** Maximum number of the student's answers that are remembered so that conversations may continue them. */
export const RELEGATED_ANSWERS = 100_000;

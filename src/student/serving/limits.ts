/** Bounds of serving that the gateway and the command line share with it. Constants only; any thread. */

/** Steps that one server thread has at the student at once. Further ones are forwarded. */
export const STEPS_UNDER_WAY = 64;
/** How long a step waits for a student that answers itself, and for one that asks a service. */
export const STUDENT_TIMEOUT_MS = { exemplar: 100, http: 10_000 } as const;
/** Consecutive failures of a service after which it is not asked. */
export const SERVICE_FAILURES_MAX = 12;
/** Answers of the student's own that a conversation may continue. The oldest are forgotten. */
export const RELEGATED_ANSWERS = 100_000;

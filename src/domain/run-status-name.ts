/** The statuses of a run, and who can end it; run-status.ts computes them. Constants; any thread, browser. */

export const RUN_STATUSES = ['failed', 'error', 'running', 'ok', 'unknown'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** Who ended a run. */
export const RUN_ENDERS = ['person', 'agent', 'model', 'client', 'upstream', 'gateway'] as const;
export type RunEnder = (typeof RUN_ENDERS)[number];

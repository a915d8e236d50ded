/**
 * The kinds of runs within a client's session. Constants; any thread, browser.
 */

/** An agent that another agent started, or side calls of the client. */
export const CHILD_KINDS = ['subagent', 'title', 'summary', 'safety_check', 'side_call'] as const;
export type ChildKind = (typeof CHILD_KINDS)[number];

/** Side calls: they are never golden. */
export type SideKind = Exclude<ChildKind, 'subagent'>;

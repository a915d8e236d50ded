/** What a run within a client's session is. Constants; any thread, browser. */

/** An agent that another one started, or calls of the client beside the work. */
export const CHILD_KINDS = ['subagent', 'title', 'summary', 'safety_check', 'side_call'] as const;
export type ChildKind = (typeof CHILD_KINDS)[number];

/** Calls beside the work: they are never golden. */
export type SideKind = Exclude<ChildKind, 'subagent'>;

/**
 * Phases of a round that the command recognises by the announced word. Command line, main thread, and the round's own
 * thread.
 */

/** The student is being published. */
export const PUBLISHING = 'publishing';

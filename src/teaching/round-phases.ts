/**
 * Phases of a round, announced by a word that the command recognises. Command line, main thread, and the round's own
 * thread.
 */

/** The student is being published. */
export const PUBLISHING = 'publishing';

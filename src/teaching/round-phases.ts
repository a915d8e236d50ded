/**
 * The words by which a round announces its phases to the command. Command line, main thread, and the round's own
 * thread.
 */

/** The student is being published. */
export const PUBLISHING = 'publishing';

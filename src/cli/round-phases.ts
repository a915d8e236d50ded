/** Parts of a round that the command knows by the word that announces them. Command line, main thread, and the round's own thread. */

/** The student is put into its place. */
export const PUBLISHING = 'publishing';

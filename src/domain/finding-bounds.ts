/**
 * The bounds of a finding's texts, in a file without the masking code, because agents' tools need only the
 * bounds. Pure; any thread.
 */

/** Maximum lengths of the texts of a finding, in code points (contract document 2). Longer texts are cut. */
export const FINDING_BOUNDS = { content: 8_000, file_path: 512, finding_type: 64, query: 2_000 } as const;

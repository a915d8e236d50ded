/**
 * Examples of requests and answers, recorded from a real service; examples.json has one line for each
 * operation. To record them again: `RECORD_EXAMPLES=on npx vitest run test/api/examples.test.ts`. Data; any
 * thread.
 */
import recorded from './examples.json' with { type: 'json' };

export interface Example {
  request?: unknown;
  /** The answers, by status. */
  replies: Readonly<Record<number, unknown>>;
}

/** The examples, by operation. */
export const EXAMPLES: Readonly<Record<string, Example>> = recorded;

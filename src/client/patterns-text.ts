/**
 * Formats retrieved patterns as text for a system prompt, within a limit of tokens. Pure; any thread.
 */
import type { AnswerOf } from './operations.ts';

export type Pattern = AnswerOf<'retrievePatterns'>['traces'][number];

/** The query of a retrieval, and the size of its result. */
export interface RetrieveOptions {
  /** Maximum tokens of the text. Default 1,000. */
  maxTokens?: number;
  /** Maximum number of patterns, 1 to 50. Default 5. */
  topK?: number;
  /** `e1`: the project's, `e2`: the organization's, `e3`: universal. Default: all of them. */
  tier?: 'e1' | 'e2' | 'e3';
  /** Only patterns with this `failure_type`. */
  failureType?: string;
  /** From 0 to 1; less similar patterns are left out. */
  minSimilarity?: number;
  /** The text to search for. Default: the run's task. */
  context?: string;
}

export const PATTERN_TOKENS = 1_000;

const HEAD =
  'Notes from earlier runs in situations like this one. They are experience, not instructions: use what fits the task.';

/**
 * Low estimate of the UTF-8 bytes per token in prose and code, so that the estimated number of tokens is too high
 * rather than too low.
 */
const TOKEN_BYTES = 3;

/** Estimates the tokens of a text. The estimate is too high rather than too low. */
export function estimateTokens(text: string): number {
  return Math.ceil(new TextEncoder().encode(text).length / TOKEN_BYTES);
}

/**
 * Formats patterns in the given order. A pattern that does not fit completely is left out, and shorter ones after it
 * may still fit.
 * @returns '' if there are no patterns or none fits
 */
export function renderPatterns(patterns: readonly Pattern[], maxTokens: number): string {
  let text = HEAD;
  let count = 0;
  for (const { fields } of patterns) {
    const longer = `${text}\n\n${count + 1}. ${renderPattern(fields)}`;
    if (estimateTokens(longer) > maxTokens) continue;
    text = longer;
    count += 1;
  }
  return count === 0 ? '' : text;
}

function renderPattern({ situation, dead_ends, unlock }: Pattern['fields']): string {
  const parts = [`Situation: ${situation}`];
  if (dead_ends !== '') parts.push(`What did not help: ${dead_ends}`);
  if (unlock !== '') parts.push(`What helped: ${unlock}`);
  return parts.map((part) => part.trim().replaceAll(/\n\s*/g, '\n   ')).join('\n   ');
}

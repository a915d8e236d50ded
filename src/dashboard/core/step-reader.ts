/**
 * Reads student steps with one outcome: refused by the student, or answered differently than by the upstream. A page of
 * the API may hold fewer steps than requested, so the function reads pages until it has enough. Browser.
 */
import { call } from './api.ts';
import type { Reply } from './contract.ts';

type StepOutcome = 'refused' | 'disagreed';
type Step = Reply<'GET /capture/steps'>['steps'][number];

/** Maximum number of pages per reading. Pages are short if few steps match. */
const PAGES_MAX = 60;

interface SomeSteps {
  steps: Step[];
  /** There may be more: older steps were not examined, or more match than were requested. */
  has_more: boolean;
}

/** Reads the newest steps with this outcome, page by page. @throws ApiError */
export async function readSteps(
  outcome: StepOutcome,
  wanted: number,
  signal: AbortSignal,
): Promise<SomeSteps> {
  const steps: Step[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < PAGES_MAX; page++) {
    const limit = wanted - steps.length;
    const read: Reply<'GET /capture/steps'> = await call('GET /capture/steps', {
      query: { outcome, limit, ...(cursor === null ? {} : { cursor }) },
      signal,
    });
    steps.push(...read.steps);
    cursor = read.next_cursor;
    if (cursor === null || steps.length >= wanted) break;
  }
  return { steps, has_more: cursor !== null };
}

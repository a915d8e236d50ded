/** Steps of relegation that pass a filter: reads short pages until there are enough of them. Browser. */
import { call } from './api.ts';
import type { Reply } from './contract.ts';

type StepOutcome = 'refused' | 'disagreed';
type Step = Reply<'GET /capture/steps'>['steps'][number];

/** Pages are short where few steps pass; this is how many are read for one look. */
const PAGES_MAX = 60;

interface SomeSteps {
  steps: Step[];
  /** There may be more: older ones were not looked at, or there are more than were wanted. */
  has_more: boolean;
}

/** @throws ApiError */
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

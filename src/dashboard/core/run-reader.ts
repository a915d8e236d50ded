/**
 * Reads one run with its steps page by page, and continues as it grows. Steps do not change, so only the last
 * page is read again. Browser.
 */
import { call } from './api.ts';
import type { Reply } from './contract.ts';

export type Run = Reply<'GET /v1/monitor/runs/{id}'>;
export type Step = Reply<'GET /v1/monitor/runs/{id}/steps'>['steps'][number];

export interface ReadRun {
  run: Run;
  steps: Step[];
  /** Whether there are more steps. */
  has_more: boolean;
}

const PAGE_STEPS = 200;
/** Maximum number of steps that are read at first, and each time the reader wants more. */
const WANTED_STEPS = 1_000;

interface Page {
  /** Cursor with which the last page is read again; null: it is the first page. */
  cursor: string | null;
  steps: Step[];
}

export class RunReader {
  readonly #run_id: string;
  readonly #org_id: string;
  #pages: Page[] = [];
  #wanted = WANTED_STEPS;

  constructor(org_id: string, run_id: string) {
    this.#org_id = org_id;
    this.#run_id = run_id;
  }

  /** The next reading includes more steps. */
  want(): void {
    this.#wanted += WANTED_STEPS;
  }

  /** The next reading starts from the beginning, because events were lost. */
  forget(): void {
    this.#pages = [];
  }

  /** Reads the run, and its steps up to the number that is wanted. @throws ApiError */
  async read(signal: AbortSignal): Promise<ReadRun> {
    const ask = { params: { id: this.#run_id }, query: { org_id: this.#org_id }, signal };
    const run = await call('GET /v1/monitor/runs/{id}', ask);
    const pages = this.#pages.slice(0, -1);
    let cursor = this.#pages.at(-1)?.cursor ?? null;
    for (let isFirst = true; ; isFirst = false) {
      const page = await call('GET /v1/monitor/runs/{id}/steps', {
        ...ask,
        query: { ...ask.query, limit: PAGE_STEPS, ...(cursor === null ? {} : { cursor }) },
      });
      // A full page may be the last one so far, so it is read again with the same cursor.
      if (page.steps.length > 0 || isFirst) pages.push({ cursor, steps: page.steps });
      const has = pages.reduce((sum, { steps }) => sum + steps.length, 0);
      if (page.next_cursor === null || has >= this.#wanted) {
        this.#pages = pages;
        const steps = pages.flatMap(({ steps: read }) => read);
        // A step is missing: it came late, and belongs between steps that were read before.
        if (page.next_cursor === null && steps.length < run.steps && run.status === 'finished') this.forget();
        return { run, steps, has_more: page.next_cursor !== null };
      }
      cursor = page.next_cursor;
    }
  }
}

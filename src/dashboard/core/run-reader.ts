/**
 * One run with its steps, read page by page and gone on with: steps do not change once they are there, so only the last page is
 * read again. Browser.
 */
import { call } from './api.ts';
import type { Reply } from './contract.ts';

export type Run = Reply<'GET /v1/monitor/runs/{id}'>;
export type Step = Reply<'GET /v1/monitor/runs/{id}/steps'>['steps'][number];

export interface ReadRun {
  run: Run;
  steps: Step[];
  /** There are steps behind those. */
  has_more: boolean;
}

const PAGE_STEPS = 200;
/** So many are read at first, and with each wish for more. */
const WANTED_STEPS = 1_000;

interface Page {
  /** With which it is read again; null: the first. */
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

  /** More steps at the next reading. */
  want(): void {
    this.#wanted += WANTED_STEPS;
  }

  /** Everything is read anew the next time: events of it were lost. */
  forget(): void {
    this.#pages = [];
  }

  /** @throws ApiError */
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
      // The end of a full page has no page behind it yet: it is read again with the same cursor.
      if (page.steps.length > 0 || isFirst) pages.push({ cursor, steps: page.steps });
      const has = pages.reduce((sum, { steps }) => sum + steps.length, 0);
      if (page.next_cursor === null || has >= this.#wanted) {
        this.#pages = pages;
        const steps = pages.flatMap(({ steps: read }) => read);
        // A step that came late stands between others that were read before.
        if (page.next_cursor === null && steps.length < run.steps && run.status === 'finished') this.forget();
        return { run, steps, has_more: page.next_cursor !== null };
      }
      cursor = page.next_cursor;
    }
  }
}

/**
 * A list that is read by cursor. It reads more when the reader comes near its end, and may read its beginning
 * periodically, so that new and changed rows appear. Browser.
 */
import { useMemo } from 'preact/hooks';
import { type Resource, useResource } from './resource.ts';

/** A page of the list. A page may have more fields than these. */
export interface CursorPage<One> {
  rows: One[];
  next_cursor: string | null;
}

interface PagedRows<Page extends CursorPage<unknown>> {
  rows: Page['rows'];
  has_more: boolean;
  /** The first page, as it was last read. */
  head: Page;
}

export interface PagedList<Page extends CursorPage<unknown>> extends Resource<PagedRows<Page>> {
  /** Reads the next page. */
  more(): void;
}

/** Maximum number of pages that are read after the first one. Rows of further pages are not shown. */
const PAGES_MAX = 2_000;

export function usePagedList<Page extends CursorPage<unknown>>(
  key: string,
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page>,
  { keyOf, every_ms }: { keyOf: (row: Page['rows'][number]) => string; every_ms?: number },
): PagedList<Page> {
  const rest = useMemo(() => new Rest<Page['rows'][number]>(), [key]);
  const resource = useResource(
    key,
    async (signal) => {
      const head = await read(undefined, signal);
      // Until a later page is read, the cursor of the first page applies.
      if (rest.pages === 0) rest.cursor = head.next_cursor;
      if (rest.isWanted && rest.cursor !== null && rest.pages < PAGES_MAX) {
        const page = await read(rest.cursor, signal);
        rest.add(page);
      }
      rest.isWanted = false;
      return { rows: rest.joinTo(head.rows, keyOf), has_more: rest.cursor !== null, head };
    },
    every_ms === undefined ? {} : { every_ms },
  );
  const more = () => {
    if (rest.isWanted || rest.cursor === null) return;
    rest.isWanted = true;
    resource.refresh();
  };
  return Object.assign(resource, { more });
}

/** Rows that were read after the first page. */
class Rest<One> {
  /** Cursor of the next page; undefined: the first page is not read yet; null: there is no next page. */
  cursor: string | null | undefined;
  isWanted = false;
  pages = 0;
  #rows: One[] = [];
  #head: One[] = [];

  add({ rows, next_cursor }: CursorPage<One>): void {
    this.#rows.push(...rows);
    this.cursor = next_cursor;
    this.pages++;
  }

  /**
   * Replaces the first page by a newer one. Rows that are missing from the newer page move to the beginning
   * of the rest.
   * @returns all rows, each once
   */
  joinTo(head: One[], keyOf: (row: One) => string): One[] {
    const seen = new Set(head.map(keyOf));
    const fallen = this.#head.filter((row) => !seen.has(keyOf(row)));
    if (fallen.length > 0) this.#rows.unshift(...fallen);
    this.#head = head;
    const joined = [...head];
    for (const row of this.#rows) {
      const name = keyOf(row);
      if (seen.has(name)) continue;
      seen.add(name);
      joined.push(row);
    }
    return joined;
  }
}

/** Tables, and lists that are read page by page. On a narrow page, each row is a card. Browser. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { CountedPage } from '../core/api.ts';
import { type Resource, useResource } from '../core/resource.ts';
import { Empty, Loaded } from './states.tsx';

export interface Column<One> {
  title: string;
  show: (row: One) => ComponentChildren;
  /**
   * Text of `wide` and `name` columns breaks within words. A `name` column stays readable beside a `wide` column. Text
   * of a `short` column stays on one line, unless the page is narrow.
   */
  kind?: 'number' | 'name' | 'wide' | 'short' | 'acts';
}

export function Table<One>({
  columns,
  rows,
  keyOf,
  empty,
  how,
  label,
}: {
  columns: readonly Column<One>[];
  rows: readonly One[];
  keyOf: (row: One) => string;
  /** Text for a table without rows. `how` explains how to add rows. */
  empty: string;
  how?: ComponentChildren;
  label: string;
}) {
  if (rows.length === 0) return <Empty title={empty}>{how}</Empty>;
  return (
    <table aria-label={label}>
      <thead>
        <tr>
          {columns.map(({ title, kind }) => (
            <th key={title} scope="col" class={kind}>
              {title === '' ? <span class="offstage">Actions</span> : title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(({ title, show, kind }) => (
              <td key={title} class={kind} data-heading={title}>
                <div>{show(row)}</div>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface CountedList<One> extends Resource<CountedPage<One>> {
  /** Shows more rows. */
  more(): void;
}

const PAGE_ROWS = 50;
const PAGE_ROWS_MAX = 200;

/** A list of the API that counts its rows, read from the beginning; `more` reads further rows. */
export function useCountedList<One>(
  key: string,
  read: (query: { limit: number; offset: number }, signal: AbortSignal) => Promise<CountedPage<One>>,
): CountedList<One> {
  const wanted = useMemo(() => signal(PAGE_ROWS), [key]);
  const resource = useResource(key, async (ends) => {
    const rows: One[] = [];
    for (let total = 1; rows.length < Math.min(total, wanted.peek()); ) {
      const limit = Math.min(PAGE_ROWS_MAX, wanted.peek() - rows.length);
      const page = await read({ limit, offset: rows.length }, ends);
      rows.push(...page.rows);
      total = page.total;
      if (page.rows.length === 0) break;
      if (rows.length >= total || rows.length >= wanted.peek()) return { rows, total };
    }
    return { rows, total: rows.length };
  });
  const more = () => {
    wanted.value += PAGE_ROWS * 2;
    resource.refresh();
  };
  return Object.assign(resource, { more });
}

/** A list as a table, with a button that shows more of it. */
export function ListTable<One>({
  list,
  ...table
}: {
  list: CountedList<One>;
  columns: readonly Column<One>[];
  keyOf: (row: One) => string;
  empty: string;
  label: string;
}) {
  return (
    <Loaded from={list}>
      {({ rows, total }) => (
        <>
          <Table {...table} rows={rows} />
          {rows.length < total ? (
            <button type="button" class="plain more" onClick={() => list.more()}>
              Show more ({rows.length} of {total})
            </button>
          ) : null}
        </>
      )}
    </Loaded>
  );
}

/**
 * The query bar over a list of runs, with completion, saved queries and errors. The address contains the
 * query. The key `/` moves the focus to the bar, and `?` explains the language of queries. Browser.
 */
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { completeRunQuery } from '../../domain/run-query/complete.ts';
import type { SortField } from '../../domain/run-query/fields.ts';
import { parseRunQuery } from '../../domain/run-query/parse.ts';
import { printRunQuery } from '../../domain/run-query/print.ts';
import { RunQueryError } from '../../domain/run-query/run-query.ts';
import { setFilters } from '../core/address.ts';
import { ApiError } from '../core/api.ts';
import { useFieldValues } from '../core/field-values.ts';
import { formatNumber } from '../core/format.ts';
import { type RunScope, readRuns } from '../core/listed-runs.ts';
import { useResource } from '../core/resource.ts';
import { useSavedQueries } from '../core/saved-queries.ts';
import { organization } from '../core/session.ts';
import { act } from './notice.tsx';

const PAUSE_MS = 300;
const MATCHES_MS = 30_000;
/** Maximum length that the API accepts. */
const QUERY_CHARACTERS = 2_000;

/** Why the query cannot be read; '' if it can be read. */
export function checkQuery(text: string): string {
  try {
    parseRunQuery(text);
    return '';
  } catch (error) {
    if (error instanceof RunQueryError) return error.message;
    throw error;
  }
}

/**
 * The field for a query, with suggestions of fields and values.
 * @param scope the runs whose values are offered
 * @param isListed whether the list of runs was read. Until then the bar does not count matches, which would delay the
 *   list
 */
export function QueryBar({ value, scope, isListed }: { value: string; scope: RunScope; isListed: boolean }) {
  const { typed, type, problem } = useTyped(value);
  const input = useRef<HTMLInputElement>(null);
  const [caret, setCaret] = useState<number | null>(null);
  const [chosen, choose] = useState(-1);
  const [isExplained, explain] = useState(false);
  const id = useId();
  useShortcuts(input, () => explain((before) => !before));
  const asked = useMemo(() => (caret === null ? null : completeRunQuery(typed, caret).asked), [typed, caret]);
  const values = useFieldValues(scope, asked);
  const found = useMemo(
    () =>
      caret === null
        ? null
        : completeRunQuery(typed, caret, (field) => (values?.field === field ? values.values : null)),
    [typed, caret, values],
  );
  const items = found?.items ?? [];
  const close = () => {
    setCaret(null);
    choose(-1);
  };
  const accept = (at: number) => {
    const item = items[at];
    if (found === null || item === undefined) return;
    const end = item.text.endsWith(':') ? '' : ' ';
    const before = typed.slice(0, found.from) + item.text + end;
    type(before + typed.slice(found.to).trimStart());
    choose(-1);
    setCaret(end === '' ? before.length : null);
    requestAnimationFrame(() => input.current?.setSelectionRange(before.length, before.length));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') close();
    else if (event.key === 'Enter') chosen >= 0 ? accept(chosen) : close();
    else if (items.length > 0 && (event.key === 'ArrowDown' || event.key === 'ArrowUp'))
      choose(
        (chosen + (event.key === 'ArrowDown' ? 1 : items.length + (chosen < 0 ? 1 : 0) - 1)) % items.length,
      );
    else if (event.key === 'Tab' && chosen >= 0) accept(chosen);
    else return;
    event.preventDefault();
  };
  return (
    <search class="query-bar">
      <label for={`${id}-text`}>Search</label>
      <div class="query-field">
        <input
          ref={input}
          id={`${id}-text`}
          type="search"
          // biome-ignore lint/a11y/noRedundantRoles: a search field is a combobox only with a `list` attribute
          role="combobox"
          list={undefined}
          aria-expanded={items.length > 0}
          aria-controls={`${id}-list`}
          aria-activedescendant={chosen < 0 ? undefined : `${id}-${chosen}`}
          aria-invalid={problem !== ''}
          aria-describedby={`${id}-problem`}
          autocomplete="off"
          spellcheck={false}
          value={typed}
          placeholder='status:failed tool:run_tests cost:>0.5 "date parser" since:7d'
          maxLength={QUERY_CHARACTERS}
          onInput={({ currentTarget }) => {
            type(currentTarget.value);
            choose(-1);
            setCaret(currentTarget.selectionStart);
          }}
          onKeyDown={onKeyDown}
          onBlur={close}
        />
        <CompletionList id={id} items={items} chosen={chosen} accept={accept} />
      </div>
      <Views value={value} scope={scope} isListed={isListed} />
      <p id={`${id}-problem`} class="query-problem" role="status">
        {problem}
      </p>
      {isExplained ? <QueryHelp /> : null}
    </search>
  );
}

function CompletionList({
  id,
  items,
  chosen,
  accept,
}: {
  id: string;
  items: readonly { text: string; describes: string }[];
  chosen: number;
  accept: (at: number) => void;
}) {
  return (
    <div
      id={`${id}-list`}
      role="listbox"
      class="completions"
      aria-label="Completions"
      hidden={items.length === 0}
    >
      {items.map(({ text, describes }, at) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
        <div
          key={text}
          id={`${id}-${at}`}
          role="option"
          aria-selected={at === chosen}
          tabIndex={-1}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => accept(at)}
        >
          <b>{text}</b> <span class="faint">{describes}</span>
        </div>
      ))}
    </div>
  );
}

/**
 * The text in the field. After a pause in typing, the address gets the text, if it can be read as a query. A new query
 * in the address replaces the text.
 */
function useTyped(value: string): { typed: string; type: (text: string) => void; problem: string } {
  const [typed, type] = useState(value);
  const told = useRef(value);
  useEffect(() => {
    if (value === told.current) return;
    told.current = value;
    type(value);
  }, [value]);
  const problem = useMemo(() => checkQuery(typed), [typed]);
  useEffect(() => {
    if (typed === told.current || problem !== '') return;
    const timer = setTimeout(() => {
      told.current = typed;
      setFilters({ q: typed });
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, problem]);
  return { typed, type, problem };
}

/** The keys `/`, for the focus on the field, and `?`, for the explanation. They do nothing in fields and dialogs. */
function useShortcuts(input: { current: HTMLInputElement | null }, explain: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || at.closest('input, textarea, select, dialog'))
        return;
      if (event.key === '/') input.current?.focus();
      else if (event.key === '?') explain();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

interface View {
  query: string;
  title: string;
}

const VIEWS: readonly (View & { of_captures?: true })[] = [
  { query: 'status:failed,error', title: 'Failed' },
  { query: 'has:error', title: 'With errors' },
  { query: 'status:running', title: 'Running' },
  { query: 'sort:cost', title: 'Most expensive', of_captures: true },
  { query: 'sort:duration', title: 'Slowest' },
];

/** Queries to click: common ones, and those that the reader saved, with the number of matching runs if it is counted. */
function Views({ value, scope, isListed }: { value: string; scope: RunScope; isListed: boolean }) {
  const saved = useSavedQueries();
  const usual = VIEWS.filter(({ of_captures }) => of_captures !== true || scope === 'captures');
  const own = saved.queries.filter(({ query }) => !VIEWS.some((view) => view.query === query));
  const counts = useMatches(
    scope,
    isListed ? [...usual.map(({ query }) => query), ...own.map(({ query }) => query)] : [],
  );
  const isKnown = value === '' || [...own, ...usual].some(({ query }) => query === value);
  const show = ({ query, title }: View) => (
    <button
      type="button"
      class="plain small"
      aria-pressed={query === value}
      onClick={() => setFilters({ q: query === value ? '' : query })}
    >
      {title}
      {counts.has(query) ? <span class="faint"> {formatNumber(counts.get(query)!)}</span> : null}
    </button>
  );
  return (
    <div class="saved-queries">
      {usual.map((view) => (
        <span key={view.query}>{show(view)}</span>
      ))}
      {own.map((search) => (
        <span key={search.id} class="saved-query">
          {show({ query: search.query, title: search.query })}
          <button
            type="button"
            class="plain small"
            aria-label={`Forget ${search.query}`}
            onClick={() => act(() => saved.forget(search))}
          >
            ×
          </button>
        </span>
      ))}
      {isKnown ? null : (
        <button type="button" class="plain small" onClick={() => act(() => saved.save(value))}>
          Save this search
        </button>
      )}
    </div>
  );
}

const NO_MATCHES: ReadonlyMap<string, number> = new Map();

/**
 * The number of runs that match each of these queries, requested one after another. Left out: a query that cannot be
 * read, and one that only sorts, because it matches every run.
 */
function useMatches(scope: RunScope, queries: readonly string[]): ReadonlyMap<string, number> {
  const asked = queries.filter((query) => checkQuery(query) === '' && parseRunQuery(query).terms.length > 0);
  const org_id = organization.value!.id;
  const counted = useResource(
    JSON.stringify(['matches', org_id, scope, asked]),
    async (signal) => {
      const counts: [query: string, runs: number][] = [];
      for (const query of asked) {
        const matched = await countMatches(scope, query, signal);
        if (matched !== null) counts.push([query, matched]);
      }
      return counts;
    },
    { every_ms: MATCHES_MS },
  ).data.value;
  return useMemo(() => (counted === null ? NO_MATCHES : new Map(counted)), [counted]);
}

/**
 * Counts the runs that match a query. Returns null if they were not counted, or the service refuses the query (422).
 */
async function countMatches(scope: RunScope, query: string, signal: AbortSignal): Promise<number | null> {
  try {
    return (await readRuns(scope, query, undefined, signal, 1)).matched;
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.status === 422) return null;
    throw thrown;
  }
}

function QueryHelp() {
  return (
    <div class="query-help">
      <p>
        A run must match every word: <code>status:failed</code> <code>tool:run_tests</code>{' '}
        <code>cost:&gt;0.5</code> <code>since:7d</code> <code>-model:haiku</code> <code>sort:cost</code>.
        Words without a field are searched in the run's texts. <a href="/docs/guides/queries">All fields</a>
      </p>
      <p>
        Keys: <kbd>/</kbd> this field, <kbd>j</kbd> and <kbd>k</kbd> the next and the previous run,{' '}
        <kbd>Enter</kbd> opens it, <kbd>?</kbd> this help.
      </p>
    </div>
  );
}

/** A column's heading that orders the list; a second click reverses the order. */
export function SortHeading({ q, field, children }: { q: string; field: SortField; children: string }) {
  const query = checkQuery(q) === '' ? parseRunQuery(q) : { terms: [], sort: null };
  const order = query.sort?.field === field ? query.sort : null;
  const sort = { field, is_descending: order === null ? true : !order.is_descending };
  const words = order === null ? '' : order.is_descending ? ', largest first' : ', smallest first';
  return (
    <button
      type="button"
      class="sort-heading"
      aria-label={`Sort by ${children.toLowerCase()}${words}`}
      aria-pressed={order !== null}
      onClick={() => setFilters({ q: printRunQuery({ ...query, sort }) })}
    >
      {children}
      <span aria-hidden="true">{order === null ? '' : order.is_descending ? ' ↓' : ' ↑'}</span>
    </button>
  );
}

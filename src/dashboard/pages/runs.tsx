/**
 * Runs, captured, reported or both, in one list that a query filters and orders. Shows one run if the address
 * names it. Browser.
 */
import { type Signal, signal, useComputed } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { address, filterOf, hrefOf, setFilters } from '../core/address.ts';
import { useFieldValues } from '../core/field-values.ts';
import { countOf, formatNumber } from '../core/format.ts';
import {
  type ListedRun,
  type RunPageRows,
  type RunScope,
  readRuns,
  readRunsById,
  scopeOf,
} from '../core/listed-runs.ts';
import type { LiveState } from '../core/live.ts';
import { type ChangedRuns, useLiveRuns } from '../core/live-runs.ts';
import { type PagedList, usePagedList } from '../core/paged-list.ts';
import { isOperator, organization, seesCaptures, server } from '../core/session.ts';
import { Badge, PageHead } from '../ui/basics.tsx';
import {
  BeingIndexedNote,
  chooseExchanges,
  type ExchangeBeingIndexed,
  ExchangeRow,
} from '../ui/being-indexed.tsx';
import { ExportMenu } from '../ui/export-menu.tsx';
import { Gathered } from '../ui/gathered.tsx';
import { useIsNarrow } from '../ui/narrow.ts';
import { checkQuery, QueryBar } from '../ui/query-bar.tsx';
import { RunFilters } from '../ui/run-filters.tsx';
import { RunListHead, RunRow } from '../ui/run-row.tsx';
import { Empty, Loaded } from '../ui/states.tsx';
import { VirtualList } from '../ui/virtual-list.tsx';
import { RunPage } from './run.tsx';

const CAPTURE_FORMATS = ['csv', 'jsonl', 'parquet', 'otlp'] as const;
const ROW_PX = 62;
const NARROW_ROW_PX = 118;
/** Interval of reading the list with captured runs, whose changes no stream announces. */
const CAPTURES_MS = 3_000;
/** Interval of reading if there is no stream to announce changes. */
const WITHOUT_STREAM_MS = 5_000;
/** Interval of reading with a stream, because a run that a sweep ends causes no event. */
const WITH_STREAM_MS = 30_000;

export function RunsPage() {
  const { selection } = address.value;
  return selection === null ? <RunList /> : <RunPage key={selection} run_id={selection} />;
}

function RunList() {
  const org_id = organization.value!.id;
  const q = filterOf('q');
  const scope = scopeOf();
  const has_stream = server.value?.has_live_stream === true;
  const every_ms = scope === 'captures' ? CAPTURES_MS : has_stream ? WITH_STREAM_MS : WITHOUT_STREAM_MS;
  const list = usePagedList(
    JSON.stringify([org_id, scope, q]),
    (cursor, signal) => readRuns(scope, q, cursor, signal),
    { keyOf: ({ run_id }) => run_id, every_ms },
  );
  const changed = useMemo(() => signal<ChangedRuns>(new Map()), [list]);
  const models = useModels(scope, org_id, list);
  const [isAll, showAll] = useState(false);
  const being_indexed = list.data.value?.head.captures?.being_indexed ?? null;
  const row_px = useIsNarrow() ? NARROW_ROW_PX : ROW_PX;
  useFirstRowKey();
  return (
    <>
      <PageHead title="Runs" sub={describeList(scope, q, list.data.value?.head ?? null)}>
        <ScopeChoice scope={scope} />
        {scope === 'captures' ? (
          <ExportMenu path="/capture/export/runs" query={{ q }} formats={CAPTURE_FORMATS} />
        ) : (
          <ExportMenu path="/v1/export/runs" query={{ org_id, q }} />
        )}
        {has_stream ? <LiveBadge org_id={org_id} scope={scope} list={list} changed={changed} /> : null}
      </PageHead>
      <Gathered from={list.data.value?.head.captures?.gathered ?? null} />
      <QueryBar value={q} scope={scope} isListed={list.data.value !== null} />
      <RunFilters q={q} scope={scope} models={models} />
      <BeingIndexedNote of={being_indexed} isAll={isAll} showAll={showAll} />
      {checkQuery(q) === '' ? (
        <Loaded from={list} lines={10}>
          {({ rows, has_more, head }) =>
            rows.length === 0 && !has_more && (being_indexed?.exchanges.length ?? 0) === 0 ? (
              <NoRuns q={q} scope={scope} />
            ) : (
              <>
                <RunListHead q={q} scope={scope} />
                <VirtualList
                  rows={[
                    ...chooseExchanges(being_indexed, isAll),
                    ...mix(rows, head.rows.length, changed.value),
                  ]}
                  row_px={row_px}
                  keyOf={keyOfRow}
                  draw={(row) => (isExchange(row) ? <ExchangeRow exchange={row} /> : <RunRow run={row} />)}
                  label="Runs"
                  has_more={has_more}
                  onEnd={list.more}
                />
              </>
            )
          }
        </Loaded>
      ) : (
        <Empty title="The search cannot be read.">
          <button type="button" class="plain small" onClick={() => setFilters({ q: '' })}>
            Show all runs
          </button>
        </Empty>
      )}
    </>
  );
}

function isExchange(row: ListedRun | ExchangeBeingIndexed): row is ExchangeBeingIndexed {
  return 'exchange_id' in row;
}

function keyOfRow(row: ListedRun | ExchangeBeingIndexed): string {
  return isExchange(row) ? `exchange ${row.exchange_id}` : row.run_id;
}

/** Replaces rows beyond the first page by what was read after an event. The first page is read again at each event. */
function mix(rows: ListedRun[], inHead: number, changed: ChangedRuns): ListedRun[] {
  if (changed.size === 0) return rows;
  return rows.map((run, at) => (at < inHead ? run : (changed.get(run.run_id) ?? run)));
}

/**
 * Names of models for the filter: those that the service counted when the page was opened, and those of listed runs.
 */
function useModels(scope: RunScope, org_id: string, list: PagedList<RunPageRows>): readonly string[] {
  const asked = useMemo(() => ({ field: 'model', contains: '', rest: '' }), [scope, org_id]);
  // The models are requested after the list of runs, which they would delay.
  const isListed = list.data.value !== null;
  const counted = useFieldValues(scope, isListed ? asked : null)?.values ?? [];
  const shown = useComputed(() => (list.data.value?.rows ?? []).flatMap(({ models }) => models).join('\n'));
  const names = `${shown.value}\n${counted.map(({ value }) => value).join('\n')}`;
  return useMemo(() => [...new Set(names.split('\n'))].filter((name) => name !== '').sort(), [names]);
}

/**
 * `j` and `k` move the focus into the list from elsewhere on the page, except from fields and dialogs. Within the list,
 * the list itself moves the focus.
 */
function useFirstRowKey(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if ((event.key !== 'j' && event.key !== 'k') || at.closest('input, textarea, select, dialog')) return;
      const first = document.querySelector<HTMLElement>('.virtual-list a');
      if (first === null || at.closest('.virtual-list') !== null) return;
      event.preventDefault();
      first.focus();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

/** Lets an operator choose between the captures and the organization's reported runs, if these are two lists. */
function ScopeChoice({ scope }: { scope: RunScope }) {
  if (!isOperator.value || seesCaptures.value) return null;
  return (
    <select
      aria-label="Which runs"
      value={scope}
      onChange={({ currentTarget }) => setFilters({ list: currentTarget.value })}
    >
      <option value="organization" selected={scope === 'organization'}>
        reported by {organization.value!.name}
      </option>
      <option value="captures" selected={scope === 'captures'}>
        captured by the gateway
      </option>
    </select>
  );
}

function LiveBadge({
  org_id,
  scope,
  list,
  changed,
}: {
  org_id: string;
  scope: RunScope;
  list: PagedList<RunPageRows>;
  changed: Signal<ChangedRuns>;
}) {
  const followed = useMemo(() => {
    const has = (rows: ListedRun[] | undefined, id: string) =>
      rows?.some(({ run_id, reported }) => run_id === id || reported?.run_id === id) === true;
    return {
      refresh: () => list.refresh(),
      isInHead: (id: string) => has(list.data.peek()?.head.rows, id),
      isShown: (id: string) => has(list.data.peek()?.rows, id),
      read: (ids: readonly string[], ends: AbortSignal) => readRunsById(scope, ids, ends),
    };
  }, [list, scope]);
  const state = useLiveRuns(org_id, followed, changed).value;
  return <Badge tone={state === 'live' ? 'good' : 'warn'}>{LIVE_WORDS[state]}</Badge>;
}

const LIVE_WORDS: Record<LiveState, string> = {
  connecting: 'connecting',
  live: 'live',
  away: 'connecting',
  off: 'not live',
};

function describeList(scope: RunScope, q: string, head: RunPageRows | null): string {
  const what = scope === 'captures' ? 'What agents did: captured, reported or both' : 'What agents report';
  if (head === null) return `${what}.`;
  const { matched, captures } = head;
  if (captures !== null && captures.being_read !== null) {
    const { exchanges, of } = captures.being_read;
    return `The newest runs. Older ones are being read: ${formatNumber(exchanges)} of ${countOf(of, 'exchange')} so far.`;
  }
  if (matched === null) return `${what}.`;
  if (q.trim() !== '') {
    const of = captures === null ? '' : ` of ${formatNumber(captures.scanned_runs)}`;
    const unread = captures?.unread_runs ?? 0;
    const rest = unread > 0 ? `; ${formatNumber(unread)} more may match` : '';
    return `${formatNumber(matched)}${of} ${matched === 1 && of === '' ? 'run matches' : 'runs match'}${rest}.`;
  }
  const left_out = captures?.left_out_runs ?? 0;
  const older = left_out > 0 ? `, and ${formatNumber(left_out)} older ones only by their ids` : '';
  return `${countOf(matched, 'run')}, ${formatNumber(captures?.listed_runs ?? 0)} of them captured${older}.`;
}

function NoRuns({ q, scope }: { q: string; scope: RunScope }) {
  if (q.trim() !== '')
    return (
      <Empty title="No run matches this query.">
        <button type="button" class="plain small" onClick={() => setFilters({ q: '' })}>
          Show all runs
        </button>
      </Empty>
    );
  return (
    <Empty title="No runs yet.">
      {scope === 'captures' ? (
        <>
          Point an agent at the gateway: <a href={hrefOf('')}>Home</a> says how. Its first request appears
          here.{' '}
        </>
      ) : null}
      Runs that agents report appear as soon as they begin: with{' '}
      <a href="/docs/guides/client">a client library</a>, with{' '}
      <a href="/docs/guides/hooks">the hooks of Claude Code and Codex</a>, or over <a href="/docs">the API</a>
      .
    </Empty>
  );
}

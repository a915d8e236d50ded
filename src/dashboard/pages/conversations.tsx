/** Conversations: every captured run, newest first, as they arrive; one of them where the address names it. Browser. */
import { useComputed } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { address, filterOf, hrefOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import { type CapturedRun, tokensIn } from '../core/captured.ts';
import { countOf, formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { memo } from '../core/memo.ts';
import { usePagedList } from '../core/paged-list.ts';
import { PageHead, Time } from '../ui/basics.tsx';
import { RunBadges } from '../ui/run-badges.tsx';
import { Empty, Loaded } from '../ui/states.tsx';
import { VirtualList } from '../ui/virtual-list.tsx';
import { ConversationPage } from './conversation.tsx';

const PAGE_ROWS = 100;
const ROW_PX = 62;
const NARROW_ROW_PX = 92;

export function ConversationsPage() {
  const { selection } = address.value;
  return selection === null ? <ConversationList /> : <ConversationPage key={selection} run_id={selection} />;
}

function ConversationList() {
  const filters = {
    q: filterOf('q'),
    model: filterOf('model'),
    golden: filterOf('golden'),
    served_by: filterOf('served_by'),
    from: filterOf('from'),
    to: filterOf('to'),
  };
  const isFiltered = Object.values(filters).some((value) => value !== '');
  const list = usePagedList(
    JSON.stringify(filters),
    async (cursor, signal) => {
      const { runs, ...page } = await call('GET /capture/runs', {
        query: {
          limit: PAGE_ROWS,
          cursor,
          q: filters.q,
          model: filters.model,
          ...(filters.golden === '' ? {} : { golden: filters.golden === 'yes' }),
          ...(filters.served_by === 'student' || filters.served_by === 'upstream'
            ? { served_by: filters.served_by }
            : {}),
          ...(filters.from === '' ? {} : { from: startOfDay(filters.from, 0) }),
          ...(filters.to === '' ? {} : { to: startOfDay(filters.to, 1) }),
        },
        signal,
      });
      return { rows: runs, ...page };
    },
    { keyOf: ({ run_id }) => run_id, every_ms: 3_000 },
  );
  const models = useComputed(() =>
    [...new Set((list.data.value?.rows ?? []).flatMap((run) => run.models))].sort(),
  );
  const row_px = useRowHeight();
  return (
    <>
      <PageHead
        title="Conversations"
        sub={
          list.data.value === null
            ? 'What the gateway captured.'
            : `${countOf(list.data.value.head.listed_runs, 'captured run')}${
                list.data.value.head.left_out_runs > 0
                  ? `, and ${formatNumber(list.data.value.head.left_out_runs)} older ones by their ids`
                  : ''
              }.`
        }
      />
      <Filters filters={filters} models={models.value} />
      <Loaded from={list} lines={10}>
        {({ rows, has_more }) =>
          rows.length === 0 ? (
            isFiltered ? (
              <Empty title="No run passes these filters.">
                <button
                  type="button"
                  class="plain small"
                  onClick={() =>
                    setFilters({ q: '', model: '', golden: '', served_by: '', from: '', to: '' })
                  }
                >
                  Take the filters away
                </button>
              </Empty>
            ) : (
              <Empty title="Nothing is captured yet.">
                Point an agent at the gateway: <a href={hrefOf('')}>Home</a> says how. Its first request shows
                here.
              </Empty>
            )
          ) : (
            <>
              <div class="run-row run-head" aria-hidden="true">
                <span>First words</span>
                <span>Model</span>
                <span class="number">Turns</span>
                <span class="number">Tokens</span>
                <span class="number">Took</span>
                <span>State</span>
                <span class="number">Began</span>
              </div>
              <VirtualList
                rows={rows}
                row_px={row_px}
                keyOf={({ run_id }) => run_id}
                draw={(run) => <RunRow run={run} />}
                label="Captured runs"
                has_more={has_more}
                onEnd={list.more}
              />
            </>
          )
        }
      </Loaded>
    </>
  );
}

/** The reader's day as a time; `days` later. */
function startOfDay(date: string, days: number): string {
  const [year = 1970, month = 1, day = 1] = date.split('-').map(Number);
  return new Date(year, month - 1, day + days).toISOString();
}

function useRowHeight(): number {
  const [isNarrow, setNarrow] = useState(() => matchMedia('(max-width: 760px)').matches);
  useEffect(() => {
    const query = matchMedia('(max-width: 760px)');
    const look = () => setNarrow(query.matches);
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return isNarrow ? NARROW_ROW_PX : ROW_PX;
}

function Filters({ filters, models }: { filters: Record<string, string>; models: readonly string[] }) {
  const chosen = filters.model ?? '';
  const listed = chosen === '' || models.includes(chosen) ? models : [chosen, ...models];
  const select = (name: string, label: string, options: readonly (readonly [string, string])[]) => (
    <label>
      <span>{label}</span>
      <select
        value={filters[name]}
        onChange={({ currentTarget }) => setFilters({ [name]: currentTarget.value })}
      >
        {options.map(([value, words]) => (
          <option key={value} value={value} selected={value === filters[name]}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <search class="filters">
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the field is a component */}
      <label class="grow">
        <span>Search</span>
        <SearchField value={filters.q ?? ''} />
      </label>
      {select('model', 'Model', [['', 'any'], ...listed.map((model) => [model, model] as const)])}
      {select('golden', 'Golden', [
        ['', 'any'],
        ['yes', 'golden'],
        ['no', 'not golden'],
      ])}
      {select('served_by', 'Answered by', [
        ['', 'anybody'],
        ['student', 'the student'],
        ['upstream', 'the upstream'],
      ])}
      <label>
        <span>From</span>
        <input
          type="date"
          value={filters.from}
          onChange={({ currentTarget }) => setFilters({ from: currentTarget.value })}
        />
      </label>
      <label>
        <span>To</span>
        <input
          type="date"
          value={filters.to}
          onChange={({ currentTarget }) => setFilters({ to: currentTarget.value })}
        />
      </label>
    </search>
  );
}

/** Asks when the typing pauses. */
function SearchField({ value }: { value: string }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => setFilters({ q: typed }), 250);
    return () => clearTimeout(timer);
  }, [typed, value]);
  return (
    <input
      type="search"
      value={typed}
      placeholder="first words, run id, note or model"
      maxLength={200}
      onInput={({ currentTarget }) => setTyped(currentTarget.value)}
    />
  );
}

const RunRow = memo(({ run }: { run: CapturedRun }) => {
  const tokens = tokensIn(run);
  return (
    <a class="run-row" href={hrefOf('conversations', run.run_id)}>
      <span class="run-task">
        <b>
          {run.task === null ? (
            <i class="faint">not read yet</i>
          ) : run.task === '' ? (
            <i class="faint">no words</i>
          ) : (
            run.task
          )}
        </b>
        <span class="faint">
          {run.run_id}
          {run.notes.length > 0 ? ` · ${run.notes.join(', ')}` : ''}
        </span>
      </span>
      <span class="run-model">{run.models.join(', ') || '–'}</span>
      <span class="number" data-label="turns">
        {formatNumber(run.turns)}
      </span>
      <span class="number" data-label="tokens">
        {formatShort(tokens)}
        <span class="faint"> → {formatShort(run.output_tokens)}</span>
      </span>
      <span class="number">{formatSpan(run.duration_ms)}</span>
      <span class="run-state">
        <RunBadges run={run} />
      </span>
      <span class="number faint">
        <Time at={run.started_at} />
      </span>
    </a>
  );
});

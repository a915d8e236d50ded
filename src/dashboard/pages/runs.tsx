/** Runs that agents report to /v1: all that are kept, newest first, as they go on; one of them where the address names it. Browser. */
import { type Signal, signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { MONITOR_NAMES, type MonitorName, titleOfMonitor } from '../../domain/monitors/names.ts';
import { address, filterOf, hrefOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import { formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { useLiveRuns } from '../core/live-runs.ts';
import { memo } from '../core/memo.ts';
import { type CursorPage, type PagedList, usePagedList } from '../core/paged-list.ts';
import type { Run } from '../core/run-reader.ts';
import { organization, server } from '../core/session.ts';
import { Badge, PageHead, Time } from '../ui/basics.tsx';
import { FilterDays, FilterRow, FilterSelect, FilterText, startOfDay } from '../ui/filters.tsx';
import { FiredBadges, StateBadge } from '../ui/monitor-badges.tsx';
import { useIsNarrow } from '../ui/narrow.ts';
import { Empty, Loaded } from '../ui/states.tsx';
import { VirtualList } from '../ui/virtual-list.tsx';
import { RunPage } from './run.tsx';

/** The most that the API gives at once: so many runs go on at once and are still read in one go. */
const PAGE_ROWS = 200;
/** Where there is no stream to say that something has changed. */
const WITHOUT_STREAM_MS = 5_000;
/** Runs that end by a sweep make no event that the page could miss for long. */
const WITH_STREAM_MS = 30_000;

const FILTERS = ['status', 'fired', 'outcome', 'agent_name', 'task_profile', 'from', 'to'] as const;

export function RunsPage() {
  const { selection } = address.value;
  return selection === null ? <RunList /> : <RunPage key={selection} run_id={selection} />;
}

function RunList() {
  const org_id = organization.value!.id;
  const filters = Object.fromEntries(FILTERS.map((name) => [name, filterOf(name)])) as Record<
    (typeof FILTERS)[number],
    string
  >;
  const isFiltered = Object.values(filters).some((value) => value !== '');
  const has_stream = server.value?.has_live_stream === true;
  const list = usePagedList(
    JSON.stringify([org_id, filters]),
    async (cursor, signal) => {
      const { status, fired, outcome, agent_name, task_profile, from, to } = filters;
      const { runs, next_cursor } = await call('GET /v1/monitor/runs', {
        query: {
          org_id,
          limit: PAGE_ROWS,
          cursor,
          ...(outcome === '' ? {} : { outcome }),
          ...(agent_name === '' ? {} : { agent_name }),
          ...(task_profile === '' ? {} : { task_profile }),
          ...(status === 'running' || status === 'finished' ? { status } : {}),
          ...(isMonitor(fired) ? { fired } : {}),
          ...(from === '' ? {} : { from: startOfDay(from) }),
          ...(to === '' ? {} : { to: startOfDay(to, 1) }),
        },
        signal,
      });
      return { rows: runs, next_cursor };
    },
    { keyOf: ({ run_id }) => run_id, every_ms: has_stream ? WITH_STREAM_MS : WITHOUT_STREAM_MS },
  );
  const changed = useMemo(() => signal<ReadonlyMap<string, Run>>(new Map()), [list]);
  return (
    <>
      <PageHead title="Runs" sub="What agents report to /v1, step by step, and what the monitors say of it.">
        {has_stream ? <LiveBadge org_id={org_id} list={list} changed={changed} /> : null}
      </PageHead>
      <Filters filters={filters} />
      <Loaded from={list} lines={10}>
        {({ rows, has_more, head }) =>
          rows.length === 0 && !has_more ? (
            <NoRuns isFiltered={isFiltered} />
          ) : (
            <RunRows
              rows={mix(rows, head.rows.length, changed.value)}
              has_more={has_more}
              onEnd={list.more}
            />
          )
        }
      </Loaded>
    </>
  );
}

/** The first page is as it is; rows behind it are as they were read, or as the stream said to read them again. */
function mix(rows: Run[], inHead: number, changed: ReadonlyMap<string, Run>): Run[] {
  if (changed.size === 0) return rows;
  return rows.map((run, at) => (at < inHead ? run : (changed.get(run.run_id) ?? run)));
}

type List = PagedList<CursorPage<Run>>;

function LiveBadge({
  org_id,
  list,
  changed,
}: {
  org_id: string;
  list: List;
  changed: Signal<ReadonlyMap<string, Run>>;
}) {
  const followed = useMemo(() => {
    const has = (rows: Run[] | undefined, id: string) => rows?.some(({ run_id }) => run_id === id) === true;
    return {
      refresh: () => list.refresh(),
      isInHead: (id: string) => has(list.data.peek()?.head.rows, id),
      isShown: (id: string) => has(list.data.peek()?.rows, id),
    };
  }, [list]);
  const state = useLiveRuns(org_id, followed, changed).value;
  return <Badge tone={state === 'live' ? 'good' : 'warn'}>{state === 'live' ? 'live' : 'connecting'}</Badge>;
}

function NoRuns({ isFiltered }: { isFiltered: boolean }) {
  if (!isFiltered)
    return (
      <Empty title="No runs yet.">
        They show here as soon as an agent starts one: with <a href="/docs/guides/client">a client library</a>
        , with <a href="/docs/guides/hooks">the hooks of Claude Code and Codex</a>, or over{' '}
        <a href="/docs">the API</a>.
      </Empty>
    );
  return (
    <Empty title="No run passes these filters.">
      <button
        type="button"
        class="plain small"
        onClick={() => setFilters(Object.fromEntries(FILTERS.map((name) => [name, ''])))}
      >
        Take the filters away
      </button>
    </Empty>
  );
}

function isMonitor(name: string): name is MonitorName {
  return (MONITOR_NAMES as readonly string[]).includes(name);
}

function Filters({ filters }: { filters: Record<(typeof FILTERS)[number], string> }) {
  return (
    <FilterRow>
      <FilterText
        wide
        label="Agent"
        name="agent_name"
        value={filters.agent_name}
        placeholder="its whole name"
      />
      <FilterText
        wide
        label="Outcome"
        name="outcome"
        value={filters.outcome}
        placeholder="exactly: success"
      />
      <FilterSelect
        name="status"
        label="State"
        value={filters.status}
        options={[
          ['', 'any'],
          ['running', 'running'],
          ['finished', 'finished'],
        ]}
      />
      <FilterSelect
        name="fired"
        label="Fired"
        value={filters.fired}
        options={[['', 'any'], ...MONITOR_NAMES.map((name) => [name, titleOfMonitor(name)] as const)]}
      />
      <FilterDays from={filters.from} to={filters.to} />
    </FilterRow>
  );
}

const ROW_PX = 62;
const NARROW_ROW_PX = 96;

function RunRows({ rows, has_more, onEnd }: { rows: Run[]; has_more: boolean; onEnd: () => void }) {
  return (
    <>
      <div class="run-row watched run-head" aria-hidden="true">
        <span>Task</span>
        <span>Agent</span>
        <span class="number">Steps</span>
        <span class="number">Highest</span>
        <span>Fired</span>
        <span>State</span>
        <span class="number">Began</span>
      </div>
      <VirtualList
        rows={rows}
        row_px={useIsNarrow() ? NARROW_ROW_PX : ROW_PX}
        keyOf={({ run_id }) => run_id}
        draw={(run) => <RunRow run={run} />}
        label="Runs"
        has_more={has_more}
        onEnd={onEnd}
      />
    </>
  );
}

const RunRow = memo(({ run }: { run: Run }) => (
  <a class="run-row watched" href={hrefOf('runs', run.run_id)}>
    <span class="run-task">
      <b dir="auto">{run.task === '' ? run.run_id : run.task}</b>
      <span class="faint">{describe(run)}</span>
    </span>
    <span class="run-model">{[run.agent_name, run.model].filter(Boolean).join(' · ') || '–'}</span>
    <span class="number" data-label={run.steps === 1 ? 'step' : 'steps'}>
      {formatNumber(run.steps)}
    </span>
    <span class="number" title="Highest total score of a step">
      {run.max_total_score.toFixed(2)}
    </span>
    <span class="run-fired">
      <FiredBadges fired={run.fired} />
    </span>
    <span class="run-state">
      <StateBadge status={run.status} outcome={run.outcome} />
    </span>
    <span class="number faint">
      <Time at={run.started_at} />
    </span>
  </a>
));

function describe(run: Run): string {
  const parts = [run.task === '' ? '' : run.run_id, run.codebase_id];
  if (run.status === 'finished') parts.push(formatSpan(run.duration_ms));
  if (run.tokens > 0) parts.push(`${formatShort(run.tokens)} tokens`);
  return parts.filter(Boolean).join(' · ');
}

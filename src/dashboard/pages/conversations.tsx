/** Conversations: every captured run, newest first, as they arrive; one of them where the address names it. Browser. */
import { useComputed } from '@preact/signals';
import { useCallback } from 'preact/hooks';
import { address, filterOf, hrefOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import { type CapturedRun, tokensIn } from '../core/captured.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatNumber, formatShort, formatSpan } from '../core/format.ts';
import { memo } from '../core/memo.ts';
import { usePagedList } from '../core/paged-list.ts';
import { PageHead, Time } from '../ui/basics.tsx';
import { Cost } from '../ui/cost.tsx';
import { FilterDays, FilterRow, FilterSelect, startOfDay } from '../ui/filters.tsx';
import { useIsNarrow } from '../ui/narrow.ts';
import { QueryBar, SortHeading } from '../ui/query-bar.tsx';
import { RunBadges } from '../ui/run-badges.tsx';
import { FamilyBadges } from '../ui/run-family.tsx';
import { Empty, Loaded } from '../ui/states.tsx';
import { VirtualList } from '../ui/virtual-list.tsx';
import { ConversationPage } from './conversation.tsx';

const PAGE_ROWS = 100;
const ROW_PX = 62;
const NARROW_ROW_PX = 92;

const FILTERS = ['q', 'model', 'golden', 'served_by', 'own', 'session', 'from', 'to'] as const;
type ServedBy = 'student' | 'upstream';
type Filters = Record<(typeof FILTERS)[number], string>;

export function ConversationsPage() {
  const { selection } = address.value;
  return selection === null ? <ConversationList /> : <ConversationPage key={selection} run_id={selection} />;
}

function ConversationList() {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, filterOf(name)])) as Filters;
  const isFiltered = Object.values(filters).some((value) => value !== '');
  const list = usePagedList(
    JSON.stringify(filters),
    async (cursor, signal) => {
      const query = { limit: PAGE_ROWS, cursor, ...queryOf(filters) };
      const page = await call('GET /capture/runs', { query, signal });
      return { rows: page.runs, ...page };
    },
    { keyOf: ({ run_id }) => run_id, every_ms: 3_000 },
  );
  const models = useComputed(() =>
    [...new Set((list.data.value?.rows ?? []).flatMap((run) => run.models))].sort(),
  );
  const valuesOf = useCallback((field: string) => listValues(list.data.peek()?.rows ?? [], field), [list]);
  const row_px = useIsNarrow() ? NARROW_ROW_PX : ROW_PX;
  return (
    <>
      <PageHead
        title="Conversations"
        sub={list.data.value === null ? 'What the gateway captured.' : describeList(list.data.value.head)}
      />
      <QueryBar value={filters.q} valuesOf={valuesOf} />
      <FilterBar filters={filters} models={models.value} />
      {filters.session === '' ? null : (
        <p class="chosen">
          Runs of the session <code>{filters.session}</code>{' '}
          <button type="button" class="plain small" onClick={() => setFilters({ session: '' })}>
            Show all sessions
          </button>
        </p>
      )}
      <Loaded from={list} lines={10}>
        {({ rows, has_more }) =>
          rows.length === 0 && !has_more ? (
            <NoRuns isFiltered={isFiltered} />
          ) : (
            <>
              <ListHead q={filters.q} />
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

function ListHead({ q }: { q: string }) {
  return (
    <div class="run-row run-head">
      <span>First words</span>
      <span>Model</span>
      <span class="number">
        <SortHeading q={q} field="turns">
          Turns
        </SortHeading>
      </span>
      <span class="number">
        <SortHeading q={q} field="tokens">
          Tokens
        </SortHeading>
      </span>
      <span class="number">
        <SortHeading q={q} field="cost">
          Cost
        </SortHeading>
      </span>
      <span class="number run-took">
        <SortHeading q={q} field="duration">
          Took
        </SortHeading>
      </span>
      <span>
        <SortHeading q={q} field="errors">
          State
        </SortHeading>
      </span>
      <span class="number">
        <SortHeading q={q} field="started">
          Began
        </SortHeading>
      </span>
    </div>
  );
}

/** What the shown runs hold of a field, for completing a query. */
function listValues(rows: readonly CapturedRun[], field: string): readonly string[] {
  const valuesOf: Record<string, (run: CapturedRun) => readonly string[]> = {
    model: ({ models }) => models,
    provider: ({ providers }) => providers,
    tool: ({ tools }) => tools,
    note: ({ notes }) => notes,
    agent: ({ agent }) => [agent],
    session: ({ session_id }) => (session_id === null ? [] : [session_id]),
  };
  const values = Object.hasOwn(valuesOf, field) ? rows.flatMap(valuesOf[field]!) : [];
  return [...new Set(values)].filter((value) => value !== '').sort();
}

function describeList({ being_read, listed_runs, left_out_runs }: Reply<'GET /capture/runs'>): string {
  if (being_read !== null) {
    const { exchanges, of } = being_read;
    return `The newest runs. Older ones are being read in: ${formatNumber(exchanges)} of ${countOf(of, 'exchange')} so far.`;
  }
  const older = left_out_runs > 0 ? `, and ${formatNumber(left_out_runs)} older ones by their ids` : '';
  return `${countOf(listed_runs, 'captured run')}${older}.`;
}

function queryOf({ q, model, golden, served_by, own, session, from, to }: Filters) {
  return {
    // Runs that were only reported have another page.
    q: `${q} is:captured`.trim(),
    model,
    session,
    ...(golden === '' ? {} : { golden: golden === 'yes' }),
    ...(served_by === 'student' || served_by === 'upstream' ? { served_by: served_by as ServedBy } : {}),
    ...(own === '' ? {} : { own: own === 'yes' }),
    ...(from === '' ? {} : { from: startOfDay(from) }),
    ...(to === '' ? {} : { to: startOfDay(to, 1) }),
  } as const;
}

function NoRuns({ isFiltered }: { isFiltered: boolean }) {
  if (!isFiltered)
    return (
      <Empty title="Nothing is captured yet.">
        Point an agent at the gateway: <a href={hrefOf('')}>Home</a> says how. Its first request shows here.
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

function FilterBar({ filters, models }: { filters: Filters; models: readonly string[] }) {
  const chosen = filters.model;
  const listed = chosen === '' || models.includes(chosen) ? models : [chosen, ...models];
  return (
    <FilterRow>
      <FilterSelect
        name="model"
        label="Model"
        value={chosen}
        options={[['', 'any'], ...listed.map((model) => [model, model] as const)]}
      />
      <FilterSelect
        name="golden"
        label="Golden"
        value={filters.golden}
        options={[
          ['', 'any'],
          ['yes', 'golden'],
          ['no', 'not golden'],
        ]}
      />
      <FilterSelect
        name="served_by"
        label="Answered by"
        value={filters.served_by}
        options={[
          ['', 'anybody'],
          ['student', 'the student'],
          ['upstream', 'the upstream'],
        ]}
      />
      <FilterSelect
        name="own"
        label="Runs"
        value={filters.own}
        options={[
          ['', 'all'],
          ['yes', 'agents’ own'],
          ['no', 'parts of others'],
        ]}
      />
      <FilterDays from={filters.from} to={filters.to} />
    </FilterRow>
  );
}

const RunRow = memo(({ run }: { run: CapturedRun }) => {
  const isPart = run.parent_run_id !== null;
  return (
    <a class={`run-row ${isPart ? 'part' : ''}`} href={hrefOf('conversations', run.run_id)}>
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
      <span class="number" data-label={run.turns === 1 ? 'turn' : 'turns'}>
        {formatNumber(run.turns)}
      </span>
      <span class="number" data-label="tokens">
        {formatShort(tokensIn(run))}
        <span class="faint"> → {formatShort(run.output_tokens)}</span>
      </span>
      <span class="number run-cost">
        <Cost of={run} />
      </span>
      <span class="number run-took">{formatSpan(run.duration_ms)}</span>
      <span class="run-state">
        <RunBadges run={run} />
        <FamilyBadges run={run} />
      </span>
      <span class="number faint">
        <Time at={run.started_at} />
      </span>
    </a>
  );
});

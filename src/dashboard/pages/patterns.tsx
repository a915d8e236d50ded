/** Patterns that earlier runs learned, by tier. Shows one pattern if the address names it. Browser. */
import { address, filterOf, hrefOf } from '../core/address.ts';
import { call, callList } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { formatNumber } from '../core/format.ts';
import { memo } from '../core/memo.ts';
import { usePagedList } from '../core/paged-list.ts';
import { useResource } from '../core/resource.ts';
import { isAtLeast, organization } from '../core/session.ts';
import { Badge, Id, PageHead, Panel, Stat, Time } from '../ui/basics.tsx';
import { FilterDays, FilterRow, FilterSelect, startOfDay } from '../ui/filters.tsx';
import { ask } from '../ui/form.tsx';
import { LongText } from '../ui/long-text.tsx';
import { useIsNarrow } from '../ui/narrow.ts';
import { act } from '../ui/notice.tsx';
import { Empty, Loaded } from '../ui/states.tsx';
import { VirtualList } from '../ui/virtual-list.tsx';

type Pattern = Reply<'GET /v1/patterns'>['patterns'][number];

const PAGE_ROWS = 100;
const ROW_PX = 62;
const NARROW_ROW_PX = 92;
const EVERY_MS = 10_000;

const TIERS = [
  ['', 'any'],
  ['e1', 'e1: a project’s'],
  ['e2', 'e2: the organization’s'],
  ['e3', 'e3: for everybody'],
] as const;

export function PatternsPage() {
  const { selection } = address.value;
  return selection === null ? <PatternList /> : <PatternPage key={selection} pattern_id={selection} />;
}

function PatternList() {
  const org_id = organization.value!.id;
  const [tier, project_id, from, to] = ['tier', 'project', 'from', 'to'].map(filterOf) as [
    string,
    string,
    string,
    string,
  ];
  const list = usePagedList(
    JSON.stringify([org_id, tier, project_id, from, to]),
    async (cursor, signal) => {
      const { patterns, next_cursor } = await call('GET /v1/patterns', {
        query: {
          org_id,
          limit: PAGE_ROWS,
          cursor,
          ...(tier === 'e1' || tier === 'e2' || tier === 'e3' ? { tier } : {}),
          ...(project_id === '' ? {} : { project_id }),
          ...(from === '' ? {} : { from: startOfDay(from) }),
          ...(to === '' ? {} : { to: startOfDay(to, 1) }),
        },
        signal,
      });
      return { rows: patterns, next_cursor };
    },
    { keyOf: ({ pattern_id }) => pattern_id, every_ms: EVERY_MS },
  );
  const row_px = useIsNarrow() ? NARROW_ROW_PX : ROW_PX;
  return (
    <>
      <PageHead
        title="Patterns"
        sub="What earlier runs learned. An agent that asks before a task, or when it is stuck, gets the patterns that fit best."
      />
      <FilterRow>
        <FilterSelect name="tier" label="Tier" value={tier} options={TIERS} />
        <ProjectFilter org_id={org_id} value={project_id} />
        <FilterDays from={from} to={to} />
      </FilterRow>
      <Loaded from={list} lines={10}>
        {({ rows, has_more }) =>
          rows.length === 0 && !has_more ? (
            <Empty title={tier + from + to === '' ? 'No patterns yet.' : 'No pattern matches these filters.'}>
              A submitted trace becomes a pattern if its run got stuck and then recovered. Patterns of tier e3
              come with the product if a vector store is configured.
            </Empty>
          ) : (
            <>
              <PatternHead />
              <VirtualList
                rows={rows}
                row_px={row_px}
                keyOf={({ pattern_id }) => pattern_id}
                draw={(pattern) => <PatternRow pattern={pattern} />}
                label="Patterns"
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

function PatternHead() {
  return (
    <div class="run-row pattern run-head" aria-hidden="true">
      <span>Situation</span>
      <span>Tier</span>
      <span class="number">Seen</span>
      <span>Failure</span>
      <span class="number">Made</span>
    </div>
  );
}

/** Selects the project whose e1 patterns are listed with the organization's. */
function ProjectFilter({ org_id, value }: { org_id: string; value: string }) {
  const projects = useResource(`projects ${org_id}`, (signal) =>
    callList('GET /projects', { query: { org_id, limit: 200 }, signal }),
  );
  const rows = projects.data.value?.rows ?? [];
  return (
    <FilterSelect
      name="project"
      label="Project"
      value={value}
      options={[
        ['', 'default'],
        ...rows.map(({ id, name }) => [id, name] as const),
        ...(value === '' || rows.some(({ id }) => id === value) ? [] : [[value, value] as const]),
      ]}
    />
  );
}

const PatternRow = memo(({ pattern }: { pattern: Pattern }) => (
  <a class="run-row pattern" href={hrefOf('patterns', pattern.pattern_id, filtersToKeep())}>
    <span class="run-task">
      <b dir="auto">{pattern.fields.situation}</b>
      <span class="faint" dir="auto">
        {pattern.fields.unlock}
      </span>
    </span>
    <span class="run-state">
      <Badge tone={pattern.tier === 'e3' ? 'off' : 'good'}>{pattern.tier}</Badge>
    </span>
    <span class="number" data-label={pattern.support === 1 ? 'time' : 'times'}>
      {formatNumber(pattern.support)}
    </span>
    <span class="run-model">{pattern.failure_type.replaceAll('_', ' ') || '–'}</span>
    <span class="number faint">
      <Time at={pattern.created_at} />
    </span>
  </a>
));

/**
 * The filters that a link to a pattern keeps: the project, because a project's pattern can be read only with the project
 * in the query.
 */
function filtersToKeep(): Record<string, string> {
  const project = filterOf('project');
  return project === '' ? {} : { project };
}

function PatternPage({ pattern_id }: { pattern_id: string }) {
  const org_id = organization.value!.id;
  const project_id = filterOf('project');
  const query = { org_id, ...(project_id === '' ? {} : { project_id }) };
  const pattern = useResource(`pattern ${org_id} ${pattern_id} ${project_id}`, (signal) =>
    call('GET /v1/patterns/{pattern_id}', { params: { pattern_id }, query, signal }),
  );
  const remove = async () => {
    const sure = await ask({
      heading: 'Delete this pattern?',
      text: 'No retrieval will find it any more. This cannot be undone.',
      button: 'Delete',
      is_dangerous: true,
    });
    if (sure === null) return;
    const isDone = await act(
      () => call('DELETE /v1/patterns/{pattern_id}', { params: { pattern_id }, query }),
      'The pattern is deleted.',
    );
    if (isDone) location.hash = hrefOf('patterns', null, filtersToKeep());
  };
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={hrefOf('patterns', null, filtersToKeep())}>Patterns</a>
        <span aria-hidden="true">/</span>
        <Id id={pattern_id} />
      </nav>
      <Loaded from={pattern} lines={10} heading="Pattern">
        {(known) => <PatternDetails pattern={known} remove={remove} />}
      </Loaded>
    </>
  );
}

function PatternDetails({ pattern, remove }: { pattern: Pattern; remove: () => void }) {
  const { fields, tier, support, model, failure_type, sources, project_id } = pattern;
  return (
    <>
      <PageHead
        title="A pattern"
        sub={
          <>
            {[failure_type.replaceAll('_', ' '), model, project_id].filter(Boolean).join(' · ')} made{' '}
            <Time at={pattern.created_at} />, changed <Time at={pattern.updated_at} />
          </>
        }
      >
        {tier !== 'e3' && isAtLeast('member') ? (
          <button type="button" class="plain small" onClick={remove}>
            Delete
          </button>
        ) : null}
      </PageHead>
      <div class="stats slim">
        <Stat value={tier} label="Tier" sub={TIERS.find(([name]) => name === tier)?.[1].slice(4)} />
        <Stat value={formatNumber(support)} label="Times seen" />
      </div>
      <Panel title="Situation">
        <LongText text={fields.situation} />
      </Panel>
      {fields.dead_ends === '' ? null : (
        <Panel title="Dead ends" sub="What did not help.">
          <LongText text={fields.dead_ends} />
        </Panel>
      )}
      <Panel title="Unlock" sub="What helped.">
        <LongText text={fields.unlock} />
      </Panel>
      {sources.length === 0 ? null : (
        <Panel title="Traces" sub="The latest traces from which it was made.">
          <ul class="ids">
            {sources.map((source) => (
              <li key={source}>
                <Id id={source} />
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </>
  );
}

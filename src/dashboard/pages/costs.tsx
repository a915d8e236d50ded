/**
 * Costs: the cost of captured traffic by model, agent, tool and so on, the cost of cache misses, and the
 * remaining limits of providers. Browser.
 */
import { filterOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import {
  countOf,
  formatNumber,
  formatShare,
  formatShort,
  formatSpan,
  sayNotIndexed,
} from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { formatUsd } from '../core/money.ts';
import { useResource } from '../core/resource.ts';
import { Badge, PageHead, Panel, Stat, Time } from '../ui/basics.tsx';
import { CacheLosses } from '../ui/cache-losses.tsx';
import { DayBars } from '../ui/chart.tsx';
import { Cost, sayCost } from '../ui/cost.tsx';
import { Loaded } from '../ui/states.tsx';
import { type Column, Table } from '../ui/table.tsx';

type Figures = Reply<'GET /capture/figures'>;
type Row = Figures['rows'][number];
type Limit = Reply<'GET /capture/limits'>['limits'][number];

const DIMENSIONS: readonly [name: Figures['by'], title: string][] = [
  ['model', 'Model'],
  ['agent', 'Agent'],
  ['tool', 'Tool'],
  ['tag', 'Tag'],
  ['provider', 'Provider'],
  ['note', 'Note'],
  ['credential', 'Credential'],
  ['served_by', 'Who answered'],
  ['day', 'Day'],
];
const SPANS = ['1', '7', '30', '90'];

export function CostsPage() {
  const by = DIMENSIONS.find(([name]) => name === filterOf('by'))?.[0] ?? 'model';
  const days = SPANS.includes(filterOf('days')) ? filterOf('days') : '30';
  const figures = useResource(
    `figures ${by} ${days}`,
    (signal) => call('GET /capture/figures', { query: { by, days: Number(days) }, signal }),
    { every_ms: 30_000 },
  );
  const daily = useResource(
    `figures by day ${days}`,
    (signal) => call('GET /capture/figures', { query: { by: 'day', days: Number(days) }, signal }),
    { every_ms: 60_000 },
  );
  return (
    <>
      <PageHead title="Costs" sub="What captured traffic cost and used, in whole UTC days." />
      <Choices by={by} days={days} />
      <Loaded from={figures} lines={8}>
        {(report) => <FigurePanels report={report} daily={daily.data.value} />}
      </Loaded>
      <CacheLosses days={Number(days)} />
      <LimitsPanel />
    </>
  );
}

function Choices({ by, days }: { by: Figures['by']; days: string }) {
  return (
    <div class="filters">
      <label>
        <span>By</span>
        <select value={by} onChange={({ currentTarget }) => setFilters({ by: currentTarget.value })}>
          {DIMENSIONS.map(([name, title]) => (
            <option key={name} value={name} selected={name === by}>
              {title}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>Days</span>
        <select value={days} onChange={({ currentTarget }) => setFilters({ days: currentTarget.value })}>
          {SPANS.map((span) => (
            <option key={span} value={span} selected={span === days}>
              {span}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function FigurePanels({ report, daily }: { report: Figures; daily: Figures | null }) {
  const { total, rows, others, by, is_whole, scanned, not_indexed } = report;
  const title = DIMENSIONS.find(([name]) => name === by)![1];
  const input = total.input_tokens + total.cache_read_tokens + total.cache_write_tokens;
  const period = `${report.from_day} to ${report.to_day}, UTC`;
  return (
    <>
      <div class="stats">
        <Stat value={<Cost of={total} />} label="Cost" sub={sayCost(total, 0) ?? period} />
        <Stat
          value={formatShort(input)}
          label="Input tokens"
          sub={total.cache_share === null ? undefined : `${formatShare(total.cache_share)} from a cache`}
        />
        <Stat value={formatShort(total.output_tokens)} label="Output tokens" />
        <Stat
          value={formatNumber(total.turns)}
          label="Turns"
          sub={`${countOf(total.student_turns, 'turn')} by the student`}
        />
        <Stat
          value={formatNumber(total.errors)}
          label="Failed calls"
          tone={total.errors > 0 ? 'bad' : 'plain'}
          href={hrefOfCaptured(null, { q: `is:captured failed:${report.from_day}..` })}
        />
      </div>
      {daily === null ? null : <DayBars title="Cost a day" points={listDays(daily)} format={formatUsd} />}
      <Panel
        title={`By ${title.toLowerCase()}`}
        sub={
          (is_whole
            ? `${countOf(scanned, 'exchange')}, ${period}`
            : `${countOf(scanned, 'exchange')} so far; older ones are being read`) +
          sayNotIndexed(not_indexed)
        }
      >
        <Table
          label={`Figures by ${title.toLowerCase()}`}
          columns={columnsOf(title)}
          rows={others === null ? rows : [...rows, { name: '(others)', query: null, ...others }]}
          keyOf={({ name }) => name ?? ''}
          empty="Nothing was captured in these days."
        />
      </Panel>
    </>
  );
}

/** Lists every day of the period with its cost: 0 for a day without traffic; null if no price is known. */
function listDays({ from_day, to_day, rows }: Figures): { date: string; value: number | null }[] {
  const costs = new Map(rows.map(({ name, cost_usd }) => [name, cost_usd]));
  const days: { date: string; value: number | null }[] = [];
  for (let ms = Date.parse(from_day); ms <= Date.parse(to_day); ms += 86_400_000) {
    const date = new Date(ms).toISOString().slice(0, 10);
    const cost = costs.get(date);
    days.push({ date, value: cost === undefined ? 0 : cost });
  }
  return days;
}

const columnsOf = (title: string): Column<Row>[] => [
  {
    title,
    kind: 'wide',
    show: ({ name, query }) =>
      query === null ? (
        (name ?? <span class="faint">not known</span>)
      ) : (
        <a href={hrefOfCaptured(null, { q: query })}>{name}</a>
      ),
  },
  { title: 'Cost', kind: 'number', show: (row) => <Cost of={row} /> },
  { title: 'Turns', kind: 'number', show: ({ turns }) => formatNumber(turns) },
  { title: 'Failed calls', kind: 'number', show: ({ errors }) => formatNumber(errors) },
  {
    title: 'Input',
    kind: 'number',
    show: (row) => formatShort(row.input_tokens + row.cache_read_tokens + row.cache_write_tokens),
  },
  { title: 'Cached', kind: 'number', show: ({ cache_share }) => formatShare(cache_share) },
  { title: 'Output', kind: 'number', show: ({ output_tokens }) => formatShort(output_tokens) },
  { title: 'p50', kind: 'number', show: ({ latency_p50_ms }) => formatSpan(latency_p50_ms) },
  { title: 'p95', kind: 'number', show: ({ latency_p95_ms }) => formatSpan(latency_p95_ms) },
];

/** Maximum number of runs in the row of a limit: those that used most of it. */
const NAMED_RUNS = 3;

const LIMIT_COLUMNS: Column<Limit>[] = [
  { title: 'Limit', show: ({ name }) => name },
  { title: 'Provider', show: ({ provider }) => provider },
  {
    title: 'Credential',
    show: ({ credential }) => (credential === null ? 'none' : <code>{credential}</code>),
    kind: 'short',
  },
  {
    title: 'Used',
    kind: 'number',
    show: ({ used_share }) => (
      <Badge tone={(used_share ?? 0) >= 0.9 ? 'bad' : (used_share ?? 0) >= 0.7 ? 'warn' : 'plain'}>
        {formatShare(used_share)}
      </Badge>
    ),
  },
  {
    title: 'Left',
    kind: 'number',
    show: ({ remaining, limit }) =>
      remaining === null
        ? '–'
        : `${formatShort(remaining)}${limit === null ? '' : ` of ${formatShort(limit)}`}`,
  },
  { title: 'Resets', show: ({ resets_at }) => <Time at={resets_at} never="not stated" /> },
  { title: 'Runs out', show: ({ runs_out_at }) => <Time at={runs_out_at} never="not before" /> },
  { title: 'As of', show: ({ read_at }) => <Time at={read_at} /> },
  {
    title: 'Used by',
    show: ({ runs, credential }) => (
      <>
        {runs.slice(0, NAMED_RUNS).map(({ run_id, tokens }) => (
          <div key={run_id}>
            <a href={hrefOfCaptured(run_id)}>{run_id}</a> <span class="faint">{formatShort(tokens)}</span>
          </div>
        ))}
        {runs.length > NAMED_RUNS && credential !== null ? (
          <a href={hrefOfCaptured(null, { q: `key:=${credential} since:24h sort:tokens` })}>all</a>
        ) : null}
      </>
    ),
    kind: 'name',
  },
];

function LimitsPanel() {
  const limits = useResource('limits', (signal) => call('GET /capture/limits', { signal }), {
    every_ms: 30_000,
  });
  return (
    <Loaded from={limits} lines={3}>
      {({ limits: rows }) => (
        <Panel
          title="Limits of providers"
          sub="From the newest answers. “Runs out” is shown if the pace of the last hour uses up the limit before it resets."
        >
          <Table
            label="Limits of providers"
            columns={LIMIT_COLUMNS}
            rows={rows}
            keyOf={({ credential, provider, name }) => `${credential ?? ''} ${provider} ${name}`}
            empty="No answer of the last 24 hours named a limit."
          />
        </Panel>
      )}
    </Loaded>
  );
}

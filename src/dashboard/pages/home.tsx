/**
 * Home: the state of the gateway, what needs attention, and first steps if there is no traffic yet. Browser.
 */
import { filterOf, hrefOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import { tokensIn } from '../core/captured.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatDay, formatNumber, formatShort, formatSpan, sayNotIndexed } from '../core/format.ts';
import { hrefOfCaptured, type ListedRun, type RunScope, readRuns, scopeOf } from '../core/listed-runs.ts';
import { useResource } from '../core/resource.ts';
import { isAtLeast, isOperator, organization } from '../core/session.ts';
import { Badge, PageHead, Panel, Stat } from '../ui/basics.tsx';
import { CallsWithoutRun } from '../ui/calls-without-run.tsx';
import { DayBars, LineChart } from '../ui/chart.tsx';
import { Cost, sayCost } from '../ui/cost.tsx';
import { FirstSteps } from '../ui/first-steps.tsx';
import { MonthMeter } from '../ui/month-meter.tsx';
import { RunListHead, RunRow } from '../ui/run-row.tsx';
import { Loaded } from '../ui/states.tsx';
import { SavedUsd } from '../ui/student-ledger.tsx';

type Activity = Reply<'GET /capture/activity'>;
type Stats = Reply<'GET /capture/stats'>;

const EVERY_MS = 5_000;
/** How many of the newest runs are shown. */
const NEWEST_RUNS = 6;
const SPANS = [
  ['1', 'last hour'],
  ['24', 'last 24 hours'],
  ['168', 'last 7 days'],
  ['720', 'last 30 days'],
] as const;

export function HomePage() {
  return (
    <>
      <PageHead title="Home" sub={organization.value!.name} />
      {isOperator.value || isAtLeast('member') ? <FirstSteps /> : null}
      {isOperator.value ? <GatewayHome /> : null}
      <NewestHome />
      <ReportedHome />
    </>
  );
}

function GatewayHome() {
  const hours = SPANS.some(([value]) => value === filterOf('hours')) ? filterOf('hours') : '24';
  const activity = useResource(
    `activity ${hours}`,
    (signal) => call('GET /capture/activity', { query: { hours: Number(hours) }, signal }),
    { every_ms: EVERY_MS },
  );
  const stats = useResource('stats', (signal) => call('GET /capture/stats', { signal }), {
    every_ms: EVERY_MS,
  });
  // A service without a gateway has no stats.
  if (stats.error.value?.status === 404) return null;
  return (
    <Panel
      title="Gateway"
      sub={stats.data.value === null ? undefined : <Health stats={stats.data.value} />}
      actions={
        <select
          aria-label="Span"
          value={hours}
          onChange={({ currentTarget }) => setFilters({ hours: currentTarget.value })}
        >
          {SPANS.map(([value, words]) => (
            <option key={value} value={value} selected={value === hours}>
              {words}
            </option>
          ))}
        </select>
      }
    >
      <Attention stats={stats.data.value} activity={activity.data.value} />
      <Loaded from={activity} lines={6}>
        {(loaded) => (
          <>
            <GatewayStats activity={loaded} stats={stats.data.value} hours={hours} />
            <CallsWithoutRun activity={loaded} />
            <ActivityCharts activity={loaded} />
          </>
        )}
      </Loaded>
    </Panel>
  );
}

function GatewayStats({
  activity,
  stats,
  hours,
}: {
  activity: Activity;
  stats: Stats | null;
  hours: string;
}) {
  // Query for runs with activity in the period, whenever they began.
  const leadTo = (words: string) =>
    hrefOfCaptured(null, { q: `is:captured ${words} finished:${hours}h..`.replaceAll(/ +/g, ' ') });
  return (
    <div class="stats slim">
      <Stat
        value={formatNumber(activity.exchanges)}
        label="Exchanges"
        sub={
          (activity.is_whole ? `${formatNumber(activity.turns)} turns` : 'only the newest') +
          sayNotIndexed(activity.not_indexed)
        }
        href={leadTo('')}
      />
      <Stat
        value={formatSpan(activity.latency_p50_ms)}
        label="Latency p50"
        sub={`first byte ${formatSpan(activity.first_byte_p50_ms)}`}
      />
      <Stat
        value={formatSpan(activity.latency_p95_ms)}
        label="Latency p95"
        sub={`first byte ${formatSpan(activity.first_byte_p95_ms)}`}
        href={leadTo('sort:duration')}
      />
      <Stat
        value={formatNumber(activity.errors)}
        label="Failed calls"
        tone={activity.errors > 0 ? 'bad' : 'plain'}
        sub={sayFailures(activity)}
        href={hrefOfCaptured(null, { q: `is:captured failed:${hours}h..` })}
      />
      <Stat
        value={formatShort((tokensIn(activity) ?? 0) + activity.output_tokens)}
        label="Tokens"
        sub={`${formatShort(activity.output_tokens)} out`}
        href={leadTo('sort:tokens')}
      />
      <Stat
        value={<Cost of={activity} />}
        label="Cost"
        sub={sayCost(activity, 0)}
        href={leadTo('sort:cost')}
      />
      <Stat
        value={formatNumber(activity.student_turns)}
        label="By the student"
        tone={activity.student_turns > 0 ? 'student' : 'plain'}
        sub={<Saved stats={stats} />}
        href={hrefOf('student')}
      />
    </div>
  );
}

/** The share of failed calls, and how many of them no list of runs contains. */
function sayFailures({ exchanges, errors, errors_without_run }: Activity): string | undefined {
  if (exchanges === 0) return undefined;
  const share = `${((100 * errors) / exchanges).toFixed(1)} %`;
  return errors_without_run === 0 ? share : `${share}, ${formatNumber(errors_without_run)} without a run`;
}

function Health({ stats: { status, exchanges, uptime_s } }: { stats: Stats }) {
  return (
    <>
      <Badge tone={status === 'ok' ? 'good' : 'bad'}>
        {status === 'ok' ? 'capturing' : status === 'stopped' ? 'nothing is captured' : 'in trouble'}
      </Badge>{' '}
      up for {formatSpan(uptime_s * 1_000)}, {formatNumber(exchanges.captured)} captured since the start
      {exchanges.in_flight > 0 ? `, ${formatNumber(exchanges.in_flight)} in progress` : ''}
    </>
  );
}

/** Savings from the ledger, which survives restarts: in dollars if prices are known, otherwise in tokens. */
function Saved({ stats }: { stats: Stats | null }) {
  if (stats === null || !stats.relegation.enabled) return <>no student serves</>;
  const total = stats.relegation.ledger_total;
  if (total === null) return <>savings are not known now</>;
  if (total.since === null) return <>nothing saved yet</>;
  const since = ` saved since ${formatDay(total.since)}`;
  if (total.saved_usd === null)
    return <>{`${formatShort(total.input_tokens + total.output_tokens)} tokens${since}`}</>;
  return (
    <>
      <SavedUsd of={total} />
      {since}
    </>
  );
}

/** A list of what needs attention; empty if everything is in order. */
function Attention({ stats, activity }: { stats: Stats | null; activity: Activity | null }) {
  const said: { key: string; words: string }[] = [];
  for (const { reason, text } of stats?.reasons ?? []) said.push({ key: reason, words: text });
  if (stats !== null && stats.exchanges.dropped > 0)
    said.push({
      key: 'dropped',
      words: `${countOf(stats.exchanges.dropped, 'exchange')} passed without being captured since the start.`,
    });
  if (activity !== null && activity.exchanges >= 20 && activity.errors / activity.exchanges > 0.1)
    said.push({
      key: 'errors',
      words: `${formatNumber(activity.errors)} of ${formatNumber(activity.exchanges)} calls failed.`,
    });
  if (said.length === 0) return null;
  return (
    <ul class="attention">
      {said.map(({ key, words }) => (
        <li key={key}>{words}</li>
      ))}
    </ul>
  );
}

function ActivityCharts({ activity }: { activity: Activity }) {
  const { series } = activity;
  const x = series.map(({ at }) => Date.parse(at) / 1_000);
  return (
    <div class="charts">
      <div>
        <h3 class="chart-title">Exchanges</h3>
        <LineChart
          x={x}
          is_time
          height_px={150}
          label={`Exchanges over time: ${formatNumber(activity.exchanges)} in total, ${formatNumber(activity.errors)} of them failed`}
          lines={[
            { label: 'exchanges', color: '--line-1', values: series.map(({ exchanges }) => exchanges) },
            { label: 'failed calls', color: '--line-2', values: series.map(({ errors }) => errors) },
            {
              label: 'by the student',
              color: '--line-3',
              values: series.map(({ student_turns }) => student_turns),
            },
          ]}
        />
      </div>
      <div>
        <h3 class="chart-title">Latency of turns</h3>
        <LineChart
          x={x}
          is_time
          height_px={150}
          format={(value) => (value === 0 ? '0' : formatSpan(value))}
          label={`Latency over time: half of the turns took at most ${formatSpan(activity.latency_p50_ms)}, 95 % at most ${formatSpan(activity.latency_p95_ms)}`}
          lines={[
            { label: 'p50', color: '--line-1', values: series.map(({ latency_p50_ms }) => latency_p50_ms) },
            {
              label: 'p95',
              color: '--line-4',
              values: series.map(({ latency_p95_ms }) => latency_p95_ms),
            },
          ]}
        />
      </div>
    </div>
  );
}

/** The newest runs of the list, captured, reported or both. */
function NewestHome() {
  const scope = scopeOf();
  const runs = useResource(
    `home runs ${organization.value!.id} ${scope}`,
    (signal) => readRuns(scope, '', undefined, signal, NEWEST_RUNS),
    { every_ms: EVERY_MS },
  );
  // The panel of first steps says what to do if there are no runs.
  if (runs.data.value?.rows.length === 0) return null;
  return (
    <Panel title="Newest runs" actions={<a href={hrefOf('runs')}>All runs</a>}>
      <Loaded from={runs} lines={NEWEST_RUNS}>
        {({ rows }) => <NewestRuns rows={rows} scope={scope} />}
      </Loaded>
    </Panel>
  );
}

function NewestRuns({ rows, scope }: { rows: readonly ListedRun[]; scope: RunScope }) {
  return (
    <>
      <RunListHead scope={scope} />
      <ul class="newest-runs" aria-label="Newest runs">
        {rows.map((run) => (
          <li key={run.run_id}>
            <RunRow run={run} />
          </li>
        ))}
      </ul>
    </>
  );
}

/** Reports of agents to /v1 in the last 30 days. */
function ReportedHome() {
  const org_id = organization.value!.id;
  const usage = useResource(
    `home usage ${org_id}`,
    (signal) => call('GET /usage', { query: { org_id, days: 30 }, signal }),
    { every_ms: 15_000 },
  );
  const leadTo = (words: string) =>
    hrefOf('runs', null, { q: `is:reported ${words} since:30d`.replaceAll(/ +/g, ' ') });
  return (
    <>
      <Panel title="Reported runs" sub="What agents report to /v1, the last 30 days.">
        <Loaded from={usage} lines={3}>
          {({ totals }) => (
            <div class="stats slim">
              <Stat value={formatNumber(totals.runs)} label="Runs" href={leadTo('')} />
              <Stat value={formatNumber(totals.steps)} label="Steps scored" href={hrefOf('usage')} />
              <Stat
                value={formatNumber(totals.injections)}
                label="Interventions"
                href={leadTo('has:monitor')}
              />
              <Stat value={formatNumber(totals.retrievals)} label="Retrievals" href={hrefOf('usage')} />
            </div>
          )}
        </Loaded>
      </Panel>
      {usage.data.value === null || usage.data.value.totals.runs === 0 ? null : (
        <div class="charts">
          <DayBars
            title="Steps a day"
            points={usage.data.value.series.map(({ date, steps }) => ({ date, value: steps }))}
          />
          <DayBars
            title="Interventions a day"
            points={usage.data.value.series.map(({ date, injections }) => ({ date, value: injections }))}
          />
        </div>
      )}
      <MonthMeter org_id={org_id} />
    </>
  );
}

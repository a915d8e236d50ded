/**
 * What turns of a period lost by missing the provider's prompt cache: by day, cause and agent. Browser.
 */
import { filterOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatNumber, formatShort, sayNotIndexed } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { formatUsd } from '../core/money.ts';
import { useResource } from '../core/resource.ts';
import { Panel } from './basics.tsx';
import { DayBars } from './chart.tsx';
import { Loaded } from './states.tsx';
import { type Column, Table } from './table.tsx';

type Period = Reply<'GET /capture/cache'>;
type Cause = Period['causes'][number];
type Agent = Period['by_agent'][number];
type Losses = Pick<Agent, 'misses' | 'cost_usd'>;

/** Interval of reading while older turns are being examined. */
const EXAMINING_MS = 2_000;
/** Interval of reading after all turns are examined. */
const SETTLED_MS = 60_000;

/** Shows what missing the prompt cache cost in a period. @param days UTC days, the present one included */
export function CacheLosses({ days }: { days: number }) {
  const agent = filterOf('cache_agent');
  const query = { days, ...(agent === '' ? {} : { agent }) };
  const cache = useResource(
    `cache ${days} ${agent}`,
    (signal) => call('GET /capture/cache', { query, signal }),
    { every_ms: ({ is_whole }) => (is_whole ? SETTLED_MS : EXAMINING_MS) },
  );
  return (
    <Loaded from={cache} lines={3}>
      {(period) => <PeriodPanels period={period} agent={agent} />}
    </Loaded>
  );
}

function PeriodPanels({ period, agent }: { period: Period; agent: string }) {
  const { misses, by_agent, by_day, causes, days } = period;
  const isPriced = by_day.some(({ cost_usd }) => cost_usd !== null);
  return (
    <Panel title="Missed caches" sub={describe(period)}>
      {(by_agent.length > 1 && misses > 0) || agent !== '' ? (
        <AgentChoice agents={by_agent} agent={agent} />
      ) : null}
      {misses === 0 ? null : (
        <>
          {isPriced && by_day.length > 1 ? (
            <DayBars title="Lost by missed caches" points={listDays(period)} format={formatUsd} />
          ) : null}
          <Table
            label="Causes of missed caches"
            columns={causeColumns(days)}
            rows={causes}
            keyOf={({ cause, agent: of, place }) => `${cause} ${of} ${place}`}
            empty=""
          />
          <p class="after-table">
            <a href="/docs/guides/cache-doctor#causes">What to do about each cause</a>
          </p>
        </>
      )}
      {agent === '' && by_agent.length > 1 && misses > 0 ? (
        <Table
          label="Missed caches by agent"
          columns={agentColumns(days)}
          rows={by_agent}
          keyOf={({ agent: of }) => of}
          empty=""
        />
      ) : null}
    </Panel>
  );
}

function AgentChoice({ agents, agent }: { agents: readonly Agent[]; agent: string }) {
  const names = agents.map(({ agent: name }) => name).filter((name) => name !== '');
  const all = names.includes(agent) || agent === '' ? names : [agent, ...names];
  return (
    <div class="filters in-panel">
      <label>
        <span>Agent</span>
        <select
          value={agent}
          onChange={({ currentTarget }) => setFilters({ cache_agent: currentTarget.value })}
        >
          <option value="" selected={agent === ''}>
            all
          </option>
          {all.map((name) => (
            <option key={name} value={name} selected={name === agent}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function describe({
  turns,
  untold_turns,
  misses,
  is_whole,
  not_indexed,
  days,
  from_day,
  to_day,
  ...losses
}: Period): string {
  const period = `${from_day} to ${to_day}, UTC`;
  const more = (is_whole ? '' : '; older turns are being examined') + sayNotIndexed(not_indexed);
  if (turns === 0)
    return is_whole
      ? `No turn was captured in these days (${period}${more}).`
      : `Turns are being examined (${period}).`;
  if (turns === untold_turns)
    return `The answers of ${countOf(turns, 'turn')} do not say what was read from the provider's cache (${period}${more}).`;
  const untold =
    untold_turns === 0 ? '' : `; ${countOf(untold_turns, 'turn')} do not say what was read from it`;
  const read =
    misses === 0
      ? `None of ${countOf(turns, 'turn')} missed the provider's cache`
      : `${countOf(misses, 'turn')} of ${formatNumber(turns)} read less from the provider's cache than possible${sayLoss({ misses, ...losses }, days)}`;
  return `${read}${untold} (${period}${more}).`;
}

function sayLoss(
  { cost_usd, unpriced_misses, is_estimate }: Omit<Agent, 'agent' | 'turns' | 'untold_turns'>,
  days: number,
): string {
  if (cost_usd === null) return '. No price is known for their models';
  const about = is_estimate ? 'about ' : '';
  const daily = days > 1 ? `, ${formatUsd(cost_usd / days)} a day over ${days} days` : '';
  const unpriced =
    unpriced_misses === 0 ? '' : `, and ${countOf(unpriced_misses, 'turn')} without a known price`;
  return `, which cost ${about}${formatUsd(cost_usd)}${daily}${unpriced}`;
}

/**
 * Lists every day from the first to the last with examined turns, with what it lost: 0 for a day without a miss; null
 * if no price is known.
 */
function listDays({ by_day }: Period): { date: string; value: number | null }[] {
  const losses = new Map(by_day.map((day) => [day.day, day]));
  const days: { date: string; value: number | null }[] = [];
  const [first, last] = [by_day[0]!.day, by_day.at(-1)!.day];
  for (let ms = Date.parse(first); ms <= Date.parse(last); ms += 86_400_000) {
    const date = new Date(ms).toISOString().slice(0, 10);
    const day = losses.get(date);
    days.push({ date, value: day === undefined || day.misses === 0 ? 0 : day.cost_usd });
  }
  return days;
}

function showCost({ misses, cost_usd }: Losses): string {
  if (misses === 0) return '–';
  return cost_usd === null ? 'no price' : formatUsd(cost_usd);
}

function costColumns<Row extends Losses>(days: number): Column<Row>[] {
  const daily: Column<Row> = {
    title: 'Cost a day',
    kind: 'number',
    show: ({ cost_usd }) => (cost_usd === null ? '–' : formatUsd(cost_usd / days)),
  };
  return [{ title: 'Cost', kind: 'number', show: showCost }, ...(days > 1 ? [daily] : [])];
}

const causeColumns = (days: number): Column<Cause>[] => [
  {
    title: 'Why',
    kind: 'wide',
    show: ({ words, place }) => (
      <>
        {words}
        {place === null ? null : <span class="faint"> ({place})</span>}
      </>
    ),
  },
  { title: 'Agent', show: ({ agent }) => agent || '–', kind: 'wide' },
  { title: 'Turns', kind: 'number', show: ({ misses }) => formatNumber(misses) },
  { title: 'Tokens lost', kind: 'number', show: ({ lost_tokens }) => formatShort(lost_tokens) },
  ...costColumns<Cause>(days),
  {
    title: 'Runs',
    kind: 'name',
    show: ({ runs }) =>
      runs.map((id, at) => (
        <span key={id}>
          {at === 0 ? '' : ', '}
          <a href={hrefOfCaptured(id)}>{id}</a>
        </span>
      )),
  },
];

const agentColumns = (days: number): Column<Agent>[] => [
  { title: 'Agent', kind: 'wide', show: ({ agent }) => agent || <span class="faint">not known</span> },
  { title: 'Turns', kind: 'number', show: ({ turns }) => formatNumber(turns) },
  { title: 'Missed', kind: 'number', show: ({ misses }) => formatNumber(misses) },
  { title: 'Tokens lost', kind: 'number', show: ({ lost_tokens }) => formatShort(lost_tokens) },
  ...costColumns<Agent>(days),
];

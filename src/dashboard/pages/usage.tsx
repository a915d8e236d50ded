/** Usage of the organization or of one of its projects, by day, and as a file. Browser. */
import { filterOf, setFilters } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { formatNumber } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { isOperator, organization } from '../core/session.ts';
import { PageHead, Stat } from '../ui/basics.tsx';
import { DayBars } from '../ui/chart.tsx';
import { saveFile } from '../ui/copy.ts';
import { KeyUsage } from '../ui/key-usage.tsx';
import { MonthMeter } from '../ui/month-meter.tsx';
import { Loaded } from '../ui/states.tsx';

type Usage = Reply<'GET /usage'>;

const COUNTERS = [
  ['runs', 'Runs'],
  ['steps', 'Steps scored'],
  ['injections', 'Interventions'],
  ['retrievals', 'Retrievals'],
  ['evaluations', 'Evaluations'],
  ['traces', 'Traces'],
  ['tokens', 'Tokens reported'],
] as const;
const SPANS = ['7', '30', '90'];

export function UsagePage() {
  const org = organization.value!;
  const project_id = filterOf('project');
  const days = SPANS.includes(filterOf('days')) ? filterOf('days') : '30';
  const projects = useResource(`projects ${org.id}`, (signal) =>
    call('GET /projects', { query: { org_id: org.id, limit: 200 }, signal }),
  );
  const usage = useResource(
    `usage ${org.id} ${project_id} ${days}`,
    (signal) =>
      call('GET /usage', {
        query: { org_id: org.id, days: Number(days), ...(project_id === '' ? {} : { project_id }) },
        signal,
      }),
    { every_ms: 30_000 },
  );
  return (
    <>
      <PageHead
        title="Usage"
        sub={`What agents reported to the API, by day (UTC), at most a second old.${isOperator.value ? ' The page Costs shows what the gateway captured.' : ''}`}
      >
        <button
          type="button"
          class="plain"
          disabled={usage.data.value === null}
          onClick={() => saveFile(`understudy-usage-${days}-days.csv`, 'text/csv', toCsv(usage.data.value!))}
        >
          Download CSV
        </button>
      </PageHead>
      <UsageFilters projects={projects.data.value ?? []} project_id={project_id} days={days} />
      <Loaded from={usage} lines={8}>
        {({ totals, series }) => (
          <>
            <div class="stats">
              {COUNTERS.map(([name, label]) => (
                <Stat key={name} value={formatNumber(totals[name])} label={label} />
              ))}
            </div>
            <div class="charts">
              {COUNTERS.map(([name, label]) => (
                <DayBars
                  key={name}
                  title={`${label} a day`}
                  points={series.map((day) => ({ date: day.date, value: day[name] }))}
                />
              ))}
            </div>
          </>
        )}
      </Loaded>
      <KeyUsage org_id={org.id} project_id={project_id} days={Number(days)} />
      <MonthMeter org_id={org.id} />
    </>
  );
}

function UsageFilters({
  projects,
  project_id,
  days,
}: {
  projects: readonly { id: string; name: string }[];
  project_id: string;
  days: string;
}) {
  return (
    <div class="filters">
      <label>
        <span>Project</span>
        <select
          value={project_id}
          onChange={({ currentTarget }) => setFilters({ project: currentTarget.value })}
        >
          <option value="">all of the organization</option>
          {projects.map(({ id, name }) => (
            <option key={id} value={id} selected={id === project_id}>
              {name}
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

/** CSV with one line per day, and column names. */
function toCsv({ series }: Usage): string {
  const names = ['date', ...COUNTERS.map(([name]) => name)] as const;
  const lines = series.map((day) => names.map((name) => day[name]).join(','));
  return `${[names.join(','), ...lines].join('\n')}\n`;
}

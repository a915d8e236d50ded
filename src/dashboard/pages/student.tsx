/** Student: the golden runs for it, what it serves, why it does not serve more, and what it has saved. Browser. */
import { describeDecision, describeRemedy } from '../../domain/relegation-words.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatDay, formatNumber, formatShare, formatShort } from '../core/format.ts';
import { hrefOfCaptured } from '../core/listed-runs.ts';
import { useResource } from '../core/resource.ts';
import { Badge, Meter, PageHead, Panel, Stat, Time } from '../ui/basics.tsx';
import { ErrorBound } from '../ui/error-bound.tsx';
import { Empty, Loaded } from '../ui/states.tsx';
import { StudentAgents } from '../ui/student-agents.tsx';
import { SavedUsd, StudentLedger, sayUncertain } from '../ui/student-ledger.tsx';
import { Disagreements, RefusedSteps } from '../ui/student-steps.tsx';
import { Table } from '../ui/table.tsx';

type StudentReport = Reply<'GET /capture/student'>;
type Version = StudentReport['versions'][number];
type Golden = Reply<'GET /capture/activity'>['golden'];
type Stats = Reply<'GET /capture/stats'>;

const EVERY_MS = 10_000;

export function StudentPage() {
  const report = useResource('student', (signal) => call('GET /capture/student', { signal }), {
    every_ms: EVERY_MS,
  });
  const activity = useResource(
    'student activity',
    (signal) => call('GET /capture/activity', { query: { hours: 720 }, signal }),
    { every_ms: EVERY_MS },
  );
  const stats = useResource('student stats', (signal) => call('GET /capture/stats', { signal }), {
    every_ms: EVERY_MS,
  });
  return (
    <>
      <PageHead
        title="Student"
        sub="It learns from golden runs, and answers the steps that it has mastered. Everything else goes to the upstream."
      />
      <Loaded from={report} lines={8}>
        {(loaded) => (
          <>
            {loaded.problems.map((words) => (
              <p key={words} class="trouble">
                {words}
              </p>
            ))}
            <Panel
              title="Golden runs"
              sub="Runs that are complete, were read exactly, and show no sign that they went wrong. A student learns only from these."
            >
              {activity.data.value === null ? null : (
                <GoldenRuns golden={activity.data.value.golden} needed={loaded.golden_runs_needed} />
              )}
            </Panel>
            <Serving report={loaded} stats={stats.data.value} />
            {loaded.agents.length === 0 ? null : (
              <StudentAgents agents={loaded.agents} refresh={() => report.refresh()} />
            )}
            {loaded.mode === 'off' ? null : (
              <>
                <Disagreements names={namesOf(loaded)} />
                <RefusedSteps names={namesOf(loaded)} />
              </>
            )}
            {loaded.ledger.length === 0 ? null : <StudentLedger rows={loaded.ledger} />}
            {loaded.versions.length === 0 ? null : (
              <Panel
                title="Versions"
                sub="Newest first. Measured on golden runs that were not used for teaching."
              >
                <Versions versions={loaded.versions} serving={loaded.serving} />
              </Panel>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}

/** The names of the agent variants that have one, by variant. */
function namesOf({ agents }: StudentReport): ReadonlyMap<string, string> {
  return new Map(agents.flatMap(({ agent, name }) => (name === '' ? [] : [[agent, name]])));
}

function GoldenRuns({
  golden: { golden, not_golden, not_judged },
  needed,
}: {
  golden: Golden;
  needed: number;
}) {
  return (
    <>
      <p class="big-line">
        <b>{formatNumber(golden)}</b> {golden === 1 ? 'golden run' : 'golden runs'}; a student takes at least{' '}
        {formatNumber(needed)}
        {golden >= needed ? <Badge tone="good">enough</Badge> : null}
      </p>
      <Meter
        used={Math.min(golden, needed)}
        most={needed}
        is_goal
        label={`${golden} golden runs of ${needed} needed`}
      />
      <p class="faint">
        {countOf(not_golden, 'run is', 'runs are')} not golden
        {not_judged > 0 ? `, ${formatNumber(not_judged)} not judged yet` : ''}.{' '}
        <a href={hrefOfCaptured(null, { q: '-is:golden is:captured' })}>
          See which runs are not golden, and why
        </a>
      </p>
    </>
  );
}

function Serving({
  report: { mode, serving, versions, held, ledger_total },
  stats,
}: {
  report: StudentReport;
  stats: Stats | null;
}) {
  if (mode === 'off')
    return (
      <Panel title="Serving">
        <Empty title="No student serves here.">
          <p>Teach one from the golden runs, then start the service with it:</p>
          <pre class="code-block">
            npx understudy-gateway distill --db data/capture.mdb --out student{'\n'}SVC_DISTILL_DIR=student
            npm start
          </pre>
        </Empty>
      </Panel>
    );
  const version = versions.find((entry) => entry.version === serving);
  const relegation = stats?.relegation;
  return (
    <Panel
      title="Serving"
      sub={
        <>
          <Badge tone={serving === null ? 'off' : mode === 'shadow' ? 'warn' : 'student'}>
            {serving === null
              ? 'nothing yet'
              : mode === 'shadow'
                ? 'shadow: compared, serves nothing'
                : `version ${serving}`}
          </Badge>
          {version !== undefined && version.share < 1 ? ` ${formatShare(version.share)} of the runs` : ''}
          {held ? ' held: rounds store new versions but do not publish them' : ''}
          {version?.valid_until == null ? null : (
            <>
              {' '}
              ends <Time at={version.valid_until} />
            </>
          )}
        </>
      }
    >
      {relegation === undefined ? null : <ServingStats relegation={relegation} total={ledger_total} />}
      <Refusals title="Went to the upstream, since the start" counts={relegation?.fallbacks ?? {}} />
      <Refusals title="Not covered when it was measured" counts={version?.uncovered ?? {}} />
    </Panel>
  );
}

/** Counts of this process, and the ledger, which survives restarts. */
function ServingStats({
  relegation,
  total,
}: {
  relegation: Stats['relegation'];
  total: StudentReport['ledger_total'];
}) {
  const asked = relegation.served + relegation.fallback;
  return (
    <div class="stats slim">
      <Stat
        value={formatNumber(relegation.served)}
        label="Served since the start"
        tone="student"
        sub={
          asked === 0
            ? undefined
            : `${formatShare(relegation.served / asked)} of ${formatNumber(asked)} turns`
        }
      />
      <Stat
        value={total === null ? '–' : formatShort(total.input_tokens + total.output_tokens)}
        label="Tokens saved"
        sub={
          total?.since == null
            ? undefined
            : `since ${formatDay(total.since)}, ${countOf(total.served, 'step')}`
        }
      />
      <Stat
        value={total === null ? '–' : <SavedUsd of={total} />}
        label="Money saved"
        sub={
          total === null
            ? 'The ledger cannot be read'
            : (sayUncertain(total) ?? (total.since === null ? undefined : `since ${formatDay(total.since)}`))
        }
      />
    </div>
  );
}

/** Shows the number of steps for each reason. The most frequent reason comes first. */
function Refusals({ title, counts }: { title: string; counts: Readonly<Record<string, number>> }) {
  const rows = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a);
  if (rows.length === 0) return null;
  const most = rows[0]![1];
  return (
    <div class="refusals">
      <h3>{title}</h3>
      <ul>
        {rows.map(([reason, count]) => (
          <li key={reason}>
            <span title={`Such a step ${describeRemedy(reason)}`}>
              {describeDecision(reason) ?? reason.replaceAll('_', ' ')}
            </span>
            <span class="bar-track" aria-hidden="true">
              <i style={{ width: `${(100 * count) / most}%` }} />
            </span>
            <b class="number">{formatNumber(count)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Versions({ versions, serving }: { versions: readonly Version[]; serving: number | null }) {
  return (
    <Table
      label="Versions"
      columns={[
        {
          title: 'Version',
          show: ({ version, share, problem }) => (
            <>
              {version}{' '}
              {version === serving ? (
                <Badge tone="student">{share < 1 ? `serves ${formatShare(share)}` : 'serves'}</Badge>
              ) : null}
              {problem === '' ? null : (
                <Badge tone="bad" title={problem}>
                  unreadable
                </Badge>
              )}
            </>
          ),
        },
        { title: 'Made', show: ({ made_at }) => <Time at={made_at} never="–" /> },
        { title: 'Golden runs', show: ({ golden_runs }) => formatShort(golden_runs), kind: 'number' },
        { title: 'Agents', show: ({ agents }) => formatShort(agents), kind: 'number' },
        {
          title: 'Coverage',
          show: ({ served, steps }) => (served === null || !steps ? '–' : formatShare(served / steps)),
          kind: 'number',
        },
        {
          title: 'Wrong, at most',
          show: ({ errors, served, error_at_most }) => (
            <ErrorBound errors={errors} of={served} at_most={error_at_most} />
          ),
        },
        {
          title: 'Tokens saved',
          show: ({ tokens_saved_share }) => formatShare(tokens_saved_share),
          kind: 'number',
        },
      ]}
      rows={versions}
      keyOf={({ version }) => String(version)}
      empty="None."
    />
  );
}

/**
 * Experiments: whether Understudy's help improves runs. Shows one report if the address names an experiment.
 * Browser.
 */
import { address, filterOf, hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatNumber, formatShare, formatShort, formatSpan } from '../core/format.ts';
import { usePagedList } from '../core/paged-list.ts';
import { useResource } from '../core/resource.ts';
import { organization } from '../core/session.ts';
import { Badge, PageHead, Panel } from '../ui/basics.tsx';
import { FilterRow, FilterText } from '../ui/filters.tsx';
import { Intervals } from '../ui/interval.tsx';
import { Loaded } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';

type Report = Reply<'GET /v1/monitor/experiments/{experiment_id}/report'>;

const PAGE_ROWS = 50;
const EVERY_MS = 10_000;

export function ExperimentsPage() {
  const { selection } = address.value;
  return selection === null ? (
    <ExperimentList />
  ) : (
    <ExperimentPage key={selection} experiment_id={selection} />
  );
}

function ExperimentList() {
  const org_id = organization.value!.id;
  const list = usePagedList(
    org_id,
    async (cursor, signal) => {
      const { experiments, next_cursor } = await call('GET /v1/monitor/experiments', {
        query: { org_id, limit: PAGE_ROWS, cursor },
        signal,
      });
      return { rows: experiments, next_cursor };
    },
    { keyOf: ({ experiment_id }) => experiment_id, every_ms: EVERY_MS },
  );
  return (
    <>
      <PageHead
        title="Experiments"
        sub="Runs of two arms, compared: “on” gets what Understudy knows, “off” does not."
      />
      <Panel>
        <Loaded from={list}>
          {({ rows, has_more }) => (
            <>
              <Table
                label="Experiments"
                columns={[
                  {
                    title: 'Experiment',
                    show: ({ experiment_id }) => (
                      <a href={hrefOf('experiments', experiment_id)}>{experiment_id}</a>
                    ),
                    kind: 'wide',
                  },
                ]}
                rows={rows}
                keyOf={({ experiment_id }) => experiment_id}
                empty="No experiments yet."
                how={
                  <>
                    The first run with an <code>experiment_id</code> and an arm creates an experiment:{' '}
                    <a href="/docs/guides/client">the client library</a> draws the arms.
                  </>
                }
              />
              {has_more ? (
                <button type="button" class="plain more" onClick={list.more}>
                  Show more
                </button>
              ) : null}
            </>
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function ExperimentPage({ experiment_id }: { experiment_id: string }) {
  const org_id = organization.value!.id;
  const share = readShare(filterOf('share'));
  const report = useResource(
    `experiment ${org_id} ${experiment_id} ${share}`,
    (signal) =>
      call('GET /v1/monitor/experiments/{experiment_id}/report', {
        params: { experiment_id },
        query: { org_id, expected_on_share: share },
        signal,
      }),
    { every_ms: EVERY_MS },
  );
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={hrefOf('experiments')}>Experiments</a>
        <span aria-hidden="true">/</span>
        <span>{experiment_id}</span>
      </nav>
      <PageHead title={experiment_id} />
      <FilterRow>
        <FilterText
          label="Intended share of “on”"
          name="share"
          value={filterOf('share')}
          placeholder="0.5"
          maxLength={6}
        />
      </FilterRow>
      <Loaded from={report} lines={12}>
        {(known) => (
          <>
            <Effect report={known} />
            <Arms report={known} />
            <Split report={known} />
            <Versions report={known} />
          </>
        )}
      </Loaded>
    </>
  );
}

/** A share that the API accepts; other values become one half. */
function readShare(text: string): number {
  const share = Number(text);
  return text !== '' && share >= 0.001 && share <= 0.999 ? share : 0.5;
}

const asShare = (value: number) => formatShare(value, 1);
const asPoints = (value: number) =>
  `${value > 0 ? '+' : value < 0 ? '−' : ''}${Math.abs(value * 100).toFixed(1)} points`;

function Effect({ report: { arms, effect } }: { report: Report }) {
  const { success_rate_diff, ci95, always_valid_ci95, p_value } = effect;
  const most = Math.max(
    0.1,
    ...[...(ci95 ?? []), ...(always_valid_ci95 ?? []), success_rate_diff ?? 0].map(Math.abs),
  );
  const end = Math.min(1, Math.ceil(most * 10) / 10);
  return (
    <Panel title="Effect" sub={sayEffect(effect)}>
      <Intervals
        estimates={[
          { label: 'on', value: arms.on.success_rate, interval: arms.on.ci95, color: '--line-1' },
          { label: 'off', value: arms.off.success_rate, interval: arms.off.ci95, color: '--line-2' },
        ]}
        scale={[0, 1]}
        format={asShare}
      />
      <Intervals
        estimates={[
          {
            label: 'on minus off',
            value: success_rate_diff,
            interval: ci95,
            wider: always_valid_ci95,
            color: '--line-3',
          },
        ]}
        scale={[-end, end]}
        format={asPoints}
        zero={0}
      />
      <p class="faint">
        Bars are 95 % intervals. The thin bar is valid however often you read the report
        {always_valid_ci95 === null
          ? ''
          : ` (between ${asPoints(always_valid_ci95[0])} and ${asPoints(always_valid_ci95[1])})`}
        . The thick bar and p
        {p_value === null ? '' : ` = ${p_value < 0.001 ? '< 0.001' : p_value.toFixed(3)}`} are valid for one
        reading only, at an end that was fixed in advance.
      </p>
    </Panel>
  );
}

function sayEffect({ success_rate_diff, always_valid_ci95: sure }: Report['effect']): string {
  if (success_rate_diff === null || sure === null)
    return 'The difference is unknown until both arms have finished runs.';
  if (sure[0] > 0) return 'Runs of “on” succeed more often. This is valid at any time.';
  if (sure[1] < 0) return 'Runs of “on” succeed less often. This is valid at any time.';
  return 'No difference is proved yet: the interval that is valid at any time includes zero.';
}

function Arms({ report: { arms } }: { report: Report }) {
  const rows = [
    { name: 'on', ...arms.on },
    { name: 'off', ...arms.off },
  ];
  const mean = (value: number | null) => (value === null ? '–' : formatShort(Math.round(value * 10) / 10));
  return (
    <Panel title="Arms">
      <Table
        label="Arms"
        columns={[
          { title: 'Arm', show: ({ name }) => name },
          { title: 'Runs', show: ({ runs }) => formatNumber(runs), kind: 'number' },
          { title: 'Finished', show: ({ finished }) => formatNumber(finished), kind: 'number' },
          { title: 'Successes', show: ({ successes }) => formatNumber(successes), kind: 'number' },
          { title: 'Mean steps', show: ({ mean_steps }) => mean(mean_steps), kind: 'number' },
          { title: 'Mean tokens', show: ({ mean_tokens }) => mean(mean_tokens || null), kind: 'number' },
          {
            title: 'Mean time',
            show: ({ mean_duration_ms }) => formatSpan(mean_duration_ms),
            kind: 'number',
          },
        ]}
        rows={rows}
        keyOf={({ name }) => name}
        empty="No runs."
      />
    </Panel>
  );
}

const VERDICTS = {
  no_units: ['off', 'no units yet', 'No unit is assigned to an arm yet.'],
  too_few_units: ['off', 'too few units', 'There are too few units to test the split.'],
  as_expected: ['good', 'as intended', 'The split is as intended.'],
  mismatch: [
    'bad',
    'not as intended',
    'The split is not as intended (p < 0.001): something influences which units get into an arm. Do not trust the effect.',
  ],
} as const;

function Split({ report: { srm, mixed_units, mixed_unit_names } }: { report: Report }) {
  const [tone, badge, words] = VERDICTS[srm.verdict];
  return (
    <Panel title="Split" actions={<Badge tone={tone}>{badge}</Badge>} sub={words}>
      <p>
        {countOf(srm.units.on, 'unit')} in “on”, {formatNumber(srm.units.off)} in “off”:{' '}
        {formatShare(srm.observed_on, 1)} in “on”, {formatShare(srm.expected_on, 1)} intended.
      </p>
      {mixed_units === 0 ? null : (
        <details class="fold">
          <summary>{countOf(mixed_units, 'unit')} with runs in both arms</summary>
          <p class="faint">The effect counts only the runs of these units in their first arm.</p>
          <p>{mixed_unit_names.join(', ')}</p>
        </details>
      )}
    </Panel>
  );
}

function Versions({ report: { by_version } }: { report: Report }) {
  if (by_version.length === 0) return null;
  return (
    <Panel title="By version">
      <Table
        label="By version"
        columns={[
          { title: 'Version', show: ({ svc_version }) => svc_version || '–', kind: 'wide' },
          { title: 'Arm', show: ({ arm }) => arm },
          { title: 'Runs', show: ({ runs }) => formatNumber(runs), kind: 'number' },
          { title: 'Successes', show: ({ successes }) => formatNumber(successes), kind: 'number' },
          { title: 'Rate', show: ({ success_rate }) => formatShare(success_rate, 1), kind: 'number' },
        ]}
        rows={by_version}
        keyOf={({ svc_version, arm }) => `${svc_version} ${arm}`}
        empty="No runs."
      />
    </Panel>
  );
}

/** How long data is kept. Browser. */
import { call } from '../core/api.ts';
import type { Reply } from '../core/contract.ts';
import { countOf, formatSpan } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { Badge, Panel } from './basics.tsx';
import { Loaded } from './states.tsx';
import { Table } from './table.tsx';

type Kind = Reply<'GET /retention'>['kinds'][number]['kind'];

/** The name of each kind of data, the time from which its age is counted, and the variable that limits the age. */
const KINDS: Readonly<Record<Kind, readonly [name: string, from: string, variable: string]>> = {
  runs: [
    'Runs with their steps',
    'their start, or their last step while they are running',
    'RETENTION_DAYS_RUNS',
  ],
  traces: ['Traces', 'their submission', 'RETENTION_DAYS_TRACES'],
  findings: ['Findings', 'when they were stored', 'RETENTION_DAYS_FINDINGS'],
  live_events: ['Events of the live stream', 'when they happened', 'RETENTION_DAYS_LIVE_EVENTS'],
  captures: ['Captured conversations', 'the last exchange of their file', 'RETENTION_DAYS_CAPTURES'],
};

export function RetentionPanel() {
  const retention = useResource('retention', (signal) => call('GET /retention', { signal }));
  return (
    <Panel
      title="Retention"
      sub="Data that the service deletes by age. The operator sets the limits with the variables named here. Patterns, profiles, usage and the audit log stay."
    >
      <Loaded from={retention} lines={5}>
        {({ kinds, looks_every_s }) => (
          <>
            <Table
              label="Retention"
              columns={[
                { title: 'What', show: ({ kind }) => KINDS[kind][0], kind: 'wide' },
                {
                  title: 'Kept',
                  kind: 'short',
                  show: ({ days }) =>
                    days === null ? <Badge tone="off">for good</Badge> : countOf(days, 'day'),
                },
                { title: 'Counted from', show: ({ kind }) => KINDS[kind][1], kind: 'wide' },
                { title: 'Variable', show: ({ kind }) => <code>{KINDS[kind][2]}</code>, kind: 'short' },
              ]}
              rows={kinds}
              keyOf={({ kind }) => kind}
              empty="None."
            />
            <p class="faint">
              <code>RETENTION_DAYS</code> bounds all kinds without a variable. What is too old goes within{' '}
              {formatSpan(looks_every_s * 1_000)}; captured conversations may stay a day longer.
            </p>
          </>
        )}
      </Loaded>
    </Panel>
  );
}

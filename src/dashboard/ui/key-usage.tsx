/** Requests of each API key. Browser. */
import { call } from '../core/api.ts';
import { formatNumber } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { Badge, Panel } from './basics.tsx';
import { Loaded } from './states.tsx';
import { Table } from './table.tsx';

export function KeyUsage({ org_id, project_id, days }: { org_id: string; project_id: string; days: number }) {
  const usage = useResource(
    `key usage ${org_id} ${project_id} ${days}`,
    (signal) =>
      call('GET /usage/keys', {
        query: { org_id, days, ...(project_id === '' ? {} : { project_id }) },
        signal,
      }),
    { every_ms: 30_000 },
  );
  return (
    <Panel title="By key" sub="Requests with each API key in this period, including refused ones.">
      <Loaded from={usage} lines={3}>
        {({ keys }) => {
          const most = Math.max(1, ...keys.map(({ requests }) => requests));
          return (
            <Table
              label="Requests by key"
              columns={[
                { title: 'Name', show: (key) => key.name, kind: 'wide' },
                {
                  title: 'Key',
                  kind: 'short',
                  show: (key) => (
                    <>
                      <code>{`${key.prefix}…${key.last4}`}</code>{' '}
                      {key.revoked ? <Badge tone="off">revoked</Badge> : null}
                    </>
                  ),
                },
                {
                  title: 'Share',
                  show: ({ requests }) => (
                    <span class="bar-track" aria-hidden="true">
                      <i style={{ width: `${(100 * requests) / most}%` }} />
                    </span>
                  ),
                },
                { title: 'Requests', show: ({ requests }) => formatNumber(requests), kind: 'number' },
              ]}
              rows={keys}
              keyOf={({ id }) => id}
              empty="No keys yet."
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}

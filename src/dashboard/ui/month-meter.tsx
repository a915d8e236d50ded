/** This month's interventions, as a share of the plan's cap if it has one. Browser. */
import { call } from '../core/api.ts';
import { formatNumber } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { Meter, Panel } from './basics.tsx';
import { Loaded } from './states.tsx';

export function MonthMeter({ org_id }: { org_id: string }) {
  const usage = useResource(`month ${org_id}`, (signal) =>
    call('GET /billing/intervention-usage', { query: { org_id }, signal }),
  );
  return (
    <Panel title="Interventions this month">
      <Loaded from={usage} lines={2}>
        {({ used, cap, period_end }) => {
          if (cap === null) return <p>{formatNumber(used)} so far; this plan has no cap.</p>;
          const until = new Date(period_end).toLocaleDateString(undefined, {
            day: 'numeric',
            month: 'long',
            timeZone: 'UTC',
          });
          return (
            <>
              <Meter used={used} most={cap} label="Interventions this month, as a share of the plan’s cap" />
              <p>
                {formatNumber(used)} of {formatNumber(cap)}. Counting starts again on {until} (UTC).
              </p>
              {used >= cap ? (
                <p class="alarm">The cap is reached: retrieval answers with an empty list until {until}.</p>
              ) : null}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

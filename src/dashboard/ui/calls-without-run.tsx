/** The failed calls that belong to no run, which no list of runs can show. Each call opens its exchange. Browser. */
import type { Reply } from '../core/contract.ts';
import { countOf, formatNumber } from '../core/format.ts';
import { Time } from './basics.tsx';
import { ExchangeDetails } from './exchange-details.tsx';

type Activity = Reply<'GET /capture/activity'>;

export function CallsWithoutRun({ activity }: { activity: Activity }) {
  const { errors_without_run: count, failed_without_run: calls } = activity;
  if (count === 0) return null;
  return (
    <details class="fold">
      <summary>{countOf(count, 'failed call')} without a run</summary>
      {calls.map((call) => (
        <div key={call.exchange_id}>
          <Time at={call.started_at} />
          <ExchangeDetails turn={{ ...call, shape: null, seq: null }} />
        </div>
      ))}
      {count > calls.length ? <p class="faint">These are the newest {formatNumber(calls.length)}.</p> : null}
    </details>
  );
}

/**
 * The usage meter: every count is an event, and the counters that others read are written in the event's own transaction;
 * an answer leaves when that is safe. So nothing that was served is lost by a crash, and nothing is counted that was not
 * asked for. Its journal and the counters are in `runs.mdb`. Actor thread.
 *
 * A month is a UTC calendar month by the wall clock. A clock that jumps back does not bring a month back: what was used
 * stays used until the month after the latest one seen.
 */
import type { UsageCounts } from '../../src/domain/usage.ts';
import { usageWrites } from '../../src/domain/usage.ts';
import type { Behaviour } from '../../src/runtime/protocol.ts';
import { USAGE_METER_KIND, type UsageMeterProtocol } from './protocol.ts';

interface Meter {
  /** `2026-11`; '' before anything was counted. */
  month: string;
  /** Interventions of both kinds in that month. */
  used: number;
}

/** Something was counted. */
interface Counted {
  at_ms: number;
  project_id: string;
  counts: Partial<UsageCounts>;
}

type UsageMeter = Behaviour<UsageMeterProtocol, Meter, Counted>;

export const usageMeter: UsageMeter = {
  kind: USAGE_METER_KIND,
  initial: () => ({ month: '', used: 0 }),

  handlers: {
    intervene(meter, { project_id, cap }, context) {
      const at_ms = context.now_ms;
      const allowed = cap === null || usedAt(meter, at_ms) < cap;
      const counts = allowed ? { retrievals: 1, injections_retrieve: 1 } : { retrievals: 1 };
      const { used } = context.persist({ at_ms, project_id, counts });
      context.reply({ allowed, used });
    },
    count(_meter, { project_id, counts }, context) {
      const { used } = context.persist({ at_ms: context.now_ms, project_id, counts });
      context.reply({ used });
    },
    used(meter, _message, context) {
      context.reply({ used: usedAt(meter, context.now_ms) });
    },
  },
  internal: {},

  persistence: {
    apply(meter, { at_ms, counts }) {
      const month = latestMonth(meter, at_ms);
      const before = month === meter.month ? meter.used : 0;
      return { month, used: before + (counts.injections_retrieve ?? 0) + (counts.injections_evaluate ?? 0) };
    },
    project: (_meter, { at_ms, project_id, counts }, key) => usageWrites(key, at_ms, project_id, counts),
    snapshot: {
      version: 1,
      every_events: 500,
      encode: (meter) => meter,
      decode: (data) => data as Meter,
    },
  },
};

function usedAt(meter: Meter, atMs: number): number {
  return latestMonth(meter, atMs) === meter.month ? meter.used : 0;
}

/** The month of that moment, or a later one that was seen already. */
function latestMonth({ month }: Meter, atMs: number): string {
  const current = new Date(atMs).toISOString().slice(0, 7);
  return current > month ? current : month;
}

/**
 * The usage meter: every count is an event, and the counters that others read are written in the event's own transaction;
 * an answer leaves when that is safe. So nothing that was served is lost by a crash, and nothing is counted that was not
 * asked for. Its journal and the counters are in `runs.mdb`. Server threads.
 *
 * A month is a UTC calendar month by the wall clock. A clock that is put back over the end of a month does not bring the
 * month before back: what was used stays used until the latest one seen is over. One that was months ahead was wrong: then
 * the present month's count goes on, or a customer at the cap would wait for years.
 */
import type { UsageCounts } from '../../src/domain/usage.ts';
import { usageWrites } from '../../src/domain/usage.ts';
import { USAGE_ONCE_NAMES } from '../../src/limits.ts';
import type { Behaviour } from '../../src/runtime/protocol.ts';
import { USAGE_METER_KIND, type UsageMeterProtocol } from './protocol.ts';

interface Meter {
  /** `2026-11`; '' before anything was counted. */
  month: string;
  /** Interventions of both kinds in that month. */
  used: number;
  /** The one that was counted in before it; null at first. */
  before: { month: string; used: number } | null;
  /** Interventions that had a name, the latest last. */
  names: readonly string[];
}

/** Something was counted. */
interface Counted {
  at_ms: number;
  project_id: string;
  counts: Partial<UsageCounts>;
  once?: string;
}

type UsageMeter = Behaviour<UsageMeterProtocol, Meter, Counted>;

export const usageMeter: UsageMeter = {
  kind: USAGE_METER_KIND,
  initial: () => ({ month: '', used: 0, before: null, names: [] }),

  handlers: {
    intervene(meter, { project_id, cap, patterns }, context) {
      const at_ms = context.now_ms;
      const allowed = cap === null || usedAt(meter, at_ms) < cap;
      const counts = allowed ? { retrievals: 1, injections_retrieve: 1 } : { retrievals: 1 };
      const { used } = context.persist({ at_ms, project_id, counts });
      context.reply({ allowed, used });
      context.count('retrievals', allowed ? 'found' : 'capped');
      if (allowed) context.count('patterns_retrieved', '', patterns);
    },
    count(meter, { project_id, counts, once }, context) {
      const at_ms = context.now_ms;
      if (counts.retrievals !== undefined) context.count('retrievals', 'nothing', counts.retrievals);
      if (once === undefined) {
        if (counts.evaluations !== undefined) context.count('evaluations', 'quiet', counts.evaluations);
        return context.reply({ used: context.persist({ at_ms, project_id, counts }).used, is_repeat: false });
      }
      const is_repeat = meter.names.includes(once);
      const counted = is_repeat
        ? { at_ms, project_id, counts: withoutInterventions(counts) }
        : { at_ms, project_id, counts, once };
      context.reply({ used: context.persist(counted).used, is_repeat });
      context.count('evaluations', is_repeat ? 'repeated' : 'injected');
    },
    used(meter, _message, context) {
      context.reply({ used: usedAt(meter, context.now_ms) });
    },
  },
  internal: {},

  persistence: {
    apply(meter, { at_ms, counts, once }) {
      const names = once === undefined ? meter.names : [...meter.names, once].slice(-USAGE_ONCE_NAMES);
      const month = monthToCountIn(meter, at_ms);
      const used =
        usedIn(meter, month) + (counts.injections_retrieve ?? 0) + (counts.injections_evaluate ?? 0);
      if (month === meter.month) return { month, used, before: meter.before, names };
      return { month, used, before: { month: meter.month, used: meter.used }, names };
    },
    project: (_meter, { at_ms, project_id, counts }, key) => usageWrites(key, at_ms, project_id, counts),
    snapshot: {
      version: 3,
      every_events: 500,
      encode: (meter) => meter,
      // The first shape knew no month before, the second no names.
      decode: (data) => ({ before: null, names: [], ...(data as Partial<Meter>) }) as Meter,
    },
  },
};

function withoutInterventions(counts: Partial<UsageCounts>): Partial<UsageCounts> {
  const { injections_retrieve: _retrieved, injections_evaluate: _evaluated, ...rest } = counts;
  return rest;
}

function usedAt(meter: Meter, atMs: number): number {
  return usedIn(meter, monthToCountIn(meter, atMs));
}

function usedIn({ month, used, before }: Meter, of: string): number {
  if (of === month) return used;
  return of === before?.month ? before.used : 0;
}

/** The month of that moment, or the one after it where that was seen already. */
function monthToCountIn({ month }: Meter, atMs: number): string {
  const at = new Date(atMs);
  const present = monthOf(at.getTime());
  const next = monthOf(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1));
  return month === next ? next : present;
}

function monthOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 7);
}

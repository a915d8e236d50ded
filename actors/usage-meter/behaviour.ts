/**
 * The usage meter. Every count is an event, and the counters that other code reads are written in the event's
 * transaction. The answer is sent afterwards, so after a crash everything that was served is counted. The meter also
 * records which interventions evaluations of posted steps returned, because each of them counts once. The journal and
 * the counters are in `runs.mdb`. Server threads.
 *
 * A month is a UTC calendar month by the wall clock. If the clock is set back to the previous month, usage still counts
 * for the latest month, until that month is over. If the clock is set back by several months, the later month was an
 * error, and the count of the current month continues. Otherwise a customer who has reached the cap could be blocked
 * for years.
 */
import {
  type EvaluatedRuns,
  type Handout,
  handOut,
  keepEntry,
  NO_EVALUATED_RUNS,
} from '../../src/domain/evaluated-runs.ts';
import type { UsageCounts } from '../../src/domain/usage.ts';
import { usageWrites } from '../../src/domain/usage.ts';
import type { Behaviour } from '../../src/runtime/protocol.ts';
import { USAGE_METER_KIND, type UsageMeterProtocol } from './protocol.ts';

/** Maximum number of interventions of an organization whose names the meter remembers, so that each counts once. */
export const USAGE_ONCE_NAMES = 256;

interface Meter {
  /** `2026-11`; '' before the first count. */
  month: string;
  /** Number of interventions of both kinds in `month`. */
  used: number;
  /** The month that was counted before `month`; null before the first count. Its name is '' if `month` is the first. */
  before: { month: string; used: number } | null;
  /** Names of recent interventions, the latest last. */
  names: readonly string[];
  /** Interventions returned by evaluations of posted steps. */
  evaluated: EvaluatedRuns;
}

/** The event of one count. */
interface Counted {
  at_ms: number;
  project_id: string;
  counts: Partial<UsageCounts>;
  once?: string;
  /** Interventions returned by an evaluation of posted steps. */
  evaluated?: Pick<Handout, 'keys' | 'entry'>;
}

type UsageMeter = Behaviour<UsageMeterProtocol, Meter, Counted>;

export const usageMeter: UsageMeter = {
  kind: USAGE_METER_KIND,
  initial: () => ({ month: '', used: 0, before: null, names: [], evaluated: NO_EVALUATED_RUNS }),

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
    evaluate(meter, { project_id, steps }, context) {
      const { due, is_repeat, keys, entry } = handOut(meter.evaluated, steps);
      const once = steps.prefixes.at(-1);
      // The entry may have been dropped while the name is still kept.
      const isCounted = due && !is_repeat && once !== undefined && !meter.names.includes(once);
      context.persist({
        at_ms: context.now_ms,
        project_id,
        counts: { evaluations: 1, injections_evaluate: isCounted ? 1 : 0 },
        ...(isCounted ? { once } : {}),
        ...(keys.length === 0 ? {} : { evaluated: { keys, entry } }),
      });
      context.reply({ due, is_repeat: is_repeat || (due && !isCounted) });
      context.count('evaluations', due ? (isCounted ? 'injected' : 'repeated') : 'quiet');
    },
    used(meter, _message, context) {
      context.reply({ used: usedAt(meter, context.now_ms) });
    },
  },
  internal: {},

  persistence: {
    apply(meter, { at_ms, counts, once, evaluated: kept }) {
      const evaluated =
        kept === undefined ? meter.evaluated : keepEntry(meter.evaluated, kept.keys, kept.entry);
      const names = once === undefined ? meter.names : [...meter.names, once].slice(-USAGE_ONCE_NAMES);
      const month = monthToCountIn(meter, at_ms);
      const used =
        usedIn(meter, month) + (counts.injections_retrieve ?? 0) + (counts.injections_evaluate ?? 0);
      if (month === meter.month) return { month, used, before: meter.before, names, evaluated };
      return { month, used, before: { month: meter.month, used: meter.used }, names, evaluated };
    },
    project: (_meter, { at_ms, project_id, counts }, key) => usageWrites(key, at_ms, project_id, counts),
    snapshot: {
      version: 4,
      every_events: 500,
      encode: (meter) => ({ ...meter, evaluated: meter.evaluated.map((part) => [...part]) }),
      decode: decodeMeter,
    },
  },
};

/**
 * Decodes a stored meter. Version 1 has no previous month, versions up to 2 have no names, and versions up to 3 have no
 * evaluated runs.
 */
function decodeMeter(data: unknown): Meter {
  const { evaluated = [], ...meter } = data as Omit<Meter, 'evaluated'> & {
    evaluated?: (readonly [string, number])[][];
  };
  return {
    ...meter,
    before: meter.before ?? null,
    names: meter.names ?? [],
    evaluated: evaluated.map((part) => new Map(part)),
  };
}

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

/** Names the month of a time, or the following month if the meter has already counted usage for it. */
function monthToCountIn({ month }: Meter, atMs: number): string {
  const at = new Date(atMs);
  const present = monthOf(at.getTime());
  const next = monthOf(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1));
  return month === next ? next : present;
}

function monthOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 7);
}

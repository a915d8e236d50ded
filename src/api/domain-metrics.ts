/**
 * Counters of the product for `/metrics`, such as runs, steps, interventions and patterns. Actors count in their threads
 * (`context.count`). This file turns the counts into counters that never decrease while the process runs. No label
 * contains a name that a tenant chose. Main thread.
 */
import { Counter, Registry } from 'prom-client';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import type { HostStats } from '../runtime/host-stats.ts';

interface DomainCounter {
  /** The kind of actor that counts it, and the name of the counter. */
  kind: string;
  counter: string;
  name: string;
  help: string;
  /** The counter's label and its possible values; null: the counter has no label. */
  by: { label: string; values: readonly string[] } | null;
}

const MONITORS = { label: 'monitor', values: MONITOR_NAMES };

/** All counters. Each one is shown from the start, with 0. */
const DOMAIN_COUNTERS: readonly DomainCounter[] = [
  { kind: 'run', counter: 'started', name: 'runs_started', help: 'Runs that began', by: null },
  { kind: 'run', counter: 'finished', name: 'runs_finished', help: 'Runs that were finished', by: null },
  {
    kind: 'run',
    counter: 'steps',
    name: 'steps',
    help: 'Scored steps of runs; a step that is sent again is not counted again',
    by: null,
  },
  {
    kind: 'run',
    counter: 'fired',
    name: 'monitor_fired',
    help: 'Steps of runs at which a monitor fired, by monitor',
    by: MONITORS,
  },
  {
    kind: 'run',
    counter: 'interventions',
    name: 'interventions',
    help: 'Interventions that began or escalated at steps of runs, by monitor',
    by: MONITORS,
  },
  {
    kind: 'usage-meter',
    counter: 'evaluations',
    name: 'evaluations',
    help: 'Evaluations by result: with a new intervention, with a repeated intervention, without an intervention',
    by: { label: 'result', values: ['injected', 'repeated', 'quiet'] },
  },
  {
    kind: 'usage-meter',
    counter: 'retrievals',
    name: 'retrievals',
    help: 'Retrievals by result: with patterns, without a fitting pattern, refused because the month’s interventions are used up',
    by: { label: 'result', values: ['found', 'nothing', 'capped'] },
  },
  {
    kind: 'usage-meter',
    counter: 'patterns_retrieved',
    name: 'patterns_retrieved',
    help: 'Patterns that retrievals returned',
    by: null,
  },
  {
    kind: 'pattern-index',
    counter: 'patterns_created',
    name: 'patterns_created',
    help: 'New patterns: made from traces, or imported over the API',
    by: { label: 'source', values: ['trace', 'import'] },
  },
  {
    kind: 'findings-index',
    counter: 'findings_evicted',
    name: 'findings_evicted',
    help: 'Findings that were removed to make room for new ones in full code bases',
    by: null,
  },
];

type Counts = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** The counts of one kind on one thread. */
interface Remembered {
  latest: Counts;
  /** Sum of the counts of earlier threads with this index, which have ended. */
  before: Record<string, Record<string, number>>;
}

/**
 * Sums the counts of all threads. The sums include the last known counts of threads that did not answer, and those of
 * ended threads whose successors show a lower count.
 */
export class DomainMetrics {
  /** Counts by thread and kind of actor. */
  readonly #remembered = new Map<string, Remembered>();

  /**
   * Makes the metrics.
   * @param hosts the counters of the threads that have answered
   */
  describe(hosts: readonly HostStats[]): Registry {
    for (const { index, kinds } of hosts)
      for (const [kind, { counts }] of Object.entries(kinds)) this.#remember(`${index} ${kind}`, counts);
    const registry = new Registry();
    for (const { kind, counter, name, help, by } of DOMAIN_COUNTERS) {
      const metric = new Counter({
        name: `understudy_${name}_total`,
        help,
        labelNames: by === null ? [] : [by.label],
        registers: [registry],
      });
      for (const value of by?.values ?? ['']) {
        const sum = this.#sum(kind, counter, value);
        if (by === null) metric.inc(sum);
        else metric.inc({ [by.label]: value }, sum);
      }
    }
    return registry;
  }

  #remember(place: string, latest: Counts): void {
    const known = this.#remembered.get(place);
    if (known === undefined) {
      this.#remembered.set(place, { latest, before: {} });
      return;
    }
    if (hasFallen(known.latest, latest)) addCounts(known.before, known.latest);
    known.latest = latest;
  }

  #sum(kind: string, counter: string, of: string): number {
    let sum = 0;
    for (const [place, { latest, before }] of this.#remembered) {
      if (!place.endsWith(` ${kind}`)) continue;
      sum += (latest[counter]?.[of] ?? 0) + (before[counter]?.[of] ?? 0);
    }
    return sum;
  }
}

/** Whether a count has fallen, because the thread was restarted. */
function hasFallen(earlier: Counts, later: Counts): boolean {
  return Object.entries(earlier).some(([counter, counted]) =>
    Object.entries(counted).some(([of, count]) => (later[counter]?.[of] ?? 0) < count),
  );
}

function addCounts(sums: Record<string, Record<string, number>>, more: Counts): void {
  for (const [counter, counted] of Object.entries(more)) {
    sums[counter] ??= {};
    for (const [of, count] of Object.entries(counted)) sums[counter][of] = (sums[counter][of] ?? 0) + count;
  }
}

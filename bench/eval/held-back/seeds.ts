/** The seeds of the held-back agents' runs. Live and offline trials use the same seeds. Pure; bench process. */

import { HELD_BACK_AGENTS } from './agents.ts';
import type { HeldBackAgent, RunKind } from './held-back-agent.ts';

/** Runs of one purpose; no two series share a run. */
export type RunSeries = 'golden' | RunKind | 'returned';

const SERIES: readonly RunSeries[] = ['golden', 'usual', 'restricted', 'changed', 'returned'];
/** Distance between the seeds of two series. */
const SERIES_RANGE = 1_000_000;
const AGENT_RANGE = 10_000;

export class Seeds {
  readonly #base: number;

  constructor(seed: number) {
    this.#base = seed * 100 * SERIES_RANGE;
  }

  /** Returns the seed of a run of an agent. @throws Error if the seed would belong to the next agent */
  of(series: RunSeries, agent: HeldBackAgent, run: number): number {
    if (run >= AGENT_RANGE) throw new Error(`an agent has at most ${AGENT_RANGE} runs of a series`);
    const place = HELD_BACK_AGENTS.indexOf(agent) + 1;
    return this.#base + SERIES.indexOf(series) * SERIES_RANGE + place * AGENT_RANGE + run;
  }
}

/** Returns the kind of world in which the runs of a series take place. */
export function worldOf(series: RunSeries): RunKind {
  if (series === 'golden') return 'usual';
  return series === 'returned' ? 'changed' : series;
}

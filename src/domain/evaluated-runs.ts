/**
 * Remembers which intervention texts evaluations of posted steps have returned, by organization, so that each text is
 * returned once per level. A run is recognized by digests of its steps: steps that extend evaluated ones continue the
 * same run. Immutable values; pure. Server threads. Bound: {@link EVALUATED_RUNS} entries, one for each evaluation and
 * one for each window. The oldest are dropped; a run without entries counts as new.
 */
import type { InterventionLevel } from './monitors/intervention.ts';

/**
 * Bounds of the entries about evaluations that an organization's usage meter remembers: at most `entries`, in `parts`
 * of equal size. The oldest part is forgotten as a whole. An entry takes about 60 bytes.
 */
export const EVALUATED_RUNS = { entries: 4_096, parts: 32 } as const;

/** A streak that lasts until the last step: a monitor has kept firing since an intervention. */
interface PendingStreak {
  level: 1 | 2;
  /** Number of steps up to the streak's first intervention. */
  began: number;
}

/** Posted steps, by their digests. */
export interface EvaluatedSteps {
  /** Digests of the first step, of the first two, and so on to all of them. */
  prefixes: readonly string[];
  /**
   * Digests of the steps up to each place, with their indices; null if the steps are not a window of a longer run.
   */
  windows: readonly string[] | null;
  /** Digest by which a later window finds this evaluation; null if the steps have no indices. */
  window: string | null;
  pending: PendingStreak | null;
}

/**
 * The stored value of an evaluation: `2 * told + (due ? 1 : 0)`. `told` is the highest level of the streak's texts that
 * were returned up to and including this evaluation; 0: the steps end without a streak.
 */
type Entry = number;

/**
 * Entries by digest, oldest first. Each map but the last is full. No map is ever changed: a change copies the last one.
 */
export type EvaluatedRuns = readonly ReadonlyMap<string, Entry>[];

export const NO_EVALUATED_RUNS: EvaluatedRuns = [];

/** The result of an evaluation. */
export interface Handout {
  /** Whether the streak's text should be returned. */
  due: boolean;
  /** Whether the same steps were evaluated before; then the answer is the same. */
  is_repeat: boolean;
  /** The digests under which {@link keepEntry} must store `entry`; empty for a repetition. */
  keys: readonly string[];
  entry: Entry;
}

export function levelNumber(level: InterventionLevel): 1 | 2 {
  return level === 'nudge' ? 1 : 2;
}

/** Decides what an evaluation of posted steps returns. */
export function handOut(
  runs: EvaluatedRuns,
  { prefixes, windows, window, pending }: EvaluatedSteps,
): Handout {
  const key = prefixes.at(-1);
  const repeated = key === undefined ? undefined : find(runs, key);
  if (repeated !== undefined)
    return { due: (repeated & 1) === 1, is_repeat: true, keys: [], entry: repeated };
  const before = findEarlier(runs, prefixes) ?? (windows === null ? null : findEarlier(runs, windows));
  const goesOn = pending !== null && before !== null && pending.began <= before.steps;
  const told = goesOn ? before.told : 0;
  const due = pending !== null && pending.level > told;
  const after = pending === null ? 0 : Math.max(told, pending.level);
  const keys = [key, window].filter((name) => name != null);
  return { due, is_repeat: false, keys, entry: 2 * after + (due ? 1 : 0) };
}

/** Finds the longest proper prefix of the steps that was evaluated before; null if none was. */
function findEarlier(
  runs: EvaluatedRuns,
  digests: readonly string[],
): { steps: number; told: number } | null {
  for (let steps = digests.length - 1; steps > 0; steps--) {
    const entry = find(runs, digests[steps - 1]!);
    if (entry !== undefined) return { steps, told: entry >> 1 };
  }
  return null;
}

function find(runs: EvaluatedRuns, digest: string): Entry | undefined {
  for (let at = runs.length - 1; at >= 0; at--) {
    const entry = runs[at]!.get(digest);
    if (entry !== undefined) return entry;
  }
  return undefined;
}

/**
 * Returns a copy of the runs with the entry added under each key. If the last part is full, a new part begins, and the
 * oldest part may be dropped.
 */
export function keepEntry(runs: EvaluatedRuns, keys: readonly string[], entry: Entry): EvaluatedRuns {
  const { entries, parts } = EVALUATED_RUNS;
  const last = runs.at(-1);
  const hasRoom = last !== undefined && last.size < entries / parts;
  const grown = new Map(hasRoom ? last : []);
  for (const key of keys) grown.set(key, entry);
  return [...(hasRoom ? runs.slice(0, -1) : runs), grown].slice(-parts);
}

/**
 * What an organization's evaluations of posted steps have handed out, so that each text is handed out once per level, whenever
 * its run is evaluated. A run is known by digests of its steps: steps that begin as steps that were evaluated before go on
 * from there. Values that never change; pure. Server threads.
 *
 * Bound: {@link EVALUATED_RUNS} entries, one for each evaluation and one for each window. The oldest are forgotten, and a
 * run of which nothing is left is new.
 */
import type { InterventionLevel } from './monitors/intervention.ts';

/**
 * Evaluations of posted steps that an organization's usage meter remembers, so that each text is handed out once. The oldest part of
 * the entries is forgotten at a time. An entry takes about 60 bytes.
 */
export const EVALUATED_RUNS = { entries: 4_096, parts: 32 } as const;

/** The streak that the monitors see at the last step. */
interface PendingStreak {
  level: 1 | 2;
  /** How many steps there were when its first text came. */
  began: number;
}

/** Posted steps, by their digests. */
export interface EvaluatedSteps {
  /** Of the first step, of the first two, and so on to all of them. */
  prefixes: readonly string[];
  /** Of the steps up to each place, with their indices; null: the steps are not a window of a longer run. */
  windows: readonly string[] | null;
  /** By which a window that begins later finds this evaluation; null: the steps have no indices. */
  window: string | null;
  pending: PendingStreak | null;
}

/** What is kept of an evaluation: `2 * told + (due ? 1 : 0)`, where `told` is the streak's level after it. */
type Entry = number;

/** Entries by their digests, oldest first; each map but the last is full and never changed. */
export type EvaluatedRuns = readonly ReadonlyMap<string, Entry>[];

export const NO_EVALUATED_RUNS: EvaluatedRuns = [];

/** What an evaluation hands out. */
export interface Handout {
  /** The streak's text is to be handed out. */
  due: boolean;
  /** The same steps were evaluated before, with the same answer. */
  is_repeat: boolean;
  /** To be kept by {@link keepEntry} under each of these digests. */
  keys: readonly string[];
  entry: Entry;
}

export function levelNumber(level: InterventionLevel): 1 | 2 {
  return level === 'nudge' ? 1 : 2;
}

/** Decides what the evaluation of posted steps hands out. */
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

/** The evaluation of the most of these steps, but not of all. */
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

/** The runs with the entry; those given do not change. */
export function keepEntry(runs: EvaluatedRuns, keys: readonly string[], entry: Entry): EvaluatedRuns {
  const { entries, parts } = EVALUATED_RUNS;
  const last = runs.at(-1);
  const hasRoom = last !== undefined && last.size < entries / parts;
  const grown = new Map(hasRoom ? last : []);
  for (const key of keys) grown.set(key, entry);
  return [...(hasRoom ? runs.slice(0, -1) : runs), grown].slice(-parts);
}

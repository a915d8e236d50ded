/** Chooses which golden runs are held out from teaching. Pure; command line. */

import { createHash } from 'node:crypto';
import { HELD_OUT } from './limits.ts';

/** For a service: minimum held-out runs of each agent, and maximum share of runs that is held out for that. */
const SERVICE_HELD_OUT = { runs_min: 45, share_most: 0.6 } as const;

/** Runs that teach, and runs that are held out. */
export interface SplitRuns<Run> {
  teaching: Run[];
  held_out: Run[];
  /** Runs whose position among all hashes is below this value are held out. */
  held_out_below: number;
}

/** A run's position among all hashes, 0 … 1; it depends only on the run's id. */
export function placeOf(runId: string): number {
  return createHash('sha256').update(runId).digest().readUIntBE(0, 6) / 2 ** 48;
}

/**
 * Holds runs out by the hash of their id, so that a run is always on the same side. If HELD_OUT.share gives
 * too few, the limit is raised slightly.
 */
export function splitRuns<Run extends { run_id: string }>(runs: readonly Run[]): SplitRuns<Run> {
  const places = runs.map(({ run_id }) => placeOf(run_id)).sort((a, b) => a - b);
  return splitAt(runs, Math.max(HELD_OUT.share, lineBehind(places, HELD_OUT.runs_min)));
}

/**
 * Splits the runs for a student that asks a service. A service is calibrated only on held-out runs, so each agent needs
 * enough of them.
 * @param share chosen by an operator; null: HELD_OUT.share, or more if an agent has few runs
 */
export function splitForService<Run extends { run_id: string }>(
  runs: readonly Run[],
  agentOf: (run: Run) => string,
  share: number | null,
): SplitRuns<Run> {
  if (share !== null) return splitAt(runs, share);
  const places = new Map<string, number[]>();
  for (const run of runs) {
    const ofAgent = places.get(agentOf(run));
    if (ofAgent === undefined) places.set(agentOf(run), [placeOf(run.run_id)]);
    else ofAgent.push(placeOf(run.run_id));
  }
  const { runs_min, share_most } = SERVICE_HELD_OUT;
  const lines = [...places.values()].map((ofAgent) =>
    lineBehind(
      ofAgent.sort((a, b) => a - b),
      runs_min,
    ),
  );
  return splitAt(runs, Math.min(share_most, Math.max(HELD_OUT.share, ...lines)));
}

/** @returns the middle between the last position that must be held out and the next position */
function lineBehind(places: readonly number[], count: number): number {
  return ((places[count - 1] ?? 1) + (places[count] ?? 1)) / 2;
}

function splitAt<Run extends { run_id: string }>(runs: readonly Run[], below: number): SplitRuns<Run> {
  const isHeldOut = ({ run_id }: Run): boolean => placeOf(run_id) < below;
  return {
    teaching: runs.filter((run) => !isHeldOut(run)),
    held_out: runs.filter(isHeldOut),
    held_out_below: below,
  };
}

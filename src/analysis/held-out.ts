/** Which golden runs are kept apart from teaching. Pure; command line. */

import { createHash } from 'node:crypto';
import { HELD_OUT, SERVICE_HELD_OUT } from '../limits.ts';

/** Runs that teach, and those that are kept apart. */
export interface SplitRuns<Run> {
  teaching: Run[];
  held_out: Run[];
  /** Runs whose place among all hashes is below it are kept apart. */
  held_out_below: number;
}

/** A run's place among all hashes, 0 … 1: always the same, and told by nothing but its id. */
export function placeOf(runId: string): number {
  return createHash('sha256').update(runId).digest().readUIntBE(0, 6) / 2 ** 48;
}

/**
 * Keeps runs apart by the hash of their id, so that a run is on the same side whenever it is looked at. Where a share of
 * HELD_OUT.share gives too few, the line is drawn a little higher.
 */
export function splitRuns<Run extends { run_id: string }>(runs: readonly Run[]): SplitRuns<Run> {
  const places = runs.map(({ run_id }) => placeOf(run_id)).sort((a, b) => a - b);
  return splitAt(runs, Math.max(HELD_OUT.share, lineBehind(places, HELD_OUT.runs_min)));
}

/**
 * The same for a service, which is calibrated on the runs kept apart alone, and so needs enough of each agent.
 * @param share what an operator wants; null: HELD_OUT.share, and of agents with few runs more
 */
export function splitForService<Run extends { run_id: string }>(
  runs: readonly Run[],
  agentOf: (run: Run) => string,
  share: number | null,
): SplitRuns<Run> {
  if (share !== null) return splitAt(runs, share);
  const places = new Map<string, number[]>();
  for (const run of runs) {
    const its = places.get(agentOf(run));
    if (its === undefined) places.set(agentOf(run), [placeOf(run.run_id)]);
    else its.push(placeOf(run.run_id));
  }
  const { runs_min, share_most } = SERVICE_HELD_OUT;
  const lines = [...places.values()].map((its) =>
    lineBehind(
      its.sort((a, b) => a - b),
      runs_min,
    ),
  );
  return splitAt(runs, Math.min(share_most, Math.max(HELD_OUT.share, ...lines)));
}

/** Between the last place that must be kept apart and the next. */
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

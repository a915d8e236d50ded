/** Chooses which golden runs are held out from teaching. Pure; command line. */

import { createHash } from 'node:crypto';
import { type GoldenRun, mainScope } from './golden-steps.ts';
import { HELD_OUT } from './limits.ts';

/**
 * For a service: minimum number of held-out runs of each agent, and maximum share of all runs that may be held out to
 * reach it.
 */
const SERVICE_HELD_OUT = { runs_min: 45, share_most: 0.6 } as const;

/** Runs that teach, and runs that are held out. */
export interface SplitRuns<Run> {
  teaching: Run[];
  held_out: Run[];
  /** Runs whose position among all hashes is lower than this value are held out. */
  held_out_below: number;
}

/** A run's position among all hashes, 0 … 1; it depends only on the run's id. */
export function placeOf(runId: string): number {
  return createHash('sha256').update(runId).digest().readUIntBE(0, 6) / 2 ** 48;
}

/**
 * Holds runs out by the hash of their id, so that a run is always on the same side of the same limit. If HELD_OUT.share
 * holds out fewer than HELD_OUT.runs_min runs, the limit is raised until there are enough, or until all runs are held
 * out.
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

/** The limit that holds out the first `count` positions: the middle between the last of these and the next position. */
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

/**
 * If an agent has fewer golden runs than this, each of its runs is held out once, because a quarter of thirty runs is
 * too few for a figure.
 */
const ROTATED_RUNS = 80;
const ROTATED_PARTS = 4;

/** Runs that are held out from a student, and runs that it is taught. */
export interface RotatedPart {
  held_out: GoldenRun[];
  teaching: GoldenRun[];
}

/**
 * Divides the runs into parts, each held out from a student that is taught other runs. The first part is that of
 * `split`. The other parts contain only runs of agents with few runs, and their students are taught only such agents.
 */
export function rotateParts({ teaching, held_out }: SplitRuns<GoldenRun>): RotatedPart[] {
  const counts = new Map<string, number>();
  for (const run of [...teaching, ...held_out])
    counts.set(mainScope(run), (counts.get(mainScope(run)) ?? 0) + 1);
  const isRotated = (run: GoldenRun): boolean => counts.get(mainScope(run))! < ROTATED_RUNS;
  const others = teaching.filter(isRotated).toSorted((a, b) => placeOf(a.run_id) - placeOf(b.run_id));
  if (others.length === 0) return [{ held_out, teaching }];
  const few = [...teaching, ...held_out].filter(isRotated);
  // Newest first, like the input.
  few.sort((a, b) => b.last_id - a.last_id);
  const parts = Array.from({ length: ROTATED_PARTS - 1 }, (_, part) => {
    const apart = new Set(others.filter((_run, i) => i % (ROTATED_PARTS - 1) === part));
    return { held_out: [...apart], teaching: few.filter((run) => !apart.has(run)) };
  });
  return [{ held_out, teaching }, ...parts.filter((part) => part.held_out.length > 0)];
}

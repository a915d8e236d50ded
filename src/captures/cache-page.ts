/**
 * Answers of the capture reader about the prompt cache: one run turn by turn, and the sum over some runs. Pure except for
 * its source; capture reader.
 *
 * Bound: reading stops after the time that the caller gives, and the answer says so.
 */

import type { CacheLook } from '../domain/cache-miss.ts';
import type { Prices } from '../domain/price.ts';
import { CacheDoctor } from './cache-doctor.ts';
import { type CacheReport, CacheSum } from './cache-sum.ts';
import { RunWithin } from './captured-runs.ts';
import type { ExchangeSource } from './exchange-source.ts';

/** A run and the ids of its first and last exchange. */
export interface RunPlace {
  run_id: string;
  first_id: number;
  last_id: number;
}

interface RunCache {
  run_id: string;
  is_whole: boolean;
  turns: CacheLook[];
  sum: CacheReport;
}

/** Examines the turns of one run, as far as time allows. */
export function readRunCache(
  source: ExchangeSource,
  place: RunPlace,
  prices: Prices,
  hasTime: () => boolean,
): RunCache {
  const turns: CacheLook[] = [];
  const sum = new CacheSum();
  let is_whole = true;
  for (const look of examine(source, place, new CacheDoctor(source, prices))) {
    turns.push(look);
    sum.add(look, place.run_id);
    is_whole = hasTime();
    if (!is_whole) break;
  }
  return { run_id: place.run_id, is_whole, turns, sum: sum.report() };
}

/**
 * Sums runs together, because the first turn of a run may be compared with the previous run.
 * @param places from the oldest to the newest
 */
export function sumCache(source: ExchangeSource, places: readonly RunPlace[], prices: Prices): CacheReport {
  const sum = new CacheSum();
  const doctor = new CacheDoctor(source, prices);
  for (const place of places) for (const look of examine(source, place, doctor)) sum.add(look, place.run_id);
  return sum.report();
}

function examine(
  source: ExchangeSource,
  { run_id, first_id, last_id }: RunPlace,
  doctor: CacheDoctor,
): Iterable<CacheLook> {
  return doctor.examineRun(run_id, new RunWithin(source, first_id, last_id));
}
